"""Rules, marks and their labels, none over another: without room it is left to the table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..chart import Direction, Mark, Rule, Style
from .layout import SMALL, Plane, cut, plain, text_px
from .palette import LIGHT, Look

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


Spec = dict[str, Any]

_CROSS = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
_LONGEST = 40
# A ring or a cross is no place for the label of another one.
_RING_PX, _CROSS_PX = 7.0, 5.0
# A bold label is longer.
_BOLD = 1.1
# The axes are narrower than the picture by less than is assumed.
_BEYOND_PX = 10


class Annotations:
    """What is written in one chart: marks have the first choice of places, then rules."""

    def __init__(self, plane: Plane, looks: Mapping[str, Look]) -> None:
        self._plane, self._looks = plane, looks
        points = [
            plane.pixels(x, y)
            for one in plane.chart.series
            if one.style is not Style.LINE
            for x, y in one.points
        ]
        for mark in plane.chart.marks:
            x_px, y_px = plane.place_of(mark)
            away = _RING_PX if mark.y is not None else _CROSS_PX
            points += [
                (x_px + a, y_px + b) for a, b in ((-away, 0), (away, 0), (0, away), (0, -away))
            ]
        self._labels = Labels(plane.size.plot_width + _BEYOND_PX, points)

    def rules(self) -> Iterator[Spec]:
        """The lines of rules, behind everything else."""
        for direction in Direction:
            rules = [one for one in self._plane.chart.rules if one.direction is direction]
            if rules:
                line = {"type": "rule", "strokeDash": [7, 4], "color": LIGHT.muted}
                values = [self._at(one) for one in rules]
                yield {"data": {"values": values}, "mark": line, "encoding": self._across(rules[0])}

    def labelled(self) -> Iterator[Spec]:
        marks = list(self._marks())
        found: dict[Place, list[Rule]] = {}
        for rule in self._plane.chart.rules:
            place = self._place_of(rule)
            if place is not None:
                found.setdefault(place, []).append(rule)
        for place, rules in found.items():
            yield from self._rule_texts(rules, place)
        yield from marks

    def _at(self, rule: Rule) -> Spec:
        is_level = rule.direction is Direction.HORIZONTAL
        return {"y": rule.at} if is_level else self._plane.row(rule.at)

    def _across(self, rule: Rule) -> Spec:
        axis = "y" if rule.direction is Direction.HORIZONTAL else "x"
        return {axis: self._plane.xy()[axis]}

    def _place_of(self, rule: Rule) -> Place | None:
        """At either end of a horizontal rule, at the head of a vertical one; None without room."""
        width, height = self._plane.size.plot_width, self._plane.height_px
        ends: list[tuple[tuple[float, float], Place]]
        if isinstance(rule.at, int | float) and rule.direction is Direction.HORIZONTAL:
            y = self._plane.y_px(rule.at)
            ends = [((width if one.align == "right" else 0.0, y), one) for one in ENDS]
        else:
            ends = [((self._plane.x_px(rule.at), height), UPWARDS)]
        text = self._rule_text(rule, ends[0][1])
        index = self._labels.add(ends, text_px(text, SMALL))
        return ends[index][1] if index >= 0 else None

    def _rule_text(self, rule: Rule, place: Place) -> str:
        room = self._plane.head_px if place.upright else self._plane.size.plot_width - 10.0
        # A limit of Vega's measures the text again and again.
        return cut(rule.label, room, font=SMALL)

    def _rule_texts(self, rules: Sequence[Rule], place: Place) -> Iterator[Spec]:
        if place.upright:
            end: Spec = {"y": {"value": 0}}
            mark: Spec = {"angle": 270, "dx": -place.dy, "dy": place.dx}
        else:
            end = {"x": {"value": 0 if place.align == "left" else "width"}}
            mark = {"dx": place.dx, "dy": place.dy}
        mark |= {"type": "text", "align": place.align, "baseline": "middle"}
        encoding = {**self._across(rules[0]), **end, "text": {"field": "label"}}
        values = [{**self._at(one), "label": self._rule_text(one, place)} for one in rules]
        for look in (self._halo(), {"color": LIGHT.muted}):
            yield {"data": {"values": values}, "mark": mark | look, "encoding": encoding}

    def _halo(self) -> Spec:
        """What is drawn behind a label, lest lines cross it out."""
        background = LIGHT.background
        halo = {"color": background, "stroke": background, "strokeWidth": 3, "opacity": 0.75}
        return halo | {"strokeJoin": "round"}

    def _marks(self) -> Iterator[Spec]:
        at_edges = [one for one in self._plane.chart.marks if one.y is None]
        at_points = [one for one in self._plane.chart.marks if one.y is not None]
        for marks, places in ((at_edges, ABOVE), (at_points, AROUND)):
            if marks:
                yield self._symbols(marks, ring=marks is at_points)
                yield from self._mark_labels(marks, places)

    def _symbols(self, marks: Sequence[Mark], *, ring: bool) -> Spec:
        mark = {"type": "point", "filled": False, "opacity": 1}
        mark |= {"shape": "circle" if ring else _CROSS}
        mark |= {"size": 170, "strokeWidth": 1.6} if ring else {"size": 90, "strokeWidth": 2.4}
        colour = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
        values = [self._row(one) | {"colour": self._colour(one)} for one in marks]
        encoding = {**self._plane.xy(), "stroke": colour}
        return {"data": {"values": values}, "mark": mark, "encoding": encoding}

    def _row(self, mark: Mark) -> Spec:
        return self._plane.row(mark.x, y=self._plane.height_of(mark))

    def _colour(self, mark: Mark) -> str:
        return self._looks[mark.series].colour if mark.series else LIGHT.text

    def _mark_labels(self, marks: Sequence[Mark], places: Sequence[Place]) -> Iterator[Spec]:
        """The labels at each place; of equal ones in a row the first."""
        found: dict[Place, list[Spec]] = {}
        reached: dict[str, float] = {}
        for mark in marks:
            text = plain(mark.label, _LONGEST)
            length = _BOLD * text_px(text, SMALL)
            at = self._plane.place_of(mark)
            before = reached.get(text, -math.inf)
            is_known = mark.y is None and abs(at[0] - before) < length
            index = -1
            if not is_known:
                index = self._labels.add([(at, place) for place in places], length)
            if index >= 0:
                found.setdefault(places[index], []).append(self._row(mark) | {"label": text})
            if is_known or index >= 0:
                reached[text] = at[0]
        for place, values in found.items():
            yield from self._mark_texts(values, place)

    def _mark_texts(self, values: Sequence[Spec], place: Place) -> Iterator[Spec]:
        encoding = {**self._plane.xy(), "text": {"field": "label"}}
        mark = {"type": "text", "fontSize": SMALL, "fontWeight": "bold", "align": place.align}
        mark |= {"dx": place.dx, "dy": place.dy}
        for look in (self._halo(), {"color": LIGHT.text}):
            yield {"data": {"values": list(values)}, "mark": mark | look, "encoding": encoding}
