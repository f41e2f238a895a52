"""Limits of processes and threads that control groups of both versions set for this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def refused_count(root: Path = Path("/")) -> int:
    """Return how often a limit refused a process or thread to this process; 0 if unknown."""
    texts = (_text(group / "pids.events") for group in _groups(root))
    counts = [text.partition("max ")[2].partition("\n")[0] for text in texts]
    return sum(int(count) for count in counts if count.isdecimal())


def least_limit(root: Path = Path("/")) -> int | None:
    """Return the least `pids.max` of this process's groups and of those around them."""
    texts = (_text(group / "pids.max").strip() for group in _groups(root))
    return min((int(text) for text in texts if text.isdecimal()), default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the groups that this process is in, each below the one around it.

    In a container the path may be that of the host, of which only the mount is there.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        if controllers == "pids":
            mount /= "pids"
        elif controllers:
            continue
        for group in [mount / path.lstrip("/"), *(mount / path.lstrip("/")).parents]:
            yield group
            if group == mount:
                break


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
