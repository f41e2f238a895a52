"""Fit a curve of time over payload, t(S) = latency + S / bandwidth, and describe how it shifted."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from busbw.model.verdict import Curve, Verdict
from busbw.model.words import Outcome, change_phrase

# The fit has two parameters: it needs more than two payloads, and payloads that are far enough
# apart to tell latency from bandwidth.
_LEAST_PAYLOADS = 4
_LEAST_PAYLOAD_SPAN = 16

# The bandwidth is unknown if the fitted time, from the smallest payload to the largest, grows by
# less than 5 % or by less than this many times the fit's error.
_LEAST_GROWTH_ERRORS = 3.0
_LEAST_GROWTH = 0.05

# If the half payload is this many times the largest payload, all payloads take about the same time.
_FLAT_FACTOR = 64


def fit_curve(times_s_by_payload: Mapping[int, float]) -> Curve | None:
    """Fit t(S) = latency + S / bandwidth to the times of several payloads S.

    The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel Computing
    20, 1994). He also writes it as t = (h + S) / bandwidth. The half payload h = latency x
    bandwidth is the payload at which half of the time is latency. For a given h the best logarithm
    of 1 / bandwidth is the median of log(t / (h + S)).

    The fit minimizes the sum of absolute errors of log time: an outlier moves it little (caches
    bend the curve of a CPU), and 10 % have the same weight at every payload. The best curve passes
    through two of the points. No h below 0 is tried, so that no part of the time is negative.

    Args:
        times_s_by_payload: The times in seconds, by payload in bytes; all are positive.

    Returns:
        The curve. None if there are fewer than 4 payloads, or if they span less than a factor of
        16. None also if the time grows so little over all payloads that the fit's own error could
        be this growth, because the bandwidth is unknown then.

    """
    if len(times_s_by_payload) < _LEAST_PAYLOADS or max(
        times_s_by_payload
    ) < _LEAST_PAYLOAD_SPAN * min(times_s_by_payload):
        return None
    halves = [
        0.0,
        _FLAT_FACTOR * max(times_s_by_payload),
        *_half_payloads_of_pairs(sorted(times_s_by_payload.items())),
    ]
    half_bytes = min(
        halves, key=lambda half: math.fsum(map(abs, _fit_residuals(half, times_s_by_payload)[1]))
    )
    log_transfer, errors = _fit_residuals(half_bytes, times_s_by_payload)
    rms = math.sqrt(statistics.fmean(error * error for error in errors))
    growth = math.log(
        (half_bytes + max(times_s_by_payload)) / (half_bytes + min(times_s_by_payload))
    )
    if growth < max(_LEAST_GROWTH_ERRORS * rms, _LEAST_GROWTH):
        return None
    return Curve(
        latency_s=half_bytes * math.exp(log_transfer),
        bandwidth_bytes_per_s=math.exp(-log_transfer),
        rms_log_error=rms,
    )


def _fit_residuals(
    half_bytes: float, times_s_by_payload: Mapping[int, float]
) -> tuple[float, list[float]]:
    """Fit the bandwidth for a given half payload.

    Returns the median of log(t / (h + S)), which is log(1 / bandwidth), and the errors of log time.
    """
    logs = [math.log(time_s / (half_bytes + size)) for size, time_s in times_s_by_payload.items()]
    middle = statistics.median(logs)
    return middle, [log - middle for log in logs]


def _half_payloads_of_pairs(points: Sequence[tuple[int, float]]) -> Iterator[float]:
    """Yield the half payload of each curve that passes through two points.

    Two points are left out if they require a negative latency or bandwidth.
    """
    for (size, time_s), (larger, longer_s) in itertools.combinations(points, 2):
        if longer_s > time_s and time_s * larger > longer_s * size:
            yield (time_s * larger - longer_s * size) / (longer_s - time_s)


# No time is known more accurately than to 0.1 %, even if a few launches are equal.
_LEAST_LOG_ERROR = 1e-3

# A payload's time is mostly latency, or mostly bandwidth, if that part has at least this share.
_MAIN_SHARE = 0.5

_TEXT_BY_PART = {
    "all": "all payloads are slower,",
    "latency": "the latency grew",
    "bandwidth": "the bandwidth fell",
}


def curve_shift_text(
    old_curve: Curve | None,
    verdicts: Sequence[Verdict],
    *,
    least_errors: float,
    least_change: float,
) -> str:
    """Describe how the curve of a group of cases shifted; return "" if it did not shift.

    Either the latency, or 1 / bandwidth, or the whole time is shifted: the part of the time whose
    change explains the ratios of all payloads best. The payloads whose time is mostly this part
    must show the shift in their median, too, because a curve that fits badly shifts more easily
    than these payloads do.

    Args:
        old_curve: The curve of the reference. If it is None (unknown), there is no shift.
        verdicts: The verdict of each payload. There is no shift if one of them is REGRESSED.
        least_errors: The shift must exceed this many of its standard errors.
        least_change: The shift must exceed this fraction of the part's time.

    """
    shifts = [
        (verdict.spec.payload_bytes, math.log(verdict.ratio), verdict.ratio_error)
        for verdict in verdicts
        if verdict.ratio is not None and verdict.ratio_error is not None
    ]
    is_seen = any(verdict.outcome is Outcome.REGRESSED for verdict in verdicts)
    if old_curve is None or len(shifts) < 2 or is_seen:
        return ""
    gains = [math.expm1(log_ratio) for _, log_ratio, _ in shifts]
    errors = [math.exp(log_ratio) * max(error, _LEAST_LOG_ERROR) for _, log_ratio, error in shifts]
    parts = _shares_by_part(old_curve, [size for size, _, _ in shifts])
    fits = {part: _fit_change(shares, gains, errors) for part, shares in parts.items()}
    part = min(fits, key=lambda part: fits[part][0])
    _, change, error = fits[part]
    mostly = [(gain, share) for gain, share in zip(gains, parts[part]) if share >= _MAIN_SHARE]
    middle = statistics.median(gain for gain, _ in mostly)
    least = least_change * statistics.median(share for _, share in mostly)
    if middle < least or change <= max(least_change, least_errors * error):
        return ""
    change = 1 / (1 + change) - 1 if part == "bandwidth" else change
    return f"{_TEXT_BY_PART[part]} {change_phrase(change)}; no single payload shows it"


def _shares_by_part(curve: Curve, payloads: Sequence[int]) -> dict[str, list[float]]:
    """Return, for each part of the time, its share of the time of each payload.

    The parts are "all", "latency" and "bandwidth". If all payloads are mostly latency, or all are
    mostly bandwidth, only "all" is returned, because the parts cannot be told apart.
    """
    latency = [curve.latency_share(size) for size in payloads]
    parts = {"all": [1.0] * len(payloads)}
    if min(latency) <= _MAIN_SHARE <= max(latency):
        parts |= {"latency": latency, "bandwidth": [1 - share for share in latency]}
    return parts


def _fit_change(
    shares: Sequence[float], gains: Sequence[float], errors: Sequence[float]
) -> tuple[float, float, float]:
    """Fit the change of one part of the time to `gains`, by weighted least squares.

    Args:
        shares: The share of the part in the time of each payload.
        gains: The relative change of the time of each payload.
        errors: The standard error of each gain.

    Returns:
        The weighted sum of squared residuals, the relative change of the part, and its standard
        error.

    """
    squares = math.fsum((s / e) ** 2 for s, e in zip(shares, errors))
    products = (s * g / e**2 for s, g, e in zip(shares, gains, errors))
    change = math.fsum(products) / squares
    cost = math.fsum(((g - change * s) / e) ** 2 for s, g, e in zip(shares, gains, errors))
    return cost, change, squares**-0.5
