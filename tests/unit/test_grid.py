"""Options to Specs and Specs to Cases: the grid's order, the choice of a device, every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from busbw import grid
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.grid import MeasuredDevices
from busbw.model.case import CaseSpec, GridError, GridOptions
from busbw.model.machine import Probe
from busbw.model.words import Clock, DeviceClass
from tests.helpers import build


def _options(**changes: Any) -> GridOptions:
    ordinary: dict[str, Any] = {
        "frameworks": ("jax",),
        "names_frameworks": True,
        "payloads": (1024,),
    }
    return GridOptions(**{**ordinary, **changes})


def _grid(**changes: Any) -> tuple[CaseSpec, ...]:
    return grid.select_specs(_options(**changes))


_GATHER = "jax-all_gather-out_of_place-default-float32-1K"
_PERMUTE = "jax-permute-out_of_place-default"
_SUM = "jax-default-float32-1K"


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        # By framework, then strategy, then payload; each framework takes the strategies it knows.
        (
            {
                "frameworks": ("tensorflow", "jax"),
                "strategies": ("default", "ring", "psum"),
                "payloads": (1024, 2048),
            },
            [
                *("tensorflow-default-float32-1K", "tensorflow-default-float32-2K"),
                *("tensorflow-ring-float32-1K", "tensorflow-ring-float32-2K"),
                *("jax-default-float32-1K", "jax-default-float32-2K"),
                *("jax-psum-float32-1K", "jax-psum-float32-2K"),
            ],
        ),
        (
            {
                "collectives": ("permute", "all_reduce"),
                "dtypes": ("int32", "float32"),
                "payloads": (1024, 2048),
            },
            [
                *(f"{_PERMUTE}-int32-1K", f"{_PERMUTE}-int32-2K"),
                *(f"{_PERMUTE}-float32-1K", f"{_PERMUTE}-float32-2K"),
                *("jax-default-int32-1K", "jax-default-int32-2K"),
                *("jax-default-float32-1K", "jax-default-float32-2K"),
            ],
        ),
        # Collectives without a reduce op appear once.
        (
            {
                "collectives": ("all_reduce", "reduce_scatter", "permute"),
                "reduce_ops": ("max", "sum", "min"),
            },
            [
                *("jax-max-default-float32-1K", _SUM, "jax-min-default-float32-1K"),
                *("jax-reduce_scatter-out_of_place-default-float32-1K", f"{_PERMUTE}-float32-1K"),
            ],
        ),
        (
            {
                "collectives": ("all_reduce", "all_gather"),
                "placement": ("out_of_place", "in_place"),
            },
            ["jax-out_of_place-default-float32-1K", _SUM, _GATHER],
        ),
        ({"placement": ("default", "in_place")}, [_SUM]),
        ({"payloads": (1026,), "dtypes": ("float16",)}, ["jax-default-float16-1026"]),
        # Strategies are those of the all-reduce.
        (
            {"collectives": ("all_reduce", "permute"), "strategies": ("psum", "default")},
            ["jax-psum-float32-1K", _SUM, f"{_PERMUTE}-float32-1K"],
        ),
        (
            {
                "frameworks": ("tensorflow",),
                "collectives": ("all_reduce", "permute"),
                "reduce_ops": ("sum", "max"),
            },
            ["tensorflow-default-float32-1K"],
        ),
    ],
)
def test_options_of_a_session_give_the_expected_specs_in_the_expected_order(
    changes: dict[str, Any], ids: list[str]
) -> None:
    assert [spec.id for spec in _grid(**changes)] == ids


def test_every_spec_that_options_can_request_has_a_unique_id() -> None:
    grid = _grid(
        frameworks=("jax", "tensorflow", "fake"),
        strategies=("default", "psum", "ring", "fake"),
        collectives=tuple(COLLECTIVES),
        reduce_ops=REDUCE_OPS,
        placement=("in_place", "out_of_place"),
        dtypes=tuple(DTYPES),
        payloads=(1024, 2048),
    )
    assert len(grid) == len({spec.id for spec in grid})
    assert {spec.collective for spec in grid} == set(COLLECTIVES)


BOTH = {"frameworks": ("jax", "tensorflow")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frameworks": ()}, "nothing to measure"),
        ({"dtypes": ()}, "nothing to measure"),
        ({"payloads": ()}, "nothing to measure"),
        ({"strategies": ("ring",)}, "jax has none of .* ring; it has default, psum"),
        (
            {"collectives": ("all_reduce", "reduce_scatter"), "reduce_ops": ("max",)},
            "reduce_scatter has no reduce op max; it has sum$",
        ),
        (
            {"collectives": ("all_gather",), "placement": ("in_place",)},
            "all_gather has no placement in_place; it has out_of_place$",
        ),
        (
            {"collectives": ("reduce_scatter",), "placement": ("in_place",)},
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
            {
                "frameworks": ("tensorflow",),
                "names_frameworks": False,
                "collectives": ("permute",),
            },
            ".*tensorflow has no permute; it has all_reduce",
        ),
    ],
)
def test_options_that_request_no_valid_spec_are_an_error_that_names_the_valid_values(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(GridError, match=f"^{message}"):
        _grid(**changes)


def _target(
    *probes: Probe,
    device: DeviceClass | None = None,
    ranks: int | None = None,
    named: tuple[str, ...] = (),
) -> MeasuredDevices:
    return grid.choose_devices(device=device, ranks=ranks, probes=probes, named_frameworks=named)


CPU = build.probe(build.device_set(), tpu="no libtpu", gpu="no CUDA")


def test_a_session_without_the_option_device_prefers_a_tpu_to_a_gpu_and_a_gpu_to_a_cpu() -> None:
    every = [build.device_set(device) for device in DeviceClass]
    assert DeviceClass.TPU is _target(build.probe(*every)).device
    without_tpu = [device_set for device_set in every if device_set.device is not DeviceClass.TPU]
    assert DeviceClass.GPU is _target(build.probe(*without_tpu)).device


TPU = build.probe(build.device_set(DeviceClass.TPU))
UNREACHED = build.probe(framework="tensorflow", tpu="not built for it", cpu="import failed")


@pytest.mark.parametrize(
    ("probes", "options", "message"),
    [
        ([CPU], {"device": DeviceClass.TPU}, r"no TPU to measure on \(jax: no libtpu\)"),
        ([TPU], {"device": DeviceClass.TPU, "ranks": 8}, r"4 ranks \(TPU\), 8 requested"),
        (
            [TPU, UNREACHED],
            {"named": ("tensorflow",)},
            "tensorflow does not reach the TPU: not built for it",
        ),
    ],
)
def test_a_requested_device_or_framework_that_is_missing_is_an_error_and_is_not_replaced(
    probes: list[Probe], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(GridError, match=message):
        _target(*probes, **options)


@pytest.mark.parametrize(
    ("changes", "mesh", "lying"),
    [
        ({}, "2x4", "2x4"),
        ({"mesh": "8x1"}, "8x1", "2x4"),
        ({"ranks": 4}, "", ""),
        ({"ranks": 4, "mesh": "2x2"}, "2x2", ""),
    ],
)
def test_the_environment_key_of_a_slice_has_the_same_shape_for_any_mesh_of_ranks(
    changes: dict[str, Any], mesh: str, lying: str
) -> None:
    target = _target(build.probe(build.device_set(DeviceClass.TPU, ranks=8, mesh="2x4")))
    spec = build.spec(**changes)
    assert (target.key(spec).mesh, target.key_with_device_shape(spec).mesh) == (mesh, lying)
    assert target.key(spec).ranks == target.key_with_device_shape(spec).ranks


TWO_CLOCKS = build.probe(build.device_set(clocks=(Clock.HOST, Clock.DISPATCH)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"strategy": "ring"},
            "jax has no strategy ring for all_reduce on the CPU; it has .*psum",
        ),
        (
            {"collective": "permute", "strategy": "psum"},
            "no strategy psum for permute on the CPU; it has default",
        ),
        ({"framework": "tensorflow"}, "tensorflow does not reach the CPU: import failed"),
        ({"framework": "fake"}, "fake does not reach the CPU: not probed"),
        (
            {"clock": "device"},
            "^jax has no clock device for all_reduce on the CPU; it has default, host, dispatch$",
        ),
        ({"mesh": "2x4"}, r"mesh of 2x4 has 8 ranks, there are 4 \(CPU\); --ranks says how many"),
        ({"mesh": "2x1"}, r"mesh of 2x1 has 2 ranks, there are 4 \(CPU\); --ranks says how many"),
        ({"mesh": "3"}, r"mesh of 3 has 3 ranks, there are 4 \(CPU\); --ranks says how many"),
    ],
)
def test_a_spec_that_the_device_cannot_measure_is_an_error_that_names_the_possible_values(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(GridError, match=message):
        grid.resolve_case(build.spec(**changes), _target(TWO_CLOCKS, UNREACHED))


@pytest.mark.parametrize(
    ("framework", "collective", "strategy"),
    [
        ("jax", "all_gather", "lax"),
        ("jax", "permute", "lax"),
        ("jax", "all_reduce", "psum"),
        ("fake", "all_to_all", "fake"),
    ],
)
def test_the_default_strategy_of_each_collective_is_replaced_by_the_name_of_the_strategy(
    framework: str, collective: str, strategy: str
) -> None:
    target = _target(build.probe(build.device_set(), framework=framework))
    spec = build.spec(framework=framework, collective=collective)
    assert grid.resolve_case(spec, target)[0].strategy == strategy


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
def test_a_payload_that_cannot_be_cut_into_equal_blocks_of_whole_elements_is_refused(
    collective: str, payload_bytes: int, fits: bool
) -> None:
    spec = build.spec(collective=collective, payload_bytes=payload_bytes)
    if fits:
        assert grid.resolve_case(spec, _target(CPU))[0].payload_bytes == payload_bytes
    else:
        with pytest.raises(GridError, match=f"not 4 equal blocks of float32, which {collective}"):
            grid.resolve_case(spec, _target(CPU))


def test_a_payload_along_an_axis_is_cut_into_blocks_for_the_ranks_of_the_group() -> None:
    spec = build.spec(collective="all_gather", payload_bytes=8, mesh="2x2", axes="y")
    assert grid.resolve_case(spec, _target(CPU))[0].group_size == 2
