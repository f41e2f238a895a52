"""The curve over all payloads, t(S) = latency + S / bandwidth, and a shift of the whole curve."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from busbw.model.verdict import Curve, Verdict
from busbw.model.words import Outcome, by_text

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


def shift_of_curve(
    curve: Curve | None, verdicts: Sequence[Verdict], *, quantile: float, floor: float
) -> str:
    """Describe a shift of latency, 1/bandwidth or both that no single size shows; empty for none.

    The change is that of the part of the time that explains the ratios best: latency (small
    payloads, fading with size), bandwidth (large payloads) or all. The sizes that are mostly of
    this part must show it in the median, too: a curve that does not fit moves more than they do.

    Args:
        curve: The curve before, None for unknown: then there is no shift.
        verdicts: The verdict of each size; there is no shift if one of them is REGRESSED.
        quantile: The shift must exceed so many of its standard errors.
        floor: The shift must exceed this fraction.

    """
    shifts = [
        (verdict.spec.payload_bytes, math.log(verdict.ratio), verdict.ratio_error)
        for verdict in verdicts
        if verdict.ratio is not None and verdict.ratio_error is not None
    ]
    is_seen = any(verdict.outcome is Outcome.REGRESSED for verdict in verdicts)
    if curve is None or len(shifts) < 2 or is_seen:
        return ""
    gains = [math.expm1(log_ratio) for _, log_ratio, _ in shifts]
    errors = [math.exp(log_ratio) * max(error, _LEAST_ERROR) for _, log_ratio, error in shifts]
    parts = _parts(curve, [size for size, _, _ in shifts])
    fits = {part: _fit_change(shares, gains, errors) for part, shares in parts.items()}
    part = min(fits, key=lambda part: fits[part][0])
    _, change, error = fits[part]
    mostly = [(gain, share) for gain, share in zip(gains, parts[part]) if share >= _MOSTLY]
    middle = statistics.median(gain for gain, _ in mostly)
    least = floor * statistics.median(share for _, share in mostly)
    if middle < least or change <= max(floor, quantile * error):
        return ""
    change = 1 / (1 + change) - 1 if part == "bandwidth" else change
    return f"{_SLOWER[part]} {by_text(change)}; no single payload shows it"


def _parts(curve: Curve, payloads: Sequence[int]) -> dict[str, list[float]]:
    """Return the share of each part in the time of each payload.

    Payloads on one side of the half payload (half of its time is latency) tell neither part from
    all.
    """
    latency = [curve.latency_share(size) for size in payloads]
    parts = {"all": [1.0] * len(payloads)}
    if min(latency) <= _MOSTLY <= max(latency):
        parts |= {"latency": latency, "bandwidth": [1 - share for share in latency]}
    return parts


def _fit_change(
    shares: Sequence[float], gains: Sequence[float], errors: Sequence[float]
) -> tuple[float, float, float]:
    """Fit `gains` by a change of the part that has `shares`, by weighted least squares.

    Returns the sum of squared residuals, the change and its standard error.
    """
    squares = math.fsum((s / e) ** 2 for s, e in zip(shares, errors))
    products = (s * g / e**2 for s, g, e in zip(shares, gains, errors))
    change = math.fsum(products) / squares
    cost = math.fsum(((g - change * s) / e) ** 2 for s, g, e in zip(shares, gains, errors))
    return cost, change, squares**-0.5
