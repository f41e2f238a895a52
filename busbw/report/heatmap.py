"""A heat map as a value: what is shown; how it looks is `drawing`'s, and no colour may enter."""

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

from .chart import Chart, chart_table
from .table import Column, Row, Table, TextLine

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
    1 / 1.03 to 1.03. Raises ValueError for what cannot be drawn.
    """

    title: str
    columns: tuple[datetime, ...]
    rows: tuple[HeatmapRow, ...]
    edges: tuple[float, ...]
    subtitle: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if not self.columns or not self.rows:
            raise ValueError("a heat map has a row and a column at least")
        if list(self.columns) != sorted(self.columns):
            raise ValueError("columns are in the order of time")
        if sorted({0.0, *self.edges}) != [0.0, *self.edges]:
            raise ValueError(f"edges are above 0 and ascend, got {self.edges}")
        for row in self.rows:
            _check(row, len(self.columns))

    def bin_of(self, ratio: float) -> int:
        """Its bin: 0 within the first edge, above 0 where it is larger, below where it is less."""
        far = sum(abs(math.log(ratio)) > math.log1p(edge) for edge in self.edges)
        return far if ratio > 1 else -far


def _check(row: HeatmapRow, columns: int) -> None:
    if len(row.cells) != columns:
        raise ValueError(f"{row.label!r:.80} has {len(row.cells)} cells in {columns} columns")
    for cell in row.cells:
        if not isinstance(cell, Gap) and not (math.isfinite(cell) and cell > 0):
            raise ValueError(f"{row.label!r:.80}: {cell!r} is no ratio")
    for mark in row.marks:
        if not 0 <= mark.column < columns:
            raise ValueError(f"{row.label!r:.80}: there is no column {mark.column}")


def heatmap_table(heatmap: Heatmap) -> Table:
    """Without a ratio in a month, the most usual reason; what begins is below a row."""
    periods = _periods(heatmap.columns)
    columns = [Column("case", "case", fits=True, left=True)]
    columns += [
        Column(str(at), name, text=_text, fits=True, gap=2, width=len(name))
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


def _text(cell: HeatmapCell) -> str:
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
