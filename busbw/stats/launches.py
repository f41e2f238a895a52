"""Launch times, quantiles and spread; means of a few launches, and the levels of sequential tests.

No function drops a sample or converts a unit.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busbw.model.launch import Run
from busbw.stats.variance import t_quantile

LAUNCH_QUANTILE = 0.25


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile (0 to 1) of at least one value, linear between order statistics."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def launch_time_s(run: Run) -> float:
    """Return the time of a launch in seconds: the p25 of its samples.

    It is close to the minimum, to which one-sided noise converges, and a single lucky sample does
    not decide it.
    """
    return quantile(run.samples_s, LAUNCH_QUANTILE)


# Samples that differ by a smaller share are equal but for rounding.
_EQUAL = 1e-6


def tick_s(samples_s: Sequence[float]) -> float:
    """Return the step of a clock that ticks: the least difference of samples, most of them equal.

    It is 0 where most samples differ from all others, or where all are equal.
    """
    ordered = sorted(samples_s)
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    steps = [gap for gap in gaps if gap > _EQUAL * ordered[0]]
    return min(steps, default=0.0) if 2 * len(steps) < len(gaps) else 0.0


def relative_mad(values: Sequence[float]) -> float:
    """Return 1.4826 x the median absolute deviation over the median of at least one value.

    For normal values it is the standard deviation over the mean; a single outlier hardly changes
    it.
    """
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values) / middle


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its standard error, which is known with `freedom` degrees of freedom."""

    mean: float
    error: float
    freedom: float

    def lower(self, level: float) -> float:
        """Return the bound that the true mean lies below with probability `level` at most."""
        return self.mean - t_quantile(level, self.freedom) * self.error

    def upper(self, level: float) -> float:
        """Return the bound that the true mean lies above with probability `level` at most."""
        return self.mean + t_quantile(level, self.freedom) * self.error


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of at least two independent values by the sample mean."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean=statistics.fmean(values), error=error, freedom=len(values) - 1)


def shift_of_samples(before: Sequence[float], after: Sequence[float]) -> float:
    """Return log(after / before) of two launches: the Hodges-Lehmann estimate.

    For interleaved samples it is the median over all means of two log ratios of neighbours (J. L.
    Hodges and E. L. Lehmann, "Estimates of location based on rank tests", 1963): a stall of a
    sample, or of half a dozen, hardly moves it. For launches of unequal length, which were not
    interleaved, it is the median of the log ratios of all pairs. Both have samples above 0.
    """
    if len(before) != len(after):
        return statistics.median(math.log(b / a) for a in before for b in after)
    ratios = [math.log(b / a) for a, b in zip(before, after)]
    return statistics.median(
        (first + second) / 2 for index, first in enumerate(ratios) for second in ratios[index:]
    )


# Of the integration by Simpson's rule: intervals, and standard deviations below to begin at.
_INTERVALS = 128
_LOWEST = -7.0
# No bound is farther out, in standard deviations.
_HIGHEST = 40.0


def spent(fraction: float, shape: float) -> float:
    """Return the share of an error rate that is spent by `fraction` (0 to 1) of the observations.

    (1 - e^(-shape t)) / (1 - e^-shape), of I. K. Hwang, W. J. Shih and J. S. DeCani, "Group
    sequential designs using a family of type I error probability spending functions", 1990: early
    for a shape above 0 (1 is close to Pocock's test), in proportion for 0, late for one below.
    """
    if shape == 0:
        return fraction
    return math.expm1(-shape * fraction) / math.expm1(-shape)


@functools.lru_cache(maxsize=256)
def look_levels(counts: tuple[int, ...], rate: float, shape: float) -> tuple[float, ...]:
    """Return the one-sided level of the look after each of `counts` observations, in order.

    All looks together then err with probability `rate` (K. K. G. Lan and D. L. DeMets, "Discrete
    sequential boundaries for clinical trials", 1983): at each look the probability to cross its
    bound for the first time is what the spending function gives since the look before. The
    distribution of the sum of the observations that crossed no bound is integrated from look to
    look (P. Armitage, C. K. McPherson and B. C. Rowe, "Repeated significance tests on accumulating
    data", 1969) for normal observations of a known variance. Where the variance is estimated, the
    same levels are applied to Student's t (C. Jennison and B. W. Turnbull, "Group Sequential
    Methods with Applications to Clinical Trials", 2000, section 4.4), which is close, not exact.
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(bound: float, sums: Any, weights: Any, deviation: float, expected: float) -> float:
        """Return how much more often than `expected` sums cross `bound`, one more part added."""
        return float(weights @ ndtr(sums - bound * deviation)) - expected

    simpson = np.array([1.0, *([4.0, 2.0] * (_INTERVALS // 2))[:-1], 1.0]) / 3
    sums, weights = np.zeros(1), np.ones(1)
    levels, begin = list[float](), 0.0
    for before, count in itertools.pairwise((0, *counts)):
        added, deviation = math.sqrt(count - before), math.sqrt(count)
        end = rate * spent(count / counts[-1], shape)
        law = sums / added, weights, deviation / added, end - begin
        bound, begin = brentq(excess, _LOWEST, _HIGHEST, args=law, xtol=1e-9), end
        levels.append(float(ndtr(-bound)))
        values = np.linspace(_LOWEST * deviation, bound * deviation, _INTERVALS + 1)
        density = np.exp(-(((values[:, None] - sums) / added) ** 2) / 2) @ weights
        step = (values[1] - values[0]) / (added * math.sqrt(2 * math.pi))
        sums, weights = values, step * simpson * density
    return tuple(levels)
