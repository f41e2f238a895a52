"""Variances and priors of variances, compared with SciPy and with known distributions."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from scipy.special import polygamma

from busbw.stats.launches import (
    Variance,
    estimate_prior_variance,
    pool_with_prior_variance,
    sample_variance,
    variance_from_differences,
)


def test_a_step_in_a_series_does_not_increase_the_variance_of_successive_differences() -> None:
    source = random.Random(1)
    values = [source.gauss(0, 1) + (100 if index >= 10 else 0) for index in range(20)]
    assert variance_from_differences(values).value == pytest.approx(1.0, rel=0.5)
    assert sample_variance(values).value > 2000


def test_the_variance_of_successive_differences_is_on_average_the_variance_of_the_values() -> None:
    source = random.Random(2)
    for count in (2, 4, 5, 6, 20):
        values = ([source.gauss(0, 3) for _ in range(count)] for _ in range(6000))
        mean = statistics.fmean(variance_from_differences(series).value for series in values)
        # Neighbouring differences share a value, so this is off by a little.
        assert 0.95 * 9 < mean < 1.15 * 9


def chi_squared(source: random.Random, degrees_of_freedom: int) -> float:
    return sum(source.gauss(0, 1) ** 2 for _ in range(degrees_of_freedom)) / degrees_of_freedom


def test_the_prior_of_many_variances_equals_the_distribution_of_the_true_variances() -> None:
    """Estimate true variances, 4 x 8 / chi-squared of 8, with 5 degrees of freedom each."""
    source = random.Random(3)
    drawn = [4 / chi_squared(source, 8) * chi_squared(source, 5) for _ in range(4000)]
    prior = estimate_prior_variance(
        [Variance(value=value, degrees_of_freedom=5) for value in drawn]
    )
    assert prior.value == pytest.approx(4, rel=0.05)
    assert prior.degrees_of_freedom == pytest.approx(8, rel=0.2)


def test_the_prior_of_three_variances_fits_the_sample_variance_of_their_logarithms() -> None:
    variances = [Variance(value=4.0**power, degrees_of_freedom=4) for power in range(3)]
    prior = estimate_prior_variance(variances)
    # The logarithms are 0, log 4 and 2 log 4.
    excess = math.log(4) ** 2 - polygamma(1, 2)
    assert polygamma(1, prior.degrees_of_freedom / 2) == pytest.approx(excess)


def test_variances_that_differ_only_by_chance_have_a_prior_of_many_degrees_of_freedom() -> None:
    source = random.Random(4)
    variances = [Variance(value=chi_squared(source, 5), degrees_of_freedom=5) for _ in range(2000)]
    prior = estimate_prior_variance(variances)
    assert prior.value == pytest.approx(1, rel=0.05) and prior.degrees_of_freedom > 100


def test_the_pooled_variance_of_a_sample_and_a_prior_is_weighted_by_degrees_of_freedom() -> None:
    sample, prior = (
        Variance(value=4.0, degrees_of_freedom=2),
        Variance(value=1.0, degrees_of_freedom=6),
    )
    assert pool_with_prior_variance(sample, prior) == Variance(value=1.75, degrees_of_freedom=8)
    assert (
        pool_with_prior_variance(sample, Variance(value=1.0, degrees_of_freedom=math.inf)).value
        == 1.0
    )
