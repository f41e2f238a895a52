"""Training under strategies as Specs, Cases and Environment keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw import grid
from busbw.model.case import Asked, Case, GridError, NotHereError, Spec
from busbw.model.machine import EnvironmentKey
from busbw.model.training import CNN_BYTES
from busbw.model.words import Device
from busbw.workloads.training import Training
from tests import build

ASKED = Asked(frameworks=("jax", "tensorflow"), named=False, payloads=(2**20,))
ALL = (
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "parameter_server",
    "central_storage",
    "tpu",
)


def _specs(**changes: Any) -> tuple[Spec, ...]:
    return grid.step_specs(Training, replace(ASKED, **changes))


def _on(strategy: str, device: Device = Device.CPU, **found: Any) -> tuple[Case, EnvironmentKey]:
    (spec,) = _specs(strategies=(strategy,), ranks=found.pop("asked", None))
    return grid.resolve_on(
        spec, build.device_set(device, program="outer", allocator="hugepages", **found)
    )


def test_there_is_one_spec_for_each_strategy_of_tensorflow_whatever_the_payloads() -> None:
    specs = _specs()
    assert tuple(spec.strategy for spec in specs) == ALL
    assert {(spec.framework, spec.workload) for spec in specs} == {("tensorflow", Training())}
    assert specs[1].id == "tensorflow-cnn_step-mirrored-float32-143656"


def test_the_payload_is_the_gradient_of_every_variable_in_float32() -> None:
    filters = 3 * 3 * 1 * 32 + 32 + 3 * 3 * 32 * 64 + 64
    dense = 256 * 64 + 64 + 64 * 10 + 10
    assert 4 * (filters + dense) == CNN_BYTES == _specs()[0].payload_bytes


def test_only_those_that_are_asked_for_are_there() -> None:
    assert [spec.strategy for spec in _specs(strategies=("ring", "tpu", "mirrored"))] == [
        "tpu",
        "mirrored",
    ]
    assert _specs(strategies=("ring",)) == ()
    assert _specs(frameworks=("jax",)) == ()


def test_a_mesh_has_none() -> None:
    assert _specs(mesh="2x2") == ()


@pytest.mark.parametrize(
    ("strategy", "ranks", "processes"),
    [
        ("one_device", 1, 1),
        ("mirrored", 4, 1),
        ("central_storage", 4, 1),
        ("multi_worker_mirrored", 4, 4),
        ("parameter_server", 4, 4),
    ],
)
def test_ranks_and_processes_follow_from_the_strategy(
    strategy: str, ranks: int, processes: int
) -> None:
    case, key = _on(strategy)
    assert (case.ranks, key.ranks, key.processes) == (ranks, ranks, processes)
    assert case.name == f"tensorflow.cnn_step.all_reduce.{strategy}.float32.143656"
    assert case.protocol.text == "host/cnn-step-batch-128/hugepages"


def test_ranks_that_are_asked_for_are_those_of_all_but_one_device() -> None:
    assert _on("mirrored", asked=2)[0].ranks == 2
    assert _on("one_device", asked=2)[0].ranks == 1


def test_ranks_that_do_not_share_a_batch_evenly_are_an_error() -> None:
    with pytest.raises(GridError, match="3 ranks do not share out the 128 examples"):
        _on("mirrored", asked=3)


@pytest.mark.parametrize(
    ("strategy", "device", "said"),
    [
        ("tpu", Device.CPU, "the strategy tpu is for TPUs, this is a CPU"),
        ("mirrored", Device.TPU, "by the strategy tpu alone, not by mirrored"),
        ("parameter_server", Device.GPU, "every worker would open all GPUs of this host"),
    ],
)
def test_what_is_for_other_devices_is_not_here_which_is_no_mistake(
    strategy: str, device: Device, said: str
) -> None:
    with pytest.raises(NotHereError, match=said):
        _on(strategy, device)


def test_a_tpu_has_its_own_strategy_and_a_gpu_those_without_a_server() -> None:
    assert _on("tpu", Device.TPU)[0].ranks == 4
    for strategy in ("one_device", "mirrored", "multi_worker_mirrored", "central_storage"):
        assert _on(strategy, Device.GPU)[0].strategy == strategy
