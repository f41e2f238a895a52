"""Memory of the host: how much is available, what a case will take, and what this process took.

Reads /proc and the memory control groups of Linux. Where these are missing the functions return
None, and nothing is predicted.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from busbw.model.machine import EnvironmentKey
from busbw.model.words import FailureKind
from busbw.worker import host
from busbw.worker.backends.base import AllGather, MeasuringError, MemoryNeed

# Large enough for freshly mapped memory to slow a case down.
LARGE_BYTES = 2**30

_RESERVE = 0.05


@dataclass(frozen=True)
class Headroom:
    """Bytes that are free now, and that would be free on an idle machine.

    Both leave a twentieth of the total unused.
    """

    available_bytes: int
    capacity_bytes: int


def headroom(limit_bytes: int | None, root: Path = Path("/")) -> Headroom | None:
    """Return the headroom of this process, on a machine of `limit_bytes` where that is smaller."""
    meminfo = _fields(root / "proc/meminfo")
    resident = resident_bytes(root)
    if resident is None or "MemAvailable" not in meminfo:
        return None
    totals = [meminfo["MemTotal"]]
    free = [meminfo["MemAvailable"]]
    for limit, used in _group_limits(root):
        totals.append(limit)
        free.append(limit - used)
    if limit_bytes is not None:
        totals.append(limit_bytes)
        free.append(limit_bytes - resident)
    total = min(totals)
    reserve = int(total * _RESERVE)
    return Headroom(
        available_bytes=max(0, min(free) - reserve),
        capacity_bytes=max(0, total - resident - reserve),
    )


def minimum_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory limit at which this process leaves no headroom on any machine."""
    resident = resident_bytes(root)
    return None if resident is None else int(resident / (1 - _RESERVE))


def _fields(path: Path) -> dict[str, int]:
    """Read lines such as ``VmRSS:   1234 kB``, in bytes."""
    text = path.read_text() if path.exists() else ""
    fields = re.findall(r"^(\w+):\s+(\d+) kB", text, flags=re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in fields}


def _group_limits(root: Path) -> list[tuple[int, int]]:
    """Return the limit and the use, without reclaimable cache, of each group of this process."""
    limits = []
    for folder, is_v1 in host.control_groups(root, "memory"):
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit_name, usage_name = names if is_v1 else ("memory.max", "memory.current")
        limit = folder / limit_name
        if limit.exists() and limit.read_text().strip() != "max":
            used = int((folder / usage_name).read_text()) - _inactive_file_bytes(folder)
            limits.append((int(limit.read_text()), max(0, used)))
    return limits


def _inactive_file_bytes(folder: Path) -> int:
    path = folder / "memory.stat"
    text = path.read_text() if path.exists() else ""
    match = re.search(r"^(?:total_)?inactive_file (\d+)$", text, flags=re.MULTILINE)
    return int(match[1]) if match else 0


def resident_bytes(root: Path = Path("/")) -> int | None:
    """Return the resident size of this process."""
    return _fields(root / "proc/self/status").get("VmRSS")


def peak_bytes(root: Path = Path("/")) -> int | None:
    """Return the highest resident size of this process since `reset_peak`."""
    return _fields(root / "proc/self/status").get("VmHWM")


def reset_peak() -> bool:
    """Let the peak begin at the present size; return whether the kernel allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


class _HeapInfo(ctypes.Structure):
    """The memory of all arenas of glibc 2.33 or newer: `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


# glibc returns larger blocks to the kernel when they are freed (DEFAULT_MMAP_THRESHOLD_MAX).
_MAX_HEAP_BLOCK_BYTES = 32 * 2**20


def free_heap_bytes(block_bytes: int) -> int:
    """Return how much free memory the C library's heap has for blocks of a size; 0 if unknown."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None or block_bytes > _MAX_HEAP_BLOCK_BYTES:
        return 0
    mallinfo2.restype = _HeapInfo
    return int(mallinfo2().fordblks)


def touch_fresh(count: int, threads: int) -> None:
    """Touch `count` bytes of fresh memory and free them, so that they are available at once.

    Nothing is touched if the kernel refuses that many. A virtual machine gets memory back from its
    host at a third of a GiB per second and core (observed), and most frameworks touch their memory
    from a single thread.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with contextlib.suppress(OSError), mmap.mmap(-1, count, flags=flags) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        first, size = ctypes.c_char.from_buffer(memory), -(-count // threads)
        address = ctypes.addressof(first)
        parts = [(address + begin, min(size, count - begin)) for begin in range(0, count, size)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: ctypes.memset(part[0], 1, part[1]), parts))
        del first


@dataclass(frozen=True)
class HostMemory:
    """The host's memory as the cases of one process take it.

    `all_gather` is that of the back end. `opened_bytes` is the resident size of the process before
    its first case.
    """

    all_gather: AllGather
    opened_bytes: int | None = field(default_factory=resident_bytes)

    def check_fits(
        self, need: MemoryNeed, limit_bytes: int | None, key: EnvironmentKey | None
    ) -> None:
        """Raise MeasuringError OUT_OF_MEMORY in all processes if one of them lacks memory.

        The processes of one host share the memory that is left. No process has touched any memory
        of the case yet.
        """
        left = headroom(limit_bytes)
        if left is None:
            return
        processes = key.processes // key.hosts if key else 1
        reusable = self._reusable_bytes(need)
        shares = [
            float(size // processes + reusable)
            for size in (left.available_bytes, left.capacity_bytes)
        ]
        available, capacity = (int(min(column)) for column in zip(*self.all_gather(shares)))
        if need.needed_bytes <= available:
            return
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"{need.needed_bytes} bytes needed, {available} available",
            needed_bytes=need.needed_bytes,
            available_bytes=available,
            capacity_bytes=capacity,
            process_bytes=resident_bytes(),
            predicted=True,
        )

    def prefault(self, need: MemoryNeed) -> None:
        """Touch the memory of a large case, and free it again."""
        fresh_bytes = need.needed_bytes - self._reusable_bytes(need)
        if need.is_taken and fresh_bytes >= LARGE_BYTES:
            touch_fresh(fresh_bytes, host.cores())

    def predicted_peak_bytes(self, need: MemoryNeed | None, payload_bytes: int) -> int | None:
        """Predict the resident size of this process at the peak of a case; None if unknown."""
        resident = resident_bytes()
        if need is None or not need.is_taken or resident is None:
            return None
        # Two thirds of the heap's free memory are in blocks that are too small.
        reusable = max(self._reusable_bytes(need), free_heap_bytes(payload_bytes) // 3)
        return resident + max(0, need.needed_bytes - reusable)

    def _reusable_bytes(self, need: MemoryNeed) -> int:
        resident = resident_bytes()
        if not need.reuses_kept or resident is None or self.opened_bytes is None:
            return 0
        return max(0, resident - self.opened_bytes)
