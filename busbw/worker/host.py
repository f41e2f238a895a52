"""The host: its name, its processor, and its control groups with their CPU quotas.

Reads /proc and the control groups of Linux, of both versions.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from busbw.model.machine import CPU_QUOTA


def name() -> str:
    """Return the name of the host."""
    return platform.node()


def cpu_model() -> str:
    """Return the processor's model, as the kernel names it if it does."""
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def control_groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the groups of this process for `controller`, from the innermost to the outermost.

    With each group comes whether it is of version 1 of control groups.
    """
    lines = []
    with contextlib.suppress(OSError, ValueError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        # A path may hold colons. The padding is for lines that the kernel did not write.
        _, controllers, path = (*line.split(":", 2), "-", "-", "-")[:3]
        is_v1 = controller in controllers.split(",")
        if not is_v1 and controllers:
            continue
        # Version 1 mounts controllers together, with a link for each on most systems only.
        mounts = [root / "sys/fs/cgroup" / name for name in (controllers, controller)]
        mount = next(filter(Path.is_dir, mounts), mounts[0])
        # The path of a group outside of the mounted namespace begins with `/..`.
        group = mount if ".." in path.split("/") else mount / path.lstrip("/")
        for folder in (group, *group.parents):
            yield folder, is_v1
            if folder == mount:
                break


def cpu_quotas(root: Path = Path("/")) -> dict[Path, tuple[int, int]]:
    """Return the CPU quotas of this process's control groups, by the folder of each group.

    A quota is the processor time in a period and the period, in microseconds. Groups without a
    quota are left out, and so are groups with files of an unknown form.
    """
    quotas = {}
    for folder, is_v1 in control_groups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            limit = _read_limit_v1(folder) if is_v1 else (folder / "cpu.max").read_text()
            share_us, period_us = limit.split()
            if share_us not in ("max", "-1") and 0 < int(share_us) < 2**63 > int(period_us) > 0:
                quotas[folder] = int(share_us), int(period_us)
    return quotas


def _read_limit_v1(folder: Path) -> str:
    """Return the quota of a group of version 1 in the form of version 2, share and period."""
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return " ".join((folder / name).read_text() for name in names)


def quota_flags(root: Path = Path("/")) -> dict[str, str]:
    """Return the smallest CPU quota as environments record it; empty without a quota."""
    cpus = [share_us / period_us for share_us, period_us in cpu_quotas(root).values()]
    return {CPU_QUOTA: f"{min(cpus):.4g} CPU"} if cpus else {}
