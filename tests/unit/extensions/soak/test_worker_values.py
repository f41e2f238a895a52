"""The inputs and exact results of a soak, computed in another way than `worker_values` does."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from busbw.collectives import COLLECTIVES
from busbw.extensions.soak.worker_values import SoakValues
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build

DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "int32": np.int32}


def _words(collective: str, dtype: str = "float32", op: str = "", **changes: Any) -> SoakValues:
    operations = COLLECTIVES[collective].reduce_ops
    op = op or (operations[0] if operations else "none")
    case = build.case(
        collective=collective, reduce_op=op, placement="out_of_place", dtype=dtype, **changes
    )
    return SoakValues(case, np.dtype(DTYPES[dtype]))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_sums_of_soak_inputs_are_equal_in_every_order_of_additions(
    collective: str, dtype: str, ranks: int
) -> None:
    words = _words(collective, dtype, ranks=ranks)
    chance = random.Random(0)
    for number in range(4):
        starts = [words.starting_values(rank, number) for rank in range(ranks)]
        assert all(np.isfinite(start).all() for start in starts)
        expected = [words.values_after(rank, number, 1)[0] for rank in range(ranks)]
        for _ in range(10):
            chance.shuffle(starts)
            added = starts[0].copy()
            for start in starts[1:]:
                added += start
            blocks = [added[0]] * ranks if collective == "all_reduce" else added
            assert np.array_equal(np.stack(expected), blocks)
            assert added.any()


def test_the_sums_of_soak_inputs_range_from_the_smallest_to_the_largest_normal_numbers() -> None:
    words = _words("all_reduce", ranks=8)
    largest = [float(np.abs(words.values_after(0, number, 1)).max()) for number in range(4)]
    assert largest[0] < 1e-30
    assert largest[3] > 1e30
    assert largest == sorted(largest)


def test_integer_inputs_of_a_soak_use_their_high_bits_and_their_sums_wrap_around() -> None:
    words = _words("all_reduce", "int32")
    starts = [words.starting_values(rank, 0)[0].astype(np.int64) for rank in range(4)]
    assert all(abs(int(start.max())) > 2**30 for start in starts)
    wrapped = (sum(starts) + 2**31) % 2**32 - 2**31
    assert np.array_equal(words.values_after(2, 0, 1)[0], wrapped)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_expected_maximum_of_a_soak_is_the_maximum_of_the_inputs(dtype: str) -> None:
    words = _words("all_reduce", dtype, "max")
    starts = np.stack([words.starting_values(rank, 1)[0] for rank in range(4)])
    assert np.array_equal(words.values_after(3, 1, 1)[0], starts.max(axis=0))


def test_soak_inputs_of_collectives_that_only_move_values_use_all_bits_of_the_mantissa() -> None:
    starts = _words("permute", ranks=8).starting_values(0, 0)
    fractions = (np.frexp(starts)[0] * 2**24).astype(np.int64)
    assert all(((fractions >> bit) & 1).any() for bit in range(23))


def test_the_expected_results_of_a_soak_are_the_inputs_that_the_collective_moves() -> None:
    brought: Mapping[str, Callable[[Any, int], Any]] = {
        "permute": lambda starts, rank: [starts[rank - 1][0]],
        "all_gather": lambda starts, rank: [start[0] for start in starts],
        "all_to_all": lambda starts, rank: [start[rank] for start in starts],
    }
    for name, expected in brought.items():
        words = _words(name)
        starts = [words.starting_values(rank, 3) for rank in range(4)]
        for rank in range(4):
            got, exact = words.values_after(rank, 3, 1), np.stack(expected(starts, rank))
            assert np.array_equal(got.view(np.uint32), exact.view(np.uint32)), name


def test_the_soak_inputs_of_groups_along_an_axis_differ_between_the_groups() -> None:
    words = _words("all_gather", ranks=4, mesh="2x2", axes="y")
    assert not np.array_equal(words.values_after(0, 0, 1), words.values_after(2, 0, 1))
    assert np.array_equal(words.values_after(0, 0, 1), words.values_after(1, 0, 1))


def test_the_first_wrong_word_of_a_soak_is_named_with_its_rank_and_element_and_bits() -> None:
    words = _words("permute", payload_bytes=65536)
    right = {rank: np.resize(words.values_after(rank, 0, 1)[0], 16384) for rank in range(4)}
    assert words.find_mismatch(0, right) == ""
    right[2][[100, 16000]] *= -1
    text = words.find_mismatch(0, right)
    assert text.startswith("rank 2 (") and "), element 100: " in text
    assert text.endswith("(bit 31)")


def test_a_soak_reports_a_minus_zero_in_the_place_of_a_zero_as_a_wrong_word() -> None:
    words = _words("permute", "float16", payload_bytes=65536)
    number = next(n for n in range(words.draw_count) if (words.values_after(0, n, 1) == 0).any())
    got = np.resize(words.values_after(0, number, 1)[0], 32768)
    got[got == 0] = -0.0
    assert words.find_mismatch(number, {0: got}).endswith(": 0x8000, expected 0x0 (bit 15)")


def test_a_soak_refuses_a_sum_over_too_many_ranks_for_an_exact_result_in_the_dtype() -> None:
    with pytest.raises(MeasuringError, match="float16 holds no exact sum over 4096 ranks"):
        _words("all_reduce", "float16", ranks=4096).max_exact_iterations()
