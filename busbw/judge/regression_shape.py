"""What a regression looks like over the payloads, in words that a user can act on.

Takes how far each size has moved and the shape that they hold to (`shapes`), returns words. No
threshold stands here, no file is read and no outcome is decided: whether one size alone has
regressed is known before (`case`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.model import RegressionShape, payload_text, rate_text, seconds_text

from .curve import Curve, SizeShift, shift_of
from .shapes import Shape, cheapest

# More payloads than these are named by the first and the last.
_MOST_LISTED = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class LocatedRegression:
    """What a regression looks like over the payloads, and the words for it.

    `payloads` are the sizes (bytes) that it shows at. `change` is by how much what is named has
    grown, as a fraction: the latency for LATENCY, the time per byte (1/bandwidth) for BANDWIDTH,
    the times of `payloads` for ALL, ONE_SIZE and SWITCH; None where no single figure says it.
    """

    kind: RegressionShape
    payloads: tuple[int, ...]
    change: float | None
    text: str


def locate(
    curve: Curve | None, sizes: Sequence[SizeShift], *, tail: Sequence[int] = ()
) -> LocatedRegression | None:
    """What got slower; None if no size is significant and `tail` is empty.

    `curve` is the baseline's; without one the answer is neither LATENCY nor BANDWIDTH. `tail` has
    the payloads of which only the p90 moved: TAIL if no size is significant, else said beside.
    """
    p90 = _tail_text(tail) if tail else ""
    if not any(size.significant for size in sizes):
        payloads = tuple(sorted(tail))
        return (
            LocatedRegression(kind=RegressionShape.TAIL, payloads=payloads, change=None, text=p90)
            if tail
            else None
        )
    shape = cheapest(curve, sizes)
    if shape is None:
        return None
    located = _located(shape, curve, sizes)
    return replace(located, text=f"{located.text}; {p90}") if tail else located


def curve_shift(
    curve: Curve | None, sizes: Sequence[SizeShift], *, quantile: float, floor: float
) -> LocatedRegression | None:
    """A shift of latency or of 1/bandwidth that no single size shows; None if there is none.

    The estimate of one of them (`shift_of`) must be above `floor`, a fraction, and above
    `quantile` times its standard error, while no size is significant. How it is named is chosen
    as in `locate`; what sits at single sizes without a shape is no shift of the curve.
    """
    if curve is None or any(size.significant for size in sizes):
        return None
    shift = shift_of(curve, sizes)
    if shift is None or not (
        shift.latency_change > max(floor, quantile * shift.latency_error)
        or shift.transfer_change > max(floor, quantile * shift.transfer_error)
    ):
        return None
    shape = cheapest(curve, sizes)
    if shape is None or shape.kind is RegressionShape.ONE_SIZE or _shapeless(shape):
        return None
    located = _located(shape, curve, sizes)
    return replace(located, text=f"{located.text}; no single payload shows it")


def _shapeless(shape: Shape) -> bool:
    return shape.kind is RegressionShape.SEVERAL and shape.latency_change is None


def _located(shape: Shape, curve: Curve | None, sizes: Sequence[SizeShift]) -> LocatedRegression:
    change = None
    if shape.level is not None:
        change = math.expm1(shape.level)
    elif shape.kind is not RegressionShape.SEVERAL:
        change = shape.latency_change or shape.transfer_change
    if curve is not None and (shape.latency_change or shape.transfer_change):
        text = _curve_text(shape, curve)
    elif shape.level is not None:
        text = _level_text(shape, sizes)
    else:
        text = _several_text(shape, sizes)
    return LocatedRegression(kind=shape.kind, payloads=shape.payloads, change=change, text=text)


def _curve_text(shape: Shape, curve: Curve) -> str:
    """What became of latency and bandwidth, each before and after."""
    parts = []
    if shape.latency_change is not None:
        parts.append(_latency_text(curve.latency_s, shape.latency_change))
    if shape.transfer_change is not None:
        parts.append(_bandwidth_text(curve.bandwidth_bytes_per_s, shape.transfer_change))
    if shape.transfer_change is None:
        parts.append("the bandwidth did not fall")
    if shape.latency_change is None:
        parts.append("the latency did not grow")
    return "; ".join(parts)


def _latency_text(before_s: float, change: float) -> str:
    verb = "grew" if change > 0 else "fell"
    now_s = max(before_s * (1 + change), 0.0)
    times = f"{seconds_text(before_s, digits=3)} -> {seconds_text(now_s, digits=3)}"
    return f"the latency {verb} by {_percent(change)} ({times})"


def _bandwidth_text(before: float, change: float) -> str:
    """1/bandwidth has grown by `change`, so the bandwidth has shrunk by less than that."""
    if change <= -1:
        return "the bandwidth grew beyond measure"
    now = before / (1 + change)
    verb = "fell" if change > 0 else "grew"
    rates = f"{rate_text(before)} -> {rate_text(now)}"
    return f"the bandwidth {verb} by {_percent(now / before - 1)} ({rates})"


def _level_text(shape: Shape, sizes: Sequence[SizeShift]) -> str:
    """What is slower by one factor, and what is not."""
    by = _percent(math.expm1(shape.level or 0.0))
    first = payload_text(shape.payloads[0])
    if shape.kind is RegressionShape.ALL:
        return f"all payloads are slower by about {by}"
    if shape.kind is RegressionShape.ONE_SIZE:
        return f"{'only ' if len(sizes) > 1 else ''}{first} is slower, by {by}"
    return _step_text(shape.payloads, [size.payload_bytes for size in sizes], by=by)


def _step_text(slow: Sequence[int], payloads: Sequence[int], *, by: str) -> str:
    first, last = payload_text(slow[0]), payload_text(slow[-1])
    below = [payload for payload in payloads if payload < slow[0]]
    if below:
        step = f"between {payload_text(max(below))} and {first}"
        return f"payloads from {first} on are slower by about {by}, smaller ones not: a step {step}"
    beyond = payload_text(min(payload for payload in payloads if payload > slow[-1]))
    step = f"between {last} and {beyond}"
    return f"payloads up to {last} are slower by about {by}, larger ones not: a step {step}"


def _several_text(shape: Shape, sizes: Sequence[SizeShift]) -> str:
    ratios = {size.payload_bytes: size.log_ratio for size in sizes}
    changes = [math.expm1(ratios[payload]) for payload in shape.payloads]
    span = f"{_percent(min(changes))} to {_percent(max(changes))}"
    count = f"{len(changes)} of {len(sizes)} payloads are slower, by {span}, in no common shape"
    return f"{count}: {_listed(shape.payloads)}"


def _tail_text(payloads: Sequence[int]) -> str:
    return f"at {_listed(sorted(payloads))} only the slow samples (p90) are slower"


def _listed(payloads: Sequence[int]) -> str:
    names = [payload_text(payload) for payload in payloads]
    if len(names) > _MOST_LISTED:
        return f"{len(names)} payloads from {names[0]} to {names[-1]}"
    return ", ".join(names)


def _percent(change: float) -> str:
    return f"{100 * abs(change):.3g} %" if abs(change) < 0.1 else f"{100 * abs(change):.0f} %"
