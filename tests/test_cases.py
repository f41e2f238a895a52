"""Options to Specs, Specs to Cases: the grid's order, the choice of a device, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from busbw import cases
from busbw.cases import GridError, Target
from busbw.model import Device, EnvironmentKey, Probe, Spec

from . import build


def _grid(**changes: Any) -> tuple[Spec, ...]:
    asked: dict[str, Any] = {
        "frameworks": ["jax"],
        "strategies": ["default"],
        "dtypes": ["float32"],
        "payloads": [1024],
        "ranks": None,
    }
    return cases.specs(**{**asked, **changes})


def _target(
    *probes: Probe,
    device: Device | None = None,
    ranks: int | None = None,
    named: tuple[str, ...] = (),
) -> Target:
    return cases.choose_target(device=device, ranks=ranks, probes=probes, named=named)


CPU = build.probe(build.device_set(), tpu="no libtpu", gpu="no CUDA")


def test_the_grid_is_ordered_by_framework_strategy_dtype_and_payload() -> None:
    grid = _grid(
        frameworks=["tensorflow", "jax"],
        strategies=["default", "ring", "psum"],
        dtypes=["float32", "float16"],
        payloads=[1024, 2048],
    )
    assert [spec.id for spec in grid[:3]] == [
        "tensorflow-default-float32-1K",
        "tensorflow-default-float32-2K",
        "tensorflow-default-float16-1K",
    ]
    assert grid[-1].id == "jax-psum-float16-2K"


def test_a_framework_takes_the_strategies_that_it_knows() -> None:
    grid = _grid(frameworks=["jax", "tensorflow"], strategies=["psum", "ring"])
    assert [(s.framework, s.strategy) for s in grid] == [("jax", "psum"), ("tensorflow", "ring")]


def test_every_id_in_a_grid_is_unique() -> None:
    grid = _grid(
        frameworks=["jax", "tensorflow"],
        dtypes=list(cases.DTYPES),
        payloads=[1024, 1536, 2048],
    )
    assert len(grid) == len({spec.id for spec in grid})


def test_the_ranks_asked_for_are_in_every_spec() -> None:
    assert {8} == {spec.ranks for spec in _grid(ranks=8, payloads=[1024, 2048])}


def test_a_framework_without_any_of_the_strategies_is_an_error_that_names_its_own() -> None:
    with pytest.raises(GridError, match=r"jax has none of .* ring; it has default, psum"):
        _grid(strategies=["ring"])


@pytest.mark.parametrize("nothing", ["frameworks", "dtypes", "payloads"])
def test_an_empty_grid_is_an_error(nothing: str) -> None:
    with pytest.raises(GridError, match="nothing to measure"):
        _grid(**{nothing: []})


def test_a_payload_that_is_no_whole_number_of_elements_is_an_error() -> None:
    with pytest.raises(GridError, match="1026 bytes is not a whole number of float32"):
        _grid(payloads=[1026])
    assert len(_grid(payloads=[1026], dtypes=["float16"])) == 1


def test_left_to_itself_it_takes_a_tpu_before_a_gpu_before_a_cpu() -> None:
    every = [build.device_set(device) for device in Device]
    assert Device.TPU is _target(build.probe(*every)).device
    without_tpu = [found for found in every if found.device is not Device.TPU]
    assert Device.GPU is _target(build.probe(*without_tpu)).device


def test_without_an_accelerator_it_takes_the_cpu_and_says_why() -> None:
    target = _target(CPU)
    assert Device.CPU is target.device
    assert "no TPU to measure on (jax: no libtpu)" in target.why
    assert "no GPU to measure on (jax: no CUDA)" in target.why


def test_a_single_device_is_no_collective_and_is_passed_over_aloud() -> None:
    target = _target(build.probe(build.device_set(Device.GPU, ranks=1), build.device_set()))
    assert Device.CPU is target.device
    assert "1 rank (GPU), two are needed" in target.why


def test_a_device_asked_for_is_never_replaced_by_another() -> None:
    with pytest.raises(GridError, match=r"no TPU to measure on \(jax: no libtpu\)"):
        _target(CPU, device=Device.TPU)


def test_a_device_asked_for_is_there_because_it_was_asked_for() -> None:
    assert _target(CPU, device=Device.CPU).why == "asked for"


def test_more_ranks_than_devices_are_an_error_with_both_numbers() -> None:
    with pytest.raises(GridError, match=r"4 ranks \(TPU\), 8 asked for"):
        _target(build.probe(build.device_set(Device.TPU)), device=Device.TPU, ranks=8)


def test_virtual_devices_come_in_any_number() -> None:
    assert Device.CPU is _target(CPU, device=Device.CPU, ranks=8).device


def test_a_framework_that_does_not_reach_the_device_is_listed_with_its_words() -> None:
    tensorflow = build.probe(framework="tensorflow", tpu="not built for it")
    target = _target(build.probe(build.device_set(Device.TPU)), tensorflow)
    assert target.unreached == {"tensorflow": "not built for it"}
    assert {"jax"} == set(target.sets)


def test_a_framework_asked_for_by_name_must_reach_the_device() -> None:
    tensorflow = build.probe(framework="tensorflow", tpu="not built for it")
    with pytest.raises(GridError, match="tensorflow does not reach the TPU: not built for it"):
        _target(build.probe(build.device_set(Device.TPU)), tensorflow, named=("tensorflow",))


def test_the_key_of_a_target_says_where_a_time_holds() -> None:
    assert build.key() == _target(CPU).key("jax", None)
    assert build.key(ranks=8) == _target(CPU, ranks=8).key("jax", 8)


@pytest.mark.parametrize(("ranks", "mesh"), [(None, "2x2"), (4, "2x2"), (2, "")])
def test_the_mesh_is_in_the_key_where_all_devices_take_part(ranks: int | None, mesh: str) -> None:
    target = _target(build.probe(build.device_set(Device.TPU, mesh="2x2")), ranks=ranks)
    assert EnvironmentKey(device_kind="TPU", ranks=ranks or 4, mesh=mesh) == target.key(
        "jax", ranks
    )


def test_a_spec_is_resolved_to_true_ranks_and_the_true_strategy() -> None:
    assert build.case() == cases.resolve(build.spec(), _target(CPU))


def test_default_and_its_true_name_are_the_same_case() -> None:
    target = _target(CPU)
    named = cases.resolve(build.spec(strategy="psum"), target)
    assert named == cases.resolve(build.spec(strategy="default"), target)


def test_a_strategy_that_the_device_lacks_is_an_error_that_names_those_it_has() -> None:
    with pytest.raises(GridError, match=r"jax has no strategy ring on the CPU; it has .*psum"):
        cases.resolve(build.spec(strategy="ring"), _target(CPU))


def test_a_spec_of_a_framework_off_the_device_is_an_error_with_its_words() -> None:
    target = _target(CPU, build.probe(framework="tensorflow", cpu="import failed"))
    with pytest.raises(GridError, match="tensorflow does not reach the CPU: import failed"):
        cases.resolve(build.spec(framework="tensorflow"), target)
    with pytest.raises(GridError, match="fake does not reach the CPU: not probed"):
        cases.resolve(build.spec(framework="fake"), target)
