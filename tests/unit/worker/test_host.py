"""CPU quotas, read from simulated control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.worker import host, memory
from tests.unit.worker.machine_files import make_machine, put


def _quota_v1(folder: Path, share_us: int) -> None:
    put(folder / "cpu.cfs_quota_us", share_us)
    put(folder / "cpu.cfs_period_us", 100_000)


def test_a_cpu_quota_of_version_1_is_read(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="3:memory:/x\n1:cpu,cpuacct:/box/inner\n0::/")
    group = root / "sys/fs/cgroup/cpu/box"
    _quota_v1(group / "inner", -1)
    _quota_v1(group, 25_000)
    assert host.cpu_quotas(root) == {group: (25_000, 100_000)}
    assert host.quota_flags(root) == {"CPU quota": "0.25 CPU"}


def test_of_cpu_quotas_of_version_2_the_least_is_recorded(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="0::/pod/box")
    pod, box = root / "sys/fs/cgroup/pod", root / "sys/fs/cgroup/pod/box"
    put(pod / "cpu.max", "150000 100000")
    put(box / "cpu.max", "100000 50000")
    assert host.cpu_quotas(root) == {pod: (150_000, 100_000), box: (100_000, 50_000)}
    assert host.quota_flags(root) == {"CPU quota": "1.5 CPU"}


@pytest.mark.parametrize(
    "limit",
    ["max 100000", "", "25000", "25000 0", "-25000 100000", "a lot", f"{10**30} 100000"],
)
def test_an_absent_or_unreadable_cpu_quota_is_left_out(tmp_path: Path, limit: str) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    put(root / "sys/fs/cgroup/box/cpu.max", limit)
    assert (host.cpu_quotas(root), host.quota_flags(root)) == ({}, {})


@pytest.mark.parametrize("groups", ["nonsense", "0:", "\n\n", "0::/../../..", "0::/a:b", "x::"])
def test_missing_control_groups_have_no_quota(tmp_path: Path, groups: str) -> None:
    root = make_machine(tmp_path, groups=groups)
    put(root / "sys/cpu.max", "25000 100000")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    assert host.cpu_quotas(root) == {}
    assert memory.headroom(None, root) is not None


def test_in_a_container_the_quota_is_that_of_the_mounted_group(tmp_path: Path) -> None:
    root = make_machine(tmp_path, groups="1:cpu:/docker/0123abcd")
    _quota_v1(root / "sys/fs/cgroup/cpu", 50_000)
    assert host.quota_flags(root) == {"CPU quota": "0.5 CPU"}
