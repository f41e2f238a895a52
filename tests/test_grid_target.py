"""Specs to Cases: the choice of a device, what a Spec is on it, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from busbw import grid
from busbw.grid import Target
from busbw.model.case import GridError
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, Device
from tests import build


def _target(
    *probes: Probe,
    device: Device | None = None,
    ranks: int | None = None,
    named: tuple[str, ...] = (),
) -> Target:
    return grid.choose_target(device=device, ranks=ranks, probes=probes, named=named)


CPU = build.probe(build.device_set(), tpu="no libtpu", gpu="no CUDA")


def test_left_to_itself_it_takes_a_tpu_before_a_gpu_before_a_cpu() -> None:
    every = [build.device_set(device) for device in Device]
    assert Device.TPU is _target(build.probe(*every)).device
    without_tpu = [found for found in every if found.device is not Device.TPU]
    assert Device.GPU is _target(build.probe(*without_tpu)).device


def test_without_an_accelerator_it_takes_the_cpu_and_says_why() -> None:
    target = _target(CPU)
    assert Device.CPU is target.device
    assert target.why == "using CPU: no TPU or GPU found"
    assert target.not_found == (
        "no TPU to measure on (jax: no libtpu)",
        "no GPU to measure on (jax: no CUDA)",
    )


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


@pytest.mark.parametrize(
    ("changes", "mesh", "lying"),
    [
        ({}, "2x4", "2x4"),
        ({"mesh": "8x1"}, "8x1", "2x4"),
        ({"ranks": 4}, "", ""),
        ({"ranks": 4, "mesh": "2x2"}, "2x2", ""),
    ],
)
def test_a_slice_keeps_its_shape_however_ranks_are_laid_out_on_it(
    changes: dict[str, Any], mesh: str, lying: str
) -> None:
    target = _target(build.probe(build.device_set(Device.TPU, ranks=8, mesh="2x4")))
    spec = build.spec(**changes)
    assert (target.key(spec).mesh, target.slice_key(spec).mesh) == (mesh, lying)
    assert target.key(spec).ranks == target.slice_key(spec).ranks


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
    assert build.key() == _target(CPU).key(build.spec())
    assert build.key(ranks=8) == _target(CPU, ranks=8).key(build.spec(ranks=8))


@pytest.mark.parametrize(("ranks", "mesh"), [(None, "2x2"), (4, "2x2"), (2, "")])
def test_the_mesh_is_in_the_key_where_all_devices_take_part(ranks: int | None, mesh: str) -> None:
    target = _target(build.probe(build.device_set(Device.TPU, mesh="2x2")), ranks=ranks)
    wanted = EnvironmentKey(device_kind="TPU", ranks=ranks or 4, mesh=mesh)
    assert target.key(build.spec(ranks=ranks)) == wanted


def test_a_spec_is_resolved_to_true_ranks_and_the_true_strategy() -> None:
    assert build.case() == grid.resolve(build.spec(), _target(CPU))


def test_default_and_its_true_name_are_the_same_case() -> None:
    target = _target(CPU)
    named = grid.resolve(build.spec(strategy="psum"), target)
    assert named == grid.resolve(build.spec(strategy="default"), target)


def test_a_strategy_that_the_device_lacks_is_an_error_that_names_those_it_has() -> None:
    with pytest.raises(
        GridError, match=r"jax has no strategy ring for all_reduce on the CPU; it has .*psum"
    ):
        grid.resolve(build.spec(strategy="ring"), _target(CPU))


def test_a_spec_of_a_framework_off_the_device_is_an_error_with_its_words() -> None:
    target = _target(CPU, build.probe(framework="tensorflow", cpu="import failed"))
    with pytest.raises(GridError, match="tensorflow does not reach the CPU: import failed"):
        grid.resolve(build.spec(framework="tensorflow"), target)
    with pytest.raises(GridError, match="fake does not reach the CPU: not probed"):
        grid.resolve(build.spec(framework="fake"), target)


ALL_CLOCKS = (Clock.HOST, Clock.DISPATCH, Clock.DEVICE)


def test_the_protocol_begins_with_the_device_s_first_clock_where_nobody_chose_one() -> None:
    clocks = (Clock.DEVICE, Clock.HOST)
    target = _target(build.probe(build.device_set(Device.TPU, clocks=clocks)))
    assert grid.resolve(build.spec(), target).protocol.text == "device/chain2"


@pytest.mark.parametrize("clock", ALL_CLOCKS)
def test_a_clock_asked_for_is_in_the_protocol(clock: Clock) -> None:
    target = _target(build.probe(build.device_set(clocks=ALL_CLOCKS)))
    case = grid.resolve(build.spec(clock=clock.value), target)
    assert (case.protocol.text, case.clock) == (f"{clock.value}/chain2", clock)


def test_a_clock_that_the_device_has_not_is_an_error_that_names_its_own() -> None:
    clocks = (Clock.HOST, Clock.DISPATCH)
    target = _target(build.probe(build.device_set(clocks=clocks)))
    with pytest.raises(
        GridError, match=r"^jax has no clock device on the CPU; it has host, dispatch$"
    ):
        grid.resolve(build.spec(clock="device"), target)


def test_a_mesh_and_its_axes_are_in_the_case_and_the_mesh_in_the_key() -> None:
    target = _target(CPU, ranks=8)
    spec = build.spec(ranks=8, mesh="2x4", axes="y")
    case = grid.resolve(spec, target)
    assert (case.mesh, case.axes, case.ranks, case.group_size) == ("2x4", "y", 8, 4)
    assert target.key(spec) == build.key(ranks=8, mesh="2x4")


@pytest.mark.parametrize(("mesh", "ranks"), [("2x4", 8), ("2x1", 2), ("3", 3)])
def test_a_mesh_that_is_not_all_the_ranks_is_an_error_with_both_numbers(
    mesh: str, ranks: int
) -> None:
    wanted = rf"a mesh of {mesh} has {ranks} ranks, there are 4 \(CPU\); --ranks says how many"
    with pytest.raises(GridError, match=wanted):
        grid.resolve(build.spec(mesh=mesh), _target(CPU))


@pytest.mark.parametrize(
    ("framework", "collective", "strategy"),
    [
        ("jax", "all_gather", "lax"),
        ("jax", "permute", "lax"),
        ("jax", "all_reduce", "psum"),
        ("fake", "all_to_all", "fake"),
    ],
)
def test_other_collectives_than_the_all_reduce_have_the_framework_s_own_strategy(
    framework: str, collective: str, strategy: str
) -> None:
    target = _target(build.probe(build.device_set(), framework=framework))
    spec = build.spec(framework=framework, collective=collective)
    assert grid.resolve(spec, target).strategy == strategy


def test_a_strategy_named_for_another_collective_is_an_error() -> None:
    with pytest.raises(GridError, match=r"no strategy psum for permute on the CPU; it has default"):
        grid.resolve(build.spec(collective="permute", strategy="psum"), _target(CPU))


@pytest.mark.parametrize(
    ("collective", "payload_bytes", "fits"),
    [
        ("all_gather", 16, True),
        ("all_gather", 20, False),
        ("reduce_scatter", 8, False),
        ("all_to_all", 4 * 1025, False),
        ("all_to_all", 4 * 1024, True),
        ("all_reduce", 4, True),
        ("permute", 20, True),
    ],
)
def test_a_payload_is_cut_into_equal_blocks_of_whole_elements_or_refused(
    collective: str, payload_bytes: int, fits: bool
) -> None:
    spec = build.spec(collective=collective, payload_bytes=payload_bytes)
    if fits:
        assert grid.resolve(spec, _target(CPU)).payload_bytes == payload_bytes
    else:
        with pytest.raises(GridError, match=f"not 4 equal blocks of float32, which {collective}"):
            grid.resolve(spec, _target(CPU))


def test_blocks_are_cut_for_the_group_and_not_for_all_ranks() -> None:
    spec = build.spec(collective="all_gather", payload_bytes=8, mesh="2x2", axes="y")
    assert grid.resolve(spec, _target(CPU)).group_size == 2
