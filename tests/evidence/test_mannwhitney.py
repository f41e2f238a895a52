"""The U test agrees with SciPy's, and breaks ties so that the sides differ least."""

from __future__ import annotations

import importlib
import random
from itertools import combinations
from typing import Any

import pytest

from evidence import mannwhitney


@pytest.fixture(scope="module")
def scipy() -> Any:
    """SciPy's statistics, which take a second to import."""
    return importlib.import_module("scipy.stats")


def _samples(count: int, *, shift: float, seed: int) -> list[float]:
    chance = random.Random(f"{count} {seed}")
    return [chance.gauss(shift, 1) for _ in range(count)]


@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (7, 7), (10, 4), (20, 20)])
def test_few_samples_have_the_exact_p_of_scipy(
    scipy: Any, sizes: tuple[int, int], shift: float
) -> None:
    first, second = (_samples(n, shift=shift * i, seed=i) for i, n in enumerate(sizes))
    expected = scipy.mannwhitneyu(first, second, method="exact").pvalue
    assert mannwhitney.two_sided_p(first, second) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shift", [0.0, 0.3, -1.0])
@pytest.mark.parametrize("sizes", [(21, 21), (30, 50), (100, 10)])
def test_many_samples_have_the_normal_p_of_scipy(
    scipy: Any, sizes: tuple[int, int], shift: float
) -> None:
    first, second = (_samples(n, shift=shift * i, seed=i) for i, n in enumerate(sizes))
    asked = {"method": "asymptotic", "use_continuity": False}
    expected = scipy.mannwhitneyu(first, second, **asked).pvalue
    assert mannwhitney.two_sided_p(first, second) == pytest.approx(expected, rel=1e-9)


def test_the_distribution_is_what_counting_every_ordering_gives() -> None:
    ranks = range(7)
    us = [sum(a > b for a in one for b in set(ranks) - set(one)) for one in combinations(ranks, 3)]
    for u in range(13):
        found = mannwhitney.at_most(u, first=3, second=4)
        assert found == pytest.approx(sum(one <= u for one in us) / len(us))


def test_equal_samples_do_not_differ() -> None:
    assert mannwhitney.two_sided_p([1.0] * 5, [1.0] * 5) == 1.0


def test_ties_count_against_a_difference() -> None:
    assert mannwhitney.least_u([1, 2, 3], [4, 5, 6]) == 0
    assert mannwhitney.least_u([1, 2, 4], [4, 5, 6]) == 1
    assert mannwhitney.least_u([4, 5, 6], [1, 2, 4]) == 1
    assert mannwhitney.least_u([1, 5, 5], [5, 5, 6]) == 4


def test_the_sides_may_be_exchanged() -> None:
    first, second = _samples(8, shift=0, seed=1), _samples(9, shift=1, seed=2)
    p = mannwhitney.two_sided_p(first, second)
    assert p == pytest.approx(mannwhitney.two_sided_p(second, first))
