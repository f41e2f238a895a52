"""The process of a worker before its framework starts: variables, shared GPUs, parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import busbw
from busbw.model.machine import GroupMember, ProcessGroupSize, group_members
from busbw.model.words import DeviceClass
from busbw.worker import __main__ as entry


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("OPENBLAS_NUM_THREADS", "8", {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}),
        ("JAX_PLATFORMS", "tpu,cpu", {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_variables_of_the_user_do_not_give_a_cpu_worker_more_threads_or_other_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, name: text})
    entry.set_framework_variables(DeviceClass.CPU)
    assert expected.items() <= os.environ.items()


@pytest.mark.parametrize(("others", "ends"), [(0, (0, b"goes on\n")), (1, (1, b""))])
def test_a_worker_whose_driver_ended_during_its_start_ends(
    others: int, ends: tuple[int, bytes]
) -> None:
    code = (
        "import os; from busbw.worker import __main__ as entry; "
        f"entry.end_with_parent(os.getppid() + {others}); print('goes on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(busbw.__file__).parents[1])},
    )
    assert (done.returncode, done.stdout) == ends


def group(processes: int, devices: int) -> tuple[GroupMember, ...]:
    """Return the processes of a group that shares `devices` GPUs, or no GPU if it is 0."""
    cluster = ProcessGroupSize(processes=processes, shared_devices=devices)
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
    variables = [entry.shared_gpu_variables(member, seen) for member in group(processes, gpus)]
    assert [process["CUDA_VISIBLE_DEVICES"] for process in variables] == visible
    hosts = [process["NCCL_HOSTID"] for process in variables]
    assert hosts == [f"busbw-{index}" for index in range(processes)]
    assert {process["XLA_PYTHON_CLIENT_MEM_FRACTION"] for process in variables} == {"0.375000"}


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"])
def test_the_memory_fraction_of_the_user_is_divided_by_the_processes_that_share_a_gpu(
    name: str,
) -> None:
    (first, _) = group(2, 1)
    variables = entry.shared_gpu_variables(first, {name: ".9"})
    assert {key: text for key, text in variables.items() if "FRACTION" in key} == {name: "0.450000"}


def test_a_process_with_its_own_devices_sets_no_nccl_host_id() -> None:
    (first, _) = group(2, 0)
    assert entry.shared_gpu_variables(first, {}) == {}
