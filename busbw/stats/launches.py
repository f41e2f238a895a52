"""Times of launches: quantiles, means, variances, and significance levels of sequential tests.

Each variance has its degrees of freedom, by which several variances are pooled. Results have the
unit of the values that are passed in. SciPy is imported inside the functions that use SciPy,
because most sessions call none of these functions.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.model.launch import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class Variance:
    """An estimate of a variance, with the degrees of freedom of the estimate.

    Attributes:
        value: The variance, in the squared unit of the values.
        degrees_of_freedom: How well the variance is known; infinite if the variance is known
            exactly.

    """

    value: float
    degrees_of_freedom: float


def sum_of_squares_about_mean(values: Sequence[float]) -> float:
    """Return the sum of the squared deviations of one or more `values` from their mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def sample_variance(values: Sequence[float]) -> Variance:
    """Return the sample variance of n values (at least two), with n - 1 degrees of freedom."""
    degrees_of_freedom = len(values) - 1
    return Variance(
        value=sum_of_squares_about_mean(values) / degrees_of_freedom,
        degrees_of_freedom=degrees_of_freedom,
    )


# With fewer differences, leaving out the largest would lose too much of the information.
_MIN_DIFFERENCES_TO_TRIM = 4


def variance_from_differences(values: Sequence[float]) -> Variance:
    """Estimate a variance from the successive differences of at least two values.

    The estimate is half the mean square of the differences. A slow drift of the values hardly
    changes the estimate (J. von Neumann, "Distribution of the ratio of the mean square successive
    difference to the variance", 1941). With four differences or more, a single step of the values
    does not change the estimate either: the largest difference is left out, and the mean of the
    others is corrected for the omission. The estimate from n differences has 2/3 n degrees of
    freedom.
    """
    squares = [(after - before) ** 2 for before, after in itertools.pairwise(values)]
    count = float(len(squares))
    if count >= _MIN_DIFFERENCES_TO_TRIM:
        squares.remove(max(squares))
        count -= _expected_largest_square(len(squares) + 1)
    return Variance(value=math.fsum(squares) / (2 * count), degrees_of_freedom=2 * len(squares) / 3)


@functools.lru_cache(maxsize=1024)
def _expected_largest_square(count: int) -> float:
    """Return the expected value of the largest of `count` squares of standard normal values.

    The expected value is the integral of P(largest > x^2) over x^2, computed by the midpoint rule
    over x.
    """
    steps, width = 2000, 8.0 / 2000
    middles = ((step + 0.5) * width for step in range(steps))
    return math.fsum(2 * x * width * (1 - math.erf(x / math.sqrt(2)) ** count) for x in middles)


def estimate_prior_variance(variances: Sequence[Variance]) -> Variance:
    """Estimate the variance that is typical of several groups, from one variance of each group.

    The method is empirical Bayes. The true variances of the groups are assumed to come from a
    scaled inverse chi-squared distribution, which is fitted to the mean and the variance of the
    logarithms of `variances` (G. K. Smyth, "Linear models and empirical Bayes methods for assessing
    differential expression", 2004, section 6.2). `variances` are at least two, all above 0.

    Returns:
        The scale and the degrees of freedom of the fitted distribution. The degrees of freedom are
        infinite if chance explains all differences between the variances.

    """
    from scipy.special import digamma, polygamma

    centred = [
        math.log(variance.value)
        - digamma(variance.degrees_of_freedom / 2)
        + math.log(variance.degrees_of_freedom / 2)
        for variance in variances
    ]
    mean = math.fsum(centred) / len(centred)
    between = sample_variance(centred).value
    chance = math.fsum(polygamma(1, s2.degrees_of_freedom / 2) for s2 in variances) / len(variances)
    if between <= chance:
        return Variance(value=math.exp(mean), degrees_of_freedom=math.inf)
    half = _inverse_trigamma(between - chance)
    return Variance(
        value=math.exp(mean + digamma(half) - math.log(half)), degrees_of_freedom=2 * half
    )


def pool_with_prior_variance(variance: Variance, prior_variance: Variance) -> Variance:
    """Return the mean of a group's variance and the prior variance of all groups (Smyth, 2004).

    The mean is weighted by degrees of freedom. The prior variance is the result of
    `estimate_prior_variance`. If the prior variance has infinite degrees of freedom, the result is
    the prior variance.
    """
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
    """Return the value that Student's t exceeds with the probability `tail_probability`.

    `tail_probability` is above 0 and below 1. The result is positive if it is below 0.5.
    """
    from scipy.special import stdtrit

    return -float(stdtrit(degrees_of_freedom, tail_probability))


# The time of a launch is this quantile of its samples, the p25.
LAUNCH_QUANTILE = 0.25


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the quantile of one or more `values` at `fraction`, interpolated linearly.

    `fraction` is from 0 (the least value) to 1 (the greatest value), and 0.5 for the median.
    """
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


# busbw.worker.sampling has the same formula, because workers run without busbw.stats and SciPy.
def launch_time_s(run: Run) -> float:
    """Return the time of a launch in seconds: the p25 of its samples.

    Noise mostly adds time, so fast samples are closest to the true time. The p25 (lower quartile)
    is close to the minimum, but does not depend on a single lucky sample.
    """
    return quantile(run.samples_s, LAUNCH_QUANTILE)


# Samples whose relative difference is smaller are equal, apart from rounding.
_MAX_ROUNDING_DIFFERENCE = 1e-6


def clock_tick_s(samples_s: Sequence[float]) -> float:
    """Return the step by which a clock advances, in seconds; 0 if samples show no such step.

    If most samples are equal to another sample, the step is the least difference between unequal
    samples. If all samples are equal, the result is 0.
    """
    ordered = sorted(samples_s)
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    steps = [gap for gap in gaps if gap > _MAX_ROUNDING_DIFFERENCE * ordered[0]]
    return min(steps, default=0.0) if 2 * len(steps) < len(gaps) else 0.0


def robust_stddev(values: Collection[float]) -> float:
    """Return a robust standard deviation of one or more `values`.

    The result is 1.4826 x the median absolute deviation (MAD) from the median. For normal values
    the result is the standard deviation. A single outlier hardly changes the result.
    """
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanEstimate:
    """An estimate of a mean, with the standard error of the estimate.

    Attributes:
        mean: The estimated mean.
        standard_error: The standard deviation of the estimated mean, in the unit of the mean.
        degrees_of_freedom: The degrees of freedom of the standard error, for Student's t.

    """

    mean: float
    standard_error: float
    degrees_of_freedom: float

    def lower_bound(self, probability: float) -> float:
        """Return the bound below which the true mean lies with `probability`, such as 0.025."""
        return self.mean - t_quantile(probability, self.degrees_of_freedom) * self.standard_error

    def upper_bound(self, probability: float) -> float:
        """Return the bound above which the true mean lies with `probability`, such as 0.025."""
        return self.mean + t_quantile(probability, self.degrees_of_freedom) * self.standard_error


def estimate_mean(values: Sequence[float]) -> MeanEstimate:
    """Estimate the mean of at least two independent values, and its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    return MeanEstimate(
        mean=statistics.fmean(values), standard_error=error, degrees_of_freedom=len(values) - 1
    )


def log_ratio_of_samples(
    samples_before_s: Sequence[float], samples_after_s: Sequence[float]
) -> float:
    """Return log(after / before) of two launches, from their samples in seconds.

    If both launches have the same number of samples, the samples are assumed to be interleaved, and
    for each index the two samples with this index give a log ratio. The result is then the
    Hodges-Lehmann estimate: the median of the means of all pairs of log ratios (J. L. Hodges and E.
    L. Lehmann, "Estimates of location based on rank tests", 1963). A stall during a few samples
    hardly changes this estimate. If the numbers of samples differ, the result is the median log
    ratio over all pairs of a sample before and a sample after.
    """
    if len(samples_before_s) != len(samples_after_s):
        return statistics.median(
            math.log(after / before) for before in samples_before_s for after in samples_after_s
        )
    ratios = [math.log(after / before) for before, after in zip(samples_before_s, samples_after_s)]
    return statistics.median(
        (first + second) / 2 for index, first in enumerate(ratios) for second in ratios[index:]
    )


# `look_significance_levels` integrates by Simpson's rule over this many intervals. The integral
# begins at _LOWEST_SIGMAS standard deviations.
_SIMPSON_INTERVALS = 128
_LOWEST_SIGMAS = -7.0
# The search for a bound ends at this many standard deviations.
_HIGHEST_SIGMAS = 40.0


def spent_error_fraction(observed_fraction: float, shape: float) -> float:
    """Return the fraction of its error rate that a sequential test may have spent so far.

    The error rate is the probability that the test errs at any look, a moment at which the test can
    decide. `observed_fraction` is the number of observations so far, divided by the number at the
    last look (0 to 1). With a `shape` above 0, the early looks spend more than their proportion (1
    is close to Pocock's test). With a `shape` below 0, the late looks spend more. With 0, all looks
    spend in proportion.

    The result is (1 - e^(-shape observed_fraction)) / (1 - e^-shape), from I. K. Hwang, W. J. Shih
    and J. S. DeCani, "Group sequential designs using a family of type I error probability spending
    functions", 1990.
    """
    if shape == 0:
        return observed_fraction
    return math.expm1(-shape * observed_fraction) / math.expm1(-shape)


@functools.lru_cache(maxsize=256)
def look_significance_levels(
    observation_counts: tuple[int, ...], error_rate: float, shape: float
) -> tuple[float, ...]:
    """Return the one-sided significance level of each look of a sequential test.

    A look is a moment at which the test can decide. If nothing changed, the probability that the
    test errs at any look is `error_rate`. Each look spends a part of `error_rate`: the probability
    that the sum of the observations crosses its bound at this look, and crossed no bound at the
    looks before (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical
    trials", 1983).

    The distribution of the sums that crossed no bound is integrated from look to look (P. Armitage,
    C. K. McPherson and B. C. Rowe, "Repeated significance tests on accumulating data", 1969), for
    normal observations of a known variance. With an estimated variance, callers apply the same
    levels to Student's t, which is an approximation (C. Jennison and B. W. Turnbull, "Group
    Sequential Methods with Applications to Clinical Trials", 2000, section 4.4).

    Args:
        observation_counts: The number of observations at each look, in ascending order.
        error_rate: The probability of an error at all looks together.
        shape: The argument `shape` of `spent_error_fraction`, which says how much of `error_rate`
            has been spent up to each look.

    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(
        upper_limit: float, sums: Any, weights: Any, deviation: float, expected: float
    ) -> float:
        """Return the probability that the next sum exceeds `upper_limit`, minus `expected`.

        `sums` are the sums that crossed no bound at earlier looks, with the probabilities
        `weights`. `deviation` is the standard deviation of the next sum, divided by that of the
        observations since the last look.
        """
        return float(weights @ ndtr(sums - upper_limit * deviation)) - expected

    simpson = np.array([1.0, *([4.0, 2.0] * (_SIMPSON_INTERVALS // 2))[:-1], 1.0]) / 3
    sums, weights = np.zeros(1), np.ones(1)
    levels, begin = list[float](), 0.0
    for before, count in itertools.pairwise((0, *observation_counts)):
        added, deviation = math.sqrt(count - before), math.sqrt(count)
        end = error_rate * spent_error_fraction(count / observation_counts[-1], shape)
        excess_arguments = sums / added, weights, deviation / added, end - begin
        bound, begin = (
            brentq(excess, _LOWEST_SIGMAS, _HIGHEST_SIGMAS, args=excess_arguments, xtol=1e-9),
            end,
        )
        levels.append(float(ndtr(-bound)))
        values = np.linspace(_LOWEST_SIGMAS * deviation, bound * deviation, _SIMPSON_INTERVALS + 1)
        density = np.exp(-(((values[:, None] - sums) / added) ** 2) / 2) @ weights
        step = (values[1] - values[0]) / (added * math.sqrt(2 * math.pi))
        sums, weights = values, step * simpson * density
    return tuple(levels)
