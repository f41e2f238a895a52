"""A GPU's programs, read: what is proved of them, what belongs to a collective, what is said."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.words import Device, FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo import text as hlo
from busbw.worker.backends.hlo.proof import Proved
from tests import build

from . import gpu_programs as programs
from .gpu_programs import COPY, COUNT, DONE, gpu, started

OUT_OF_PLACE: dict[str, Any] = {"placement": "out_of_place"}
APART: dict[str, Any] = {"reduce_op": "none", **OUT_OF_PLACE}
TWICE = COPY.replace("get-tuple-element.27", "copy.7")
BEFORE = COPY.replace("copy.6", "copy.7")
INPUT = started(of="copy.6", is_sync=True)


def _found(text: str, device: Device = Device.GPU, **changes: Any) -> Proved:
    return proof.find(text, proof.wanted(build.case(**changes), 1, device=device))


def _refused(text: str, device: Device = Device.GPU, **changes: Any) -> str:
    with pytest.raises(MeasuringError) as caught:
        _found(text, device, **changes)
    assert caught.value.kind is FailureKind.NOT_A_COLLECTIVE
    return str(caught.value)


def _algorithm(found: Proved) -> dict[str, str]:
    return hlo.algorithm_of(found.collectives)


def test_a_chain_in_place_is_one_all_reduce_a_turn_and_nothing_beside_it() -> None:
    found = _found(programs.IN_PLACE)
    assert [one.op for one in found.collectives] == ["all-reduce-start"]
    assert (found.around, found.around_loop) == ((), ())


def test_a_kernel_of_the_compiler_s_own_is_published() -> None:
    assert _algorithm(_found(programs.IN_PLACE)) == {"strategy": "TRITON_ONE_SHOT"}


def test_a_field_at_its_default_says_nothing() -> None:
    assert _algorithm(_found(programs.WAITED_FOR)) == {}


def test_another_library_and_another_mode_are_published_too() -> None:
    text = programs.WAITED_FOR.replace('"backend":"DEFAULT"', '"backend":"NVSHMEM"')
    text = text.replace("COLLECTIVES_MODE_INVALID", "COLLECTIVES_SYMMETRIC_MEMORY")
    assert _algorithm(_found(text)) == {"backend": "NVSHMEM", "mode": "SYMMETRIC_MEMORY"}


def test_a_configuration_of_another_form_says_nothing() -> None:
    text = programs.WAITED_FOR.replace(programs.config(is_sync=True), "backend_config={}")
    assert _algorithm(_found(text)) == {}
    cut = programs.WAITED_FOR.replace(
        '"collective_backend_config":{', '"collective_backend_config":3'
    )
    assert _algorithm(_found(cut)) == {}


@pytest.mark.parametrize(
    ("text", "starts"), [(programs.IN_PLACE, True), (programs.WAITED_FOR, False)]
)
def test_what_is_waited_for_at_once_is_not_started_apart(text: str, starts: bool) -> None:
    assert _found(text).starts is starts


def test_out_of_place_the_copy_of_the_input_belongs_to_it_and_is_counted() -> None:
    found = _found(programs.OUT_OF_PLACE, **OUT_OF_PLACE)
    assert [one.op for one in found.around] == ["copy"]


def test_in_place_a_copy_is_none_of_it() -> None:
    assert "%copy.6 = f32[1024]{0} copy(" in _refused(programs.OUT_OF_PLACE)


@pytest.mark.parametrize("device", [Device.CPU, Device.TPU])
def test_on_other_devices_a_copy_is_none_of_it_out_of_place_either(device: Device) -> None:
    assert "%copy.6 = " in _refused(programs.OUT_OF_PLACE, device, **OUT_OF_PLACE)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((COPY, INPUT, DONE, COPY.replace("copy.6", "copy.8"), COUNT), "%copy.8 = "),
        ((BEFORE, TWICE, INPUT, DONE, COUNT), "%copy.7 = "),
        (
            (
                "%copy.6 = f32[1024]{0} fusion(%get-tuple-element.27), kind=kLoop, calls=%fused_m",
                INPUT,
                DONE,
                COUNT,
            ),
            "%copy.6 = f32[1024]{0} fusion(",
        ),
    ],
)
def test_out_of_place_nothing_else_that_goes_over_the_payload_is(
    lines: tuple[str, ...], said: str
) -> None:
    assert f"the payload is copied between collectives: {said}" in _refused(
        gpu(*lines), **OUT_OF_PLACE
    )


def test_buffers_in_another_memory_are_copied_once_in_a_call() -> None:
    found = _found(programs.OWN_BUFFERS)
    assert (found.around, [one.op for one in found.around_loop]) == ((), ["copy"])


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (programs.ALL_GATHER, {"collective": "all_gather", **APART}),
        (programs.REDUCE_SCATTER, {"collective": "reduce_scatter", **OUT_OF_PLACE}),
        (programs.ALL_TO_ALL, {"collective": "all_to_all", **APART}),
        (programs.PERMUTE, {"collective": "permute", **APART}),
    ],
)
def test_the_other_collectives_are_proved_through_their_starts(
    text: str, changes: dict[str, Any]
) -> None:
    found = _found(text, **changes)
    assert len(found.collectives) == 1
    assert (found.around, found.around_loop, found.starts) == ((), (), False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (gpu(COUNT), "XLA compiled none, 0 of them there"),
        (programs.DECOMPOSED, "XLA compiled {'all-gather': 1}, 0 of them there"),
        (programs.IN_STEPS, "XLA compiled {'reduce-scatter': 1, 'all-reduce': 1, 'all-gather': 1}"),
        (programs.IN_PLACE.replace("{{0,1,2,3}}", "{{0,1},{2,3}}"), "in groups {0,1,2,3}"),
        (programs.IN_PLACE.replace("f32[1024]{0} all", "f32[512]{0} all"), "of 4096 bytes"),
        (
            gpu(started(is_sync=True), DONE, started(is_sync=True), DONE, COUNT),
            "XLA compiled {'all-reduce': 2}, 2 of them there",
        ),
    ],
)
def test_another_program_is_not_the_collective(text: str, said: str) -> None:
    assert said in _refused(text)


def test_an_instruction_is_called_by_what_stands_before_its_shape() -> None:
    lines = hlo.read(programs.OUT_OF_PLACE).computations["region_0.0_spmd"]
    assert [lines[0].name, lines[3].name, lines[-1].name] == ["%param", "%copy.6", "%tuple.14"]
