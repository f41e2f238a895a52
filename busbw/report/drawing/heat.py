"""A Heatmap as a Vega-Lite specification: a path for each colour, placed by the pixel.

As a mark for each cell a year of 42 cases would be 15 000 elements. Cells of one colour are lines
as thick as a row; neighbours of equal colour are one line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..chart import Gap, Heatmap, HeatmapRow
from .layout import SMALL, TITLE, Size, plain, text_px, wrapped
from .palette import LIGHT, SCHEMA, config

Spec = dict[str, Any]
# A line from left to right: where it begins, and its length. A path: where it begins, and the rest.
_Line = tuple[float, float, float]
_Move = tuple[float, float, str]

_PADDING = 8
_ROW, _HEADING, _LINE = 12, 20, 18
_CELL = 11
_WIDEST = 24.0
_LABEL, _LONGEST = 10, 14
_SWATCH, _TICK = 26, 4
_DATE_GAP = 6
# A single night that failed is as wide at least.
_RARE = 3.0


def heatmap_specification(heatmap: Heatmap, size: Size) -> Spec:
    return _Drawing(heatmap, size).specification()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """A kind of cell: its colour, and where lines of the background part it, from its middle."""

    colour: str
    parted: tuple[float, ...] = ()
    least_px: float = 0.0


class _Drawing:
    """One heat map at one size: where its rows and columns are, in pixels from the upper left."""

    def __init__(self, heatmap: Heatmap, size: Size) -> None:
        self.heatmap = heatmap
        self.width = size.width - 2 * _PADDING
        labels = [plain(row.label, _LONGEST) for row in heatmap.rows]
        self.left = max(24.0, max(text_px(one, _LABEL) for one in labels) + 8)
        self.column = min(_WIDEST, (self.width - self.left) / len(heatmap.columns))
        self.headings: list[tuple[float, str]] = []
        self.rows: list[float] = []
        y = float(_LINE)
        for group, rows in itertools.groupby(heatmap.rows, lambda row: row.group):
            self.headings.append((y + _HEADING - 7, plain(group, 100)))
            y += _HEADING
            for _ in rows:
                self.rows.append(y + _ROW / 2)
                y += _ROW
        self.bottom = y
        self.height = (
            y
            + 4 * _LINE
            + 4
            + _LINE * (1 + max((line for line, _, _ in self._words()), default=-1))
        )

    def specification(self) -> Spec:
        title = wrapped(self.heatmap.title, self.width - 4, font=TITLE + 1, most=3)
        subtitle = wrapped(self.heatmap.subtitle, self.width - 4, font=12, most=6)
        legend = list(self._legend(self.bottom + 2 * _LINE))
        layers = [*self._cells(), *self._marks(), *self._texts(), *self._dates(), *legend]
        return {
            "$schema": SCHEMA,
            "width": self.width,
            "height": self.height,
            "padding": _PADDING,
            "background": "transparent",
            "title": {"text": title, "subtitle": subtitle},
            "layer": layers,
            "config": config(self.width),
        }

    def look_of(self, kind: int | Gap) -> _Look:
        if kind is Gap.FAILED:
            return _Look(colour=LIGHT.failed, parted=(-2.0, 2.0), least_px=_RARE)
        if kind is Gap.INJECTED:
            return _Look(colour=LIGHT.muted, parted=(-2.0, 2.0), least_px=_RARE)
        if kind is Gap.OUT_OF_MEMORY:
            return _Look(colour=LIGHT.muted, parted=(0.0,), least_px=_RARE)
        assert isinstance(kind, int)
        scale = LIGHT.slower if kind > 0 else LIGHT.faster
        return _Look(colour=scale[min(abs(kind), len(scale)) - 1] if kind else LIGHT.same)

    def _cells(self) -> Iterator[Spec]:
        """Under all others what was measured: else there are seams between colours."""
        runs: dict[int | Gap, list[_Line]] = {0: []}
        for y, row in zip(self.rows, self.heatmap.rows):
            for is_known, first, count in _runs([cell is not Gap.MISSING for cell in row.cells]):
                if is_known:
                    runs[0].append(self._line(first, count, y))
            for kind, first, count in _runs(self._kinds(row)):
                if kind not in (0, Gap.MISSING):
                    runs.setdefault(kind, []).append(self._line(first, count, y))
        for kind, lines in runs.items():
            yield from self._drawn(lines, self.look_of(kind))

    def _kinds(self, row: HeatmapRow) -> list[int | Gap]:
        return [cell if isinstance(cell, Gap) else self.heatmap.bin_of(cell) for cell in row.cells]

    def _line(self, first: int, count: int, y: float) -> _Line:
        return (self.left + first * self.column, y, count * self.column)

    def _drawn(self, lines: Sequence[_Line], look: _Look) -> Iterator[Spec]:
        wide = [
            (x - max(0.0, look.least_px - length) / 2, y, max(length, look.least_px))
            for x, y, length in lines
        ]
        if wide:
            yield self._path([_across(*one) for one in wide], look.colour, _CELL)
        for offset in look.parted:
            parted = [_across(x, y + offset, length) for x, y, length in wide]
            if parted:
                yield self._path(parted, LIGHT.background, 1.5)

    def _path(self, moves: Sequence[_Move], colour: str, thick: float) -> Spec:
        """Lines as one symbol in the middle: with a size of 4 its path is in pixels."""
        x, y = self.width / 2, self.height / 2
        path = "".join(f"M{one[0] - x:.2f},{one[1] - y:.2f}{one[2]}" for one in moves)
        mark = {"type": "point", "shape": path, "size": 4, "filled": False, "opacity": 1}
        # Clipped, lest the width of lines counts at their ends and makes the picture wider.
        mark |= {"stroke": colour, "strokeWidth": thick, "clip": True}
        place = {"x": {"value": x}, "y": {"value": y}}
        return {"data": {"values": [{}]}, "mark": mark, "encoding": place}

    def _marks(self) -> Iterator[Spec]:
        bars = [
            (self.left + mark.column * self.column, y - _ROW / 2, f"v{_ROW}")
            for y, row in zip(self.rows, self.heatmap.rows)
            for mark in row.marks
        ]
        if bars:
            yield self._path(bars, LIGHT.background, 4)
            yield self._path(bars, LIGHT.text, 2)

    def _texts(self) -> Iterator[Spec]:
        labels = [
            (self.left - 5, y + 0.5, plain(row.label, _LONGEST))
            for y, row in zip(self.rows, self.heatmap.rows)
        ]
        look = {"align": "right", "baseline": "middle", "fontSize": _LABEL}
        yield self._text(labels, look | {"color": LIGHT.text})
        headings = [(0.0, y, text) for y, text in self.headings]
        look = {"align": "left", "fontWeight": "bold", "limit": self.width}
        yield self._text(headings, look | {"color": LIGHT.text})

    def _text(self, texts: Sequence[tuple[float, float, str]], look: Spec) -> Spec:
        values = [{"x": x, "y": y, "label": text} for x, y, text in texts]
        ends = {"x": self.width, "y": self.height}
        place: Spec = {
            name: {
                "field": name,
                "type": "quantitative",
                "scale": {"domain": [0, end], "range": [0, end], "nice": False, "zero": False},
                "axis": None,
            }
            for name, end in ends.items()
        }
        mark = {"type": "text", **look}
        text = {"field": "label", "type": "nominal"}
        return {"data": {"values": values}, "mark": mark, "encoding": {**place, "text": text}}

    def _dates(self) -> Iterator[Spec]:
        """Above and below the rows, at the begin of months or, of few nights, at some of them."""
        ticks: list[tuple[float, float, str]] = []
        labels: list[tuple[float, float, str]] = []
        for column, text in _dates(self.heatmap.columns, self.width - self.left, self.column):
            x = self.left + column * self.column
            ticks += [(x, y, f"v{_TICK}") for y in (_LINE - _TICK, self.bottom + 2)]
            length = text_px(text, SMALL)
            x = min(x, self.width - length)
            # The last one may have been moved to the left, where there is another.
            if not labels or x - labels[-1][0] >= length + _DATE_GAP:
                labels += [(x, y, text) for y in (_LINE - 8.0, self.bottom + _LINE - 1)]
        yield self._path(ticks, LIGHT.muted, 1)
        yield self._text(labels, {"align": "left", "color": LIGHT.muted})

    def _scale(self) -> list[int]:
        count = len(self.heatmap.edges)
        return list(range(-count, count + 1))

    def _legend(self, y: float) -> Iterator[Spec]:
        left = text_px("faster", SMALL) + 6
        for at, kind in enumerate(self._scale()):
            line = (left + at * _SWATCH, y + 6, float(_SWATCH))
            yield from self._drawn([line], self.look_of(kind))
        right = left + len(self._scale()) * _SWATCH
        words = [(0.0, y + 10, "faster"), (right + 6, y + 10, "slower")]
        yield self._text(words, {"align": "left", "color": LIGHT.text})
        edges = [1 / (1 + one) for one in reversed(self.heatmap.edges)]
        edges += [1 + one for one in self.heatmap.edges]
        ends = [(left + (at + 1) * _SWATCH, y + 23, f"{edge:.2f}") for at, edge in enumerate(edges)]
        yield self._text(ends, {"align": "center", "color": LIGHT.muted, "fontSize": _LABEL})
        yield from self._other_kinds(y + 2 * _LINE + 4)

    def _other_kinds(self, y: float) -> Iterator[Spec]:
        labels = []
        for line, x, text in self._words():
            middle = y + line * _LINE + 4
            labels.append((x + 20, middle + 4, text))
            if text == Gap.MISSING.value:
                yield self._path([(x, middle - 5, "h14v10h-14z")], LIGHT.muted, 1)
            elif text in (gap.value for gap in Gap):
                yield from self._drawn([(x, middle, 14.0)], self.look_of(Gap(text)))
            else:
                yield self._path([(x + 7, middle - 6, "v12")], LIGHT.text, 2)
        if labels:
            yield self._text(labels, {"align": "left", "color": LIGHT.text})

    def _words(self) -> list[tuple[int, float, str]]:
        there = {cell for row in self.heatmap.rows for cell in row.cells if isinstance(cell, Gap)}
        kinds = (Gap.OUT_OF_MEMORY, Gap.FAILED, Gap.INJECTED, Gap.MISSING)
        words = [gap.value for gap in kinds if gap in there]
        words += ["level changed"] if any(row.marks for row in self.heatmap.rows) else []
        found, line, x = [], 0, 0.0
        for text in words:
            length = 20 + text_px(text, SMALL) + 16
            if x and x + length > self.width:
                line, x = line + 1, 0.0
            found.append((line, x, text))
            x += length
        return found


def _runs(values: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Equal values next to each other: the value, where they begin, and how many there are."""
    first = 0
    for value, those in itertools.groupby(values):
        count = sum(1 for _ in those)
        yield value, first, count
        first += count


def _across(x: float, y: float, length: float) -> _Move:
    return (x, y, f"h{length:.2f}")


def _dates(columns: Sequence[datetime], width: float, column: float) -> list[tuple[int, str]]:
    """As many as fit: the first of a month, or of few any; the hour where a day has several."""
    months = [
        at
        for at, one in enumerate(columns)
        if at and (one.year, one.month) != (columns[at - 1].year, columns[at - 1].month)
    ]
    days = len({one.date() for one in columns})
    form = "%Y-%m" if len(months) > 2 else "%Y-%m-%d" if 2 * days > len(columns) else "%m-%d %H:%M"
    places = months if len(months) > 2 else list(range(len(columns)))
    length = text_px(columns[0].strftime(form), SMALL) + _DATE_GAP
    most = max(1, int(width / length))
    found: list[tuple[int, str]] = []
    for at in places[:: -(-len(places) // most)]:
        if not found or (at - found[-1][0]) * column >= length:
            found.append((at, columns[at].strftime(form)))
    return found
