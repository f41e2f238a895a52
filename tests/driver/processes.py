"""Which processes belong to a folder: those whose command line names a path in it.

Looks only; every test ends its own processes by their id.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

STEP_S = 0.02


def processes(folder: Path) -> list[int]:
    """Process ids whose command line names something below `folder`; zombies have none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def wait_until(true: Callable[[], object], deadline_s: float = 30.0) -> bool:
    """Look again and again until `true` or the deadline; whether it came true."""
    end_s = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end_s:
            return False
        time.sleep(STEP_S)
    return True
