"""The axes of one chart at one size; pixels are estimates, from the lower left of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from busbw.model.stored import moment_text

from ..chart import Axis, Chart, Direction, Edge, Mark, Position, Scale
from .layout import Range, Size, categories, number, plain, text_px, ticks, unlike, x_range
from .palette import SMALL

Spec = dict[str, Any]

# 1K is 1024 bytes, and 1G is written 1024M.
_PAYLOAD_TEXT = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + 'K' : format(datum.value, '~r')"
)
_NUMBER_TEXT = "format(datum.value, '~g')"
_DATE_PX, _DATE_GAP_PX = 90, 8
# The longest label of a vertical rule that is written in full.
_MOST_HEAD_PX, _HEAD_GAP_PX = 144.0, 8.0
# Beyond it dates are months, and below it hours are shown.
_MONTHS, _HOURS = timedelta(days=120), timedelta(days=3)


class Plane:
    """One chart at one size, with the ranges of its axes."""

    def __init__(self, chart: Chart, size: Size) -> None:
        self.chart, self.size = chart, size
        edges = [one for one in chart.marks if one.y is None]
        self._stacks = _stacks(edges)
        at = {
            edge: max((self._stacks[one] for one in edges if one.edge is edge), default=-1)
            for edge in Edge
        }
        rows = {edge: 0.14 + 0.10 * (most + 1) if most >= 0 else 0.06 for edge, most in at.items()}
        values = [float(y) for y in chart.all_y if isinstance(y, int | float)]
        before, after = rows[Edge.BOTTOM], rows[Edge.TOP]
        upright = [one for one in chart.rules if one.direction is Direction.VERTICAL]
        lengths = [text_px(plain(one.label), SMALL) + _HEAD_GAP_PX for one in upright]
        # Labels of vertical rules are above everything else.
        self.head_px = min(_MOST_HEAD_PX, max(lengths, default=0.0))
        self.height_px = size.plot_height + (0.0 if size.height else self.head_px)
        after += self.head_px / size.plot_height * (1 + before + after)
        self._x = x_range(chart)
        self._y = Range.of(chart.y, values, before=before, after=after)
        self._names = categories(chart)
        self._shown_names = unlike([str(one) for one in self._names])

    def row(self, x: Position, **others: Any) -> Spec:
        if isinstance(x, datetime):
            return {"x": moment_text(x), **others}
        return {"x": self._shown_names[x] if isinstance(x, str) else x, **others}

    def xy(self) -> Spec:
        return {
            "x": self._channel(self.chart.x, "x", is_x=True),
            "y": self._channel(self.chart.y, "y", is_x=False),
        }

    def _channel(self, axis: Axis, field: str, *, is_x: bool) -> Spec:
        found = self._x if is_x else self._y
        length = self.size.plot_width if is_x else int(self.height_px)
        shown: Spec = {"title": plain(axis.heading, 60), "grid": True}
        if axis.scale is Scale.CATEGORY:
            order = list(self._shown_names.values())
            widest = max((text_px(one, SMALL) for one in order), default=0.0)
            shown["labelAngle"] = 0 if widest * len(order) < 0.9 * length else 270
            return {"field": field, "type": "nominal", "sort": order, "axis": shown}
        if axis.scale is Scale.TIME:
            shown |= {"format": self._date_form(), "tickCount": max(2, length // _DATE_PX)}
            shown |= {"labelSeparation": _DATE_GAP_PX}
            scale = {"type": "utc", "nice": False}
            return {"field": field, "type": "temporal", "scale": scale, "axis": shown}
        kind: Spec = {"type": "linear", "zero": False}
        if axis.is_log:
            kind = {"type": "log", "base": 2 if axis.scale is Scale.LOG2 else 10}
        values = ticks(axis, found, length)
        shown |= {} if values is None else {"values": values}
        shown["labelExpr"] = _PAYLOAD_TEXT if axis.is_payload else _NUMBER_TEXT
        kind |= {"domain": [found.low, found.high], "nice": False}
        return {"field": field, "type": "quantitative", "scale": kind, "axis": shown}

    def _date_form(self) -> str:
        span = timedelta(seconds=self._x.high - self._x.low)
        if span > _MONTHS:
            return "%Y-%m"
        return "%Y-%m-%d" if span > _HOURS else "%m-%d %H:%M"

    def place_of(self, mark: Mark) -> tuple[float, float]:
        """Where a mark is, in pixels; those without a value above each other at their edge."""
        if mark.y is not None:
            return self.pixels(mark.x, mark.y)
        stacked = 0.10 * self._stacks[mark]
        up = 0.035 + stacked if mark.edge is Edge.BOTTOM else 1 - 0.09 - stacked
        return self.x_px(mark.x), up * self.height_px

    def height_of(self, mark: Mark) -> float:
        return self._y.at(self.place_of(mark)[1] / self.height_px)

    def pixels(self, x: Position, y: float) -> tuple[float, float]:
        return self.x_px(x), self.y_px(y)

    def x_px(self, x: Position) -> float:
        return self._x.share(number(x, self._names)) * self.size.plot_width

    def y_px(self, y: float) -> float:
        return self._y.share(y) * self.height_px


def _stacks(edges: Sequence[Mark]) -> dict[Mark, int]:
    counts: dict[tuple[Position, Edge], int] = {}
    found: dict[Mark, int] = {}
    for one in edges:
        at = (one.x, one.edge)
        found.setdefault(one, counts.get(at, 0))
        counts[at] = counts.get(at, 0) + 1
    return found
