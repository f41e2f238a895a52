"""A Chart as a Vega-Lite specification, version 5 or 6.

Values stand in the specification, so that nothing is loaded; names are values of it, and never part
of an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from busbw.model import moment_text

from ..chart import Axis, Chart, Direction, Edge, Mark, Position, Scale, Style
from .layout import (
    Range,
    Size,
    apart,
    categories,
    least_covering,
    legend_columns,
    number,
    plain,
    ticks,
    unlike,
    wrapped,
    x_range,
)
from .looks import looks_of
from .palette import LIGHT, Theme

Spec = dict[str, Any]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_FONT = "sans-serif"
_TITLE, _SMALL = 15, 11
_CROSS = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
_LINE_PX = 14
_LINES_APART_PX = 36
# Where labels of points may be, downwards: below a point of a curve that rises there is nothing.
_OFFSETS = (17, -15)
# A bold character of a mark's label, which may be a capital.
_LABEL_PX = 8
# Beyond this share of the width labels end at their point, lest they leave the picture.
_RIGHT = 0.85

# 1K is 1024 bytes, and 1G is written 1024M.
_PAYLOAD_TEXT = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + 'K' : format(datum.value, '~r')"
)
_NUMBER_TEXT = "format(datum.value, '~g')"


def specification(chart: Chart, size: Size, theme: Theme = LIGHT) -> Spec:
    """The specification as plain data."""
    return _Drawing(chart, size, theme).specification()


class _Drawing:
    """One chart at one size, with the ranges of its axes."""

    def __init__(self, chart: Chart, size: Size, theme: Theme) -> None:
        self.chart, self.size, self.theme = chart, size, theme
        self.looks = looks_of(chart, theme)
        edges = [one for one in chart.marks if one.y is None]
        at = {edge: max((_stacked(edges, one) for one in edges if one.edge is edge), default=-1)
              for edge in Edge}  # fmt: skip
        rows = {edge: 0.14 + 0.10 * (most + 1) if most >= 0 else 0.06 for edge, most in at.items()}
        values = [float(y) for y in chart.all_y if isinstance(y, int | float)]
        self.x = x_range(chart)
        self.y = Range.of(chart.y, values, before=rows[Edge.BOTTOM], after=rows[Edge.TOP])
        self.names = categories(chart)
        self.shown_names = unlike([str(one) for one in self.names])

    def specification(self) -> Spec:
        """Title, layers and configuration."""
        chart, width = self.chart, self.size.width
        title = wrapped(chart.title, width - 20, font=_TITLE + 1, most=3)
        subtitle = wrapped(chart.subtitle, width - 20, font=12, most=6)
        shown = self._shown()
        entries = -(-len(shown) // legend_columns(shown, width, font=_SMALL))
        height = self.size.plot_height
        if not self.size.height:
            height += len(title) * 19 + len(subtitle) * 15 + entries * 18 + 28
        return {
            "$schema": _SCHEMA,
            "width": width,
            "height": height,
            "autosize": {"type": "fit", "contains": "padding"},
            "padding": 8,
            "background": "transparent",
            "title": {"text": title, "subtitle": subtitle},
            "layer": [
                *self._bands(),
                *self._rules(is_label=False),
                *self._series(),
                *self._rules(is_label=True),
                *self._marks(),
            ],
            "config": self._config(),
        }

    def _shown(self) -> list[str]:
        """What the legend has: a chart of one thing needs none."""
        shown = [one.name for one in self.looks.values()]
        return shown if len(shown) > 1 else []

    def _row(self, x: Position, **others: Any) -> Spec:
        if isinstance(x, datetime):
            return {"x": moment_text(x), **others}
        return {"x": self.shown_names[x] if isinstance(x, str) else x, **others}

    def _channel(self, axis: Axis, field: str, *, is_x: bool) -> Spec:
        found, length = (self.x, self.size.plot_width) if is_x else (self.y, self.size.plot_height)
        shown: Spec = {"title": plain(axis.heading, 60), "grid": True}
        if axis.scale is Scale.CATEGORY:
            order = list(self.shown_names.values())
            return {"field": field, "type": "nominal", "sort": order, "axis": shown}
        if axis.scale is Scale.TIME:
            scale = {"type": "utc"}
            return {"field": field, "type": "temporal", "scale": scale, "axis": shown}
        kind: Spec = {"type": "linear", "zero": False}
        if axis.is_log:
            kind = {"type": "log", "base": 2 if axis.scale is Scale.LOG2 else 10}
        values = ticks(axis, found, length)
        shown |= {} if values is None else {"values": values}
        shown["labelExpr"] = _PAYLOAD_TEXT if axis.is_payload else _NUMBER_TEXT
        kind |= {"domain": [found.low, found.high], "nice": False}
        return {"field": field, "type": "quantitative", "scale": kind, "axis": shown}

    def _xy(self) -> Spec:
        return {
            "x": self._channel(self.chart.x, "x", is_x=True),
            "y": self._channel(self.chart.y, "y", is_x=False),
        }

    def _by_name(self, channel: str, values: Sequence[Any]) -> Spec:
        """A channel by the names of series, with one legend for all such channels."""
        looks = list(self.looks.values())
        scale = {"domain": [one.name for one in looks], "range": list(values)}
        shown = self._shown()
        columns = legend_columns(shown, self.size.width, font=_SMALL)
        legend = {"title": None, "columns": columns} if shown else None
        return {
            "field": "name",
            "type": "nominal",
            "sort": None,
            "scale": scale,
            "legend": legend,
        } | ({"title": None} if channel else {})

    def _styles(self, *channels: str) -> Spec:
        looks = list(self.looks.values())
        ranges: Mapping[str, Sequence[Any]] = {
            "color": [one.colour for one in looks],
            "shape": [one.shape for one in looks],
            "strokeDash": [list(one.dash) for one in looks],
        }
        return {channel: self._by_name(channel, ranges[channel]) for channel in channels}

    def _bands(self) -> Iterator[Spec]:
        for band in self.chart.bands:
            name = self.looks[band.name].name
            values = [self._row(x, y=low, high=high, name=name) for x, low, high in band.points]
            style = self._styles("color")
            yield {
                "data": {"values": values},
                "mark": {"type": "area", "line": False},
                "encoding": {**self._xy(), "y2": {"field": "high"}, **style},
            }

    def _series(self) -> Iterator[Spec]:
        every = [(one, self.looks[one.name].name) for one in self.chart.series]
        lines = [
            self._row(x, y=y, name=name)
            for one, name in every
            if one.style is not Style.DOTS
            for x, y in one.points
        ]
        dots = [
            self._row(x, y=y, name=name)
            for one, name in every
            if one.style is not Style.LINE
            for x, y in one.points
        ]
        yield {
            "data": {"values": lines},
            "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
            "encoding": {**self._xy(), **self._styles("color", "strokeDash")},
        }
        yield {
            "data": {"values": dots},
            "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
            "encoding": {**self._xy(), **self._styles("color", "shape")},
        }

    def _rules(self, *, is_label: bool) -> Iterator[Spec]:
        for direction in Direction:
            rules = [one for one in self.chart.rules if one.direction is direction]
            if not rules:
                continue
            is_level = direction is Direction.HORIZONTAL
            values = [
                {**({"y": one.at} if is_level else self._row(one.at)), "label": plain(one.label)}
                for one in rules
            ]
            axis = "y" if is_level else "x"
            place = {axis: self._xy()[axis]}
            if is_label:
                yield from self._rule_labels(values, place, is_level=is_level)
                continue
            line = {"type": "rule", "strokeDash": [7, 4], "color": self.theme.muted}
            yield {"data": {"values": values}, "mark": line, "encoding": place}

    def _rule_labels(
        self, values: Sequence[Spec], place: Spec, *, is_level: bool
    ) -> Iterator[Spec]:
        """At the left end of a horizontal rule, and upwards from the foot of a vertical one."""
        start = {"x": {"value": 0}} if is_level else {"y": {"value": "height"}}
        mark: Spec = {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -3}
        mark |= {"angle": 0 if is_level else 270}
        mark |= {"limit": (self.size.plot_width if is_level else self.size.plot_height) - 10}
        encoding = {**place, **start, "text": {"field": "label"}}
        for look in (self._halo(), {"color": self.theme.muted}):
            yield {"data": {"values": values}, "mark": mark | look, "encoding": encoding}

    def _halo(self) -> Spec:
        """What is drawn behind a label, lest lines cross it out."""
        background = self.theme.background
        return {"color": background, "stroke": background, "strokeWidth": 3, "opacity": 0.75}

    def _marks(self) -> Iterator[Spec]:
        at_edges = [one for one in self.chart.marks if one.y is None]
        at_points = [one for one in self.chart.marks if one.y is not None]
        for marks, offsets in ((at_edges, (-13,)), (at_points, _OFFSETS)):
            if marks:
                values = self._marked(marks, offsets)
                yield self._symbols(values, ring=marks is at_points)
                yield from self._labels(values)

    def _marked(self, marks: Sequence[Mark], offsets: Sequence[int]) -> list[Spec]:
        """A row for each mark, with where its label is; it has none where another one is near."""
        pixels = [self._pixels(*self._place(one)) for one in marks]
        lengths = [len(plain(one.label, 40)) * _LABEL_PX for one in marks]
        points = [
            self._pixels(self.x.share(number(x, self.names)), self.y.share(y))
            for one in self.chart.series
            if one.style is not Style.LINE
            for x, y in one.points
        ]
        # Of two labels one may be below its point, and the other above.
        apart_px = _LINE_PX if len(offsets) == 1 else _LINES_APART_PX
        return [
            self._row(
                one.x,
                y=self.y.at(self._place(one)[1]),
                label=plain(one.label, 40) if is_written else "",
                colour=self._colour(one),
                is_right=place[0] > _RIGHT * self.size.plot_width,
                offset=least_covering(place, length, points, offsets),
            )
            for one, place, length, is_written in zip(
                marks, pixels, lengths, apart(pixels, (max(lengths) + 6, apart_px))
            )
        ]

    def _pixels(self, x: float, y: float) -> tuple[float, float]:
        return x * self.size.plot_width, y * self.size.plot_height

    def _symbols(self, values: Sequence[Spec], *, ring: bool) -> Spec:
        shape = "circle" if ring else _CROSS
        mark = {"type": "point", "filled": False, "opacity": 1, "shape": shape}
        mark |= {"size": 170, "strokeWidth": 1.6} if ring else {"size": 90, "strokeWidth": 2.4}
        colour = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
        encoding = {**self._xy(), "stroke": colour}
        return {"data": {"values": values}, "mark": mark, "encoding": encoding}

    def _labels(self, values: Sequence[Spec]) -> Iterator[Spec]:
        """The labels at each offset."""
        encoding = {**self._xy(), "text": {"field": "label"}}
        for is_right, offset in dict.fromkeys((row["is_right"], row["offset"]) for row in values):
            those = [
                row for row in values if (row["is_right"], row["offset"]) == (is_right, offset)
            ]
            mark = {"type": "text", "dy": offset, "fontSize": _SMALL, "fontWeight": "bold"}
            mark |= {"align": "right", "dx": 8} if is_right else {"align": "center"}
            for look in (self._halo(), {"color": self.theme.text}):
                yield {"data": {"values": those}, "mark": mark | look, "encoding": encoding}

    def _colour(self, mark: Mark) -> str:
        return self.looks[mark.series].colour if mark.series else self.theme.text

    def _place(self, mark: Mark) -> tuple[float, float]:
        """Where a mark is, as shares of width and height."""
        x = self.x.share(number(mark.x, self.names))
        if mark.y is not None:
            return x, self.y.share(mark.y)
        row = _stacked([one for one in self.chart.marks if one.y is None], mark)
        up = 0.035 + 0.10 * row
        return x, up if mark.edge is Edge.BOTTOM else 1 - 0.09 - 0.10 * row

    def _config(self) -> Spec:
        text, muted, grid = self.theme.text, self.theme.muted, self.theme.grid
        return {
            "font": _FONT,
            "aria": False,
            "view": {"stroke": None},
            "title": {
                "anchor": "start",
                "frame": "bounds",
                "color": text,
                "fontSize": _TITLE,
                "subtitleColor": muted,
                "subtitleFontSize": 12,
                "offset": 12,
            },
            "axis": {
                "gridColor": grid,
                "domainColor": muted,
                "tickColor": muted,
                "labelColor": text,
                "titleColor": text,
                "labelFontSize": _SMALL,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "labelOverlap": True,
            },
            "legend": {
                "orient": "bottom",
                "labelColor": text,
                "labelFontSize": _SMALL,
                "labelLimit": self.size.width - 60,
                "symbolSize": 100,
                "symbolStrokeWidth": 2,
            },
            "text": {"fontSize": _SMALL, "font": _FONT},
        }


def _stacked(edges: Sequence[Mark], mark: Mark) -> int:
    """How many marks at the same edge and x come before this one."""
    same = [one for one in edges if (one.x, one.edge) == (mark.x, mark.edge)]
    return same.index(mark)
