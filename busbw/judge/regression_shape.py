"""The shape of a regression over the payloads, and its description.

Takes how far each size has moved. Holds no threshold of a verdict, reads no file and decides no
outcome: whether a single size has regressed is already known (`case`).

Every shape says what each size's log ratio should be (w: the latency's share of the size's time
before):

    shape      log ratio of a size                              parameters
    LATENCY    log(1 + a w)                                     a > 0
    BANDWIDTH  log(1 + b (1 - w))                               b > 0
    ALL        one > 0 for all                                  that one
    ONE_SIZE   one > 0 for one size, 0 for the others           that one, and which size
    SWITCH     one > 0 on one side of a boundary, 0 beyond      that one, and which side of which
    SEVERAL    log(1 + a w + b (1 - w))                         a and b, of any sign
    SEVERAL    each of m sizes its own, 0 for the others        m, and which sizes

The cost of a shape is, as in the extended Bayesian information criterion (J. Chen and Z. Chen,
"Extended Bayesian information criteria for model selection with large model spaces", Biometrika 95,
2008), the squared errors in units of the standard error, plus a penalty for each parameter; and,
for "which", the logarithm of the number of alternatives. The shape of the lowest cost is chosen.
The criterion's own penalty, the logarithm of the number of sizes, is close to zero for three sizes,
so here it is constant.

Sizes on one side only of the half payload (at which half of the time is latency) cannot distinguish
LATENCY or BANDWIDTH from ALL; then neither is a candidate. A SWITCH close to the half payload looks
like one of those two, and near the noise it is mistaken for it about half of the time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.model import RegressionShape, change_text, payload_text, rate_text, seconds_text

from .curve import LEAST_ERROR, Curve, CurveChange, SizeShift, changes_of, ratios_of, shift_of

# A parameter must be 2.12 standard errors from zero to lower the cost: by chance 1 in 30 is.
_PENALTY = 4.5

# Factor of the logarithm of the number of alternatives: the criterion's 2 gamma, gamma from 0 to 1.
# Neighbouring boundaries expect nearly the same, so gamma is below 1; in simulations like those of
# the tests less mistook a fading latency for a step too often, more a step for a fading latency.
_CHOICE = 1.6

# No change has exactly one of these shapes and no curve fits exactly, so this fraction of the
# largest change is added to each standard error: 3.0 and 2.8 times the time are the same factor.
_SHAPE_ERROR = 0.1

# One slow size on a side would be ONE_SIZE, and two sizes against one are not yet a step.
_LEAST_SIDE = 2
_LEAST_FOR_STEP = 4

# A part of the time that has at least this share has most of it.
_MOSTLY = 0.5

# More payloads than these are named by the first and the last.
_MOST_LISTED = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One candidate: what it expects of each size, its parameters and its alternatives.

    `expected` are log ratios in the order of the sizes, `payloads` the sizes (bytes) that are
    slower. `level` is the log ratio that they have in common; `latency_change` and
    `transfer_change` are relative, the latter of 1/bandwidth; None where the shape has none.
    """

    kind: RegressionShape
    expected: tuple[float, ...]
    payloads: tuple[int, ...]
    parameters: int = 1
    alike: int = 1
    level: float | None = None
    latency_change: float | None = None
    transfer_change: float | None = None

    def cost(self, sizes: Sequence[SizeShift]) -> float:
        """The squared errors in units of the standard error, and the penalties."""
        errors = (
            (size.log_ratio - expected) / size.standard_error
            for size, expected in zip(sizes, self.expected)
        )
        price = _PENALTY * self.parameters + _CHOICE * math.log(self.alike)
        return sum(error * error for error in errors) + price


def cheapest(curve: Curve | None, sizes: Sequence[SizeShift]) -> Shape | None:
    """The shape of the lowest cost, of equal ones the simplest; None if no size is slower.

    With fewer than three sizes only ALL and ONE_SIZE are candidates, with fewer than four no
    SWITCH, without a curve neither LATENCY nor BANDWIDTH.
    """
    if not sizes:
        return None
    ordered = sorted(sizes, key=lambda size: size.payload_bytes)
    tolerance = _SHAPE_ERROR * max(abs(size.log_ratio) for size in ordered)
    loose = [
        replace(size, standard_error=math.hypot(size.standard_error, LEAST_ERROR, tolerance))
        for size in ordered
    ]
    shapes = [*_all(loose), *_one_size(loose)]
    if len(loose) > 2:
        shapes += [*_of_curve(curve, loose), *_switches(loose), *_several(loose)]
    slower = [shape for shape in shapes if shape.payloads]
    return min(slower, key=lambda shape: shape.cost(loose), default=None)


def _all(sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    if len(sizes) > 1:
        yield from _slower(RegressionShape.ALL, sizes, sizes)


def _one_size(sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    """A shape for each size; if some are judged slower alone, only for those."""
    suspects = [size for size in sizes if size.significant] or sizes
    for size in suspects:
        yield from _slower(RegressionShape.ONE_SIZE, [size], sizes, alike=len(suspects))


def _switches(sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    if len(sizes) < _LEAST_FOR_STEP:
        return
    boundaries = range(1, len(sizes))
    sides = [side for at in boundaries for side in (sizes[:at], sizes[at:])]
    sides = [side for side in sides if len(side) >= _LEAST_SIDE]
    for side in sides:
        yield from _slower(RegressionShape.SWITCH, side, sizes, alike=len(sides))


def _slower(
    kind: RegressionShape, slow: Sequence[SizeShift], sizes: Sequence[SizeShift], *, alike: int = 1
) -> Iterator[Shape]:
    """The shape in which those in `slow` have one log ratio and the others 0, if that is > 0."""
    weights = [size.standard_error**-2 for size in slow]
    level = sum(s.log_ratio * weight for s, weight in zip(slow, weights)) / sum(weights)
    payloads = tuple(size.payload_bytes for size in slow)
    if level > 0:
        yield Shape(
            kind=kind,
            expected=tuple(level if s.payload_bytes in payloads else 0.0 for s in sizes),
            payloads=payloads,
            alike=alike,
            level=level,
        )


def _of_curve(curve: Curve | None, sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    """LATENCY, BANDWIDTH and both, if there are sizes on both sides of the half payload."""
    if curve is None:
        return
    latency = [curve.latency_share(size.payload_bytes) for size in sizes]
    transfer = [1 - share for share in latency]
    if not min(latency) <= 0.5 <= max(latency):
        return
    for kind, columns in (
        (RegressionShape.LATENCY, [latency]),
        (RegressionShape.BANDWIDTH, [transfer]),
        (RegressionShape.SEVERAL, [latency, transfer]),
    ):
        changes = changes_of(columns, sizes)
        # A part by itself must have grown; of both, one may have shrunk.
        if changes is not None and (len(changes) > 1 or changes[0].relative > 0):
            yield _moved(kind, sizes, columns=columns, changes=changes)


def _moved(
    kind: RegressionShape,
    sizes: Sequence[SizeShift],
    *,
    columns: Sequence[Sequence[float]],
    changes: Sequence[CurveChange],
) -> Shape:
    """The shape that the sizes have when parts of the curve have changed, the latency first.

    Its payloads are those that should be slower by at least half of the most that one is.
    """
    expected = tuple(math.log(ratio) for ratio in ratios_of(columns, changes))
    least = max(0.5 * max(expected), 0.0)
    slow = (size.payload_bytes for size, one in zip(sizes, expected) if one > 0 and one >= least)
    return Shape(
        kind=kind,
        expected=expected,
        payloads=tuple(slow),
        parameters=len(columns),
        latency_change=None if kind is RegressionShape.BANDWIDTH else changes[0].relative,
        transfer_change=None if kind is RegressionShape.LATENCY else changes[-1].relative,
    )


def _several(sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    """Two or more sizes, each with its own factor: those judged slower, then the farthest."""
    far = sorted(sizes, key=lambda s: (not s.significant, -abs(s.log_ratio) / s.standard_error))
    judged = sum(size.significant for size in sizes)
    for count in range(max(2, judged), len(sizes) + 1):
        own = {size.payload_bytes: size.log_ratio for size in far[:count]}
        yield Shape(
            kind=RegressionShape.SEVERAL,
            expected=tuple(own.get(size.payload_bytes, 0.0) for size in sizes),
            payloads=tuple(s.payload_bytes for s in sizes if own.get(s.payload_bytes, 0.0) > 0),
            parameters=count,
            alike=math.comb(len(sizes), count),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LocatedRegression:
    """The shape of a regression over the payloads, and its description.

    `payloads` are the sizes (bytes) that are slower. `change` is a growth as a fraction: of the
    latency for LATENCY, of the time per byte (1/bandwidth) for BANDWIDTH, of the times of
    `payloads` for ALL, ONE_SIZE and SWITCH; None where there is no single figure.
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
    the payloads of which only the p90 moved: TAIL if no size is significant, else an addition.
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
    curve: Curve | None,
    sizes: Sequence[SizeShift],
    *,
    quantile: float,
    floor: float,
    shared_error: float = 0.0,
) -> LocatedRegression | None:
    """A shift of latency or of 1/bandwidth that no single size shows; None if there is none.

    The estimate of one of them (`shift_of`) must be above `floor`, a fraction, and above
    `quantile` times its standard error, while no size is significant; `shared_error` is what all
    sizes have in common. The sizes that are mostly of that part must show it in the middle: a
    curve that does not fit moves more than they do. Its shape is chosen as in `locate`; a change of
    single sizes without a shape is no shift of the curve.
    """
    if curve is None or any(size.significant for size in sizes):
        return None
    latency = [curve.latency_share(size.payload_bytes) for size in sizes]
    columns = [latency, [1 - share for share in latency]]
    changes = shift_of(curve, sizes) or ()
    if not any(
        one.relative > max(floor, quantile * math.hypot(one.error, shared_error))
        and _shown(shares, sizes, floor)
        for one, shares in zip(changes, columns)
    ):
        return None
    shape = cheapest(curve, sizes)
    if shape is None or shape.kind is RegressionShape.ONE_SIZE:
        return None
    if shape.kind is RegressionShape.SEVERAL and shape.latency_change is None:
        return None
    located = _located(shape, curve, sizes)
    return replace(located, text=f"{located.text}; no single payload shows it")


def _shown(shares: Sequence[float], sizes: Sequence[SizeShift], floor: float) -> bool:
    """Whether sizes of which a part has most of the time are slower by it, in the middle."""
    mostly = [(size, share) for size, share in zip(sizes, shares) if share >= _MOSTLY]
    if not mostly:
        return False
    middle = statistics.median(math.expm1(size.log_ratio) for size, _ in mostly)
    return middle >= floor * statistics.median(share for _, share in mostly)


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
    """Latency and bandwidth, each before and after."""
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
    return f"the latency {verb} by {change_text(change)} ({times})"


def _bandwidth_text(before: float, change: float) -> str:
    """1/bandwidth has grown by `change`, so the bandwidth has shrunk by less than that."""
    if change <= -1:
        return "the bandwidth grew without bound"
    now = before / (1 + change)
    verb = "fell" if change > 0 else "grew"
    rates = f"{rate_text(before)} -> {rate_text(now)}"
    return f"the bandwidth {verb} by {change_text(now / before - 1)} ({rates})"


def _level_text(shape: Shape, sizes: Sequence[SizeShift]) -> str:
    """What is slower by one factor, and what is not."""
    by = change_text(math.expm1(shape.level or 0.0))
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
    if len(changes) == 1:
        (payload,) = shape.payloads
        slower = f"{payload_text(payload)} is slower, by {change_text(changes[0])}"
        return f"{slower}; the other payloads changed in no common shape"
    span = f"{change_text(min(changes))} to {change_text(max(changes))}"
    count = f"{len(changes)} of {len(sizes)} payloads are slower, by {span}, in no common shape"
    return f"{count}: {_listed(shape.payloads)}"


def _tail_text(payloads: Sequence[int]) -> str:
    return f"at {_listed(sorted(payloads))} only the slow samples (p90) are slower"


def _listed(payloads: Sequence[int]) -> str:
    names = [payload_text(payload) for payload in payloads]
    if len(names) > _MOST_LISTED:
        return f"{len(names)} payloads from {names[0]} to {names[-1]}"
    return ", ".join(names)
