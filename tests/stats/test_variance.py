"""Variances and what they say of each other, against SciPy and against known truths."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from busbw.stats.variance import (
    Variance,
    digamma,
    moderated,
    prior_variance,
    successive_variance,
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
