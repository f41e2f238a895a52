"""What is asked for: ids and names, equal cases, and what a Case says of its clock and groups."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from busbw.model.launch import Injection
from busbw.model.words import MIB, Clock, Extra
from tests import build


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "jax-default-float32-4K"),
        ({"collective": "all_gather"}, "jax-all_gather-default-float32-4K"),
        ({"collective": "permute", "reduce_op": "none"}, "jax-permute-default-float32-4K"),
        ({"reduce_op": "max"}, "jax-max-default-float32-4K"),
        ({"placement": "out_of_place"}, "jax-out_of_place-default-float32-4K"),
        ({"clock": "device"}, "jax-device-default-float32-4K"),
        ({"mesh": "2x4"}, "jax-2x4-default-float32-4K"),
        ({"mesh": "2x4", "axes": "y"}, "jax-2x4-y-default-float32-4K"),
        ({"ranks": 8}, "jax-default-float32-4K"),
    ],
)
def test_an_id_names_what_is_unusual_beside_framework_strategy_dtype_and_payload(
    changes: dict[str, object], name: str
) -> None:
    assert build.spec(**changes).id == name


def test_the_name_of_a_case_is_one_word() -> None:
    assert build.case().name == "jax.all_reduce.psum.float32.4K"


def test_equal_cases_are_equal_values_and_another_protocol_is_another_case() -> None:
    assert build.case() == build.case()
    assert build.case() != build.case(protocol="host/chain1")


def test_no_value_can_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(build.case(), "ranks", 2)  # noqa: B010 - mypy refuses the plain assignment


@pytest.mark.parametrize("clock", Clock)
def test_a_case_s_clock_is_the_first_word_of_its_protocol(clock: Clock) -> None:
    assert clock is build.case(protocol=f"{clock.value}/chain2-two-buffers/system").clock


def test_a_case_without_a_clock_is_no_case_that_can_be_measured() -> None:
    with pytest.raises(ValueError, match="sundial"):
        _ = build.case(protocol="sundial/chain2").clock


def test_without_axes_all_ranks_are_one_group_whatever_the_mesh() -> None:
    assert build.case(ranks=8, mesh="2x4").groups == ((0, 1, 2, 3, 4, 5, 6, 7),)
    assert build.case(ranks=8).group_size == 8


def test_along_an_axis_the_group_is_smaller_than_all_ranks() -> None:
    case = build.case(ranks=8, mesh="2x4", axes="y")
    assert (case.group_size, len(case.groups)) == (4, 2)


def test_a_spec_asks_for_the_usual_where_nothing_is_said() -> None:
    spec = build.spec()
    assert (spec.collective, spec.reduce_op, spec.placement) == ("all_reduce", "sum", "in_place")
    assert (spec.mesh, spec.axes, spec.clock, spec.ranks) == ("", "", "default", None)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "jax all_reduce (psum)"),
        ({"reduce_op": "max"}, "jax all_reduce (psum), max"),
        ({"reduce_op": "none"}, "jax all_reduce (psum)"),
        ({"dtype": "int32"}, "jax all_reduce (psum), int32"),
        ({"placement": "out_of_place"}, "jax all_reduce (psum), out of place"),
        ({"mesh": "2x2", "axes": "y"}, "jax all_reduce (psum), along y"),
    ],
)
def test_the_name_of_a_case_s_group_is_what_all_its_sizes_share(
    changes: dict[str, object], name: str
) -> None:
    assert build.case(**changes).group_name == name
    assert build.case(**changes, payload_bytes=7).group_name == name


@pytest.mark.parametrize(
    ("injection", "text"),
    [
        (Injection(extra=Extra.DELAY, share=0.05), "delay:5%"),
        (Injection(extra=Extra.DELAY, share=0.125, payloads=(MIB,)), "delay:12.5%@1M"),
        (Injection(extra=Extra.DELAY, seconds=20e-6), "delay:20us"),
        (Injection(extra=Extra.DELAY, seconds_per_byte=50e-6 / MIB), "delay:50us/M"),
        (Injection(extra=Extra.DELAY, share=0.1, payloads=(4096, 2 * MIB)), "delay:10%@4K+2M"),
        (Injection(extra=Extra.MEMORY, limit_bytes=512 * MIB), "memory:512M"),
    ],
)
def test_an_injection_is_written_as_it_is_asked_for(injection: Injection, text: str) -> None:
    assert injection.text == text


@pytest.mark.parametrize(
    ("amount", "delay_s"),
    [
        ({"seconds": 0.25}, 0.25),
        ({"share": 0.5}, 1.0),
        ({"seconds_per_byte": 2**-10}, 4.0),
        ({"seconds": 0.25, "share": 0.5, "seconds_per_byte": 2**-10}, 5.25),
        ({}, 0.0),
    ],
)
def test_a_delay_is_fixed_a_share_of_the_time_or_goes_with_the_payload(
    amount: dict[str, Any], delay_s: float
) -> None:
    injection = Injection(extra=Extra.DELAY, **amount)
    assert injection.delay_s(2.0, 4096) == delay_s


def test_without_payloads_an_injection_applies_to_every_case_else_those_of_its_sizes() -> None:
    everywhere = Injection(extra=Extra.DELAY, share=0.1)
    somewhere = Injection(extra=Extra.DELAY, share=0.1, payloads=(4096, MIB))
    sizes = (1024, 4096, MIB)
    found = [
        [injection.applies_to(build.case(payload_bytes=size)) for size in sizes]
        for injection in (everywhere, somewhere)
    ]
    assert found == [[True, True, True], [False, True, True]]
