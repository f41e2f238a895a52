"""Reads the properties of the host from /proc, and the CPU quotas of Linux control groups.

Control groups (cgroups) of version 1 and of version 2 are read.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from busbw.model.machine import CPU_QUOTA


def host_name() -> str:
    """Return the name of the host."""
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


def control_groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each control group of this process, from the innermost to the outermost.

    Args:
        root: the root of the file system, another folder in tests.
        controller: the controller of the groups, such as ``memory``.

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
    out.
    """
    quotas = {}
    for folder, is_v1 in control_groups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            limit = _read_quota_v1(folder) if is_v1 else (folder / "cpu.max").read_text()
            time_us, period_us = limit.split()
            if time_us not in ("max", "-1") and 0 < int(time_us) < 2**63 > int(period_us) > 0:
                quotas[folder] = int(time_us), int(period_us)
    return quotas


def _read_quota_v1(folder: Path) -> str:
    """Return the CPU quota of a version 1 group in the form of version 2: time and period."""
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return " ".join((folder / name).read_text() for name in names)


def cpu_quota_flags(root: Path = Path("/")) -> dict[str, str]:
    """Return the smallest CPU quota of this process, such as ``1.5 CPU``, by the flag CPU_QUOTA.

    The dictionary is empty without a quota.
    """
    cpus = [time_us / period_us for time_us, period_us in cpu_quotas(root).values()]
    return {CPU_QUOTA: f"{min(cpus):.4g} CPU"} if cpus else {}
