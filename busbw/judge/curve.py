"""The curve over all payloads, t(S) = latency + S / bandwidth, and a shift of the whole curve."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model.verdict import Curve
from busbw.model.words import by_text

# Two parameters need more than two sizes, and sizes that are far enough apart to separate them.
_LEAST_SIZES = 4
_LEAST_SPAN = 16

# From the smallest size to the largest the fitted time must grow by this many times the fit's
# error, and by 5 %, else the bandwidth is unknown.
_LEAST_GROWTH_ERRORS = 3.0
_LEAST_GROWTH = 0.05

# With this many times the largest size as half payload all sizes take about the same time.
_FLAT = 64


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


# No time is known better than to 0.1 %, whatever a few equal launches say.
_LEAST_ERROR = 1e-3

# A part of the time that has this share has most of it.
_MOSTLY = 0.5

_SLOWER = {
    "all": "all payloads are slower,",
    "latency": "the latency grew",
    "bandwidth": "the bandwidth fell",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeShift:
    """The change of the time of one payload.

    `log_ratio` is log(now / before) with its `standard_error`. `is_significant`: this size alone is
    judged slower.
    """

    payload_bytes: int
    log_ratio: float
    standard_error: float
    is_significant: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fit:
    """The fit of ratios by 1 + `change` x the share that a `part` has of the time of each size.

    The part is ``latency`` (small payloads, fading with size), ``bandwidth`` (large payloads) or
    ``all``. `error` is the standard error of `change`, and `cost` the sum of squared residuals.
    """

    part: str
    shares: Sequence[float]
    change: float
    error: float
    cost: float


def _best_fit(curve: Curve, sizes: Sequence[SizeShift]) -> _Fit:
    """Return the part that explains the ratios best, by weighted least squares.

    Sizes on one side of the half payload (half of its time is latency) tell neither part from all.
    """
    parts = {"all": [1.0] * len(sizes)}
    latency = [curve.latency_share(size.payload_bytes) for size in sizes]
    if min(latency) <= _MOSTLY <= max(latency):
        parts |= {"latency": latency, "bandwidth": [1 - share for share in latency]}
    gains = [math.expm1(size.log_ratio) for size in sizes]
    errors = [math.exp(size.log_ratio) * max(size.standard_error, _LEAST_ERROR) for size in sizes]
    fits = []
    for part, shares in parts.items():
        squares = math.fsum((s / e) ** 2 for s, e in zip(shares, errors))
        products = (s * g / e**2 for s, g, e in zip(shares, gains, errors))
        change = math.fsum(products) / squares
        cost = math.fsum(((g - change * s) / e) ** 2 for s, g, e in zip(shares, gains, errors))
        fits.append(_Fit(part=part, shares=shares, change=change, error=squares**-0.5, cost=cost))
    return min(fits, key=lambda fit: fit.cost)


def shift_of_curve(
    curve: Curve | None, sizes: Sequence[SizeShift], *, quantile: float, floor: float
) -> str:
    """Describe a shift of latency, 1/bandwidth or both that no single size shows; empty for none.

    The sizes that are mostly of the shifted part must show it in the median, too: a curve that does
    not fit moves more than they do.

    Args:
        curve: The curve before, None for unknown: then there is no shift.
        sizes: The change of each size; there is no shift if one of them is significant by itself.
        quantile: The shift must exceed so many of its standard errors.
        floor: The shift must exceed this fraction.

    """
    if curve is None or len(sizes) < 2 or any(size.is_significant for size in sizes):
        return ""
    fit = _best_fit(curve, sizes)
    mostly = [(size, share) for size, share in zip(sizes, fit.shares) if share >= _MOSTLY]
    middle = statistics.median(math.expm1(size.log_ratio) for size, _ in mostly)
    is_seen = middle >= floor * statistics.median(share for _, share in mostly)
    if not is_seen or fit.change <= max(floor, quantile * fit.error):
        return ""
    change = 1 / (1 + fit.change) - 1 if fit.part == "bandwidth" else fit.change
    return f"{_SLOWER[fit.part]} {by_text(change)}; no single payload shows it"
