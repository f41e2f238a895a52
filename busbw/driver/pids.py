"""Read the limits on processes and threads that control groups (cgroups) set for this process.

Both versions of control groups are read. `root` is the folder that contains `proc` and `sys`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def refused_start_count(root: Path = Path("/")) -> int:
    """Return how often the cgroups of this process refused to start a process or thread.

    Returns 0 if the kernel does not count refusals.
    """
    texts = (_text_or_empty(group / "pids.events") for group in _cgroup_folders(root))
    counts = [text.partition("max ")[2].partition("\n")[0] for text in texts]
    return sum(int(count) for count in counts if count.isdecimal())


def least_pids_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit on processes and threads of the cgroups of this process.

    The cgroups that contain these cgroups count, too. Returns None if there is no limit.
    """
    texts = (_text_or_empty(group / "pids.max").strip() for group in _cgroup_folders(root))
    return min((int(text) for text in texts if text.isdecimal()), default=None)


def _cgroup_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the cgroups of this process, each before the cgroup that contains it.

    In a container the path of a cgroup may be its path on the host. Then the first folders do not
    exist. The last folders, above the place where cgroups are mounted, contain no limit.
    """
    for line in _text_or_empty(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            group = root / "sys/fs/cgroup" / controllers / path.lstrip("/")
            yield from (group, *group.parents)


def _text_or_empty(path: Path) -> str:
    """Return the text of a file, or an empty text if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
