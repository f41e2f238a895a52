"""The host: its processor and CPU quota, its memory, what is left of it, what this process takes.

Reads the system, /proc and the control groups of Linux; where these are missing it returns None for
memory, and nothing is predicted. Asks no framework.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from busbw.model.counters import CPU_QUOTA, Quota, quota_text

_RESERVE = 0.05


def name() -> str:
    return platform.node()


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), flags=re.MULTILINE)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Headroom:
    """Bytes free now, and were the machine idle; both leave a twentieth of the total."""

    available_bytes: int
    capacity_bytes: int


def headroom(limit_bytes: int | None, root: Path = Path("/")) -> Headroom | None:
    """The headroom of this process; `limit_bytes`: as if the machine had only that much."""
    meminfo = _fields(root / "proc/meminfo")
    own = resident_bytes(root)
    if own is None or "MemAvailable" not in meminfo:
        return None
    totals = [meminfo["MemTotal"]]
    free = [meminfo["MemAvailable"]]
    for limit, used in _control_group_limits(root):
        totals.append(limit)
        free.append(limit - used)
    if limit_bytes is not None:
        totals.append(limit_bytes)
        free.append(limit_bytes - own)
    total = min(totals)
    reserve = int(total * _RESERVE)
    return Headroom(
        available_bytes=max(0, min(free) - reserve),
        capacity_bytes=max(0, total - own - reserve),
    )


def least_limit_bytes(root: Path = Path("/")) -> int | None:
    """The limit at which this process leaves no headroom, whatever the machine has."""
    own = resident_bytes(root)
    return None if own is None else int(own / (1 - _RESERVE))


def _fields(path: Path) -> dict[str, int]:
    """Lines such as ``VmRSS:   1234 kB`` in bytes."""
    if not path.exists():
        return {}
    found = re.findall(r"^(\w+):\s+(\d+) kB", path.read_text(), flags=re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def _control_group_limits(root: Path) -> list[tuple[int, int]]:
    """(limit, use without reclaimable cache) in bytes of this process's groups, both versions."""
    limits = []
    for folder, is_first in _control_groups(root, "memory"):
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit_name, usage_name = names if is_first else ("memory.max", "memory.current")
        limit = folder / limit_name
        if limit.exists() and limit.read_text().strip() != "max":
            used = int((folder / usage_name).read_text()) - _inactive_file_bytes(folder)
            limits.append((int(limit.read_text()), max(0, used)))
    return limits


def _control_groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the groups of this process for `controller` and all above, and whether of version 1."""
    lines = []
    with contextlib.suppress(OSError, ValueError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        # The path may have colons; a line without two of them is not the kernel's.
        _, controllers, path = (*line.split(":", 2), "-", "-", "-")[:3]
        is_first = controller in controllers.split(",")
        if not is_first and controllers:
            continue
        mount = root / "sys/fs/cgroup" / (controller if is_first else "")
        # A process outside of the namespace that is mounted has a path such as /../other.
        group = mount if ".." in path.split("/") else mount / path.lstrip("/")
        for folder in (group, *group.parents):
            yield folder, is_first
            if folder == mount:
                break


def quotas(root: Path = Path("/")) -> dict[str, Quota]:
    """Return the CPU quotas of this process's control groups, by the folder of each group.

    A group without a quota, or whose files are not as the kernel writes them, is left out.
    """
    found = {}
    for folder, is_first in _control_groups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            limit = _limit_of_version_1(folder) if is_first else (folder / "cpu.max").read_text()
            share_us, period_us = limit.split()
            if share_us not in ("max", "-1"):
                found[str(folder)] = _quota(folder, int(share_us), int(period_us))
    return found


def _limit_of_version_1(folder: Path) -> str:
    """Return the quota of a group of version 1 in the form of version 2: share and period."""
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return " ".join((folder / name).read_text() for name in names)


def _quota(folder: Path, share_us: int, period_us: int) -> Quota:
    """Read the counts of a group. Raises OSError and ValueError for files of another form."""
    rows = (line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    counts = {name: max(0, int(count)) for name, count in rows}
    if min(share_us, period_us) <= 0 or max(share_us, period_us, *counts.values()) >= 2**63:
        raise ValueError("expected a share and a period above 0, and counts of 63 bits")
    nanoseconds = counts.get("throttled_time", 1000 * counts.get("throttled_usec", 0))
    return Quota(
        cpus=share_us / period_us,
        period_s=period_us / 1e6,
        periods=counts.get("nr_periods", 0),
        throttled_periods=counts.get("nr_throttled", 0),
        throttled_s=nanoseconds / 1e9,
    )


def quota_flags(root: Path = Path("/")) -> dict[str, str]:
    """Return the least CPU quota as environments record it; empty without one."""
    least = min((one.cpus for one in quotas(root).values()), default=None)
    return {} if least is None else {CPU_QUOTA: quota_text(least)}


def _inactive_file_bytes(folder: Path) -> int:
    stat = folder / "memory.stat"
    if not stat.exists():
        return 0
    match = re.search(r"^(?:total_)?inactive_file (\d+)$", stat.read_text(), flags=re.MULTILINE)
    return int(match[1]) if match else 0


def resident_bytes(root: Path = Path("/")) -> int | None:
    return _fields(root / "proc/self/status").get("VmRSS")


class _Heap(ctypes.Structure):
    """What glibc says of all its arenas, from 2.33 on: `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


# Larger blocks glibc gives back when they are freed (DEFAULT_MMAP_THRESHOLD_MAX).
_MOST_KEPT = 32 * 2**20


def kept_by_heap_bytes(block_bytes: int) -> int:
    """What the C library keeps free for blocks of that size; 0 where it does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None or block_bytes > _MOST_KEPT:
        return 0
    ask.restype = _Heap
    return int(ask().fordblks)


def peak_bytes(root: Path = Path("/")) -> int | None:
    """The highest resident size since `reset_peak`."""
    return _fields(root / "proc/self/status").get("VmHWM")


def prefault(count: int, threads: int) -> None:
    """Touch `count` bytes of fresh memory, and free them: they are then available at once.

    None where there are not as many.
    """
    if count == 0:
        return
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with contextlib.suppress(OSError), mmap.mmap(-1, count, flags=flags) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        first = ctypes.c_char.from_buffer(memory)
        touch(ctypes.addressof(first), count, threads)
        del first


def touch(address: int, count: int, threads: int) -> None:
    """Write to `count` bytes of this process, in `threads` threads at once.

    A virtual machine gets memory back from its host at a third of a GiB per second and core
    (observed), and most frameworks touch theirs from a single thread.
    """
    share = -(-count // threads)
    parts = [(address + at, min(share, count - at)) for at in range(0, count, share)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: ctypes.memset(part[0], 1, part[1]), parts))


def reset_peak() -> bool:
    """Start a new high-water mark; whether the kernel allows it."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return False
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True
