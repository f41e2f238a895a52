"""Which labels are written where: none on another one, and where it hides the fewest points.

Pixels from the lower left; lengths of text are estimates. Knows no chart and no format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Half the height of a line of text, and what a label keeps from others.
_HALF_PX = 6.0
_GAP_PX = 3.0
# About the radius of a point's symbol.
_POINT_PX = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a label is from what it labels, in pixels to the right and downwards.

    `align` is the end of the text that is there; an upright one runs upwards from its left end.
    `cost` is how many points it may hide less than a place that is nearer.
    """

    dx: int
    dy: int
    align: str = "center"
    upright: bool = False
    cost: int = 0


AROUND = (
    *(Place(dx=0, dy=17), Place(dx=0, dy=-15)),
    *(Place(dx=-14, dy=0, align="right"), Place(dx=14, dy=0, align="left")),
    *(Place(dx=8, dy=17, align="right"), Place(dx=8, dy=-15, align="right")),
    *(Place(dx=-3, dy=17, align="left"), Place(dx=-3, dy=-15, align="left")),
    *(Place(dx=0, dy=32, cost=2), Place(dx=0, dy=-30, cost=2)),
    *(Place(dx=8, dy=32, align="right", cost=2), Place(dx=8, dy=-30, align="right", cost=2)),
    *(Place(dx=-3, dy=32, align="left", cost=2), Place(dx=-3, dy=-30, align="left", cost=2)),
)
ABOVE = (
    Place(dx=0, dy=-13),
    Place(dx=8, dy=-13, align="right"),
    Place(dx=-3, dy=-13, align="left"),
    Place(dx=-11, dy=0, align="right"),
)
# Inwards from the ends of a horizontal rule, and along the head of a vertical one.
ENDS = (
    *(Place(dx=4, dy=-8, align="left"), Place(dx=-4, dy=-8, align="right")),
    *(Place(dx=4, dy=9, align="left"), Place(dx=-4, dy=9, align="right")),
)
UPWARDS = Place(dx=-7, dy=4, align="right", upright=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A part of the picture."""

    left: float
    right: float
    low: float
    high: float

    @classmethod
    def of(cls, at: tuple[float, float], length: float, place: Place) -> Box:
        before = {"left": 0.0, "center": length / 2, "right": length}[place.align]
        x, y = at[0] + place.dx, at[1] - place.dy
        if place.upright:
            return cls(
                left=x - _HALF_PX, right=x + _HALF_PX, low=y - before, high=y - before + length
            )
        return cls(left=x - before, right=x - before + length, low=y - _HALF_PX, high=y + _HALF_PX)

    def is_near(self, other: Box) -> bool:
        """Whether the two overlap, or nearly."""
        return (
            self.left < other.right + _GAP_PX
            and other.left < self.right + _GAP_PX
            and self.low < other.high + _GAP_PX
            and other.low < self.high + _GAP_PX
        )

    def holds(self, point: tuple[float, float]) -> bool:
        return (
            self.left - _POINT_PX <= point[0] <= self.right + _POINT_PX
            and self.low - _POINT_PX <= point[1] <= self.high + _POINT_PX
        )


class Labels:
    """The labels of one picture so far; `width` is how far to the right they may reach."""

    def __init__(self, width: float, points: Sequence[tuple[float, float]]) -> None:
        self._width, self._points = width, points
        self._taken: list[Box] = []

    def add(self, anchors: Sequence[tuple[tuple[float, float], Place]], length: float) -> int:
        """The one that hides the fewest points; -1 where each is near another label or outside."""
        best, fewest = -1, math.inf
        for index, (at, place) in enumerate(anchors):
            box = Box.of(at, length, place)
            if not self._is_free(box):
                continue
            hidden = place.cost + sum(map(box.holds, self._points))
            if hidden < fewest:
                best, fewest = index, hidden
        if best >= 0:
            at, place = anchors[best]
            self._taken.append(Box.of(at, length, place))
        return best

    def _is_free(self, box: Box) -> bool:
        inside = box.left >= -_POINT_PX and box.right <= self._width
        return inside and not any(map(box.is_near, self._taken))
