"""What is asked for: ids and names, equal cases, and what a Case says of its clock and groups."""

from __future__ import annotations

import dataclasses

import pytest

from busbw.model import Clock, Spec
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
    spec = Spec(framework="jax", payload_bytes=1)
    assert (spec.collective, spec.reduce_op, spec.placement) == ("all_reduce", "sum", "in_place")
    assert (spec.mesh, spec.axes, spec.clock, spec.ranks) == ("", "", "default", None)
