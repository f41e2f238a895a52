"""Figures as rows of values, drawn by Altair, with a table and a text of the same values."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeAlias

from busbw.model.words import payload_text, shorten_list
from busbw.report.table import Column, Table, TextLine, rows_of

# The columns of a figure; a row has those that it needs.
_KEYS = ("series", "row", "x", "x2", "y", "reference", "low", "high", "bin", "word")
Row: TypeAlias = Mapping[str, Any]

# Each colour of the light theme with that of the dark one. Curves have the colours of Okabe and
# Ito, which readers with any colour vision tell apart, darkened where a white page hides them.
BACKGROUND, TEXT, MUTED, GRID = "#ffffff", "#1f2328", "#59636e", "#dfe3e8"
CURVES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3f9fd8", "#6b4c00")
# From the fastest to the slowest.
_BINS = (
    *("#0b3f78", "#1f6fb5", "#5ba1d6", "#a3c9e8", "#e6e9ed"),
    *("#fdb777", "#f4872f", "#cf4d0a", "#852a05"),
)
_FAILED = "#a3128f"
DARK = dict(
    zip(
        (BACKGROUND, TEXT, MUTED, GRID, *CURVES, *_BINS, _FAILED),
        (
            *("#0d1117", "#e6edf3", "#9aa4af", "#2b323b"),
            *("#58a6e8", "#ff8a4c", "#2fc79a", "#e59cc8", "#a3dcff", "#f2bd3f"),
            *("#b9e0ff", "#55aef2", "#2173b8", "#174a75"),
            *("#252c36", "#7a3d12", "#b55a14", "#ee8b3a", "#ffcf9e", "#ff6fe0"),
        ),
        strict=True,
    )
)
WIDTH = 560
_LINE = 72
_PAYLOAD = (
    "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value / 1024 + 'K' : datum.value"
)
_GAPS = {"OUT_OF_MEMORY": MUTED, "FAILED": _FAILED}
# More points than these would hide each other.
_MOST_POINTS = 60
_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """What figures have in common: `headings` name the columns of the table of its rows."""

    title: str
    rows: Sequence[Row]
    headings: Mapping[str, str]
    subtitle: str = ""

    @property
    def table(self) -> Table:
        """The rows, without columns that are empty."""
        keys = [
            key
            for key in _KEYS
            if key in self.headings and any(row.get(key) is not None for row in self.rows)
        ]
        columns = (
            Column(
                key,
                self.headings[key],
                text=self._text,
                left_aligned=key in ("series", "row", "word"),
            )
            for key in keys
        )
        rows = rows_of({key: row.get(key) for key in keys} for row in self.rows)
        return Table(columns=tuple(columns), rows=rows, title=TextLine(self.title), missing="-")

    @property
    def description(self) -> str:
        """The title, and a sentence with the range of each series and what is marked."""
        ranges: dict[str, list[float]] = {}
        for row in self.rows:
            values = ranges.setdefault(row["series"], [])
            values += [row["y"]] if row.get("y") is not None else []
        texts = [
            f"{name} {self._text(min(ys))} to {self._text(max(ys))}" if ys else f"{name} no value"
            for name, ys in ranges.items()
        ]
        words: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.get("word"):
                words.setdefault(row["word"], {})[self._text(row["x"])] = None
        texts += [
            f"{word} at {', '.join(shorten_list(list(places), _MOST_NAMED, 'place'))}"
            for word, places in words.items()
        ]
        return f"{self.title}. {self.headings['y']}: {'; '.join(texts)}."

    def _text(self, value: object) -> str:
        if isinstance(value, int) and self.headings.get("x") == "payload":
            return payload_text(value)
        return f"{value:.4g}" if isinstance(value, int | float) else str(value)

    def chart(self, altair: ModuleType) -> Any:
        """Return the chart, whose data is named ``rows``."""
        raise NotImplementedError

    def titled(self, altair: ModuleType) -> Any:
        """Return the title as Altair takes it, in lines that fit the width."""
        return altair.TitleParams(
            textwrap.wrap(self.title, _LINE - 16, max_lines=3),
            subtitle=textwrap.wrap(self.subtitle, _LINE, max_lines=5),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves(Figure):
    """Values of several series by payload, session or member.

    `reference` is a dashed line, `low` to `high` a band, and a `word` marks its point, at the
    bottom where there is no y. `rules` are horizontal lines by their labels.
    """

    rules: Mapping[str, float] = field(default_factory=dict)
    is_log: bool = False
    has_lines: bool = True

    def chart(self, altair: ModuleType) -> Any:
        """Return the layers: bands, dashed lines, curves, rules, and marks."""
        count = len({row["series"] for row in self.rows})
        legend = altair.Legend(title=None, symbolOpacity=1, symbolType="circle")
        colour = altair.Color("series:N", sort=None, legend=legend if count > 1 else None)
        curves = altair.Chart(altair.NamedData(name="rows")).encode(self._x(altair), colour)
        scale = "log" if self.is_log else "linear"
        y = altair.Y(
            "y:Q",
            title=self.headings["y"],
            scale=altair.Scale(type=scale, zero=False, nice=False, padding=12),
        )
        is_dense = len(self.rows) > _MOST_POINTS * count
        line = curves.mark_line(point=not is_dense, strokeWidth=1 if is_dense else 2)
        dots = curves.mark_point(filled=True, size=40, opacity=0.8)
        dashed = curves.mark_line(strokeDash=[4, 3]).encode(y="reference:Q")
        rules = altair.Chart(
            altair.Data(values=[{"y": value, "label": name} for name, value in self.rules.items()])
        )
        # A legend names the marks. What has no y is marked at the bottom.
        marks = curves.mark_point(opacity=1, size=30 if is_dense else 110).encode(
            altair.Shape("word:N", sort=None, legend=altair.Legend(title=None))
        )
        measured = marks.transform_filter("isValid(datum.word) && isValid(datum.y)")
        missing = marks.transform_filter("isValid(datum.word) && !isValid(datum.y)")
        label = rules.mark_text(align="left", baseline="bottom", dy=-3, color=MUTED)
        layers = [
            curves.mark_area(opacity=0.25).encode(y="low:Q", y2="high:Q"),
            (line if self.has_lines else dots).encode(y),
            dashed.encode(color=altair.value(TEXT)) if is_dense else dashed,
            rules.mark_rule(strokeDash=[2, 2], color=MUTED).encode(y),
            label.encode(y, x=altair.value(4), text="label:N"),
        ]
        if any(row.get("word") for row in self.rows):
            layers.append(measured.encode(y="y:Q", color=altair.value(TEXT)))
            layers.append(missing.encode(y=altair.value(250)))
        return altair.layer(*layers).properties(
            width=WIDTH,
            height=260,
            title=self.titled(altair),
            autosize=altair.AutoSizeParams(type="fit-x", contains="padding"),
        )

    def _x(self, altair: ModuleType) -> Any:
        name = self.headings["x"]
        if name == "session":
            return altair.X("x:T", title=name, scale=altair.Scale(type="utc"))
        if name != "payload":
            return altair.X("x:N", title=name, sort=None, axis=altair.Axis(labelAngle=0))
        places = [row["x"] for row in self.rows]
        first = max(0, min(places).bit_length() - 1)
        ticks = [1 << power for power in range(first, max(places).bit_length())]
        axis = altair.Axis(labelExpr=_PAYLOAD, labelOverlap="parity", values=ticks)
        scale = altair.Scale(type="log", base=2, nice=False, padding=12)
        return altair.X("x:Q", title=name, scale=scale, axis=axis)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatMap(Figure):
    """Ratios as the colours of cells, below each other by series; a cell is from `x` to `x2`.

    `bins` are the names of ranges of ratios, fastest first; a row has that of its ratio.
    """

    bins: Sequence[str]

    def chart(self, altair: ModuleType) -> Any:
        """Return a row of charts, one for each series, below each other."""
        colours = dict(zip(self.bins, _BINS, strict=True)) | _GAPS
        axis = altair.Axis(orient="top", tickCount=6)
        cells = altair.Chart(altair.NamedData(name="rows")).mark_rect()
        return (
            cells.encode(
                altair.X("x:T", title=None, scale=altair.Scale(type="utc", nice=False), axis=axis),
                altair.Y("row:N", sort=None, title=None),
                altair.Color(
                    "bin:N",
                    legend=altair.Legend(title=None, columns=3, columnPadding=30),
                    scale=altair.Scale(domain=list(colours), range=list(colours.values())),
                ),
                x2="x2:T",
                row=altair.Row(
                    "series:N",
                    sort=None,
                    header=altair.Header(title=None, labelOrient="top", labelAnchor="start"),
                ),
            )
            .properties(width=WIDTH - 80, height=altair.Step(17), title=self.titled(altair))
            .resolve_scale(y="independent")
            .resolve_axis(x="independent")
        )
