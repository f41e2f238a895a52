"""Training steps as Specs and Cases: the all-reduce inside, and what is timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw import grid
from busbw.model.case import Asked, GridError, Spec
from busbw.model.machine import DeviceSet
from busbw.model.words import Clock, Device
from busbw.workloads.dense_step import DenseStep, layer_of
from tests import build

ASKED = Asked(frameworks=("jax",), named=True, payloads=(2048, 2**20))


def _steps(**changes: Any) -> tuple[Spec, ...]:
    return grid.step_specs(DenseStep, replace(ASKED, **changes))


def _resolved(devices: DeviceSet, spec: Spec) -> Any:
    return grid.resolve_on(spec, devices)[0]


def test_a_step_is_its_all_reduce_with_the_step_named() -> None:
    assert _steps() == tuple(
        build.spec(payload_bytes=size, step="dense") for size in ASKED.payloads
    )


def test_alone_are_the_specs_that_the_collectives_grid_has() -> None:
    assert grid.collectives_alone(_steps()) == grid.specs(ASKED)


def test_strategies_of_other_steps_alone_leave_none_of_this() -> None:
    assert _steps(strategies=("mirrored",)) == ()
    assert _steps(strategies=("mirrored", "psum")) == _steps(strategies=("psum",))


def test_strategies_of_another_framework_are_an_error_where_the_framework_was_named() -> None:
    both = {"frameworks": ("jax", "fake"), "strategies": ("psum",)}
    assert {spec.framework for spec in _steps(**both, named=False)} == {"jax"}
    with pytest.raises(GridError, match="fake has none of the strategies psum"):
        _steps(**both)


def test_jax_and_tensorflow_have_a_step_each() -> None:
    both = ("jax", "tensorflow")
    assert {spec.framework for spec in _steps(frameworks=both)} == set(both)


@pytest.mark.parametrize(
    "changes",
    [
        {"collectives": ("all_reduce", "permute")},
        {"reduce_ops": ("max",)},
        {"placements": ("out_of_place",)},
        {"dtypes": ("bfloat16",)},
        {"clock": "device"},
        {"mesh": "2x2", "axes": "x"},
        {"payloads": (2048, 1024)},
    ],
)
def test_what_no_step_has_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises(GridError, match=r"dense training step has no|no multiple of 2K"):
        _steps(**changes)


def test_a_step_s_case_has_a_protocol_of_its_own_and_the_strategy_of_its_collective() -> None:
    devices = build.device_set(program="chain2-two-buffers", allocator="hugepages")
    case = _resolved(devices, _steps()[0])
    assert (case.workload, case.strategy, case.ranks) == (DenseStep(), "psum", 4)
    assert case.protocol.text == "host/dense-step-16-rows/hugepages"
    assert case.name == "jax.dense_step.all_reduce.psum.float32.2K"


def test_a_step_is_timed_by_the_host_where_collectives_are_by_the_device() -> None:
    devices = build.device_set(Device.TPU, clocks=(Clock.DEVICE, Clock.HOST))
    step, alone = _steps()[0], grid.collectives_alone(_steps())[0]
    assert _resolved(devices, step).clock is Clock.HOST
    assert _resolved(devices, alone).clock is Clock.DEVICE


@pytest.mark.parametrize(
    ("inputs", "outputs", "dtype", "payload_bytes"),
    [(1, 512, "float32", 2048), (262144, 1024, "float32", 2**30), (2, 512, "bfloat16", 2048)],
)
def test_a_layer_has_so_many_inputs_that_its_gradient_is_the_payload(
    inputs: int, outputs: int, dtype: str, payload_bytes: int
) -> None:
    case = build.step(payload_bytes=payload_bytes, outputs=outputs, dtype=dtype)
    layer = layer_of(case)
    assert (layer.inputs, layer.outputs, layer.ranks) == (inputs, outputs, case.ranks)


def test_what_is_no_dense_step_has_no_layer() -> None:
    with pytest.raises(TypeError, match=r"jax.all_reduce.psum.float32.4K is no dense step"):
        layer_of(build.case())
