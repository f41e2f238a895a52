"""A chart or a heat map as rows of values, the table of these values, and their words.

What is shown is decided where the rows are made, how it looks in `vega`: no colour, font or size
may enter here. The units of a chart's values are those of its axes.
"""

from __future__ import annotations

import enum
import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from busbw.model.limits import moment_text
from busbw.model.words import payload_text
from busbw.report.table import Column, Row, Table, TextLine

# A number, a name on a category axis, or a moment on a time axis.
Position: TypeAlias = float | str | datetime


class Scale(enum.Enum):
    """How values become positions."""

    LINEAR = "linear"
    LOG2 = "log2"
    LOG10 = "log10"
    TIME = "time"
    CATEGORY = "category"


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


class Kind(enum.Enum):
    """What a row is drawn as; a CURVE is a line with a symbol at each of its points."""

    CURVE = "curve"
    LINE = "line"
    DOTS = "dots"
    # From `y` to `y2`.
    BAND = "band"
    # Across the chart, at a `y` or at an `x`.
    LEVEL = "level"
    MOMENT = "moment"
    # A point with a label, such as OUT_OF_MEMORY; without `y` it is at the bottom.
    MARK = "mark"


SERIES = (Kind.CURVE, Kind.LINE, Kind.DOTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of a chart, under the name of its series or with its own label.

    Series and bands of one `group` share colour and symbol; that of a mark is its series.
    """

    kind: Kind
    name: str
    x: Position | None = None
    y: float | None = None
    y2: float | None = None
    group: str = ""

    @property
    def has_place(self) -> bool:
        return self.x is not None or self.y is not None


def series(
    name: str, points: Iterable[tuple[Position, float]], kind: Kind = Kind.CURVE, group: str = ""
) -> list[Point]:
    """In the order of x. One without any point has a row without a place, for its name."""
    rows = [Point(kind=kind, name=name, x=x, y=y, group=group) for x, y in points]
    return rows or [Point(kind=kind, name=name, group=group)]


def mark(name: str, x: Position, y: float | None, group: str = "") -> Point:
    return Point(kind=Kind.MARK, name=name, x=x, y=y, group=group)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Names of series and bands are all different.

    `description` is for those who do not see it, if `described` is not to make it of the values.
    """

    title: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    subtitle: str = ""
    description: str = ""

    def of(self, *kinds: Kind) -> list[Point]:
        return [one for one in self.points if one.kind in kinds]

    def named(self, *kinds: Kind) -> dict[str, list[Point]]:
        """Those that have a place by their names, in the order in which names appear."""
        found: dict[str, list[Point]] = {one.name: [] for one in self.of(*kinds)}
        for one in self.of(*kinds):
            found[one.name] += [] if one.x is None else [one]
        return found

    def places(self, *kinds: Kind) -> list[Position]:
        """Along x, ascending; categories in the order in which they appear."""
        found = list(dict.fromkeys(one.x for one in self.of(*kinds) if one.x is not None))
        return found if self.x.scale is Scale.CATEGORY else sorted(found, key=_number)


def _number(x: Position) -> float:
    return x.timestamp() if isinstance(x, datetime) else float(x)


def _chart_table(chart: Chart) -> Table:
    """The values behind a chart: a row for each x, a column for each series and end of a band."""
    cells, notes = _cells(chart), _notes(chart)
    columns = [Column(chart.x.name, chart.x.name, text=chart.x.text, fits=True, left=True)]
    columns += [
        Column(name, name, unit=chart.y.unit, text=chart.y.text, fits=True, width=len(name), gap=2)
        for name in cells
    ]
    rows = [
        Row(
            {chart.x.name: x, **{name: of_x.get(x) for name, of_x in cells.items()}},
            notes=tuple(map(TextLine, notes.get(x, ()))),
        )
        for x in chart.places(*SERIES, Kind.BAND, Kind.MARK)
    ]
    return Table(
        columns=tuple(columns),
        rows=tuple(rows),
        title=TextLine(chart.title),
        notes=tuple(_rules(chart)),
        missing="-",
    )


def _cells(chart: Chart) -> dict[str, dict[Position | None, object]]:
    """The values of each column by x; a mark without y stands where its series has no value."""
    cells = {name: _by_x(chart.y, rows) for name, rows in chart.named(*SERIES).items()}
    for mark in chart.of(Kind.MARK):
        if mark.group and mark.y is None:
            cells[mark.group].setdefault(mark.x, mark.name)
    for name, rows in chart.named(Kind.BAND).items():
        cells[f"{name}, low"] = {one.x: one.y for one in rows}
        cells[f"{name}, high"] = {one.x: one.y2 for one in rows}
    return cells


def _by_x(axis: Axis, rows: Sequence[Point]) -> dict[Position | None, object]:
    """Several values at one x, such as launches of a night, are text."""
    found: dict[Position | None, list[object]] = {}
    for one in rows:
        found.setdefault(one.x, []).append(one.y)
    return {x: ys[0] if len(ys) == 1 else ", ".join(map(axis.text, ys)) for x, ys in found.items()}


def _notes(chart: Chart) -> dict[Position | None, list[str]]:
    """Marks by x, but for those that stand in a cell."""
    found: dict[Position | None, list[str]] = {}
    for one in chart.of(Kind.MARK):
        if one.y is not None or not one.group:
            text = f"{one.name}: {one.group}" if one.group else one.name
            found.setdefault(one.x, []).append(text)
    return found


def _rules(chart: Chart) -> Iterable[str]:
    for one in chart.of(Kind.LEVEL, Kind.MOMENT):
        axis, at = (chart.x, one.x) if one.kind is Kind.MOMENT else (chart.y, one.y)
        unit = f" {axis.unit}" if axis.unit and not axis.is_payload else ""
        yield f"{one.name}: {axis.text(at)}{unit}"


def described(picture: Picture) -> str:
    """A picture in words: of a chart each curve by its ends and its marks, for who does not see it.

    Lines without dots, such as baselines, are left out.
    """
    if isinstance(picture, Heatmap) or picture.description:
        return picture.description
    curves = picture.named(Kind.CURVE, Kind.DOTS).items()
    said = [f"{text.removesuffix('.')}." for text in (picture.title, picture.subtitle) if text]
    said += [_curve_text(picture, name, rows) for name, rows in curves]
    return " ".join([*said, *(f"{text}." for text in _rules(picture))])


def _curve_text(chart: Chart, name: str, rows: Sequence[Point]) -> str:
    text = f"{name}: {_ends(chart, rows) if rows else 'no figure'}"
    marks = [one for one in chart.of(Kind.MARK) if one.group == name]
    for label in dict.fromkeys(one.name for one in marks):
        places = ", ".join(chart.x.text(one.x) for one in marks if one.name == label)
        text += f"; {label} at {places}"
    return f"{text}."


def _ends(chart: Chart, rows: Sequence[Point]) -> str:
    def said(one: Point) -> str:
        unit = f" {chart.y.unit}" if chart.y.unit else ""
        return f"{one.y:.4g}{unit} at {chart.x.text(one.x)}"

    first, last, by_y = rows[0], rows[-1], sorted(rows, key=lambda one: one.y or 0.0)
    best = next(one for one in rows if one.y == by_y[-1].y)
    if first.kind is Kind.DOTS:
        return f"{said(by_y[0])} to {said(best)}"
    text = said(first) + (f" to {said(last)}" if len(rows) > 1 else "")
    return text if best in (first, last) else f"{text}, at most {said(best)}"


# A table has as many columns at most: nights, weeks, or months.
_MOST_PERIODS = 14


class Gap(enum.Enum):
    """Why a cell has no ratio."""

    MISSING = "not measured"
    INJECTED = "injected"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    FAILED = "FAILED"


HeatmapCell: TypeAlias = float | Gap


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatmapRow:
    """The cells of one case; neighbours of one `group` are below its name.

    `marks` are columns in which something begins, and what: ``+8 % since 2026-03-04``.
    """

    group: str
    label: str
    cells: tuple[HeatmapCell, ...]
    marks: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Heatmap:
    """Everything that a picture of it shows. `description` says it to those who do not see it.

    Columns are nights, or names of what the rows meet. `edges` are the ends of bins of ratios, as
    relative changes: with 0.03 the first bin is from 1 / 1.03 to 1.03.
    """

    title: str
    columns: tuple[datetime, ...] | tuple[str, ...]
    rows: tuple[HeatmapRow, ...]
    edges: tuple[float, ...]
    subtitle: str = ""
    description: str = ""

    @property
    def is_by_night(self) -> bool:
        return all(isinstance(one, datetime) for one in self.columns)

    @property
    def ends(self) -> list[float]:
        """Of bins, ascending; as far below 1 as above."""
        return [*(1 / (1 + one) for one in reversed(self.edges)), *(1 + one for one in self.edges)]


def _heatmap_table(heatmap: Heatmap) -> Table:
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
            notes=tuple(TextLine(text) for _, text in one.marks),
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


def _periods(columns: Sequence[datetime | str]) -> list[tuple[str, slice]]:
    nights = [one for one in columns if isinstance(one, datetime)]
    if len(nights) <= _MOST_PERIODS:
        names = (one if isinstance(one, str) else f"{one:%Y-%m-%d}" for one in columns)
        return [(name, slice(at, at + 1)) for at, name in enumerate(names)]
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        found: list[tuple[str, slice]] = []
        for period, those in itertools.groupby(one.strftime(form) for one in nights):
            first = found[-1][1].stop if found else 0
            found.append((period, slice(first, first + len(list(those)))))
        if len(found) <= _MOST_PERIODS:
            break
    return found


Picture: TypeAlias = Chart | Heatmap


def table_of(picture: Picture) -> Table:
    return _heatmap_table(picture) if isinstance(picture, Heatmap) else _chart_table(picture)
