"""The curve over all payloads, t(S) = latency + S / bandwidth, fitted to times."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Two parameters need more than two sizes, and sizes that are far enough apart to separate them.
_LEAST_SIZES = 4
_LEAST_SPAN = 16

# From the smallest size to the largest the fitted time must grow by this many times the fit's
# error, and by 5 %, else the bandwidth is unknown.
_LEAST_GROWTH_ERRORS = 3.0
_LEAST_GROWTH = 0.05

# With this many times the largest size as half payload all sizes take about the same time.
_FLAT = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """t(S) = `latency_s` + S / `bandwidth_bytes_per_s`.

    `rms_log_error` is the root mean square of log(time / fitted time) over all sizes: about the
    relative error of the fit.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    rms_log_error: float

    def seconds(self, payload_bytes: int) -> float:
        return self.latency_s + payload_bytes / self.bandwidth_bytes_per_s


def fit_curve(points: Mapping[int, float]) -> Curve | None:
    """Fit t = latency + payload / bandwidth to times in seconds by payload in bytes.

    All times and payloads must be positive.

    The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel
    Computing 20, 1994): t = latency + S / bandwidth, which he also writes (h + S) / bandwidth
    with the half payload h = latency x bandwidth, at which half of the time is latency. For a
    given h the logarithm of the bandwidth is just a location of log(t / (h + S)), and the curve of
    the least sum of absolute errors, which an outlier moves little (caches bend the curve of a
    CPU), passes through two of the points. No h below 0 is tried, so that no part is negative.
    Errors are those of log time: 10 % have the same weight at every size.

    None for fewer than 4 sizes or a span below a factor of 16, and where the time grows so little
    over all sizes that the fit's own error could be that growth: the bandwidth is unknown then.
    """
    if len(points) < _LEAST_SIZES or max(points) < _LEAST_SPAN * min(points):
        return None
    halves = [0.0, _FLAT * max(points), *_through_two(sorted(points.items()))]
    half_bytes = min(halves, key=lambda half: math.fsum(map(abs, _errors(half, points)[1])))
    log_transfer, errors = _errors(half_bytes, points)
    rms = math.sqrt(statistics.fmean(error * error for error in errors))
    growth = math.log((half_bytes + max(points)) / (half_bytes + min(points)))
    if growth < max(_LEAST_GROWTH_ERRORS * rms, _LEAST_GROWTH):
        return None
    return Curve(
        latency_s=half_bytes * math.exp(log_transfer),
        bandwidth_bytes_per_s=math.exp(-log_transfer),
        rms_log_error=rms,
    )


def _errors(half_bytes: float, points: Mapping[int, float]) -> tuple[float, list[float]]:
    """Return the median of log(t / (h + S)), which is log(1 / bandwidth), and the residuals."""
    logs = [math.log(time_s / (half_bytes + size)) for size, time_s in points.items()]
    middle = statistics.median(logs)
    return middle, [log - middle for log in logs]


def _through_two(points: Sequence[tuple[int, float]]) -> Iterator[float]:
    """Yield the half payload of each curve through two points of which the larger takes longer."""
    for (size, time_s), (larger, longer_s) in itertools.combinations(points, 2):
        if longer_s > time_s and time_s * larger > longer_s * size:
            yield (time_s * larger - longer_s * size) / (longer_s - time_s)
