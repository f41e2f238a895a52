"""Read the limits on processes and threads that control groups (cgroups) set for this process.

Both versions of control groups are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def refused_start_count(root: Path = Path("/")) -> int:
    """Return how often the cgroups of this process refused to start a process or thread.

    Returns 0 if they do not count it. `root` is the folder that has `proc` and `sys`.
    """
    texts = (_text_or_empty(group / "pids.events") for group in _cgroup_folders(root))
    counts = [text.partition("max ")[2].partition("\n")[0] for text in texts]
    return sum(int(count) for count in counts if count.isdecimal())


def least_pids_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit on processes and threads of the cgroups of this process.

    The cgroups that contain these cgroups count, too. Returns None if there is no limit. `root` is
    the folder that has `proc` and `sys`.
    """
    texts = (_text_or_empty(group / "pids.max").strip() for group in _cgroup_folders(root))
    return min((int(text) for text in texts if text.isdecimal()), default=None)


def _cgroup_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the cgroups of this process, each before the cgroup that contains it.

    In a container a path may be a path of the host. Then only the last folder exists, at which the
    cgroups are mounted.
    """
    for line in _text_or_empty(root / "proc/self/cgroup").splitlines():
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


def _text_or_empty(path: Path) -> str:
    """Return the text of a file, or an empty text if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
