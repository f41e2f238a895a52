"""Which processes belong to a folder: those whose command line names a path in it.

Looks only; every test ends its own processes by their id.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

STEP_S = 0.02


def processes(folder: Path) -> list[int]:
    """Process ids whose command line names `folder` or something in it; zombies have none."""
    found = []
    names = re.compile(rf"(^|[=\0]){re.escape(str(folder))}([/\0]|$)")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if names.search(path.read_text(errors="replace")):
                found.append(int(path.parent.name))
    return found


def state(process: int) -> str:
    """What the kernel says of a process, such as T for one that is stopped; empty for none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def can_unshare(*namespaces: str) -> bool:
    """Whether a program can be run in such namespaces of its own."""
    try:
        done = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def wait_until(true: Callable[[], object], deadline_s: float = 30.0) -> bool:
    """Look again and again until `true` or the deadline; whether it came true."""
    end_s = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end_s:
            return False
        time.sleep(STEP_S)
    return True
