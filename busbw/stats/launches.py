"""Launch times, quantiles and spread of samples; the mean of a few launches, and how two differ.

Drops no sample, converts no unit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.launch import Run
from busbw.stats.variance import t_quantile

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


def quantiles_s(run: Run) -> dict[str, float]:
    """p25, p50, p90 and p99 of a launch's samples, in seconds."""
    return {f"p{100 * q:.0f}": quantile(run.samples_s, q) for q in SHOWN_QUANTILES}


def relative_mad(values: Sequence[float]) -> float:
    """The robust standard deviation over the median: a single outlier does not change it much."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values) / middle


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
