"""What a regression looks like over the payloads: latency, bandwidth, all, or a list of the sizes.

Only what is certain is said. Whether a single size has regressed is known already (`case`); decides
no outcome, but for a shift of the whole curve, which no single size shows (`shift_of_curve`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model import RegressionShape, by_text, payload_text, rate_text, seconds_text

from .curve import Curve

# A shape describes the sizes if their squared errors are this many for each size at most, and all
# other shapes' are more by 9: three standard errors.
_FITS = 2.0
_CLEARLY = 9.0

# No change has exactly one of these shapes and no curve fits exactly, so this fraction of the
# largest change is added to each standard error: 3.0 and 2.8 times the time are the same factor.
_SHAPE_ERROR = 0.1

# No time is known better than to 0.1 %, whatever a few equal launches say.
_LEAST_ERROR = 1e-3
_LEAST_RATIO = 1e-2
_LINEARISATIONS = 8

# Fewer sizes have no shape, and a part of the time that has this share has most of it.
_LEAST_SIZES = 4
_MOSTLY = 0.5

# More payloads than these are named by the first and the last.
_MOST_LISTED = 6


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
class LocatedRegression:
    """The shape of a regression, the sizes (bytes) that are slower, and its description."""

    kind: RegressionShape
    payloads: tuple[int, ...]
    text: str


def locate(
    curve: Curve | None, sizes: Sequence[SizeShift], *, tail: Sequence[int] = ()
) -> LocatedRegression | None:
    """What got slower; None if no size is significant and `tail` is empty.

    `curve` is the baseline's; without one the answer is neither LATENCY nor BANDWIDTH. `tail` has
    the payloads of which only the p90 moved: TAIL if no size is significant, else an addition.
    """
    p90 = f"at {_listed(sorted(tail))} only the slow samples (p90) are slower" if tail else ""
    ordered = sorted(sizes, key=lambda size: size.payload_bytes)
    slow = tuple(size.payload_bytes for size in ordered if size.significant)
    if not slow:
        payloads = tuple(sorted(tail))
        tailed = LocatedRegression(kind=RegressionShape.TAIL, payloads=payloads, text=p90)
        return tailed if tail else None
    kind, change = _shape(curve, ordered)
    if kind is RegressionShape.SIZES or (curve is None and kind is not RegressionShape.ALL):
        text = _sizes_text(ordered)
    elif kind is RegressionShape.ALL:
        text = f"all payloads are slower, {by_text(change)}"
    else:
        assert curve is not None
        text = _part_text(kind, curve, change)
    return LocatedRegression(kind=kind, payloads=slow, text="; ".join(filter(None, (text, p90))))


def _shares(
    curve: Curve | None, sizes: Sequence[SizeShift]
) -> Mapping[RegressionShape, list[float]]:
    """By shape, which share of each size's time got slower.

    Sizes on one side of the half payload (half of its time is latency) tell neither part from all.
    """
    found = {RegressionShape.ALL: [1.0] * len(sizes)}
    if curve is not None:
        latency = [curve.latency_share(size.payload_bytes) for size in sizes]
        if min(latency) <= _MOSTLY <= max(latency):
            found[RegressionShape.LATENCY] = latency
            found[RegressionShape.BANDWIDTH] = [1 - share for share in latency]
    return found


def _shape(curve: Curve | None, sizes: Sequence[SizeShift]) -> tuple[RegressionShape, float]:
    """The shape that describes all sizes where no other does, with its relative change."""
    if len(sizes) < _LEAST_SIZES:
        alike = len(sizes) > 1 and all(size.significant for size in sizes)
        middle = math.expm1(statistics.median(size.log_ratio for size in sizes))
        return (RegressionShape.ALL if alike else RegressionShape.SIZES), middle
    tolerance = _SHAPE_ERROR * max(abs(size.log_ratio) for size in sizes)
    errors = [math.hypot(size.standard_error, _LEAST_ERROR, tolerance) for size in sizes]
    found = {kind: _change(one, sizes, errors) for kind, one in _shares(curve, sizes).items()}
    costs = sorted((cost, kind) for kind, (_, cost) in found.items())
    best, kind = costs[0]
    certain = best <= _FITS * len(sizes) and all(one > best + _CLEARLY for one, _ in costs[1:])
    change = found[kind][0]
    return (kind if certain and change > 0 else RegressionShape.SIZES), change


def _change(
    shares: Sequence[float], sizes: Sequence[SizeShift], errors: Sequence[float]
) -> tuple[float, float]:
    """The change c of a part by which ratios are 1 + c x share, and the squared errors left.

    Weighted least squares in log space, by Gauss and Newton, so that a doubling is as accurate as
    a change of 1 %.
    """
    change = 0.0
    for _ in range(_LINEARISATIONS):
        ratios = [max(_LEAST_RATIO, 1 + change * share) for share in shares]
        slopes = [share / ratio / error for share, ratio, error in zip(shares, ratios, errors)]
        gaps = [(s.log_ratio - math.log(r)) / e for s, r, e in zip(sizes, ratios, errors)]
        change += math.fsum(a * b for a, b in zip(slopes, gaps)) / math.fsum(a * a for a in slopes)
    ratios = [max(_LEAST_RATIO, 1 + change * share) for share in shares]
    rest = ((s.log_ratio - math.log(r)) / e for s, r, e in zip(sizes, ratios, errors))
    return change, math.fsum(one * one for one in rest)


def shift_of_curve(
    curve: Curve | None, sizes: Sequence[SizeShift], *, quantile: float, floor: float
) -> LocatedRegression | None:
    """A shift of latency or of 1/bandwidth that no single size shows; None if there is none.

    Least squares of ratio = 1 + w a + (1 - w) b, where w is the latency's share of a size's time
    before. One of a and b must be above `floor`, a fraction, and above `quantile` times its
    standard error, while no size is significant; and the sizes that are mostly of that part must
    show it in the middle: a curve that does not fit moves more than they do.
    """
    if curve is None or len(sizes) < 2 or any(size.significant for size in sizes):
        return None
    latency = [curve.latency_share(size.payload_bytes) for size in sizes]
    transfer = [1 - share for share in latency]
    weights = [max(size.standard_error, _LEAST_ERROR) ** -2 for size in sizes]
    gains = [math.expm1(size.log_ratio) for size in sizes]

    def dot(one: Sequence[float], other: Sequence[float]) -> float:
        return math.fsum(a * b * weight for a, b, weight in zip(one, other, weights))

    aa, bb, ab = dot(latency, latency), dot(transfer, transfer), dot(latency, transfer)
    free = aa * bb - ab * ab
    if free <= 1e-6 * aa * bb:
        return None
    ay, by = dot(latency, gains), dot(transfer, gains)
    found = [
        (kind, change, shares)
        for kind, change, error, shares in (
            (RegressionShape.LATENCY, (bb * ay - ab * by) / free, math.sqrt(bb / free), latency),
            (RegressionShape.BANDWIDTH, (aa * by - ab * ay) / free, math.sqrt(aa / free), transfer),
        )
        if change > max(floor, quantile * error) and _shown(shares, sizes, floor)
    ]
    if not found:
        return None
    kind, change, shares = found[0]
    text = _part_text(kind, curve, change)
    if len(found) > 1:
        kind, shares = RegressionShape.ALL, [1.0] * len(sizes)
        text = f"all payloads are slower, {by_text(statistics.median(gains))}"
    slow = (size.payload_bytes for size, share in zip(sizes, shares) if share >= _MOSTLY)
    text += "; no single payload shows it"
    return LocatedRegression(kind=kind, payloads=tuple(slow), text=text)


def _shown(shares: Sequence[float], sizes: Sequence[SizeShift], floor: float) -> bool:
    """Whether sizes of which a part has most of the time are slower by it, in the middle."""
    mostly = [(size, share) for size, share in zip(sizes, shares) if share >= _MOSTLY]
    if not mostly:
        return False
    middle = statistics.median(math.expm1(size.log_ratio) for size, _ in mostly)
    return middle >= floor * statistics.median(share for _, share in mostly)


def _part_text(kind: RegressionShape, curve: Curve, change: float) -> str:
    """Latency or bandwidth, before and after; 1/bandwidth has grown by `change`."""
    if kind is RegressionShape.LATENCY:
        before, now = curve.latency_s, curve.latency_s * (1 + change)
        times = f"{seconds_text(before, digits=3)} -> {seconds_text(now, digits=3)}"
        return f"the latency grew {by_text(change)} ({times}); the bandwidth did not fall"
    rate = curve.bandwidth_bytes_per_s
    fell = f"fell {by_text(1 / (1 + change) - 1)}"
    rates = f"{rate_text(rate)} -> {rate_text(rate / (1 + change))}"
    return f"the bandwidth {fell} ({rates}); the latency did not grow"


def _sizes_text(sizes: Sequence[SizeShift]) -> str:
    """The sizes that are slower, by how much, and how many there are."""
    slow = [size for size in sizes if size.significant]
    names = _listed([size.payload_bytes for size in slow])
    count = f" ({len(slow)} of {len(sizes)} sizes)" if len(sizes) > 1 else ""
    if len(slow) == 1:
        return f"{names} is slower, {by_text(math.expm1(slow[0].log_ratio))}{count}"
    least, most = (math.exp(which(size.log_ratio for size in slow)) for which in (min, max))
    return f"{names} are slower, {least:.3g} to {most:.3g} x the time{count}"


def _listed(payloads: Sequence[int]) -> str:
    names = [payload_text(payload) for payload in payloads]
    if len(names) > _MOST_LISTED:
        return f"{len(names)} payloads from {names[0]} to {names[-1]}"
    return ", ".join(names)
