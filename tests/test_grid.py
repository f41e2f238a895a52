"""Options to Specs: the grid's order, what each framework knows of it, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from busbw import grid
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.model.case import Asked, GridError, Spec


def _asked(**changes: Any) -> Asked:
    ordinary: dict[str, Any] = {"frameworks": ("jax",), "named": True, "payloads": (1024,)}
    return Asked(**{**ordinary, **changes})


def _grid(**changes: Any) -> tuple[Spec, ...]:
    return grid.specs(_asked(**changes))


def test_the_grid_is_ordered_by_framework_strategy_dtype_and_payload() -> None:
    grid = _grid(
        frameworks=("tensorflow", "jax"),
        strategies=("default", "ring", "psum"),
        dtypes=("float32", "float16"),
        payloads=(1024, 2048),
    )
    assert [spec.id for spec in grid[:3]] == [
        "tensorflow-default-float32-1K",
        "tensorflow-default-float32-2K",
        "tensorflow-default-float16-1K",
    ]
    assert grid[-1].id == "jax-psum-float16-2K"


def test_a_framework_takes_the_strategies_that_it_knows() -> None:
    grid = _grid(frameworks=("jax", "tensorflow"), strategies=("psum", "ring"))
    assert [(s.framework, s.strategy) for s in grid] == [("jax", "psum"), ("tensorflow", "ring")]


def test_collectives_follow_each_other_in_the_order_asked_for_payloads_running_fastest() -> None:
    grid = _grid(
        collectives=("permute", "all_reduce"), dtypes=("int32", "float32"), payloads=(1024, 2048)
    )
    assert [spec.id for spec in grid] == [
        "jax-permute-out_of_place-default-int32-1K",
        "jax-permute-out_of_place-default-int32-2K",
        "jax-permute-out_of_place-default-float32-1K",
        "jax-permute-out_of_place-default-float32-2K",
        "jax-default-int32-1K",
        "jax-default-int32-2K",
        "jax-default-float32-1K",
        "jax-default-float32-2K",
    ]


def test_every_id_of_the_whole_grid_is_unique() -> None:
    grid = _grid(
        frameworks=("jax", "tensorflow", "fake"),
        strategies=("default", "psum", "ring", "fake"),
        collectives=tuple(COLLECTIVES),
        reduce_ops=REDUCE_OPS,
        placements=("in_place", "out_of_place"),
        dtypes=tuple(DTYPES),
        payloads=(1024, 2048),
    )
    assert len(grid) == len({spec.id for spec in grid})
    assert {spec.collective for spec in grid} == set(COLLECTIVES)


@pytest.mark.parametrize(
    ("collective", "placement", "reduce_op"),
    [
        ("all_reduce", "in_place", "sum"),
        ("all_gather", "out_of_place", "none"),
        ("reduce_scatter", "out_of_place", "sum"),
        ("all_to_all", "out_of_place", "none"),
        ("permute", "out_of_place", "none"),
    ],
)
def test_left_alone_a_collective_is_in_place_where_it_can_be(
    collective: str, placement: str, reduce_op: str
) -> None:
    (spec,) = _grid(collectives=(collective,))
    assert (spec.collective, spec.placement, spec.reduce_op) == (collective, placement, reduce_op)


def test_reduce_ops_are_for_collectives_that_have_them_and_the_others_appear_once() -> None:
    grid = _grid(
        collectives=("all_reduce", "reduce_scatter", "permute"), reduce_ops=("max", "sum", "min")
    )
    assert [(spec.collective, spec.reduce_op) for spec in grid] == [
        ("all_reduce", "max"),
        ("all_reduce", "sum"),
        ("all_reduce", "min"),
        ("reduce_scatter", "sum"),
        ("permute", "none"),
    ]


def test_placements_are_taken_as_far_as_the_collective_has_them() -> None:
    grid = _grid(collectives=("all_reduce", "all_gather"), placements=("out_of_place", "in_place"))
    assert [(spec.collective, spec.placement) for spec in grid] == [
        ("all_reduce", "out_of_place"),
        ("all_reduce", "in_place"),
        ("all_gather", "out_of_place"),
    ]


def test_the_default_placement_and_its_name_are_one_spec() -> None:
    assert len(_grid(placements=("default", "in_place"))) == 1


@pytest.mark.parametrize(
    "changes", [{"collectives": ("all_gather",)}, {"reduce_ops": ("max",)}, {"mesh": "2x2"}]
)
def test_what_tensorflow_has_not_drops_it_where_nobody_named_it(changes: dict[str, Any]) -> None:
    grid = _grid(frameworks=("tensorflow", "jax"), named=False, **changes)
    assert [spec.framework for spec in grid] == ["jax"]


def test_tensorflow_takes_its_sum_and_its_all_reduce_out_of_many() -> None:
    grid = _grid(
        frameworks=("tensorflow",),
        collectives=("all_reduce", "permute"),
        reduce_ops=("sum", "max"),
    )
    assert [(spec.collective, spec.reduce_op) for spec in grid] == [("all_reduce", "sum")]


def test_strategies_of_the_all_reduce_leave_other_collectives_to_the_default() -> None:
    grid = _grid(collectives=("all_reduce", "permute"), strategies=("psum", "default"))
    assert [(spec.collective, spec.strategy) for spec in grid] == [
        ("all_reduce", "psum"),
        ("all_reduce", "default"),
        ("permute", "default"),
    ]


def test_ranks_mesh_axes_and_clock_are_in_every_spec() -> None:
    asked = {"ranks": 8, "mesh": "2x4", "axes": "y", "clock": "device"}
    for spec in _grid(**asked, collectives=("all_reduce", "all_gather")):
        assert {name: getattr(spec, name) for name in asked} == asked


BOTH = {"frameworks": ("jax", "tensorflow")}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"frameworks": ()}, "nothing to measure"),
        ({"dtypes": ()}, "nothing to measure"),
        ({"payloads": ()}, "nothing to measure"),
        ({"payloads": (1026,)}, ".*1026 bytes is not a whole number of float32"),
        ({"strategies": ("ring",)}, "jax has none of .* ring; it has default, psum"),
        (
            {"collectives": ("all_reduce", "reduce_scatter"), "reduce_ops": ("max",)},
            "reduce_scatter has no reduce op max; it has sum$",
        ),
        (
            {"collectives": ("all_gather",), "placements": ("in_place",)},
            "all_gather has no placement in_place; it has out_of_place$",
        ),
        (
            {"collectives": ("reduce_scatter",), "placements": ("in_place",)},
            "reduce_scatter has no placement in_place; it has out_of_place$",
        ),
        (
            {**BOTH, "collectives": ("all_gather",)},
            "tensorflow has no all_gather; it has all_reduce",
        ),
        (
            {**BOTH, "reduce_ops": ("max", "min")},
            "tensorflow has no reduce op max, min; it has sum",
        ),
        ({**BOTH, "mesh": "2x2"}, r"tensorflow lays ranks out in no mesh \(2x2\)"),
        (
            {**BOTH, "strategies": ("psum",)},
            "tensorflow has none of the strategies psum; it has default,",
        ),
        (
            {"frameworks": ("tensorflow",), "named": False, "collectives": ("permute",)},
            ".*tensorflow has no permute; it has all_reduce",
        ),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_names_what_can(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(GridError, match=f"^{said}"):
        _grid(**changes)


def test_a_payload_is_a_whole_number_of_elements_of_its_dtype() -> None:
    assert len(_grid(payloads=(1026,), dtypes=("float16",))) == 1
