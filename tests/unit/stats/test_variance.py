"""Variances and what they say of each other, against SciPy and against known truths."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.stats.variance import (
    Variance,
    digamma,
    moderated,
    prior_variance,
    successive_variance,
    t_quantile,
    t_tail,
    trigamma,
    variance_of,
)


# scipy.special.digamma, scipy.special.polygamma(1)
@pytest.mark.parametrize(
    ("x", "first", "second"),
    [
        (0.1, -10.423754940411076, 101.43329915079276),
        (0.5, -1.9635100260214235, 4.934802200544679),
        (2.0, 0.42278433509846713, 0.6449340668482264),
        (37.5, 3.6109483445963386, 0.027025382266785015),
    ],
)
def test_digamma_and_trigamma_are_those_of_scipy(x: float, first: float, second: float) -> None:
    assert digamma(x) == pytest.approx(first, rel=1e-9)
    assert trigamma(x) == pytest.approx(second, rel=1e-9)


def test_a_step_adds_nothing_to_the_successive_variance() -> None:
    source = random.Random(1)
    values = [source.gauss(0, 1) + (100 if at >= 10 else 0) for at in range(20)]
    assert successive_variance(values).value == pytest.approx(1.0, rel=0.5)
    assert variance_of(values).value > 2000


def test_the_successive_variance_is_on_average_that_of_the_values() -> None:
    source = random.Random(2)
    for count in (2, 4, 5, 6, 20):
        values = ([source.gauss(0, 3) for _ in range(count)] for _ in range(6000))
        found = statistics.fmean(successive_variance(one).value for one in values)
        # Neighbouring differences share a value, so this is off by a little.
        assert 0.95 * 9 < found < 1.15 * 9


def chi_squared(source: random.Random, freedom: int) -> float:
    return sum(source.gauss(0, 1) ** 2 for _ in range(freedom)) / freedom


def test_the_prior_of_many_variances_is_what_they_were_drawn_from() -> None:
    """True variances are 4 x 8 / chi-squared of 8; each is estimated with 5 degrees of freedom."""
    source = random.Random(3)
    drawn = [4 / chi_squared(source, 8) * chi_squared(source, 5) for _ in range(4000)]
    prior = prior_variance([Variance(value=one, freedom=5) for one in drawn])
    assert prior.value == pytest.approx(4, rel=0.05)
    assert prior.freedom == pytest.approx(8, rel=0.2)


def test_variances_that_differ_by_chance_alone_have_a_prior_of_great_weight() -> None:
    source = random.Random(4)
    found = [Variance(value=chi_squared(source, 5), freedom=5) for _ in range(2000)]
    prior = prior_variance(found)
    assert prior.value == pytest.approx(1, rel=0.05) and prior.freedom > 100


def test_a_variance_is_moderated_by_as_much_as_the_prior_weighs() -> None:
    own, prior = Variance(value=4.0, freedom=2), Variance(value=1.0, freedom=6)
    assert moderated(own, prior) == Variance(value=1.75, freedom=8)
    assert moderated(own, Variance(value=1.0, freedom=math.inf)).value == 1.0


# scipy.stats.t.isf(level, freedom), scipy 1.17
QUANTILES = [
    (1, 0.25, 1.0),
    (1, 0.0002, 1591.54922),
    (2, 0.05, 2.91998558),
    (3.5, 0.005, 5.08570222),
    (5, 0.25, 0.726686844),
    (5, 0.0002, 8.36341799),
    (8, 0.05, 1.85954804),
    (30, 0.005, 2.74999565),
    (1000, 0.0002, 3.55209662),
]
# scipy.stats.t.sf(value, freedom)
TAILS = [
    (0.5, 1, 0.35241638234956674),
    (2.0, 2, 0.09175170953613698),
    (3.0, 5, 0.015049623948731293),
    (1.5, 4.5, 0.10010954282807676),
    (6, 8, 0.00016169661094257446),
    (0.1, 30, 0.4605048058951356),
    (-1.0, 3, 0.8044988905221148),
]


@pytest.mark.parametrize(("freedom", "level", "value"), QUANTILES)
def test_quantiles_are_those_of_scipy(freedom: float, level: float, value: float) -> None:
    assert t_quantile(level, freedom) == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize(("value", "freedom", "level"), TAILS)
def test_tails_are_those_of_scipy(value: float, freedom: float, level: float) -> None:
    assert t_tail(value, freedom) == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("freedom", [1, 2.5, 7, 100])
def test_half_lies_above_nothing_and_the_halves_mirror_each_other(freedom: float) -> None:
    assert t_tail(0.0, freedom) == pytest.approx(0.5)
    assert t_quantile(0.5, freedom) == pytest.approx(0.0, abs=2e-6)
    assert t_quantile(0.9, freedom) == -t_quantile(0.1, freedom)


@settings(deadline=None)
@given(st.floats(min_value=1e-5, max_value=0.5), st.floats(min_value=1, max_value=200))
def test_a_quantile_is_what_its_tail_says(level: float, freedom: float) -> None:
    assert t_tail(t_quantile(level, freedom), freedom) == pytest.approx(level, rel=1e-4)


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=50), st.floats(min_value=0.01, max_value=10))
def test_further_out_lies_less(value: float, further: float) -> None:
    assert t_tail(value + further, 4) < t_tail(value, 4)


# scipy.stats.norm.isf(level)
@pytest.mark.parametrize(
    ("level", "value"), [(0.025, 1.959964), (2.9e-7, 4.997760), (1e-9, 5.997807)]
)
def test_with_infinite_freedom_it_is_the_normal_distribution(level: float, value: float) -> None:
    assert t_quantile(level, math.inf) == pytest.approx(value, abs=1e-5)
    assert t_quantile(level, 1e7) == pytest.approx(value, abs=1e-4)
