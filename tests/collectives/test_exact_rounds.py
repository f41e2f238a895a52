"""How long a chain may be: to the last round it is exact, one further it would not be."""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, MOST_ROUNDS, Draw

from .simulation import is_exact, kinds

ALL_REDUCE = COLLECTIVES["all_reduce"]


def _draw(dtype: str, ranks: int, reduce_op: str = "sum") -> Draw:
    return Draw(dtype=dtype, reduce_op=reduce_op, ranks=ranks)


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("float32", 2, 251),
        ("float32", 4, 125),
        ("float32", 3, 15),
        ("float16", 4, 13),
        ("bfloat16", 8, 83),
        ("bfloat16", 3, 5),
        ("bfloat16", 9, 2),
        ("bfloat16", 129, 1),
        ("bfloat16", 256, 31),
        ("bfloat16", 257, 0),
        ("int32", 2, 28),
        ("int32", 4, 14),
    ],
)
def test_how_long_a_chain_of_sums_may_be_depends_on_bits_and_exponents(
    dtype: str, ranks: int, rounds: int
) -> None:
    assert ALL_REDUCE.exact_rounds(_draw(dtype, ranks), "in_place") == rounds


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [*range(2, 17), 64, 100])
def test_the_last_round_is_exact_in_every_element(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, ranks)
    last = ALL_REDUCE.exact_rounds(draw, "in_place")
    assert last >= 1
    for rounds in range(1, last + 1):
        (ended,) = ALL_REDUCE.after(draw, 0, rounds)
        assert all(is_exact(one, dtype) for one in ended)


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [
        *((dtype, ranks) for dtype in DTYPES for ranks in (2, 4, 8, 16)),
        *((dtype, ranks) for dtype in ("float32", "bfloat16", "float16") for ranks in (3, 5, 7, 9)),
    ],
)
def test_one_round_more_would_not_be_exact(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, ranks)
    beyond = ALL_REDUCE.exact_rounds(draw, "in_place") + 1
    (ended,) = ALL_REDUCE.after(draw, 0, beyond)
    assert not all(is_exact(one, dtype) for one in ended)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 256, 257])
def test_out_of_place_one_exact_round_is_as_good_as_any_number(dtype: str, ranks: int) -> None:
    draw = _draw(dtype, ranks)
    chained = ALL_REDUCE.exact_rounds(draw, "in_place")
    apart = ALL_REDUCE.exact_rounds(draw, "out_of_place")
    assert apart == (MOST_ROUNDS if chained else 0)


@pytest.mark.parametrize(("name", "reduce_op"), [kind for kind in kinds() if kind[1] != "sum"])
def test_what_adds_nothing_stays_exact(name: str, reduce_op: str) -> None:
    draw = _draw("bfloat16", 250, reduce_op)
    assert COLLECTIVES[name].exact_rounds(draw, COLLECTIVES[name].placements[0]) == MOST_ROUNDS


@pytest.mark.parametrize(
    ("dtype", "ranks", "rounds"),
    [
        ("bfloat16", 128, MOST_ROUNDS),
        ("bfloat16", 129, 0),
        ("float16", 1024, MOST_ROUNDS),
        ("float16", 1025, 0),
    ],
)
def test_a_reduce_scatter_needs_room_for_one_sum_of_two_of_each_rank(
    dtype: str, ranks: int, rounds: int
) -> None:
    assert COLLECTIVES["reduce_scatter"].exact_rounds(_draw(dtype, ranks), "out_of_place") == rounds


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_holds_for_every_draw(dtype: str, number: int) -> None:
    draw = Draw(dtype=dtype, reduce_op="sum", ranks=4, number=number)
    (ended,) = ALL_REDUCE.after(draw, 0, ALL_REDUCE.exact_rounds(draw, "in_place"))
    assert all(is_exact(one, dtype) for one in ended)
