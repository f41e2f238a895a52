"""The real TensorFlow back end on logical CPU devices: what it measures, proves and refuses."""

from __future__ import annotations

import pytest

from busbw.model import Failure, FailureKind, Run, Spec
from tests.worker.backends import real

pytestmark = real.needs("tensorflow")

OTHERS = ("reduction_to_one_device", "hierarchical_copy")


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, int, str], Run | Failure]:
    wanted = [
        *(("default", size, "float32") for size in (4, 100, 1024, 2**26)),
        *((strategy, 4096, "float32") for strategy in OTHERS),
        ("ring", 1024, "float16"),
        ("ring", 1024, "int32"),
    ]
    specs = [
        Spec(framework="tensorflow", strategy=strategy, payload_bytes=size, dtype=dtype)
        for strategy, size, dtype in wanted
    ]
    return dict(zip(wanted, real.launch(specs, ranks=4)))


Results = dict[tuple[str, int, str], "Run | Failure"]


@pytest.mark.parametrize("size", [4, 100, 1024, 2**26])
def test_the_default_is_the_ring_checked_on_every_rank(results: Results, size: int) -> None:
    run = results["default", size, "float32"]

    assert isinstance(run, Run), run
    assert run.proof.collectives == {"CollectiveReduceV2": 4}
    assert run.proof.algorithm == "ring"
    assert run.values_checked >= 3 * size


@pytest.mark.parametrize("strategy", OTHERS)
def test_strategies_that_reduce_to_one_device_say_so(results: Results, strategy: str) -> None:
    run = results[strategy, 4096, "float32"]

    assert isinstance(run, Run), run
    assert set(run.proof.collectives) == {"AddN"}
    assert run.proof.algorithm == strategy


def test_half_precision_is_exact_too(results: Results) -> None:
    assert isinstance(results["ring", 1024, "float16"], Run)


def test_an_algorithm_that_tensorflow_replaced_is_a_failure_and_no_number(
    results: Results,
) -> None:
    failure = results["ring", 1024, "int32"]

    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_A_COLLECTIVE
    assert "AddN" in failure.message


def test_the_predicted_peak_is_within_a_quarter_of_the_measured_one(results: Results) -> None:
    run = results["default", 2**26, "float32"]

    assert isinstance(run, Run), run
    assert run.peak_memory_bytes is not None and run.predicted_memory_bytes is not None
    assert 0.75 < run.predicted_memory_bytes / run.peak_memory_bytes < 1.25


def test_a_skipped_round_shows_in_the_value() -> None:
    sabotage = """
    right = program.TensorflowProgram.run
    program.TensorflowProgram.run = lambda self, iterations: right(self, iterations - 1)
    """
    assert "WRONG_RESULT" in real.sabotaged("tensorflow", sabotage)


def test_a_replica_function_without_its_sum_is_not_a_collective() -> None:
    found = real.sabotaged("tensorflow", "program._all_reduce = lambda values: values + values")

    assert "NOT_A_COLLECTIVE" in found
