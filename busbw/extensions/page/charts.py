"""Charts as rows of values, which are drawn, and which a table and a sentence show as text.

Altair writes a chart as Vega-Lite, and vl-convert renders the chart as SVG or PNG, in the colors of
the light theme. A style sheet replaces each color by a color of the dark theme if the reader's
system uses a dark theme. This module reads no session: `curves` and `history` make the rows.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
import textwrap
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from types import ModuleType
from typing import Any, TypeAlias

from busbw import storage
from busbw.model.words import payload_text, shorten_list
from busbw.report.table import Column, Table, TextLine, make_rows

MISSING_LIBRARIES = "pages and figures need busbw[page]: python -m pip install 'busbw[page]'"
_WRITER_NAME = "busbw figure"
_SVG_WRITER_ATTRIBUTE = f'data-written-by="{_WRITER_NAME}"'
_PNG_CHUNK = b"tEXtSoftware\x00" + _WRITER_NAME.encode()
# The length of a PNG's signature and first chunk (IHDR). A chunk of text may follow this chunk.
_PNG_HEAD_LENGTH = 8 + 25
_MAX_TEXT_CHARACTERS = 600
# A screen reader reads the description of a chart. The parts of a chart have no role of their own.
_ROLES_OF_PARTS_PATTERN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
# The keys that rows of a chart may have, in the order of the columns of the table.
_ROW_KEYS = ("series", "row", "x", "x2", "y", "reference", "low", "high", "bin", "remark")
ChartRow: TypeAlias = Mapping[str, Any]

# The files vega_config.json and charts.css have further colors: the colors of curves, which are
# those of Okabe and Ito, because readers with any color vision can tell these colors apart, and a
# color of the dark theme for each color of the light theme. Colors that are hard to see on a white
# page are darkened. The default of Vega-Lite for the labels of times has twelve hours, and does not
# say which half of the day.
TEXT, MUTED = "#1f2328", "#59636e"
# The colors of a heat map, from the fastest to the slowest cells.
_RATIO_COLORS = (
    *("#0b3f78", "#1f6fb5", "#5ba1d6", "#a3c9e8", "#e6e9ed"),
    *("#fdb777", "#f4872f", "#cf4d0a", "#852a05"),
)
_WIDTH = 560
_TITLE_LINE_CHARACTERS = 72
_PAYLOAD_LABEL_EXPRESSION = (
    "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value / 1024 + 'K' : datum.value"
)
_OUTCOME_COLORS = {"OUT_OF_MEMORY": MUTED, "FAILED": "#a3128f"}
# The points of a curve are not drawn if a curve has more of them, since they would hide each other.
_MAX_POINTS = 60
_MAX_LISTED_X_VALUES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart of any kind, as a title and rows of values.

    Attributes:
        title: The title above the chart.
        rows: The values. Each row maps keys to values: `series` (the name of a curve or of a group
            of cells), `x` and `y` (coordinates), `remark` (such as an outcome) and other keys.
        headings: Maps each key that the property `table` shows to the heading of its column. If the
            heading of `x` is ``payload``, whole numbers in rows are payloads in bytes.
        subtitle: Smaller text below the title; may be empty.

    """

    title: str
    rows: Sequence[ChartRow]
    headings: Mapping[str, str]
    subtitle: str = ""

    @property
    def table(self) -> Table:
        """A table of all rows, with a column for each key of `headings` that any row has."""
        keys = [
            key
            for key in _ROW_KEYS
            if key in self.headings and any(row.get(key) is not None for row in self.rows)
        ]
        columns = (
            Column(
                key,
                self.headings[key],
                text=self._value_text,
                left_aligned=key in ("series", "row", "remark"),
            )
            for key in keys
        )
        rows = make_rows({key: row.get(key) for key in keys} for row in self.rows)
        return Table(
            columns=tuple(columns), rows=rows, title=TextLine(self.title), missing_text="-"
        )

    @property
    def description(self) -> str:
        """A text with the title, the range of `y` of each series, and the `x` of each remark."""
        ranges: dict[str, list[float]] = {}
        for row in self.rows:
            values = ranges.setdefault(row["series"], [])
            values += [row["y"]] if row.get("y") is not None else []
        texts = [
            f"{name} {self._value_text(min(ys))} to {self._value_text(max(ys))}"
            if ys
            else f"{name} no value"
            for name, ys in ranges.items()
        ]
        places_by_remark: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.get("remark"):
                places_by_remark.setdefault(row["remark"], {})[self._value_text(row["x"])] = None
        texts += [
            f"{remark} at {', '.join(shorten_list(list(places), _MAX_LISTED_X_VALUES, 'place'))}"
            for remark, places in places_by_remark.items()
        ]
        return f"{self.title}. {self.headings['y']}: {'; '.join(texts)}."

    def _value_text(self, value: object) -> str:
        """Return a value of a row as text: a payload, a number with four digits, or a text."""
        if isinstance(value, int) and self.headings.get("x") == "payload":
            return payload_text(value)
        return f"{value:.4g}" if isinstance(value, int | float) else str(value)

    def altair_chart(self, altair: ModuleType) -> Any:
        """Return the chart as an object of the library `altair`, with a data set named ``rows``."""
        raise NotImplementedError

    def altair_title(self, altair: ModuleType) -> Any:
        """Return title and subtitle as an object of the library `altair`, wrapped to the width."""
        return altair.TitleParams(
            textwrap.wrap(self.title, _TITLE_LINE_CHARACTERS - 16, max_lines=3),
            subtitle=textwrap.wrap(self.subtitle, _TITLE_LINE_CHARACTERS, max_lines=5),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveChart(Chart):
    """A chart with a curve for each series, over payload, session or other values of `x`.

    In a row, `reference` is a point of a dashed line, and `low` and `high` are the edges of a band.
    A `remark` puts a mark on the curve or, without a `y`, at the bottom.

    Attributes:
        rules: The horizontal lines: maps the label of each line to its value of `y`.
        has_log_scale: Whether the vertical axis is logarithmic.
        has_lines: Whether lines connect the points of a series.

    """

    rules: Mapping[str, float] = field(default_factory=dict)
    has_log_scale: bool = False
    has_lines: bool = True

    def altair_chart(self, altair: ModuleType) -> Any:
        """Return an Altair chart of layers: bands, curves, dashed lines, rules and marks."""
        count = len({row["series"] for row in self.rows})
        legend = altair.Legend(title=None, symbolOpacity=1, symbolType="circle")
        color = altair.Color("series:N", sort=None, legend=legend if count > 1 else None)
        curves = altair.Chart(altair.NamedData(name="rows")).encode(self._x_axis(altair), color)
        scale = "log" if self.has_log_scale else "linear"
        y = altair.Y(
            "y:Q",
            title=self.headings["y"],
            scale=altair.Scale(type=scale, zero=False, nice=False, padding=12),
        )
        is_dense = len(self.rows) > _MAX_POINTS * count
        line = curves.mark_line(point=not is_dense, strokeWidth=1 if is_dense else 2)
        dots = curves.mark_point(filled=True, size=40, opacity=0.8)
        dashed = curves.mark_line(strokeDash=[4, 3]).encode(y="reference:Q")
        rules = altair.Chart(
            altair.Data(values=[{"y": value, "label": name} for name, value in self.rules.items()])
        )
        # A legend names the marks. A row without a y is marked at the bottom.
        marks = curves.mark_point(opacity=1, size=30 if is_dense else 110).encode(
            altair.Shape("remark:N", sort=None, legend=altair.Legend(title=None))
        )
        measured = marks.transform_filter("isValid(datum.remark) && isValid(datum.y)")
        missing = marks.transform_filter("isValid(datum.remark) && !isValid(datum.y)")
        label = rules.mark_text(align="left", baseline="bottom", dy=-3, color=MUTED)
        layers = [
            curves.mark_area(opacity=0.25).encode(y="low:Q", y2="high:Q"),
            (line if self.has_lines else dots).encode(y),
            dashed.encode(color=altair.value(TEXT)) if is_dense else dashed,
            rules.mark_rule(strokeDash=[2, 2], color=MUTED).encode(y),
            label.encode(y, x=altair.value(4), text="label:N"),
        ]
        if any(row.get("remark") for row in self.rows):
            layers.append(measured.encode(y="y:Q", color=altair.value(TEXT)))
            layers.append(missing.encode(y=altair.value(250)))
        return altair.layer(*layers).properties(
            width=_WIDTH,
            height=260,
            title=self.altair_title(altair),
            autosize=altair.AutoSizeParams(type="fit-x", contains="padding"),
        )

    def _x_axis(self, altair: ModuleType) -> Any:
        """Return the `x` axis for Altair: moments of sessions, payloads or, else, names."""
        name = self.headings["x"]
        if name == "session":
            return altair.X("x:T", title=f"{name} (UTC)", scale=altair.Scale(type="utc"))
        if name != "payload":
            return altair.X("x:N", title=name, sort=None, axis=altair.Axis(labelAngle=0))
        places = [row["x"] for row in self.rows]
        first = max(0, min(places).bit_length() - 1)
        ticks = [1 << power for power in range(first, max(places).bit_length())]
        axis = altair.Axis(labelExpr=_PAYLOAD_LABEL_EXPRESSION, labelOverlap="parity", values=ticks)
        scale = altair.Scale(type="log", base=2, nice=False, padding=12)
        return altair.X("x:Q", title=name, scale=scale, axis=axis)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatMap(Chart):
    """A chart with a colored cell for each case and period of time; colors show ratios of times.

    Each item of `rows` describes a cell, which extends from the moment `x` to the moment `x2`. Its
    `series` names the heat map, and its `row` names the line in this heat map. Its `bin` is the
    range that contains the ratio of the cell or, if the cell has no ratio, an outcome.

    Attributes:
        bins: All ranges of ratios, the fastest first.

    """

    bins: Sequence[str]

    def altair_chart(self, altair: ModuleType) -> Any:
        """Return an Altair chart with a heat map for each series, below each other."""
        colors = dict(zip(self.bins, _RATIO_COLORS, strict=True)) | _OUTCOME_COLORS
        axis = altair.Axis(orient="top", tickCount=6)
        cells = altair.Chart(altair.NamedData(name="rows")).mark_rect()
        return (
            cells.encode(
                altair.X("x:T", title=None, scale=altair.Scale(type="utc", nice=False), axis=axis),
                altair.Y("row:N", sort=None, title=None),
                altair.Color(
                    "bin:N",
                    legend=altair.Legend(title=None, columns=3, columnPadding=30),
                    scale=altair.Scale(domain=list(colors), range=list(colors.values())),
                ),
                x2="x2:T",
                row=altair.Row(
                    "series:N",
                    sort=None,
                    header=altair.Header(title=None, labelOrient="top", labelAnchor="start"),
                ),
            )
            .properties(width=_WIDTH - 80, height=altair.Step(17), title=self.altair_title(altair))
            .resolve_scale(y="independent")
            .resolve_axis(x="independent")
        )


class DrawingError(Exception):
    """The failure to draw a chart or a page. The message is the reason, for the user."""


def draw_svg(chart: Chart, *, has_style: bool = True) -> str:
    """Draw a chart as SVG with a description for screen readers.

    With `has_style` the SVG contains the style sheet charts.css, which has the colors of the dark
    theme; otherwise the page around the SVG must contain this style sheet. Raises DrawingError if a
    library is missing or refuses the chart.
    """
    text: str = _render(chart, "svg")
    head, _, body = text.replace('class="marks"', 'class="busbw-figure"', 1).partition(">")
    label = escape(_sanitize(chart.description, 2000))
    head += f' {_SVG_WRITER_ATTRIBUTE} role="img" aria-label="{label}">'
    style = f"<style>{read_resource('charts.css')}</style>" if has_style else ""
    return head + style + _ROLES_OF_PARTS_PATTERN.sub("", body)


def draw_png(chart: Chart) -> bytes:
    """Return a chart as a PNG file, with twice the width and height in pixels of the SVG file.

    An invisible chunk of the file says that busbw drew the chart (`is_drawn_chart` finds it).
    Raises DrawingError if a library is missing or refuses the chart.
    """
    content: bytes = _render(chart, "png", scale=2)
    size = struct.pack(">I", len(_PNG_CHUNK) - 4)
    check = struct.pack(">I", zlib.crc32(_PNG_CHUNK))
    return content[:_PNG_HEAD_LENGTH] + size + _PNG_CHUNK + check + content[_PNG_HEAD_LENGTH:]


def is_drawn_chart(text: str) -> bool:
    """Return whether `text` is the content of an SVG or PNG file that busbw drew.

    A PNG file is decoded as text with replacement characters.
    """
    head = text[:4000]
    is_svg = head.startswith("<svg ") and _SVG_WRITER_ATTRIBUTE in head
    return is_svg or ("PNG" in head[:8] and _PNG_CHUNK.decode() in head)


def read_resource(name: str) -> str:
    """Return the text of a file of this package, such as ``page.css``."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _render(chart: Chart, format_name: str, **options: float) -> Any:
    """Return a chart in the format ``svg`` (text) or ``png`` (bytes); vl-convert gets `options`.

    Raises DrawingError if a library is missing or refuses the chart.
    """
    with storage.reraise_as(DrawingError, ImportError, where=f"{MISSING_LIBRARIES}: "):
        altair = importlib.import_module("altair")
        render = getattr(importlib.import_module("vl_convert"), f"vegalite_to_{format_name}")
    with storage.reraise_as(DrawingError, ValueError, where="this figure cannot be drawn: "):
        specification = chart.altair_chart(altair).to_dict()
        specification["config"] = json.loads(read_resource("vega_config.json"))
        specification["datasets"] = {"rows": chart.rows}
        return render(
            _sanitize(specification), show_warnings=False, allowed_base_urls=[], **options
        )


def _sanitize(value: Any, max_characters: int = _MAX_TEXT_CHARACTERS) -> Any:
    """Return `value`, with each text in it as a single line of characters that XML allows.

    `value` is a value of JSON. Texts are cut after `max_characters`.
    """
    if isinstance(value, dict):
        return {key: _sanitize(part, max_characters) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_sanitize(part, max_characters) for part in value]
    if not isinstance(value, str) or (value.isprintable() and len(value) <= max_characters):
        return value
    characters = (" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in value)
    return " ".join("".join(characters).split())[:max_characters]
