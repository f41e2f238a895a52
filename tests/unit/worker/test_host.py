"""The CPU quotas and GPUs of a host, and the GPU of a process that shares GPUs with others.

Quotas are read from simulated control groups of both versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.machine import GroupMember, ProcessGroup, group_members
from busbw.model.words import DeviceClass
from busbw.worker import host
from busbw.worker.backends.base import MeasuringError
from tests.unit.worker.machine_files import make_machine, put


def _v1(folder: str, share_us: int) -> dict[str, str]:
    """Return the files of a control group of version 1."""
    return {f"{folder}/cpu.cfs_quota_us": str(share_us), f"{folder}/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("groups", "files", "quotas", "text"),
    [
        (
            "3:memory:/x\n1:cpu,cpuacct:/box/inner\n0::/",
            {**_v1("cpu/box/inner", -1), **_v1("cpu/box", 25_000)},
            {"cpu/box": (25_000, 100_000)},
            "0.25 CPU",
        ),
        # In a container the quota is that of the mounted group.
        ("1:cpu:/docker/0123abcd", _v1("cpu", 50_000), {"cpu": (50_000, 100_000)}, "0.5 CPU"),
        # The least of several is recorded.
        (
            "0::/pod/box",
            {"pod/cpu.max": "150000 100000", "pod/box/cpu.max": "100000 50000"},
            {"pod": (150_000, 100_000), "pod/box": (100_000, 50_000)},
            "1.5 CPU",
        ),
    ],
)
def test_cpu_quotas_of_control_groups_of_both_versions_are_read(
    tmp_path: Path,
    groups: str,
    files: dict[str, str],
    quotas: dict[str, tuple[int, int]],
    text: str,
) -> None:
    root = make_machine(tmp_path, groups=groups)
    mount = root / "sys/fs/cgroup"
    for path, content in files.items():
        put(mount / path, content)
    assert host.cpu_quotas(root) == {mount / path: quota for path, quota in quotas.items()}
    assert host.cpu_quota_flags(root) == {"CPU quota": text}


@pytest.mark.parametrize(
    "limit",
    ["max 100000", "", "25000", "25000 0", "-25000 100000", "a lot", f"{10**30} 100000"],
)
def test_an_absent_or_invalid_cpu_quota_is_left_out(tmp_path: Path, limit: str) -> None:
    root = make_machine(tmp_path, groups="0::/box")
    put(root / "sys/fs/cgroup/box/cpu.max", limit)
    assert (host.cpu_quotas(root), host.cpu_quota_flags(root)) == ({}, {})


@pytest.mark.parametrize("groups", ["nonsense", "0:", "\n\n", "0::/../../..", "0::/a:b", "x::"])
def test_a_host_with_missing_or_invalid_control_groups_has_no_cpu_quota(
    tmp_path: Path, groups: str
) -> None:
    root = make_machine(tmp_path, groups=groups)
    put(root / "sys/cpu.max", "25000 100000")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    assert host.cpu_quotas(root) == {}
    assert host.find_allocatable_memory_bytes(None, root) is not None


def _members(processes: int, devices: int) -> tuple[GroupMember, ...]:
    cluster = ProcessGroup(processes=processes, shared_devices=devices)
    return group_members(cluster, (f"127.0.0.1:{4000 + index}" for index in range(processes)))


@pytest.mark.parametrize(
    ("processes", "gpus", "seen", "visible"),
    [
        (2, 1, {}, ["0", "0"]),
        (3, 2, {}, ["0", "1", "0"]),
        (4, 2, {"CUDA_VISIBLE_DEVICES": "5, GPU-1a2b"}, ["5", "GPU-1a2b"] * 2),
        (2, 2, {"CUDA_VISIBLE_DEVICES": "5"}, ["5", "5"]),
    ],
)
def test_processes_that_share_gpus_have_separate_nccl_host_ids_and_equal_fractions_of_memory(
    processes: int, gpus: int, seen: dict[str, str], visible: list[str]
) -> None:
    variables = [host.shared_gpu_variables(member, seen) for member in _members(processes, gpus)]
    assert [process["CUDA_VISIBLE_DEVICES"] for process in variables] == visible
    hosts = [process["NCCL_HOSTID"] for process in variables]
    assert hosts == [f"busbw-{index}" for index in range(processes)]
    assert {process["XLA_PYTHON_CLIENT_MEM_FRACTION"] for process in variables} == {"0.375000"}


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"])
def test_the_memory_fraction_of_the_user_is_divided_by_the_processes_that_share_a_gpu(
    name: str,
) -> None:
    (first, _) = _members(2, 1)
    variables = host.shared_gpu_variables(first, {name: ".9"})
    assert {key: text for key, text in variables.items() if "FRACTION" in key} == {name: "0.450000"}


def test_a_process_with_its_own_devices_sets_no_nccl_host_id() -> None:
    (first, _) = _members(2, 0)
    assert host.shared_gpu_variables(first, {}) == {}


def test_a_process_whose_host_lacks_its_gpu_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = _members(2, 0)
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "null"):
        (tmp_path / "dev" / name).touch()
    host.check_gpu_count(first, None, 1, tmp_path)
    with pytest.raises(MeasuringError, match="process 1 needs GPU 1, and its host has 1: expected"):
        host.check_gpu_count(second, None, 1, tmp_path)
    host.check_gpu_count(second, DeviceClass.CPU, 1, tmp_path)
    host.check_gpu_count(_members(2, 1)[1], DeviceClass.GPU, 1, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    host.check_gpu_count(second, DeviceClass.GPU, 1, tmp_path)
