"""A chart or a heat map as a value, and the table of the same values.

What is shown is decided where it is made, how it looks in `vega`: no colour, font or size may
enter here. The units of a chart's values are those of its axes.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from busbw.model.limits import moment_text
from busbw.model.words import payload_text
from busbw.report.table import Column, Row, Table, TextLine

# A number, a name on a category axis, or a moment on a time axis.
Position: TypeAlias = "float | str | datetime"


class Scale(enum.Enum):
    """How values become positions."""

    LINEAR = "linear"
    LOG2 = "log2"
    LOG10 = "log10"
    TIME = "time"
    CATEGORY = "category"


class Style(enum.Enum):
    """How a series is drawn."""

    LINE = "line"
    DOTS = "dots"
    LINE_AND_DOTS = "line+dots"


class Direction(enum.Enum):
    """Which way a rule runs."""

    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A quantity; with the unit ``bytes`` its values are written as payloads, such as ``64K``."""

    name: str
    unit: str = ""
    scale: Scale = Scale.LINEAR

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit and not self.is_payload else self.name

    @property
    def is_payload(self) -> bool:
        return self.unit == "bytes"

    @property
    def is_log(self) -> bool:
        return self.scale in (Scale.LOG2, Scale.LOG10)

    def text(self, value: object) -> str:
        if isinstance(value, datetime):
            return moment_text(value)
        if isinstance(value, int | float):
            return payload_text(int(value)) if self.is_payload else f"{value:.4g}"
        return str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Points under one name, in the order of x. Series of one `group` share colour and symbol."""

    name: str
    points: tuple[tuple[Position, float], ...]
    style: Style = Style.LINE_AND_DOTS
    group: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A range of y along x: each point is x, the low and the high end. `group` as of a series."""

    name: str
    points: tuple[tuple[Position, float, float], ...]
    group: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A line across the chart: y for a horizontal one, x for a vertical one."""

    label: str
    at: Position
    direction: Direction = Direction.HORIZONTAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A point with a label, such as OUT_OF_MEMORY; without `y` it is drawn at the bottom."""

    label: str
    x: Position
    y: float | None = None
    series: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Names of series and bands are all different.

    `description` is for those who do not see it, if `described` is not to make it of the values.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    subtitle: str = ""
    bands: tuple[Band, ...] = ()
    rules: tuple[Rule, ...] = ()
    marks: tuple[Mark, ...] = ()
    description: str = ""

    @property
    def parts(self) -> list[Series | Band]:
        return [*self.series, *self.bands]

    @property
    def all_x(self) -> list[Position]:
        drawn = [point[0] for one in self.parts for point in one.points]
        vertical = [one.at for one in self.rules if one.direction is Direction.VERTICAL]
        return [*drawn, *(one.x for one in self.marks), *vertical]


def chart_table(chart: Chart) -> Table:
    """The values behind a chart: a row for each x, a column for each series and end of a band."""
    cells = _cells(chart)
    columns = [Column(chart.x.name, chart.x.name, text=chart.x.text, fits=True, left=True)]
    columns += [
        Column(name, name, unit=chart.y.unit, text=chart.y.text, fits=True, width=len(name), gap=2)
        for name in cells
    ]
    rows = [
        Row(
            {chart.x.name: x, **{name: of_x.get(x) for name, of_x in cells.items()}},
            notes=tuple(map(TextLine, _notes(chart, x))),
        )
        for x in _in_order(chart)
    ]
    return Table(
        columns=tuple(columns),
        rows=tuple(rows),
        title=TextLine(chart.title),
        notes=tuple(_rule_text(chart, one) for one in chart.rules),
        missing="-",
    )


def _cells(chart: Chart) -> dict[str, dict[Position, float | str]]:
    """The values of each column by x; a mark without y stands where its series has no value."""
    cells = {one.name: _of_series(chart.y, one) for one in chart.series}
    for mark in chart.marks:
        if mark.series and mark.y is None:
            cells[mark.series].setdefault(mark.x, mark.label)
    for band in chart.bands:
        cells[f"{band.name}, low"] = {x: low for x, low, _ in band.points}
        cells[f"{band.name}, high"] = {x: high for x, _, high in band.points}
    return cells


def _of_series(axis: Axis, series: Series) -> dict[Position, float | str]:
    """By x; several values at one x, such as launches of a night, are text."""
    found: dict[Position, list[float]] = {}
    for x, y in series.points:
        found.setdefault(x, []).append(y)
    return {x: ys[0] if len(ys) == 1 else ", ".join(map(axis.text, ys)) for x, ys in found.items()}


def _in_order(chart: Chart) -> list[Position]:
    """The places along x, ascending; categories in the order in which they appear."""
    points = [point[0] for one in chart.parts for point in one.points]
    places = list(dict.fromkeys([*points, *(one.x for one in chart.marks)]))
    if chart.x.scale is Scale.CATEGORY:
        return places
    return sorted(places, key=_number)


def _number(x: Position) -> float:
    return x.timestamp() if isinstance(x, datetime) else float(x)


def _notes(chart: Chart, x: Position) -> list[str]:
    return [
        f"{one.label}: {one.series}" if one.series else one.label
        for one in chart.marks
        if one.x == x and not (one.series and one.y is None)
    ]


def _rule_text(chart: Chart, rule: Rule) -> str:
    axis = chart.y if rule.direction is Direction.HORIZONTAL else chart.x
    unit = f" {axis.unit}" if axis.unit and not axis.is_payload else ""
    return f"{rule.label}: {axis.text(rule.at)}{unit}"


def described(picture: Picture) -> str:
    """A picture in words: of a chart each curve by its ends and its marks, for who does not see it.

    Lines without dots, such as baselines, are left out.
    """
    if isinstance(picture, Heatmap) or picture.description:
        return picture.description
    curves = (_curve_text(picture, one) for one in picture.series if one.style is not Style.LINE)
    rules = (f"{_rule_text(picture, one)}." for one in picture.rules)
    said = (f"{text.removesuffix('.')}." for text in (picture.title, picture.subtitle) if text)
    return " ".join([*said, *curves, *rules])


def _curve_text(chart: Chart, one: Series) -> str:
    text = f"{one.name}: {_ends(chart, one) if one.points else 'no figure'}"
    own = [mark for mark in chart.marks if mark.series == one.name]
    for label in dict.fromkeys(mark.label for mark in own):
        places = ", ".join(chart.x.text(mark.x) for mark in own if mark.label == label)
        text += f"; {label} at {places}"
    return f"{text}."


def _ends(chart: Chart, one: Series) -> str:
    def said(point: tuple[Position, float]) -> str:
        unit = f" {chart.y.unit}" if chart.y.unit else ""
        return f"{point[1]:.4g}{unit} at {chart.x.text(point[0])}"

    (first, last), ys = (one.points[0], one.points[-1]), [y for _, y in one.points]
    best = one.points[ys.index(max(ys))]
    if one.style is Style.DOTS:
        return f"{said(one.points[ys.index(min(ys))])} to {said(best)}"
    text = said(first) + (f" to {said(last)}" if len(ys) > 1 else "")
    return text if best in (first, last) else f"{text}, at most {said(best)}"


# A table has as many columns at most: nights, weeks, or months.
_MOST_PERIODS = 14


class Gap(enum.Enum):
    """Why a cell has no ratio."""

    MISSING = "not measured"
    INJECTED = "injected"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    FAILED = "FAILED"


HeatmapCell: TypeAlias = "float | Gap"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatmapMark:
    """A column in which something begins, and what, such as ``+8 % since 2026-03-04``."""

    column: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatmapRow:
    """The cells of one case; neighbours of one `group` are below its name."""

    group: str
    label: str
    cells: tuple[HeatmapCell, ...]
    marks: tuple[HeatmapMark, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Heatmap:
    """Everything that a picture of it shows. `description` says it to those who do not see it.

    `edges` are the ends of bins of ratios, as relative changes: with 0.03 the first bin is from
    1 / 1.03 to 1.03.
    """

    title: str
    columns: tuple[datetime, ...]
    rows: tuple[HeatmapRow, ...]
    edges: tuple[float, ...]
    subtitle: str = ""
    description: str = ""

    def bin_of(self, ratio: float) -> int:
        """Its bin: 0 within the first edge, above 0 where it is larger, below where it is less."""
        far = sum(abs(math.log(ratio)) > math.log1p(edge) for edge in self.edges)
        return far if ratio > 1 else -far


def heatmap_table(heatmap: Heatmap) -> Table:
    """Without a ratio in a month, the most usual reason; what begins is below a row."""
    periods = _periods(heatmap.columns)
    columns = [Column("case", "case", fits=True, left=True)]
    columns += [
        Column(str(at), name, text=_cell_text, fits=True, gap=2, width=len(name))
        for at, (name, _) in enumerate(periods)
    ]
    rows = [
        Row(
            {"case": f"{one.group}, {one.label}"}
            | {str(at): _middle(one.cells[span]) for at, (_, span) in enumerate(periods)},
            notes=tuple(TextLine(mark.text) for mark in one.marks),
        )
        for one in heatmap.rows
    ]
    return Table(
        columns=tuple(columns),
        rows=tuple(rows),
        title=TextLine(heatmap.title),
        notes=(heatmap.subtitle,) if heatmap.subtitle else (),
        missing="-",
    )


def _cell_text(cell: HeatmapCell) -> str:
    return cell.value if isinstance(cell, Gap) else f"{cell:.3f}"


def _middle(cells: Sequence[HeatmapCell]) -> HeatmapCell | None:
    ratios = [one for one in cells if not isinstance(one, Gap)]
    if ratios:
        return statistics.median(ratios)
    ((gap, _),) = Counter(one for one in cells if isinstance(one, Gap)).most_common(1)
    return None if gap is Gap.MISSING else gap


def _periods(columns: Sequence[datetime]) -> list[tuple[str, slice]]:
    if len(columns) <= _MOST_PERIODS:
        return [(f"{one:%Y-%m-%d}", slice(at, at + 1)) for at, one in enumerate(columns)]
    names: Sequence[Callable[[datetime], str]] = (
        lambda one: f"{one:%Y-%m-%d}",
        lambda one: f"{one:%Y-%m}",
        lambda one: f"{one:%Y}",
    )
    for name in names:
        found, first = [], 0
        for period, those in itertools.groupby(map(name, columns)):
            count = sum(1 for _ in those)
            found.append((period, slice(first, first + count)))
            first += count
        if len(found) <= _MOST_PERIODS:
            break
    return found


Picture: TypeAlias = "Chart | Heatmap"


def table_of(picture: Picture) -> Table:
    return heatmap_table(picture) if isinstance(picture, Heatmap) else chart_table(picture)
