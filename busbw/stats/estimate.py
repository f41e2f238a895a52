"""The mean of a few launches with its error, and by how much two launches differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .t_distribution import t_quantile


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
