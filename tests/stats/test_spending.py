"""Spending functions and the levels of looks, against published bounds and by simulation."""

from __future__ import annotations

import math
import random

import pytest

from busbw.stats.launches import look_levels, spent
from busbw.stats.variance import t_quantile

SHAPES = (-4.0, -1.0, 0.0, 1.0, 3.0)


def _bounds(counts: tuple[int, ...], rate: float, shape: float) -> list[float]:
    """The levels as bounds in standard deviations."""
    return [t_quantile(level, math.inf) for level in look_levels(counts, rate, shape)]


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_spent_at_first_and_all_at_last_and_ever_more_in_between(shape: float) -> None:
    shares = [spent(tenths / 10, shape) for tenths in range(11)]
    assert shares[0] == 0 and shares[-1] == pytest.approx(1)
    assert shares == sorted(set(shares))


def test_a_higher_shape_spends_earlier() -> None:
    halves = [spent(0.5, shape) for shape in SHAPES]
    assert halves == sorted(set(halves))
    assert spent(0.5, 0) == 0.5


def test_a_single_look_has_the_whole_rate() -> None:
    assert look_levels((6,), 0.05, 1.0) == (0.05,)


# K. M. Anderson, the R package gsDesign: gsDesign(k = 3, alpha = 0.025, sfu = sfHSD, sfupar = -4).
def test_the_bounds_are_those_of_gsdesign() -> None:
    assert _bounds((1, 2, 3), 0.025, -4.0) == pytest.approx([3.0107, 2.5465, 1.9992], abs=2e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_looks_err_more_often_than_the_last_alone_and_less_than_their_sum(shape: float) -> None:
    found = look_levels((6, 9, 12, 16, 21, 28, 37, 49), 0.001, shape)
    assert max(found) < 0.001 < sum(found)


@pytest.mark.parametrize("shape", (0.0, 1.0))
def test_so_many_of_normal_sums_cross_any_bound_as_may(shape: float) -> None:
    counts, rate, draws = (2, 3, 5, 9), 0.1, 4000
    bounds = _bounds(counts, rate, shape)
    chance = random.Random(20260104)
    crossed = 0
    for _ in range(draws):
        values = [chance.gauss(0.0, 1.0) for _ in range(counts[-1])]
        crossed += any(
            sum(values[:count]) > bound * math.sqrt(count) for count, bound in zip(counts, bounds)
        )
    assert crossed / draws == pytest.approx(rate, abs=3 * math.sqrt(rate * (1 - rate) / draws))
