"""Variances, each with the degrees of freedom that it is known with, and how they are pooled.

SciPy is imported where it is called: most sessions need none of it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Variance:
    """A variance with the degrees of freedom that it is known with; infinite: exactly."""

    value: float
    freedom: float


def squares_of(values: Sequence[float]) -> float:
    """Sum the squares of at least one value about their mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def variance_of(values: Sequence[float]) -> Variance:
    """Return the sample variance of at least two values."""
    freedom = len(values) - 1
    return Variance(value=squares_of(values) / freedom, freedom=freedom)


# Fewer differences have none to spare.
_LEAST_TRIMMED = 4


def successive_variance(values: Sequence[float]) -> Variance:
    """Estimate a variance by half the mean square of successive differences of two values or more.

    A slow drift hardly adds to the estimate (J. von Neumann, "Distribution of the ratio of the mean
    square successive difference to the variance", 1941), and a step adds nothing: of four
    differences or more the largest is left out, with its expectation. The estimate from n
    differences is as certain as a sample variance with 2/3 n degrees of freedom.
    """
    squares = [(after - before) ** 2 for before, after in itertools.pairwise(values)]
    count = float(len(squares))
    if count >= _LEAST_TRIMMED:
        squares.remove(max(squares))
        count -= _expected_largest(len(squares) + 1)
    return Variance(value=math.fsum(squares) / (2 * count), freedom=2 * len(squares) / 3)


@functools.lru_cache(maxsize=1024)
def _expected_largest(count: int) -> float:
    """Return the mean of the largest of `count` squares of standard normal values.

    It is the integral of P(largest > x^2) over x^2, by the midpoint rule over x.
    """
    steps, width = 2000, 8.0 / 2000
    middles = ((step + 0.5) * width for step in range(steps))
    return math.fsum(2 * x * width * (1 - math.erf(x / math.sqrt(2)) ** count) for x in middles)


def prior_variance(variances: Sequence[Variance]) -> Variance:
    """Return the variance to expect of a further case, by empirical Bayes from at least two cases.

    The true variances are assumed to come from a scaled inverse chi-squared distribution, which is
    estimated from the mean and the variance of log s^2 (G. K. Smyth, "Linear models and empirical
    Bayes methods for assessing differential expression", 2004, section 6.2). The value is the
    location of the distribution, and the degrees of freedom are its weight: infinite where the
    variances differ by no more than chance explains. Each must be above 0.
    """
    from scipy.special import digamma, polygamma

    centred = [
        math.log(variance.value) - digamma(variance.freedom / 2) + math.log(variance.freedom / 2)
        for variance in variances
    ]
    mean = math.fsum(centred) / len(centred)
    between = math.fsum((value - mean) ** 2 for value in centred) / (len(centred) - 1)
    chance = math.fsum(polygamma(1, s2.freedom / 2) for s2 in variances) / len(variances)
    if between <= chance:
        return Variance(value=math.exp(mean), freedom=math.inf)
    half = _inverse_trigamma(between - chance)
    return Variance(value=math.exp(mean + digamma(half) - math.log(half)), freedom=2 * half)


def moderated(variance: Variance, prior: Variance) -> Variance:
    """Return the mean of a variance and its prior, weighted by degrees of freedom (Smyth, 2004)."""
    if math.isinf(prior.freedom):
        return prior
    freedom = variance.freedom + prior.freedom
    value = (variance.freedom * variance.value + prior.freedom * prior.value) / freedom
    return Variance(value=value, freedom=freedom)


# Newton's method doubles the number of right digits each time.
_STEPS = 30


def _inverse_trigamma(value: float) -> float:
    """Return the x > 0 of which trigamma(x) is `value`, by Newton's method on 1 / trigamma."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(_STEPS):
        x += float(polygamma(1, x) * (1 - polygamma(1, x) / value) / polygamma(2, x))
    return x


def t_quantile(level: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with probability `level` (0 < level < 1)."""
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, level))
