"""The exact data: whatever the order of a sum, it is exact; whatever goes wrong, it shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from busbw.worker.backends import expected

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY_DTYPES = ("float32", "float16", "int32")
RANKS = range(2, 10)
ORDERS = 6


def _starts(dtype: str, ranks: int) -> list[Array]:
    """What every rank starts with, in its own dtype."""
    return [expected.start(dtype, ranks, rank).astype(dtype) for rank in range(ranks)]


def _sum_in_order(values: list[Array], order: list[int]) -> Array:
    """One after the other, each partial sum rounded to the dtype."""
    total = values[order[0]]
    for rank in order[1:]:
        total = total + values[rank]
    return total


def _sum_as_tree(values: list[Array]) -> Array:
    """In pairs, then pairs of pairs."""
    while len(values) > 1:
        odd = [values[-1]] if len(values) % 2 else []
        values = [a + b for a, b in zip(values[::2], values[1::2])] + odd
    return values[0]


def _after_rounds(dtype: str, ranks: int, rounds: int) -> Array:
    """A chain of sums as ranks would do it: in `dtype`, every time the last one's result."""
    values = _starts(dtype, ranks)
    for _ in range(rounds):
        values = [_sum_as_tree(values)] * ranks
    return values[0]


def _is_exact(value: float, dtype: str) -> bool:
    """Whether `dtype` holds `value`: its odd factor fits the bits, its exponent the range."""
    exact = expected.EXACT[dtype]
    if value == 0:
        return True
    mantissa, exponent = math.frexp(abs(value))
    odd = int(mantissa * 2**53)
    bits = odd.bit_length() - ((odd & -odd).bit_length() - 1)
    return bits <= exact.bits and exact.least_exponent < exponent <= exact.greatest_exponent + 1


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_sum_is_exact_in_any_order(dtype: str, ranks: int) -> None:
    random = np.random.default_rng(ranks)
    starts, wanted = _starts(dtype, ranks), expected.after(dtype, ranks, 1)
    orders = [list(range(ranks)), list(reversed(range(ranks)))]
    orders += [[int(rank) for rank in random.permutation(ranks)] for _ in range(ORDERS)]
    for order in orders:
        np.testing.assert_array_equal(_sum_in_order(starts, order), wanted)
    np.testing.assert_array_equal(_sum_as_tree(starts), wanted)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_chain_stays_exact_to_its_last_round(dtype: str, ranks: int) -> None:
    rounds = expected.most_rounds(dtype, ranks)
    wanted = expected.after(dtype, ranks, rounds)
    got = _after_rounds(dtype, ranks, rounds)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got.astype(np.float64), wanted)


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [
        *((dtype, ranks) for dtype in NUMPY_DTYPES for ranks in (2, 4, 8)),
        *((dtype, ranks) for dtype in ("float32", "float16") for ranks in (3, 5, 7, 9)),
    ],
)
def test_one_round_more_would_not_be_exact(dtype: str, ranks: int) -> None:
    rounds = expected.most_rounds(dtype, ranks) + 1
    with np.errstate(over="ignore"):
        got = _after_rounds(dtype, ranks, rounds).astype(np.float64)
    assert not np.array_equal(got, expected.after(dtype, ranks, rounds))


@pytest.mark.parametrize("dtype", expected.EXACT)
@pytest.mark.parametrize("ranks", [*RANKS, 12, 16, 64, 128])
def test_every_value_of_a_chain_is_one_that_the_dtype_holds(dtype: str, ranks: int) -> None:
    for rounds in range(1, expected.most_rounds(dtype, ranks) + 1):
        assert all(_is_exact(value, dtype) for value in expected.after(dtype, ranks, rounds))
    starts = [expected.start(dtype, ranks, rank) for rank in range(ranks)]
    assert all(_is_exact(value, dtype) for value in np.concatenate(starts))


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("float32", 2, 251),
        ("float32", 4, 125),
        ("float32", 3, 15),
        ("bfloat16", 8, 83),
        ("bfloat16", 3, 5),
        ("bfloat16", 9, 2),
        ("bfloat16", 129, 1),
        ("bfloat16", 257, 0),
        ("int32", 2, 28),
    ],
)
def test_how_long_a_chain_may_be_depends_on_bits_and_exponents(
    dtype: str, ranks: int, rounds: int
) -> None:
    assert rounds == expected.most_rounds(dtype, ranks)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_rank_starts_with_other_values(ranks: int) -> None:
    starts = {expected.start("float32", ranks, rank).tobytes() for rank in range(ranks)}
    assert ranks == len(starts)


@pytest.mark.parametrize("ranks", RANKS)
def test_no_rank_starts_with_the_result(ranks: int) -> None:
    wanted = expected.after("float32", ranks, 1)
    for rank in range(ranks):
        assert not np.array_equal(expected.start("float32", ranks, rank), wanted)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_rank_left_out_or_counted_twice_shows(dtype: str, ranks: int) -> None:
    starts, wanted = _starts(dtype, ranks), expected.after(dtype, ranks, 1)
    for rank in range(ranks):
        others = starts[:rank] + starts[rank + 1 :]
        assert not np.array_equal(_sum_as_tree(others), wanted)
        assert not np.array_equal(_sum_as_tree([*starts, starts[rank]]), wanted)


@pytest.mark.parametrize("ranks", RANKS)
def test_one_rank_in_the_place_of_another_shows(ranks: int) -> None:
    starts, wanted = _starts("float32", ranks), expected.after("float32", ranks, 1)
    for rank in range(ranks):
        replaced = [*starts[:rank], starts[(rank + 1) % ranks], *starts[rank + 1 :]]
        assert not np.array_equal(_sum_as_tree(replaced), wanted)


@pytest.mark.parametrize("dtype", expected.EXACT)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_skipped_round_shows_in_every_element(dtype: str, ranks: int) -> None:
    rounds = expected.most_rounds(dtype, ranks)
    assert (expected.after(dtype, ranks, rounds) != expected.after(dtype, ranks, rounds - 1)).all()


@pytest.mark.parametrize("ranks", RANKS)
def test_data_have_the_length_of_their_period(ranks: int) -> None:
    assert (expected.period(ranks),) == expected.start("float32", ranks, 0).shape
    assert (expected.period(ranks),) == expected.after("float32", ranks, 1).shape


def test_elements_in_another_order_show() -> None:
    wanted = expected.after("float32", 4, 1)
    assert not np.array_equal(np.roll(wanted, 4), wanted)
    assert not np.array_equal(wanted[::-1], wanted)
