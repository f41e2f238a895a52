"""The real JAX back end on virtual CPU devices: what it measures, proves and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.collectives import COLLECTIVES
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport
from busbw.driver.schedules import RoundRunner, Side, StackWorkers
from busbw.model import variables
from busbw.model.case import CaseSpec
from busbw.model.words import FailureKind
from tests.helpers import build
from tests.helpers import frameworks as real
from tests.helpers.frameworks import Results, run_of

pytestmark = real.needs("jax")

PAYLOAD = 4096
SIZES = (4, 100, 1024, 2**20)


def _spec(payload_bytes: int = PAYLOAD, **changes: Any) -> CaseSpec:
    collective = COLLECTIVES[changes.get("collective", "all_reduce")]
    ordinary = {
        "reduce_op": "sum" if collective.reduce_ops else "none",
        "placement": collective.placements[0],
    }
    return build.spec(payload_bytes=payload_bytes, **{**ordinary, **changes})


SPECS = {
    **{f"{size} bytes": _spec(size) for size in SIZES},
    **{name: _spec(collective=name) for name in COLLECTIVES},
    "all_reduce out of place": _spec(placement="out_of_place"),
    **{op: _spec(reduce_op=op) for op in ("max", "min")},
    **{dtype: _spec(dtype=dtype) for dtype in ("int32", "float16", "bfloat16")},
    **{f"permute of {dtype}": _spec(collective="permute", dtype=dtype) for dtype in ("int32",)},
    **{axis: _spec(mesh="2x2", axes=axis) for axis in "xy"},
    "gather along y": _spec(collective="all_gather", mesh="2x2", axes="y"),
    "permute along x": _spec(collective="permute", mesh="2x2", axes="x"),
    "dispatch": _spec(clock="dispatch"),
    "dispatch out of place": _spec(clock="dispatch", placement="out_of_place"),
    "device": _spec(clock="device"),
    "device gather": _spec(clock="device", collective="all_gather"),
}


@pytest.fixture(scope="module")
def results() -> Results:
    return dict(zip(SPECS, real.launch(list(SPECS.values()), ranks=4)))


@pytest.mark.parametrize("size", SIZES)
def test_jax_sums_every_payload_and_checks_every_element_on_every_rank(
    results: Results, size: int
) -> None:
    run = run_of(results, f"{size} bytes")
    assert run.proof.collectives == {"all-reduce": 4}
    assert run.proof.payload_copies == 0
    assert (run.proof.array_bytes, run.proof.groups) == (size, ((0, 1, 2, 3),))
    # Every element of four ranks: as many as one rank's bytes.
    assert run.values_checked % size == 0
    assert run.values_checked >= 5 * size


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_proof_accepts_the_jax_program_of_every_collective_and_its_result_is_checked(
    results: Results, name: str
) -> None:
    collective, run = COLLECTIVES[name], run_of(results, name)
    assert list(run.proof.collectives) == [collective.hlo_name]
    assert run.iterations % run.proof.collectives[collective.hlo_name] == 0
    assert run.proof.array_bytes == collective.output_bytes(PAYLOAD, 4)
    assert run.proof.groups == ((0, 1, 2, 3),)
    assert (run.proof.payload_copies == 0) == collective.is_copy_free_on_cpus
    assert run.values_checked % (collective.output_bytes(PAYLOAD, 4)) == 0
    assert run.proof.read_from == "optimised HLO"


def test_a_jax_program_out_of_place_has_one_collective_in_each_turn_of_its_loop(
    results: Results,
) -> None:
    runs = [run_of(results, name) for name in ("all_reduce out of place", "all_to_all", "permute")]
    assert [dict(run.proof.collectives) for run in runs] == [
        {"all-reduce": 1},
        {"all-to-all": 1},
        {"collective-permute": 1},
    ]
    assert min(run.iterations for run in runs) > 1


@pytest.mark.parametrize("name", ["max", "min", "int32", "float16", "permute of int32"])
def test_jax_measures_reduce_ops_and_dtypes_other_than_the_default(
    results: Results, name: str
) -> None:
    proof = run_of(results, name).proof
    expected = {"collective-permute": 1} if "permute" in name else {"all-reduce": 4}
    assert (proof.array_bytes, proof.collectives) == (PAYLOAD, expected)


def test_a_bfloat16_all_reduce_that_xla_computes_in_float32_is_refused(results: Results) -> None:
    text = "XLA's CPU compiler computes this bfloat16 all-reduce in float32"
    real.refused(results["bfloat16"], FailureKind.OTHER_DTYPE, text)


@pytest.mark.parametrize(
    ("name", "hlo", "groups"),
    [
        ("y", "all-reduce", ((0, 1), (2, 3))),
        ("x", "all-reduce", ((0, 2), (1, 3))),
        ("gather along y", "all-gather", ((0, 1), (2, 3))),
        ("permute along x", "collective-permute", ((0, 2), (1, 3))),
    ],
)
def test_a_jax_collective_along_an_axis_runs_over_the_groups_of_the_axis(
    results: Results, name: str, hlo: str, groups: tuple[tuple[int, ...], ...]
) -> None:
    run = run_of(results, name)
    assert list(run.proof.collectives) == [hlo]
    assert run.proof.groups == groups
    assert run.proof.array_bytes == PAYLOAD


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "y", "max"])
def test_a_jax_run_by_the_host_clock_has_the_time_of_the_host_clock_and_its_phases(
    results: Results, name: str
) -> None:
    run = run_of(results, name)
    real.check_clock(run, "host")
    assert run.compiled_memory_bytes is not None and run.compiled_memory_bytes >= PAYLOAD


@pytest.mark.parametrize("name", ["dispatch", "dispatch out of place"])
def test_a_jax_run_by_the_dispatch_clock_has_a_sample_for_each_single_call(
    results: Results, name: str
) -> None:
    run = run_of(results, name)
    real.check_clock(run, "dispatch")
    assert run.proof.collectives == {"all-reduce": 1}


@pytest.mark.parametrize("name", ["device", "device gather"])
def test_a_jax_run_by_the_device_clock_has_a_time_of_each_rank_and_a_host_time(
    results: Results, name: str
) -> None:
    real.check_clock(run_of(results, name), "device")


@pytest.mark.exhaustive
@pytest.mark.parametrize("ranks", [2, 3])
def test_jax_measures_with_two_and_with_three_ranks(ranks: int) -> None:
    (run,) = real.launch([_spec()], ranks=ranks)
    assert run_of({"": run}, "").proof.groups == (tuple(range(ranks)),)


# What a worker that follows another one does with a case, and what JAX says that it compiled.
_AFTER_ANOTHER = """
import jax
from busbw import wire
from busbw.model import variables
from busbw.model.launch import LaunchId
from busbw.model.words import DeviceClass
from busbw.worker import backends, host, measure
from tests.helpers import build
loaded = []
jax.monitoring.register_event_listener(
    lambda event, **_: loaded.append(event) if event.endswith("/cache_hits") else None
)
real.prepare("jax", DeviceClass.CPU)
backend = backends.load("jax", DeviceClass.CPU, 4)
loaded.clear()
host_memory = host.HostMemoryGuard(backend.all_gather)
session = measure.MeasuringWorker(backend, LaunchId(name="1"), host_memory)
case = build.case(framework="jax", strategy="psum")
run = session.measure(wire.to_json(measure.CaseRequest(case=case, plan=real.QUICK, key=None)))
say([len(loaded), run.values_checked > 0, run.proof.collectives])
"""


@pytest.mark.exhaustive
def test_the_proof_also_checks_a_jax_program_that_an_earlier_worker_compiled(
    tmp_path: Path,
) -> None:
    script = f"os.environ[{variables.PROGRAMS_VARIABLE!r}] = {str(tmp_path)!r}\n" + _AFTER_ANOTHER
    (first,), (second,) = (real.run_script(script) for _ in range(2))
    assert first == [0, True, {"all-reduce": 4}]
    assert second == [1, True, {"all-reduce": 4}]


@pytest.mark.exhaustive
def test_two_interleaved_jax_stacks_keep_their_compiled_programs_in_separate_folders() -> None:
    bundle = Bundle()
    try:
        stacks = {
            side: StackWorkers(worker_specs={"jax": real.worker_spec("jax", 4)}) for side in Side
        }
        keys = real.keys_of([_spec()], ranks=4)
        RoundRunner(
            Executor(LocalTransport(bundle)), keys, real.QUICK, stacks, can_overlap=True
        ).run()
        kept = sorted((bundle.path / "programs" / "jax").iterdir())
        assert [folder.name for folder in kept] == ["candidate", "reference"]
        assert all(list(folder.glob("jit_run_chain-*")) for folder in kept)
    finally:
        bundle.remove()


@pytest.mark.exhaustive
def test_the_predicted_peak_memory_of_jax_is_within_a_quarter_of_the_measured_peak() -> None:
    (run,) = real.launch([_spec(2**26)], ranks=4)
    run = run_of({"": run}, "")
    assert run.peak_memory_bytes is not None and run.predicted_memory_bytes is not None
    assert 0.75 < run.predicted_memory_bytes / run.peak_memory_bytes < 1.25
