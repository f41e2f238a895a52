"""A Chart as a Vega-Lite specification, version 5 or 6.

Values stand in the specification, so that nothing is loaded; names are values of it, and never part
of an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..chart import Chart, Series, Style
from .annotations import Annotations
from .layout import SMALL, TITLE, Plane, Size, legend_columns, wrapped
from .palette import SCHEMA, config, looks_of

Spec = dict[str, Any]

# So many dots are smaller, and behind lines.
_MANY = 150
_DOT, _SMALL_DOT = 45, 9


def chart_specification(chart: Chart, size: Size) -> Spec:
    return _Drawing(chart, size).specification()


class _Drawing:
    """One chart at one size."""

    def __init__(self, chart: Chart, size: Size) -> None:
        self.chart, self.size = chart, size
        self.looks = looks_of(chart)
        self.plane = Plane(chart, size)

    def specification(self) -> Spec:
        chart, width = self.chart, self.size.width
        title = wrapped(chart.title, width - 20, font=TITLE + 1, most=3)
        subtitle = wrapped(chart.subtitle, width - 20, font=12, most=6)
        shown = self._shown()
        entries = -(-len(shown) // legend_columns(shown, width, font=SMALL))
        height = self.plane.height_px
        height += len(title) * 19 + len(subtitle) * 15 + entries * 18 + 28
        annotations = Annotations(self.plane, self.looks)
        return {
            "$schema": SCHEMA,
            "width": width,
            "height": height,
            "autosize": {"type": "fit", "contains": "padding"},
            "padding": 8,
            "background": "transparent",
            "title": {"text": title, "subtitle": subtitle},
            "layer": [
                *self._bands(),
                *annotations.rules(),
                *self._series(),
                *annotations.labelled(),
            ],
            "config": config(width),
        }

    def _shown(self) -> list[str]:
        """What the legend has: a chart of one thing needs none."""
        shown = [one.name for one in self.looks.values()]
        return shown if len(shown) > 1 else []

    def _by_name(self, channel: str, values: Sequence[Any]) -> Spec:
        """A channel by the names of series, with one legend for all such channels."""
        looks = list(self.looks.values())
        scale = {"domain": [one.name for one in looks], "range": list(values)}
        shown = self._shown()
        columns = legend_columns(shown, self.size.width, font=SMALL)
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
            values = [
                self.plane.row(x, y=low, high=high, name=name) for x, low, high in band.points
            ]
            style = self._styles("color")
            yield {
                "data": {"values": values},
                "mark": {"type": "area", "line": False},
                "encoding": {**self.plane.xy(), "y2": {"field": "high"}, **style},
            }

    def _series(self) -> Iterator[Spec]:
        dots = [one for one in self.chart.series if one.style is not Style.LINE]
        many = [one for one in dots if len(one.points) > _MANY]
        if many:
            yield self._dots(many, _SMALL_DOT)
        lines = [one for one in self.chart.series if one.style is not Style.DOTS]
        yield {
            "data": {"values": self._rows(lines)},
            "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
            "encoding": {**self.plane.xy(), **self._styles("color", "strokeDash")},
        }
        few = [one for one in dots if one not in many]
        if few or not many:
            yield self._dots(few, _DOT)

    def _dots(self, series: Sequence[Series], size: int) -> Spec:
        return {
            "data": {"values": self._rows(series)},
            "mark": {"type": "point", "filled": True, "size": size, "opacity": 1},
            "encoding": {**self.plane.xy(), **self._styles("color", "shape")},
        }

    def _rows(self, series: Sequence[Series]) -> list[Spec]:
        return [
            self.plane.row(x, y=y, name=self.looks[one.name].name)
            for one in series
            for x, y in one.points
        ]
