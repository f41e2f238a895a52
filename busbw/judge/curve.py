"""The curve over all payloads: t(S) = latency + S / bandwidth, by its robust fit.

Numbers in, numbers out: how a curve moved is said in `shape`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Two parameters need more than two sizes, and sizes that are far enough apart to separate them.
LEAST_SIZES = 4
LEAST_SPAN = 16

# The half payload is searched from 1/64 of the smallest size to 64 times the largest, first in
# steps of a factor 4: beyond that, one of the two parts is below the resolution of the clock.
_MARGIN = 64
_STEP = 4.0
_GOLDEN = (math.sqrt(5) - 1) / 2
_NARROWINGS = 24

# From the smallest size to the largest the fitted time must grow by this many times the fit's
# error, and by 5 %, else the bandwidth is unknown.
_LEAST_GROWTH_ERRORS = 3.0
_LEAST_GROWTH = 0.05


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
        """The fitted time for a payload."""
        return self.latency_s + payload_bytes / self.bandwidth_bytes_per_s

    def latency_share(self, payload_bytes: int) -> float:
        """The latency's share of the time for a payload, 0 to 1; the rest is the bytes'."""
        return self.latency_s / self.seconds(payload_bytes)


def fit(points: Mapping[int, float]) -> Curve | None:
    """The curve through `points` (payload bytes to seconds, both positive); None if undetermined.

    The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel
    Computing 20, 1994): t = latency + S / bandwidth, which he also writes (h + S) / bandwidth
    with the half payload h = latency x bandwidth, at which half of the time is latency. For a
    given h the logarithm of the bandwidth is just a location of log(t / (h + S)), so only one
    parameter has to be searched for, and neither part can become negative.

    Errors are those of log time: 10 % have the same weight at every size. The sum of absolute
    errors is least, so that an outlier (caches bend the curve of a CPU) moves it little.

    None for fewer than 4 sizes or a span below a factor of 16, and where the time grows so little
    over all sizes that the fit's own error could be that growth: the bandwidth is unknown then.
    """
    payloads = sorted(points)
    if len(payloads) < LEAST_SIZES or payloads[-1] < LEAST_SPAN * payloads[0]:
        return None
    log_times = [math.log(points[payload]) for payload in payloads]
    half_bytes = _least(lambda half: _absolute(half, payloads, log_times), payloads)
    gaps = _gaps(half_bytes, payloads, log_times)
    log_transfer = statistics.median(gaps)
    errors = [gap - log_transfer for gap in gaps]
    rms = math.sqrt(statistics.fmean(error * error for error in errors))
    growth = math.log((half_bytes + payloads[-1]) / (half_bytes + payloads[0]))
    if growth < max(_LEAST_GROWTH_ERRORS * rms, _LEAST_GROWTH):
        return None
    return Curve(
        latency_s=half_bytes * math.exp(log_transfer),
        bandwidth_bytes_per_s=math.exp(-log_transfer),
        rms_log_error=rms,
    )


def _gaps(half_bytes: float, payloads: Sequence[int], log_times: Sequence[float]) -> list[float]:
    """log(t / (h + S)) by size; on the curve all are the same, the log of the seconds per byte."""
    return [time - math.log(half_bytes + size) for size, time in zip(payloads, log_times)]


def _absolute(half_bytes: float, payloads: Sequence[int], log_times: Sequence[float]) -> float:
    gaps = _gaps(half_bytes, payloads, log_times)
    middle = statistics.median(gaps)
    return math.fsum(abs(gap - middle) for gap in gaps)


def _least(loss: Callable[[float], float], payloads: Sequence[int]) -> float:
    """The half payload of the least loss: the best of a coarse grid, narrowed by golden section."""
    lowest, highest = payloads[0] / _MARGIN, payloads[-1] * _MARGIN
    count = math.ceil(math.log(highest / lowest, _STEP)) + 1
    best = min((lowest * _STEP**power for power in range(count)), key=loss)
    low, high = math.log(best / _STEP), math.log(best * _STEP)
    for _ in range(_NARROWINGS):
        inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if loss(math.exp(inner)) <= loss(math.exp(outer)):
            high = outer
        else:
            low = inner
    return min(0.0, math.exp((low + high) / 2), key=loss)
