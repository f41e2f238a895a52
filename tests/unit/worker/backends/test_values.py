"""Exact values as arrays: the inputs of each rank, and named wrong elements of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import Draw
from busbw.model.case import Case
from busbw.model.words import FailureKind
from busbw.worker.backends import values as held
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.values import CaseValues
from tests.helpers import build

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY_DTYPES = ("float32", "float16", "int32")
RANKS = range(2, 10)
# Not a multiple of any period or chunk, and long enough for several of these.
COUNT = 4 * 131


def _case(**changes: Any) -> Case:
    return build.case(payload_bytes=4 * COUNT, **changes)


def _values(dtype: str = "float32", **changes: Any) -> CaseValues:
    reduces = COLLECTIVES[changes.get("collective", "all_reduce")].reduce_ops
    case = _case(dtype=dtype, **{"reduce_op": "sum" if reduces else "none", **changes})
    return CaseValues(case, np.dtype(dtype))


def _right(values: CaseValues, rank: int, number: int = 0, rounds: int = 1) -> Array:
    """Return the complete right result of a rank."""
    blocks = values.exact_values_after(rank, number, rounds)
    length = COUNT // len(blocks)
    return np.concatenate([np.resize(block, length) for block in blocks])


def _refused(values: CaseValues, rank: int, got: Array, number: int = 0, rounds: int = 1) -> str:
    with pytest.raises(MeasuringError) as caught:
        values.check_result_of_rank(rank, number, rounds, got)
    assert caught.value.kind is FailureKind.WRONG_RESULT
    return str(caught.value)


def _sum_as_tree(values: list[Array]) -> Array:
    """Add values in pairs, then the sums in pairs."""
    while len(values) > 1:
        odd = [values[-1]] if len(values) % 2 else []
        values = [a + b for a, b in zip(values[::2], values[1::2])] + odd
    return values[0]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_chain_of_sums_in_its_dtype_is_exact_up_to_its_longest_exact_length(
    dtype: str, ranks: int
) -> None:
    values = _values(dtype, ranks=ranks)
    rounds = values.max_exact_iterations()
    held = [values.starting_values(rank, 1) for rank in range(ranks)]
    for _ in range(rounds):
        held = [_sum_as_tree(held)] * ranks
    expected = values.exact_values_after(0, 1, rounds)
    assert held[0].dtype == expected.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(held[0], expected)


def test_a_dtype_that_holds_no_exact_sum_over_the_ranks_is_refused() -> None:
    with pytest.raises(MeasuringError, match="bfloat16 holds no exact sum over 257 ranks") as e:
        CaseValues(_case(dtype="bfloat16", ranks=257), np.float32).max_exact_iterations()
    assert e.value.kind is FailureKind.UNAVAILABLE


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_the_arrays_of_exact_values_have_the_dtype_and_the_blocks_of_the_collective(
    collective: str, dtype: str
) -> None:
    values = _values(dtype, collective=collective)
    draw = Draw(dtype=dtype, reduce_op=values.case.reduce_op, ranks=4, number=2)
    begun, ended = values.starting_values(3, 2), values.exact_values_after(3, 2, 1)
    assert begun.dtype == ended.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(begun, np.array(COLLECTIVES[collective].starting_blocks(draw, 3)))
    np.testing.assert_array_equal(
        ended, np.array(COLLECTIVES[collective].exact_blocks_after(draw, 3, 1))
    )


@pytest.mark.parametrize(("placement", "rounds"), [("in_place", 5), ("out_of_place", 1)])
def test_the_expected_result_of_a_chain_out_of_place_is_the_result_of_a_single_iteration(
    placement: str, rounds: int
) -> None:
    values = _values(placement=placement)
    np.testing.assert_array_equal(
        values.exact_values_after(0, 0, 5), 4.0**rounds / 4 * values.exact_values_after(0, 0, 1)
    )


def test_the_exact_values_of_a_rank_depend_on_its_position_in_its_group_and_on_the_group() -> None:
    values = _values(ranks=8, mesh="2x4", axes="y")
    alone = _values(ranks=4)
    for rank in range(8):
        group, position = divmod(rank, 4)
        np.testing.assert_array_equal(
            values.starting_values(rank, 1), alone.starting_values(position, 1 + group)
        )
    across = _values(ranks=8, mesh="2x4", axes="x")
    pair = _values(ranks=2)
    for rank in range(8):
        position, group = divmod(rank, 4)
        np.testing.assert_array_equal(
            across.exact_values_after(rank, 0, 1), pair.exact_values_after(position, group, 1)
        )


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_check_of_a_right_result_counts_all_elements_as_checked(collective: str) -> None:
    values = _values(collective=collective)
    parts = len(values.exact_values_after(2, 0, 1))
    size = COLLECTIVES[collective].output_bytes(4 * COUNT, 4) // 4
    got = np.concatenate(
        [np.resize(block, size // parts) for block in values.exact_values_after(2, 0, 1)]
    )
    assert values.check_result_of_rank(2, 0, 1, got) == got.size


@pytest.mark.parametrize("place", [0, 1, 130, 131, 262, COUNT - 1])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all", "all_gather"])
def test_the_check_of_a_result_names_the_first_wrong_element_with_both_values(
    collective: str, place: int
) -> None:
    values = _values(collective=collective)
    got = _right(values, 2)
    wrong = got.copy()
    wrong[place:] += 1
    message = _refused(values, 2, wrong)
    assert message == f"rank 2, element {place}: {got[place] + 1}, expected {got[place]}"


def test_the_check_of_a_result_in_pieces_names_a_wrong_element_by_its_index_in_the_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held, "_CHUNK_ELEMENTS", 16)
    values = _values(collective="all_to_all")
    for place in (15, 16, 100, 300, COUNT - 1):
        wrong = _right(values, 1)
        wrong[place] += 1
        assert _refused(values, 1, wrong).startswith(f"rank 1, element {place}: ")
    assert values.check_result_of_rank(1, 0, 1, _right(values, 1)) == COUNT


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_a_result_with_another_number_of_elements_than_expected_is_wrong(
    collective: str, change: int
) -> None:
    values = _values(collective=collective)
    count = COLLECTIVES[collective].output_bytes(4 * COUNT, 4) // 4
    message = _refused(values, 0, np.resize(values.exact_values_after(0, 0, 1)[0], count + change))
    assert message == f"rank 0 holds {count + change} elements, expected {count}"


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_inputs_of_every_rank_are_written_up_to_the_last_element(
    monkeypatch: pytest.MonkeyPatch, collective: str, threads: bool
) -> None:
    monkeypatch.setattr(held, "_CHUNK_ELEMENTS", 16)
    monkeypatch.setattr(held, "_MIN_PARALLEL_PAYLOAD_BYTES", 1 if threads else 2**40)
    values = _values(collective=collective)
    size = COLLECTIVES[collective].input_bytes(4 * COUNT, 4) // 4
    buffers = {rank: np.full(size, np.nan, np.float32) for rank in (1, 3)}
    values.write_starting_values(2, buffers)
    for rank, memory in buffers.items():
        blocks = values.starting_values(rank, 2)
        whole = [np.resize(block, size // len(blocks)) for block in blocks]
        np.testing.assert_array_equal(memory, np.concatenate(whole))


@pytest.mark.parametrize("threads", [False, True])
def test_the_results_of_all_ranks_are_checked_and_counted_with_one_or_several_threads(
    monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    monkeypatch.setattr(held, "_MIN_PARALLEL_PAYLOAD_BYTES", 1 if threads else 2**40)
    values = _values()
    results = {rank: _right(values, rank) for rank in range(4)}
    assert values.check_results(0, 1, results) == 4 * COUNT
    for rank in range(4):
        wrong = results[rank].copy()
        wrong[9] += 1
        with pytest.raises(MeasuringError, match=f"rank {rank}, element 9: "):
            values.check_results(0, 1, {**results, rank: wrong})
