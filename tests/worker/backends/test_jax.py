"""The real JAX back end on virtual CPU devices: what it measures, proves and refuses."""

from __future__ import annotations

import pytest

from busbw.model import Failure, FailureKind, Run, Spec
from tests.worker.backends import real

pytestmark = real.needs("jax")


def spec(payload_bytes: int, dtype: str = "float32") -> Spec:
    return Spec(framework="jax", payload_bytes=payload_bytes, dtype=dtype)


@pytest.fixture(scope="module")
def results() -> dict[tuple[int, str], Run | Failure]:
    wanted = [
        *((size, "float32") for size in (4, 100, 1024, 2**20)),
        (1024, "int32"),
        (1024, "float16"),
        (1024, "bfloat16"),
    ]
    found = real.launch([spec(*one) for one in wanted], ranks=4)
    return dict(zip(wanted, found))


@pytest.mark.parametrize("size", [4, 100, 1024, 2**20])
def test_every_payload_is_summed_and_checked_on_every_rank(
    results: dict[tuple[int, str], Run | Failure], size: int
) -> None:
    run = results[size, "float32"]

    assert isinstance(run, Run), run
    assert run.proof.collectives == {"all-reduce": 4}
    assert run.proof.payload_copies == 0
    assert run.values_checked % size == 0
    assert run.values_checked >= 3 * size


@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_other_dtypes_are_exact_too(
    results: dict[tuple[int, str], Run | Failure], dtype: str
) -> None:
    assert isinstance(results[1024, dtype], Run), results[1024, dtype]


def test_bfloat16_that_xla_sums_as_float32_is_no_number(
    results: dict[tuple[int, str], Run | Failure],
) -> None:
    failure = results[1024, "bfloat16"]

    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_A_COLLECTIVE
    assert "f32" in failure.message


@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_from_two_is_measured(ranks: int) -> None:
    (run,) = real.launch([spec(4096)], ranks=ranks)

    assert isinstance(run, Run), run


def test_the_predicted_peak_is_within_a_quarter_of_the_measured_one() -> None:
    (run,) = real.launch([spec(2**26)], ranks=4)

    assert isinstance(run, Run), run
    assert run.peak_memory_bytes is not None and run.predicted_memory_bytes is not None
    assert 0.75 < run.predicted_memory_bytes / run.peak_memory_bytes < 1.25


def test_a_chain_without_its_sums_is_not_a_collective() -> None:
    found = real.sabotaged("jax", "program._sum = lambda values: values + values")

    assert "NOT_A_COLLECTIVE" in found


def test_a_sum_over_half_the_ranks_is_not_the_collective() -> None:
    sabotage = """
    import jax
    halves = [[0, 1], [2, 3]]
    program._sum = lambda values: jax.lax.psum(values, program.RANKS, axis_index_groups=halves)
    whole = program.jax.shard_map
    program.jax.shard_map = lambda *args, **options: whole(*args, check_vma=False, **options)
    """
    found = real.sabotaged("jax", sabotage)

    assert "NOT_A_COLLECTIVE" in found


def test_one_wrong_element_on_one_rank_is_a_wrong_result_that_names_it() -> None:
    sabotage = """
    right = program.JaxProgram.run
    def wrong(self, iterations):
        right(self, iterations)
        first = self._state[0]
        self._state = (first.at[2 * 1024 + 700].multiply(2), *self._state[1:])
    program.JaxProgram.run = wrong
    """
    found = real.sabotaged("jax", sabotage)

    assert "WRONG_RESULT" in found
    assert "rank 2, element 700" in found


def test_a_skipped_round_shows_in_the_value() -> None:
    sabotage = """
    right = program.JaxProgram.run
    program.JaxProgram.run = lambda self, iterations: right(self, iterations - self.step)
    """
    assert "WRONG_RESULT" in real.sabotaged("jax", sabotage)
