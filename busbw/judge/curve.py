"""The curve over all payloads: t(S) = latency + S / bandwidth, and how far it has moved.

A single size is judged in `case`; here all sizes of one case together give the latency and the
time per byte. Numbers in, numbers out: names no regression, which `regression_shape` does, knows no
policy and rounds no figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from busbw import stats

# Two parameters need more than two sizes, and sizes that are far enough apart to separate them.
LEAST_SIZES = 4
LEAST_SPAN = 16

# The half payload is searched from 1/64 of the smallest size to 64 times the largest, first in
# steps of a factor 4: beyond that, one of the two parts is below the resolution of the clock.
_MARGIN = 64
_STEP = 4.0
_GOLDEN = (math.sqrt(5) - 1) / 2
_NARROWINGS = 24

# Huber's constant: 95 % of the efficiency of least squares where errors are normal.
_HUBER = 1.345
_REWEIGHTINGS = 4

# From the smallest size to the largest the fitted time must grow by this many times the fit's
# error, and by 5 %, else the bandwidth is unknown.
_LEAST_GROWTH_ERRORS = 3.0
_LEAST_GROWTH = 0.05

# No time is known better than to 0.1 %, whatever a few equal launches say.
LEAST_ERROR = 1e-3
_LEAST_RATIO = 1e-2
_LINEARISATIONS = 6
_LEAST_INDEPENDENCE = 1e-6


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeShift:
    """How far one payload's time has moved.

    `log_ratio` is log(now / before) with its `standard_error`; `significant` says that this size
    alone is judged slower.
    """

    payload_bytes: int
    log_ratio: float
    standard_error: float
    significant: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveChange:
    """A relative change of the latency, or of the time per byte (1/bandwidth), and its error."""

    relative: float
    error: float


def fit(points: Mapping[int, float]) -> Curve | None:
    """The curve through `points` (payload bytes to seconds, both positive); None if undetermined.

    The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel
    Computing 20, 1994): t = latency + S / bandwidth, which he also writes (h + S) / bandwidth
    with the half payload h = latency x bandwidth, at which half of the time is latency. For a
    given h the logarithm of the bandwidth is just a location of log(t / (h + S)), so only one
    parameter has to be searched for, and neither part can become negative.

    Errors are those of log time: 10 % have the same weight at every size. First the sum of absolute
    errors is minimised, then refined by iteratively reweighted least squares with Huber's weights
    (P. J. Huber, "Robust estimation of a location parameter", 1964), so an outlier (caches bend the
    curve of a CPU) moves it little. No step is random, no initial value is guessed.

    None for fewer than 4 sizes or a span below a factor of 16, and where the time grows so little
    over all sizes that the fit's own error could be that growth: the bandwidth is unknown then.
    """
    payloads = sorted(points)
    if len(payloads) < LEAST_SIZES or payloads[-1] < LEAST_SPAN * payloads[0]:
        return None
    log_times = [math.log(points[payload]) for payload in payloads]
    half_bytes, log_transfer = _robust(payloads, log_times)
    errors = [gap - log_transfer for gap in _gaps(half_bytes, payloads, log_times)]
    rms = math.sqrt(statistics.fmean(error * error for error in errors))
    growth = math.log((half_bytes + payloads[-1]) / (half_bytes + payloads[0]))
    if growth < max(_LEAST_GROWTH_ERRORS * rms, _LEAST_GROWTH):
        return None
    return Curve(
        latency_s=half_bytes * math.exp(log_transfer),
        bandwidth_bytes_per_s=math.exp(-log_transfer),
        rms_log_error=rms,
    )


def _robust(payloads: Sequence[int], log_times: Sequence[float]) -> tuple[float, float]:
    """The half payload in bytes, and the logarithm of the seconds per byte."""

    def absolute(half_bytes: float) -> float:
        gaps = _gaps(half_bytes, payloads, log_times)
        middle = statistics.median(gaps)
        return sum(abs(gap - middle) for gap in gaps)

    half_bytes = _least(absolute, payloads)
    gaps = _gaps(half_bytes, payloads, log_times)
    location = statistics.median(gaps)
    scale = stats.robust_deviation(gaps)
    for _ in range(_REWEIGHTINGS):
        weights = [_huber_weight(gap - location, scale) for gap in gaps]
        half_bytes = _weighted(payloads, log_times, weights=weights)
        gaps = _gaps(half_bytes, payloads, log_times)
        location = _mean(gaps, weights)
    return half_bytes, location


def _weighted(
    payloads: Sequence[int], log_times: Sequence[float], *, weights: Sequence[float]
) -> float:
    """The half payload in bytes of the least weighted squares of log errors."""

    def squared(half_bytes: float) -> float:
        gaps = _gaps(half_bytes, payloads, log_times)
        mean = _mean(gaps, weights)
        return sum(weight * (gap - mean) ** 2 for gap, weight in zip(gaps, weights))

    return _least(squared, payloads)


def _gaps(half_bytes: float, payloads: Sequence[int], log_times: Sequence[float]) -> list[float]:
    """log(t / (h + S)) by size; on the curve all are the same, the log of the seconds per byte."""
    return [time - math.log(half_bytes + size) for size, time in zip(payloads, log_times)]


def _huber_weight(error: float, scale: float) -> float:
    bound = _HUBER * scale
    return 1.0 if abs(error) <= max(bound, LEAST_ERROR) else max(bound, LEAST_ERROR) / abs(error)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights)) / sum(weights)


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


def shift_of(curve: Curve, sizes: Sequence[SizeShift]) -> tuple[CurveChange, ...] | None:
    """How latency and 1/bandwidth have moved, in this order; None if sizes cannot separate them.

    Generalised least squares of the log ratios: a size's ratio is 1 + w a + (1 - w) b, where w is
    the latency's share of its time before, a the relative change of the latency, b that of
    1/bandwidth.
    """
    shares = [curve.latency_share(size.payload_bytes) for size in sizes]
    return changes_of([shares, [1 - share for share in shares]], sizes)


def changes_of(
    columns: Sequence[Sequence[float]], sizes: Sequence[SizeShift]
) -> tuple[CurveChange, ...] | None:
    """Changes c of one or two parts of the time, ratio = 1 + sum of c x column, in log space.

    A column has the part's share of each size's time. Weighted least squares, linearised again
    about the ratios found (Gauss-Newton), so that a doubling is as accurate as a change of 1 %.
    None if the columns are not independent, or a part has no share anywhere.
    """
    errors = [max(size.standard_error, LEAST_ERROR) for size in sizes]
    ratios = [1.0] * len(sizes)
    gains = [math.expm1(size.log_ratio) for size in sizes]
    changes = None
    for _ in range(_LINEARISATIONS):
        weights = [(error * ratio) ** -2 for error, ratio in zip(errors, ratios)]
        changes = _solved(columns, gains, weights)
        if changes is None:
            return None
        ratios = ratios_of(columns, changes)
        gains = [
            ratio * (1 + size.log_ratio - math.log(ratio)) - 1 for size, ratio in zip(sizes, ratios)
        ]
    return changes


def ratios_of(columns: Sequence[Sequence[float]], changes: Sequence[CurveChange]) -> list[float]:
    """The ratio of each size's time to the one before, given `changes`; above zero."""
    return [
        max(_LEAST_RATIO, 1 + sum(c.relative * share for c, share in zip(changes, shares)))
        for shares in zip(*columns)
    ]


def _solved(
    columns: Sequence[Sequence[float]], gains: Sequence[float], weights: Sequence[float]
) -> tuple[CurveChange, ...] | None:
    """The normal equations for one or two columns."""

    def dot(one: Sequence[float], other: Sequence[float]) -> float:
        return sum(a * b * weight for a, b, weight in zip(one, other, weights))

    first, last = columns[0], columns[-1]
    aa, bb, ab = dot(first, first), dot(last, last), dot(first, last)
    ay, by = dot(first, gains), dot(last, gains)
    if len(columns) == 1:
        return (CurveChange(relative=ay / aa, error=aa**-0.5),) if aa > 0 else None
    independent = aa * bb - ab * ab
    if independent <= _LEAST_INDEPENDENCE * aa * bb:
        return None
    return (
        CurveChange(relative=(bb * ay - ab * by) / independent, error=math.sqrt(bb / independent)),
        CurveChange(relative=(aa * by - ab * ay) / independent, error=math.sqrt(aa / independent)),
    )
