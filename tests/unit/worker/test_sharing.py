"""The environment of a process that shares a GPU, before its framework opens the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.machine import Cluster, ClusterMember, cluster_members
from busbw.model.words import Device
from busbw.worker import sharing
from busbw.worker.backends.base import MeasuringError


def _members(processes: int, devices: int) -> tuple[ClusterMember, ...]:
    cluster = Cluster(processes=processes, shared_devices=devices)
    return cluster_members(cluster, (f"127.0.0.1:{4000 + index}" for index in range(processes)))


@pytest.mark.parametrize(
    ("processes", "gpus", "seen", "visible"),
    [
        (2, 1, {}, ["0", "0"]),
        (3, 2, {}, ["0", "1", "0"]),
        (4, 2, {"CUDA_VISIBLE_DEVICES": "5, GPU-1a2b"}, ["5", "GPU-1a2b"] * 2),
    ],
)
def test_processes_that_share_gpus_have_separate_nccl_host_ids_and_equal_fractions_of_memory(
    processes: int, gpus: int, seen: dict[str, str], visible: list[str]
) -> None:
    variables = [sharing.shared_gpu_variables(member, seen) for member in _members(processes, gpus)]
    assert [process["CUDA_VISIBLE_DEVICES"] for process in variables] == visible
    hosts = [process["NCCL_HOSTID"] for process in variables]
    assert hosts == [f"busbw-{index}" for index in range(processes)]
    assert {process["XLA_PYTHON_CLIENT_MEM_FRACTION"] for process in variables} == {"0.375000"}


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"])
def test_the_memory_fraction_of_the_user_is_divided_by_the_processes_that_share_a_gpu(
    name: str,
) -> None:
    (first, _) = _members(2, 1)
    variables = sharing.shared_gpu_variables(first, {name: ".9"})
    fractions = {key: text for key, text in variables.items() if "FRACTION" in key}
    assert fractions == {name: "0.450000"}


def test_a_process_with_its_own_devices_sets_no_nccl_host_id() -> None:
    (first, _) = _members(2, 0)
    assert sharing.shared_gpu_variables(first, {}) == {}


def _host(path: Path, gpus: int) -> Path:
    (path / "dev").mkdir()
    for name in (*(f"nvidia{number}" for number in range(gpus)), "nvidiactl", "null"):
        (path / "dev" / name).touch()
    return path


def test_a_process_whose_host_lacks_its_gpu_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = _members(2, 0)
    root = _host(tmp_path, 1)
    sharing.check_gpu_count(first, None, 1, root)
    with pytest.raises(MeasuringError, match="process 1 needs GPU 1, and its host has 1: expected"):
        sharing.check_gpu_count(second, None, 1, root)
    sharing.check_gpu_count(second, Device.CPU, 1, root)
    sharing.check_gpu_count(_members(2, 1)[1], Device.GPU, 1, root)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    sharing.check_gpu_count(second, Device.GPU, 1, root)
