"""The shapes that a regression may have over the payloads, and which one the sizes hold to.

Compares shapes, in numbers; whether anything has regressed is known before (`case`), the words
are in `where`. Knows no policy, no file and no text.

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

It costs, as in the extended Bayesian information criterion (J. Chen and Z. Chen, "Extended
Bayesian information criteria for model selection with large model spaces", Biometrika 95, 2008),
the squared errors in units of the standard error, and a penalty for each parameter; and, for
"which", the logarithm of how many alike there are to choose from. The cheapest is taken. The
criterion's own penalty, the logarithm of the number of sizes, is next to nothing for three sizes,
so here it is constant.

Sizes on one side only of the half payload (at which half of the time is latency) do not tell
LATENCY or BANDWIDTH from ALL; then neither is a candidate. A SWITCH next to the half payload looks
like one of those two, and near the noise it is taken for it about as often as not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.model import RegressionShape

from .curve import LEAST_ERROR, Curve, CurveChange, SizeShift, changes_of, ratios_of

# A parameter must lie 2.12 standard errors from zero to pay for itself: by chance 1 in 30 does.
_PENALTY = 4.5

# Times the logarithm of how many alike there are: the criterion's 2 gamma, gamma from 0 to 1.
# Neighbouring boundaries expect nearly the same, so not 1; in simulations like those of the tests
# less took a fading latency for a step too often, more a step for a fading latency.
_CHOICE = 1.6

# No change has exactly one of these shapes and no curve fits exactly, so this part of the largest
# change is added to each standard error: 3.0 and 2.8 times the time is still the same factor.
_SHAPE_ERROR = 0.1

# One slow size on a side would be ONE_SIZE, and two sizes against one are not yet a step.
_LEAST_SIDE = 2
_LEAST_FOR_STEP = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One candidate: what it expects of each size, and what its freedom costs.

    `expected` are log ratios in the order of the sizes, `payloads` the sizes (bytes) that are
    slower by it. `level` is the log ratio that they have in common; `latency_change` and
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
        """The squared errors in units of the standard error, and the price of the freedom."""
        errors = (
            (size.log_ratio - expected) / size.standard_error
            for size, expected in zip(sizes, self.expected)
        )
        price = _PENALTY * self.parameters + _CHOICE * math.log(self.alike)
        return sum(error * error for error in errors) + price


def cheapest(curve: Curve | None, sizes: Sequence[SizeShift]) -> Shape | None:
    """The shape of the least cost, of equal ones the simplest; None if no size is slower.

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
    """Each size; where some are judged slower alone, only those are there to choose from."""
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
    """LATENCY, BANDWIDTH, and both at once, where the sizes lie on both sides of the half."""
    if curve is None:
        return
    latency = [curve.latency_share(size.payload_bytes) for size in sizes]
    transfer = [1 - share for share in latency]
    if not min(latency) <= 0.5 <= max(latency):
        return
    one = changes_of([latency], sizes)
    if one is not None and one[0].relative > 0:
        shape = _moved(RegressionShape.LATENCY, sizes, columns=[latency], changes=one)
        yield replace(shape, latency_change=one[0].relative)
    other = changes_of([transfer], sizes)
    if other is not None and other[0].relative > 0:
        shape = _moved(RegressionShape.BANDWIDTH, sizes, columns=[transfer], changes=other)
        yield replace(shape, transfer_change=other[0].relative)
    both = changes_of([latency, transfer], sizes)
    if both is not None:
        shape = _moved(RegressionShape.SEVERAL, sizes, columns=[latency, transfer], changes=both)
        yield replace(shape, latency_change=both[0].relative, transfer_change=both[1].relative)


def _moved(
    kind: RegressionShape,
    sizes: Sequence[SizeShift],
    *,
    columns: Sequence[Sequence[float]],
    changes: Sequence[CurveChange],
) -> Shape:
    """The shape that the sizes have when parts of the curve have changed.

    Its payloads are those that should be slower by at least half of the most that one is.
    """
    expected = tuple(math.log(ratio) for ratio in ratios_of(columns, changes))
    least = max(0.5 * max(expected), 0.0)
    slow = (size.payload_bytes for size, one in zip(sizes, expected) if one > 0 and one >= least)
    return Shape(kind=kind, expected=expected, payloads=tuple(slow), parameters=len(columns))


def _several(sizes: Sequence[SizeShift]) -> Iterator[Shape]:
    """Two or more sizes, each with a factor of its own: those judged slower, then the farthest."""
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
