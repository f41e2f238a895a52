"""Variances with their degrees of freedom, and how variances are pooled.

SciPy is imported in the functions that call it, because most sessions call none of them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Variance:
    """An estimate of a variance, with its degrees of freedom.

    The degrees of freedom are infinite if the variance is known exactly.
    """

    value: float
    degrees_of_freedom: float


def sum_of_squares_about_mean(values: Sequence[float]) -> float:
    """Return the sum of the squared deviations of at least one value from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def sample_variance(values: Sequence[float]) -> Variance:
    """Return the sample variance of at least two values."""
    degrees_of_freedom = len(values) - 1
    return Variance(
        value=sum_of_squares_about_mean(values) / degrees_of_freedom,
        degrees_of_freedom=degrees_of_freedom,
    )


# With fewer differences, leaving out the largest would lose too much of the information.
_MIN_TRIMMED = 4


def variance_from_differences(values: Sequence[float]) -> Variance:
    """Estimate a variance from the successive differences of at least two values.

    The estimate is half the mean square of the differences. A slow drift of the values hardly
    changes it (J. von Neumann, "Distribution of the ratio of the mean square successive difference
    to the variance", 1941). With four differences or more, a single step does not change it either:
    the largest difference is left out, and the mean is corrected for that. The estimate from n
    differences has 2/3 n degrees of freedom.
    """
    squares = [(after - before) ** 2 for before, after in itertools.pairwise(values)]
    count = float(len(squares))
    if count >= _MIN_TRIMMED:
        squares.remove(max(squares))
        count -= _expected_largest_square(len(squares) + 1)
    return Variance(value=math.fsum(squares) / (2 * count), degrees_of_freedom=2 * len(squares) / 3)


@functools.lru_cache(maxsize=1024)
def _expected_largest_square(count: int) -> float:
    """Return the mean of the largest of `count` squares of standard normal values.

    The mean is the integral of P(largest > x^2) over x^2, computed by the midpoint rule over x.
    """
    steps, width = 2000, 8.0 / 2000
    middles = ((step + 0.5) * width for step in range(steps))
    return math.fsum(2 * x * width * (1 - math.erf(x / math.sqrt(2)) ** count) for x in middles)


def estimate_prior_variance(variances: Sequence[Variance]) -> Variance:
    """Estimate the prior distribution of variances, from at least two variances above 0.

    The method is empirical Bayes. The true variances are assumed to come from a scaled inverse
    chi-squared distribution, which is fitted to the mean and the variance of the logarithms of
    `variances` (G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential
    expression", 2004, section 6.2).

    Returns:
        The scale of the fitted distribution, and its degrees of freedom. They are infinite if
        chance explains all differences between the variances.

    """
    from scipy.special import digamma, polygamma

    centred = [
        math.log(variance.value)
        - digamma(variance.degrees_of_freedom / 2)
        + math.log(variance.degrees_of_freedom / 2)
        for variance in variances
    ]
    mean = math.fsum(centred) / len(centred)
    between = math.fsum((value - mean) ** 2 for value in centred) / (len(centred) - 1)
    chance = math.fsum(polygamma(1, s2.degrees_of_freedom / 2) for s2 in variances) / len(variances)
    if between <= chance:
        return Variance(value=math.exp(mean), degrees_of_freedom=math.inf)
    half = _inverse_trigamma(between - chance)
    return Variance(
        value=math.exp(mean + digamma(half) - math.log(half)), degrees_of_freedom=2 * half
    )


def moderate_variance(variance: Variance, prior_variance: Variance) -> Variance:
    """Return the mean of a variance and its prior, weighted by degrees of freedom (Smyth, 2004)."""
    if math.isinf(prior_variance.degrees_of_freedom):
        return prior_variance
    degrees_of_freedom = variance.degrees_of_freedom + prior_variance.degrees_of_freedom
    value = (
        variance.degrees_of_freedom * variance.value
        + prior_variance.degrees_of_freedom * prior_variance.value
    ) / degrees_of_freedom
    return Variance(value=value, degrees_of_freedom=degrees_of_freedom)


# Newton's method doubles the number of correct digits in each step, so these are enough.
_NEWTON_STEPS = 30


def _inverse_trigamma(value: float) -> float:
    """Return the x > 0 for which trigamma(x) is `value`, by Newton's method on 1 / trigamma."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        x += float(polygamma(1, x) * (1 - polygamma(1, x) / value) / polygamma(2, x))
    return x


def t_quantile(tail_probability: float, degrees_of_freedom: float) -> float:
    """Return the value that Student's t exceeds with `tail_probability`, which is within (0, 1)."""
    from scipy.special import stdtrit

    return -float(stdtrit(degrees_of_freedom, tail_probability))
