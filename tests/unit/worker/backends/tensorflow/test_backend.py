"""The real TensorFlow back end on logical CPU devices: what it measures, proves and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.case import CaseSpec
from busbw.model.launch import Run
from busbw.model.words import FailureKind
from tests.helpers import build
from tests.helpers import frameworks as real
from tests.helpers.frameworks import Results, run_of

pytestmark = real.needs("tensorflow")

PAYLOAD = 4096
OTHERS = ("reduction_to_one_device", "hierarchical_copy")
SIZES = (4, 100, 1024)


def _spec(payload_bytes: int = PAYLOAD, **changes: Any) -> CaseSpec:
    return build.spec(framework="tensorflow", payload_bytes=payload_bytes, **changes)


SPECS = {
    **{f"{size} bytes": _spec(size) for size in SIZES},
    **{name: _spec(strategy=name) for name in OTHERS},
    **{dtype: _spec(strategy="ring", dtype=dtype) for dtype in ("float16", "int32")},
    "out of place": _spec(placement="out_of_place"),
    "dispatch": _spec(clock="dispatch"),
    "device": _spec(clock="device"),
}


@pytest.fixture(scope="module")
def results() -> Results:
    return dict(zip(SPECS, real.launch(list(SPECS.values()), ranks=4)))


@pytest.mark.parametrize("size", SIZES)
def test_tensorflow_runs_its_ring_by_default_and_checks_every_element_on_every_rank(
    results: Results, size: int
) -> None:
    run = run_of(results, f"{size} bytes")
    assert run.proof.collectives == {"CollectiveReduceV2": 4}
    assert run.proof.algorithm == "ring"
    assert (run.proof.array_bytes, run.proof.groups) == (size, ((0, 1, 2, 3),))
    assert run.proof.read_from == "executed graph"
    # Every element of four ranks: as many as one rank's bytes.
    assert run.values_checked % size == 0
    # After the warm-up, the short chain and every sample's long one, whatever else there was.
    assert run.values_checked >= (2 + len(run.samples_s)) * size


@pytest.mark.parametrize("strategy", OTHERS)
def test_tensorflow_strategies_that_reduce_on_one_device_record_the_operation_addn(
    results: Results, strategy: str
) -> None:
    run = run_of(results, strategy)
    assert set(run.proof.collectives) == {"AddN"}
    assert run.proof.algorithm == strategy
    assert run.proof.read_from == "executed graph"


def test_tensorflow_measures_float16(results: Results) -> None:
    assert run_of(results, "float16").proof.array_bytes == PAYLOAD


def test_a_case_is_refused_if_tensorflow_replaces_its_algorithm_for_int32(results: Results) -> None:
    real.refused(results["int32"], FailureKind.NOT_A_COLLECTIVE, "AddN")


@pytest.mark.parametrize("name", ["1024 bytes", "out of place", *OTHERS])
def test_a_tensorflow_run_by_the_host_clock_has_the_time_of_the_host_clock_and_its_phases(
    results: Results, name: str
) -> None:
    run = run_of(results, name)
    real.check_clock(run, "host")
    assert run.iterations >= 2
    if name not in OTHERS:
        assert run.proof.collectives == {"CollectiveReduceV2": 4}


def test_a_tensorflow_run_by_the_dispatch_clock_has_a_sample_for_each_single_call(
    results: Results,
) -> None:
    run = run_of(results, "dispatch")
    real.check_clock(run, "dispatch")
    assert run.proof.collectives == {"CollectiveReduceV2": 4}


def test_a_tensorflow_run_by_the_device_clock_has_a_time_of_each_rank_and_a_host_time(
    results: Results,
) -> None:
    real.check_clock(run_of(results, "device"), "device")


@pytest.mark.exhaustive
def test_the_predicted_peak_memory_of_tensorflow_is_within_a_quarter_of_the_measured_peak() -> None:
    (run,) = real.launch([_spec(2**26)], ranks=4)
    assert isinstance(run, Run), run
    assert run.peak_memory_bytes is not None and run.predicted_memory_bytes is not None
    assert 0.75 < run.predicted_memory_bytes / run.peak_memory_bytes < 1.25
