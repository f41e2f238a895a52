"""Launch times, quantiles and spread of samples. Drops no sample, converts no unit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

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
