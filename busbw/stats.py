"""Launch times, quantiles and spread of samples; the mean of a few launches with its error.

Numbers in, numbers out. Drops no sample, converts no unit, judges nothing.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Run

LAUNCH_QUANTILE = 0.25
SHOWN_QUANTILES = (0.25, 0.5, 0.9, 0.99)


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0 to 1) of at least one value, linear between order statistics."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def launch_time_s(run: Run) -> float:
    """The time of a launch in seconds: the p25 of its samples.

    Close to the minimum, to which one-sided noise converges, but not hostage to one lucky
    sample.
    """
    return quantile(run.samples_s, LAUNCH_QUANTILE)


def anchors_s(runs: Sequence[Run]) -> tuple[float, ...]:
    """Seconds of one pass of the anchor in each launch, the median; none unless all have one."""
    if not all(run.anchors_s for run in runs):
        return ()
    return tuple(statistics.median(run.anchors_s) for run in runs)


def quantiles_s(run: Run) -> dict[str, float]:
    """p25, p50, p90 and p99 of a launch's samples, in seconds."""
    return {f"p{100 * q:.0f}": quantile(run.samples_s, q) for q in SHOWN_QUANTILES}


def robust_deviation(values: Sequence[float]) -> float:
    """1.4826 x the median absolute deviation, which a single outlier does not change much."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def relative_mad(values: Sequence[float]) -> float:
    """The robust standard deviation over the median."""
    return robust_deviation(values) / statistics.median(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom that the error is known with."""

    mean: float
    error: float
    freedom: float

    def lower(self, level: float) -> float:
        """The bound that the true mean lies below with probability `level` at most."""
        return self.mean - t_quantile(level, self.freedom) * self.error

    def upper(self, level: float) -> float:
        """The bound that the true mean lies above with probability `level` at most."""
        return self.mean + t_quantile(level, self.freedom) * self.error


def of_launches(values: Sequence[float]) -> Estimate:
    """The mean of at least two values, one per launch, with its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean=statistics.fmean(values), error=error, freedom=len(values) - 1)


def shift_of_samples(before: Sequence[float], now: Sequence[float]) -> float:
    """By how much log time moved between two launches: the Hodges-Lehmann estimate.

    For samples taken in turn, the median over all means of two of the log ratios of neighbours
    (J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", 1963): a stall
    of one sample, or of half a dozen, hardly moves it. For launches of unequal length, which were
    not taken in turn, the median of the log ratios of all pairs.
    """
    if len(before) != len(now):
        return statistics.median(math.log(b / a) for a in before for b in now)
    ratios = [math.log(b / a) for a, b in zip(before, now)]
    return statistics.median(
        (one + other) / 2 for position, one in enumerate(ratios) for other in ratios[position:]
    )


def t_tail(value: float, freedom: float) -> float:
    """P(T > `value`) for Student's t with `freedom` degrees, which need not be whole.

    By the regularised incomplete beta function: P(T > t) = I_x(f/2, 1/2) / 2, x = f / (f + t^2).
    """
    if value < 0:
        return 1 - t_tail(-value, freedom)
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


@functools.lru_cache(maxsize=4096)
def t_quantile(level: float, freedom: float) -> float:
    """The t that is exceeded with probability `level` (0 < level < 1), to a millionth."""
    if level > 0.5:
        return -t_quantile(1 - level, freedom)
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > level:
        low, high = high, 2 * high
    while high - low > 1e-6 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > level else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), by its continued fraction (NIST Digital Library, 8.17.22) and symmetry."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x)) / a
    return front / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float, terms: int = 300) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from its far end."""
    value = 1.0
    for position in range(terms, 0, -1):
        half = position // 2
        if position % 2:
            d = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            d = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        value = 1 + d / value
    return value
