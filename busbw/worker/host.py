"""Reads the host's memory, CPU quota and GPUs, and predicts whether a case fits into the memory.

Control groups (cgroups) of version 1 and of version 2 are read. The resident size of a process is
the physical memory that the process uses, in bytes. This module calls no framework.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from busbw.model.machine import CPU_QUOTA, EnvironmentKey, GroupMember
from busbw.model.words import DeviceClass, FailureKind
from busbw.worker.backends.base import AllGather, MeasuringError, MemoryNeed, unavailable


def host_name() -> str:
    """Return the network name of the host on which this process runs."""
    return platform.node()


def cpu_model() -> str:
    """Return the name of the processor's model from /proc/cpuinfo.

    If the kernel names no model there, return the name of the processor's architecture.
    """
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def cgroups_of_process(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each control group of this process, from the innermost to the outermost.

    Args:
        root: the root of the file system, another folder in tests.
        controller: the name of the resource that the groups limit, such as ``memory``.

    Yields:
        The folder of a group, and whether the group is of version 1 of control groups.

    """
    lines = []
    with contextlib.suppress(OSError, ValueError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        # The path may contain colons. The padding avoids an error for a line of unknown form.
        _, controllers, path = (*line.split(":", 2), "-", "-", "-")[:3]
        is_v1 = controller in controllers.split(",")
        if not is_v1 and controllers:
            continue
        # Version 1 mounts several controllers in a folder with all their names. Only most systems
        # have a link for each controller, too.
        mounts = [root / "sys/fs/cgroup" / name for name in (controllers, controller)]
        mount = next(filter(Path.is_dir, mounts), mounts[0])
        # If a group is outside of the mounted namespace, its path begins with `/..`.
        group = mount if ".." in path.split("/") else mount / path.lstrip("/")
        for folder in (group, *group.parents):
            yield folder, is_v1
            if folder == mount:
                break


def cpu_quotas(root: Path = Path("/")) -> dict[Path, tuple[int, int]]:
    """Return the CPU quota of each control group of this process, by the folder of the group.

    A quota is a pair of microseconds: the processor time that the group may use in each period, and
    the length of the period. Groups without a quota, or with a file of an unknown form, are left
    out. `root` is the root of the file system, another folder in tests.
    """
    quotas = {}
    for folder, is_v1 in cgroups_of_process(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            # Version 2 has both numbers in one file.
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if is_v1 else ("cpu.max",)
            limit = " ".join((folder / name).read_text() for name in names)
            time_us, period_us = limit.split()
            if time_us not in ("max", "-1") and 0 < int(time_us) < 2**63 > int(period_us) > 0:
                quotas[folder] = int(time_us), int(period_us)
    return quotas


def cpu_quota_flags(root: Path = Path("/")) -> dict[str, str]:
    """Return the smallest CPU quota of this process, such as ``{CPU_QUOTA: "1.5 CPU"}``.

    The dictionary is empty without a quota. The dictionary has the form of flags, so that results
    list the quota beside the environment variables. `root` is the root of the file system, another
    folder in tests.
    """
    cpus = [time_us / period_us for time_us, period_us in cpu_quotas(root).values()]
    return {CPU_QUOTA: f"{min(cpus):.4g} CPU"} if cpus else {}


# From this size on, new memory that a case gets from the kernel slows the case down noticeably.
LARGE_NEED_BYTES = 2**30

# The fraction of the memory that no case may use.
_RESERVED_FRACTION = 0.05


def allocatable_bytes_now_and_at_most(
    limit_bytes: int | None, root: Path = Path("/")
) -> tuple[int, int]:
    """Return the bytes that this process can allocate in addition to its present memory.

    Returns two numbers: the bytes now, and the bytes if no other process used memory. Both numbers
    leave a twentieth of the total memory unused.

    `limit_bytes` is an artificial limit for the resident size of this process, None without a
    limit. `root` is the root of the file system, another folder in tests.
    """
    meminfo = _read_proc_sizes(root / "proc/meminfo")
    resident = resident_bytes(root)
    machine = meminfo["MemTotal"], meminfo["MemTotal"] - meminfo["MemAvailable"]
    limits = [machine, *_cgroup_limits_and_usages(root)]
    if limit_bytes is not None:
        limits.append((limit_bytes, resident))
    total = min(limit for limit, _ in limits)
    free = min(limit - used for limit, used in limits)
    reserve = int(total * _RESERVED_FRACTION)
    return max(0, free - reserve), max(0, total - resident - reserve)


def _read_proc_sizes(path: Path) -> dict[str, int]:
    """Return the sizes in bytes, by name, in a file with lines such as ``VmRSS:   1234 kB``."""
    fields = re.findall(r"^(\w+):\s+(\d+) kB", path.read_text(), flags=re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in fields}


def _cgroup_limits_and_usages(root: Path) -> list[tuple[int, int]]:
    """Return the memory limit and the used memory of each control group that has a limit, in bytes.

    Each pair is (limit, used), for a control group of this process. Cached files that the kernel
    can drop do not count as used. `root` is the root of the file system.
    """
    limits = []
    for folder, is_v1 in cgroups_of_process(root, "memory"):
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit_name, usage_name = names if is_v1 else ("memory.max", "memory.current")
        limit = folder / limit_name
        if limit.exists() and limit.read_text().strip() != "max":
            used = int((folder / usage_name).read_text()) - _droppable_cache_bytes(folder)
            limits.append((int(limit.read_text()), max(0, used)))
    return limits


def _droppable_cache_bytes(control_group: Path) -> int:
    """Return the bytes of a control group's cached files that the kernel can drop.

    `control_group` is the folder of the group. Returns 0 if the number is unknown.
    """
    path = control_group / "memory.stat"
    text = path.read_text() if path.exists() else ""
    match = re.search(r"^(?:total_)?inactive_file (\d+)$", text, flags=re.MULTILINE)
    return int(match[1]) if match else 0


def resident_bytes(root: Path = Path("/")) -> int:
    """Return the resident size of this process: the physical memory that it uses, in bytes."""
    return _read_proc_sizes(root / "proc/self/status")["VmRSS"]


def peak_resident_bytes(root: Path = Path("/")) -> int | None:
    """Return the largest resident size so far of this process, in bytes; None if unknown.

    Only sizes since the last call of `reset_peak_resident_bytes` count; without such a call, all
    sizes since the process began. `root` is the folder in which ``proc`` is mounted.
    """
    return _read_proc_sizes(root / "proc/self/status").get("VmHWM")


def reset_peak_resident_bytes() -> bool:
    """Have the kernel forget the largest resident size of this process so far.

    Afterwards `peak_resident_bytes` returns the largest size since this call. Returns whether the
    kernel did so.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


class _GlibcHeapInfo(ctypes.Structure):
    """The `struct mallinfo2` of glibc 2.33 or newer: the bytes that its memory allocator holds."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


# glibc returns larger blocks to the kernel when they are freed (DEFAULT_MMAP_THRESHOLD_MAX).
_MAX_HEAP_BLOCK_BYTES = 32 * 2**20


def free_heap_bytes(allocation_bytes: int) -> int:
    """Return the number of free bytes in the C library's heap that an allocation may reuse.

    `allocation_bytes` is the size of the allocation. Returns 0 if the number is unknown, or if the
    C library does not keep freed memory of this size.
    """
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None or allocation_bytes > _MAX_HEAP_BLOCK_BYTES:
        return 0
    mallinfo2.restype = _GlibcHeapInfo
    return int(mallinfo2().fordblks)


def touch_fresh_memory(size_bytes: int, thread_count: int) -> None:
    """Write to `size_bytes` of new memory from `thread_count` threads, and free the memory again.

    Afterwards a framework gets memory of this size without a delay. In a virtual machine memory
    must first come from the host, at a third of a GiB per second and core (observed), and most
    frameworks write to new memory from a single thread. If the kernel refuses, do nothing.
    """
    # A worker of the fake back end needs no numpy, whose import takes longer than its start.
    import numpy as np

    with contextlib.suppress(MemoryError), ThreadPoolExecutor(thread_count) as pool:
        parts = np.array_split(np.empty(size_bytes, np.uint8), thread_count)
        list(pool.map(lambda part: part.fill(1), parts))


@dataclass(frozen=True)
class HostMemoryGuard:
    """A guard of the host's memory: it refuses cases that do not fit, and predicts their memory.

    Attributes:
        all_gather: Exchanges values with the other processes of the group.
        initial_bytes: The resident size of this process before its first case.

    """

    all_gather: AllGather
    initial_bytes: int = field(default_factory=resident_bytes)

    def check_fits(
        self, memory_need: MemoryNeed, limit_bytes: int | None, key: EnvironmentKey | None
    ) -> None:
        """Raise MeasuringError OUT_OF_MEMORY if a process of the group lacks memory for a case.

        All processes of the group call this method before the case takes any memory, and all of
        them raise the error. The processes of a host share the memory that is available.

        Args:
            memory_need: the memory that the case needs in this process.
            limit_bytes: an artificial limit for the resident size of this process, None without a
                limit.
            key: the environment key, which has the numbers of processes and hosts; None for a
                single process.

        """
        processes = key.processes // key.hosts if key else 1
        reusable = self._reusable_bytes(memory_need)
        usable_bytes = [
            float(free_bytes // processes + reusable)
            for free_bytes in allocatable_bytes_now_and_at_most(limit_bytes)
        ]
        available, capacity = (int(min(column)) for column in zip(*self.all_gather(usable_bytes)))
        if memory_need.needed_bytes <= available:
            return
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"{memory_need.needed_bytes} bytes needed, {available} available",
            needed_bytes=memory_need.needed_bytes,
            available_bytes=available,
            capacity_bytes=capacity,
            process_bytes=resident_bytes(),
            is_predicted=True,
        )

    def prefault(self, memory_need: MemoryNeed) -> None:
        """Write to as much new memory as a large case will need, and free the memory again.

        Afterwards the case gets the memory without a delay. `memory_need` is the memory that the
        case needs. Do nothing for a small case.
        """
        fresh_bytes = memory_need.needed_bytes - self._reusable_bytes(memory_need)
        if memory_need.is_real and fresh_bytes >= LARGE_NEED_BYTES:
            touch_fresh_memory(fresh_bytes, usable_cores())

    def predicted_peak_bytes(
        self, memory_need: MemoryNeed | None, payload_bytes: int
    ) -> int | None:
        """Return the predicted peak of this process's resident size in a case, in bytes.

        `memory_need` is the host memory that the case needs, None if its devices have their own
        memory. Returns None if the case takes no memory of the host.
        """
        if memory_need is None or not memory_need.is_real:
            return None
        # Two thirds of the heap's free memory are in blocks that are too small (observed).
        reusable = max(self._reusable_bytes(memory_need), free_heap_bytes(payload_bytes) // 3)
        return resident_bytes() + max(0, memory_need.needed_bytes - reusable)

    def _reusable_bytes(self, memory_need: MemoryNeed) -> int:
        """Return the bytes that earlier cases left allocated, and that a case can use again."""
        if not memory_need.reuses_kept_memory:
            return 0
        return max(0, resident_bytes() - self.initial_bytes)


def check_gpu_count(
    member: GroupMember, device: DeviceClass | None, local_ranks: int | None, root: Path = Path("/")
) -> None:
    """Raise MeasuringError UNAVAILABLE if the host lacks GPUs for the ranks of this process.

    Without the error, the processes that have GPUs would wait for this process. No error is raised
    if the processes share GPUs. No error is raised either if this process sees no NVIDIA GPU at
    all, because JAX itself reports this.

    Args:
        member: this process and its group.
        device: the class of device to measure, None for any class. Only GPUs are checked.
        local_ranks: the number of ranks in each process. None means that every GPU is a rank; then
            nothing is checked.
        root: the root of the file system, another folder in tests.

    """
    if member.shared_devices or device not in (None, DeviceClass.GPU) or local_ranks is None:
        return
    count = count_visible_gpus(os.environ, root)
    needed = local_ranks * (member.index % member.processes_per_host + 1)
    if 0 < count < needed:
        raise unavailable(
            f"process {member.index} needs GPU {needed - 1}, and its host has {count}: "
            "expected as many GPUs as ranks; --device=cpu measures on the CPU"
        )


def count_visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """Return the number of NVIDIA GPUs that this process may use.

    `environment` has the environment variables. If it has CUDA_VISIBLE_DEVICES, only the listed
    GPUs are counted, otherwise all GPUs below `root`, the root of the file system.
    """
    if "CUDA_VISIBLE_DEVICES" in environment:
        names = environment["CUDA_VISIBLE_DEVICES"].split(",")
        return len([name for name in names if name.strip() not in ("", "-1")])
    return len(list(root.glob("dev/nvidia[0-9]*")))
