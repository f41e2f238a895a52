"""Charts as rows of values, which are drawn, and which a sentence describes for screen readers.

Altair writes a chart as Vega-Lite, and vl-convert renders the chart as SVG or PNG, in the colors of
the light theme. A style sheet replaces each color by a color of the dark theme if the reader's
system uses a dark theme. This module reads no session: the modules `curves` and `history` make the
rows.
"""

from __future__ import annotations

import importlib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from types import ModuleType
from typing import Any, TypeAlias

from busbw import storage, wire
from busbw.model.words import payload_text, shorten_list

MISSING_LIBRARIES = "pages and figures need busbw[page]: python -m pip install 'busbw[page]'"
# The attribute by which `is_chart_file` recognizes an SVG file. The style sheet uses it, too.
_SVG_CLASS = 'class="busbw-figure"'
# A chunk of text for PNG files: its length, its type with the text, and its checksum (CRC-32).
_PNG_TEXT = b"Software\x00busbw figure"
_PNG_CHUNK = b"\x00\x00\x00\x15tEXt" + _PNG_TEXT + b"9\xee\x80J"
# The length of a PNG's signature and first chunk (IHDR). A chunk of text may follow this chunk.
_PNG_HEAD_LENGTH = 8 + 25
_MAX_TEXT_CHARACTERS = 2000
# A screen reader reads the description of a chart. The parts of a chart have no role of their own.
_ROLES_OF_PARTS_PATTERN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
ChartRow: TypeAlias = Mapping[str, Any]

# The file vega_config.json has the size and the style of all charts, and the colors of curves,
# which are those of Okabe and Ito, because readers with any color vision can tell these colors
# apart. The file charts.css has a color of the dark theme for each color of the light theme. Colors
# that are hard to see on a white page are darkened. The default of Vega-Lite for the labels of
# times leaves out the year, and has twelve hours without the half of the day. Round ends of lines
# show a session between two gaps as a point.
TEXT, MUTED = "#1f2328", "#59636e"
# The colors of a heat map, from the fastest to the slowest cells.
_RATIO_COLORS = (
    *("#0b3f78", "#1f6fb5", "#5ba1d6", "#a3c9e8", "#e6e9ed"),
    *("#fdb777", "#f4872f", "#cf4d0a", "#852a05"),
)
_TITLE_LINE_CHARACTERS = 72
# An expression of Vega for the label of a payload.
_PAYLOAD_LABEL = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.4~g') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.4~g') + 'K' : datum.value"
)
_MAX_LISTED_PLACES = 4
_OUTCOME_COLORS = {"OUT_OF_MEMORY": MUTED, "FAILED": "#a3128f"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """The base class of charts: a title, and rows of values.

    Attributes:
        title: The title above the chart.
        subtitle: Smaller text below the title.
        y_title: The name of the values `y` with their unit, such as ``busbw (GB/s)``.
        rows: The values. Each row describes a point or a cell, and has the keys `series` (the name
            of a curve or of a group of cells), `x` (a payload in bytes, or a moment as text), `y`
            (a number or None), and perhaps `remark` (a text, such as an outcome). Subclasses use
            additional keys.

    """

    title: str
    subtitle: str
    y_title: str
    rows: Sequence[ChartRow]

    @property
    def description(self) -> str:
        """A text for screen readers: the title, the range of `y` of each series, and the remarks.

        The text lists the payloads or moments of each remark.
        """
        texts = []
        for series in dict.fromkeys(row["series"] for row in self.rows):
            rows = [row for row in self.rows if row["series"] == series]
            ys = [row["y"] for row in rows if row["y"] is not None]
            texts.append(f"{series} {min(ys):.4g} to {max(ys):.4g}" if ys else f"{series} no value")
        for remark in dict.fromkeys(row["remark"] for row in self.rows if row.get("remark")):
            xs = [row["x"] for row in self.rows if row.get("remark") == remark]
            # A payload is a number, and a moment is a text.
            places = [payload_text(x) if isinstance(x, int) else x for x in dict.fromkeys(xs)]
            listed = shorten_list(places, _MAX_LISTED_PLACES, "place")
            texts.append(f"{remark} at {', '.join(listed)}")
        return f"{self.title}. {self.y_title}: {'; '.join(texts)}."

    def to_altair(self, altair: ModuleType) -> Any:
        """Return the chart as an object of the library `altair`, without the rows.

        The object draws a data set with the name ``rows``, which the caller adds.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveChart(Chart):
    """A chart with a curve for each series, over payloads or sessions.

    A row can have additional keys: `reference` is the height of a dashed line, and `low` and `high`
    are the edges of a band. A `remark` puts a mark on the curve or, if `y` is None, at the bottom.

    Attributes:
        horizontal_lines: Maps the label of each horizontal line to its value of `y`.
        is_over_sessions: Whether `x` is the moment at which a session began, and not a payload.
        has_log_scale: Whether the vertical axis is logarithmic.
        has_lines: Whether lines connect the points of a series.

    """

    horizontal_lines: Mapping[str, float] = field(default_factory=dict)
    is_over_sessions: bool = False
    has_log_scale: bool = False
    has_lines: bool = True

    def to_altair(self, altair: ModuleType) -> Any:
        """Return an Altair chart of bands, curves, dashed lines, horizontal lines and marks."""
        is_single = len({row["series"] for row in self.rows}) == 1
        legend = altair.Legend(title=None, symbolOpacity=1, symbolType="circle")
        color = altair.Color("series:N", sort=None, legend=None if is_single else legend)
        curves = altair.Chart(altair.NamedData(name="rows")).encode(
            self._altair_x_axis(altair), color
        )
        scale = altair.Scale(type="log" if self.has_log_scale else "linear", zero=False, nice=False)
        y = altair.Y("y:Q", title=self.y_title, scale=scale)
        # Points of a year of sessions would hide each other.
        line = curves.mark_line(point=not self.is_over_sessions)
        dashed = curves.mark_line(strokeDash=[4, 6]).encode(y="reference:Q")
        lines = altair.Chart(
            altair.Data(
                values=[
                    {"y": value, "label": name} for name, value in self.horizontal_lines.items()
                ]
            )
        )
        # A legend names the marks. A row without a y is marked at the bottom.
        marks = curves.mark_point(size=110).encode(
            altair.Shape("remark:N", sort=None, legend=altair.Legend(title=None))
        )
        measured = marks.transform_filter("isValid(datum.remark) && isValid(datum.y)")
        missing = marks.transform_filter("isValid(datum.remark) && !isValid(datum.y)")
        layers = [
            curves.mark_area().encode(y="low:Q", y2="high:Q"),
            (line if self.has_lines else curves.mark_circle()).encode(y),
            dashed.encode(color=altair.value(TEXT)) if is_single else dashed,
            lines.mark_rule().encode(y),
            lines.mark_text().encode(y, x=altair.value(4), text="label:N"),
        ]
        if any(row.get("remark") for row in self.rows):
            layers.append(measured.encode(y="y:Q", color=altair.value(TEXT)))
            layers.append(missing.encode(y=altair.value(250)))
        autosize = altair.AutoSizeParams(type="fit-x", contains="padding")
        return altair.layer(*layers).properties(autosize=autosize)

    def _altair_x_axis(self, altair: ModuleType) -> Any:
        """Return the horizontal axis, of sessions or of payloads, as an object of `altair`."""
        if self.is_over_sessions:
            return altair.X("x:T", title="session (UTC)", scale=altair.Scale(type="utc"))
        payloads = sorted({row["x"] for row in self.rows})
        axis = altair.Axis(labelExpr=_PAYLOAD_LABEL, labelOverlap="parity", values=payloads)
        scale = altair.Scale(type="log", base=2, nice=False)
        return altair.X("x:Q", title="payload", scale=scale, axis=axis)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatMap(Chart):
    """A chart with a line of colored cells for each case; a color shows a range of ratios of times.

    The horizontal axis is the time. The lines of each series form a heat map of their own, below
    the heat map of the series before. Each row of `rows` describes a cell from the moment `x` to
    the moment `x2`. The key `row` names the line in the heat map of `series`. The key `bin` is the
    name of the range that contains the ratio of the cell or, without a ratio, an outcome.

    Attributes:
        bins: The names of all ranges of ratios, the lowest ratios (the fastest cells) first.

    """

    bins: Sequence[str]

    def to_altair(self, altair: ModuleType) -> Any:
        """Return an Altair chart with a heat map for each series, below each other."""
        colors = dict(zip(self.bins, _RATIO_COLORS, strict=True)) | _OUTCOME_COLORS
        scale = altair.Scale(type="utc", nice=False, padding=0)
        axis = altair.Axis(orient="top", tickCount=6)
        cells = altair.Chart(altair.NamedData(name="rows")).mark_rect()
        return (
            cells.encode(
                altair.X("x:T", title=None, scale=scale, axis=axis),
                altair.Y("row:N", sort=None, title=None),
                altair.Color(
                    "bin:N",
                    legend=altair.Legend(title=None, columns=3, columnPadding=30),
                    scale=altair.Scale(domain=list(colors), range=list(colors.values())),
                ),
                x2="x2:T",
                row=altair.Row("series:N", sort=None, title=None),
            )
            .properties(width=480)
            .resolve_scale(y="independent")
            .resolve_axis(x="independent")
        )


class DrawingError(Exception):
    """A chart or a page cannot be drawn. The message tells the user the reason."""


def draw_svg(chart: Chart, *, has_style_sheet: bool = True) -> str:
    """Draw a chart as SVG with a description for screen readers, and return the SVG as text.

    With `has_style_sheet` the SVG contains the style sheet charts.css, which has the colors of the
    dark theme. Otherwise the page around the SVG must contain this style sheet. Raises DrawingError
    if a library is missing or refuses the chart.
    """
    with storage.reraise_as(DrawingError, ImportError, where=f"{MISSING_LIBRARIES}: "):
        altair = importlib.import_module("altair")
        vl_convert = importlib.import_module("vl_convert")
    with storage.reraise_as(DrawingError, ValueError, where="this figure cannot be drawn: "):
        specification = chart.to_altair(altair).to_dict()
        specification["title"] = {
            "text": textwrap.wrap(chart.title, _TITLE_LINE_CHARACTERS - 16, max_lines=3),
            "subtitle": textwrap.wrap(chart.subtitle, _TITLE_LINE_CHARACTERS, max_lines=5),
        }
        specification["config"] = json.loads(read_resource("vega_config.json"))
        specification["datasets"] = {"rows": chart.rows}
        plain = _escape_and_cut_texts(specification)
        text: str = vl_convert.vegalite_to_svg(plain, allowed_base_urls=[])
    head, _, body = text.replace('class="marks"', _SVG_CLASS, 1).partition(">")
    head += f' role="img" aria-label="{escape(_escape_and_cut_texts(chart.description))}">'
    style = f"<style>{read_resource('charts.css')}</style>" if has_style_sheet else ""
    return head + style + _ROLES_OF_PARTS_PATTERN.sub("", body)


def draw_png(chart: Chart) -> bytes:
    """Draw a chart as PNG, and return the content of the PNG file.

    The image has twice the width and height of the SVG in pixels. An invisible chunk of the file
    says that busbw drew the chart, so that `is_chart_file` recognizes the file. Raises DrawingError
    if a library is missing or refuses the chart.
    """
    svg = draw_svg(chart, has_style_sheet=False)
    with storage.reraise_as(DrawingError, RuntimeError, where="this figure cannot be drawn: "):
        content: bytes = importlib.import_module("vl_convert").svg_to_png(svg, scale=2)
    return content[:_PNG_HEAD_LENGTH] + _PNG_CHUNK + content[_PNG_HEAD_LENGTH:]


def is_chart_file(text: str) -> bool:
    """Return whether `text` is the content of an SVG or PNG file that busbw drew.

    A PNG file is given as text, with replacement characters for bytes that are not valid text.
    """
    head = text[:4000]
    is_svg = head.startswith("<svg ") and _SVG_CLASS in head
    return is_svg or ("PNG" in head[:8] and _PNG_TEXT.decode() in head)


def read_resource(name: str) -> str:
    """Return the text of a file of this package, such as ``page.css``."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _escape_and_cut_texts(value: Any) -> Any:
    """Return a JSON value with its texts escaped and cut, also in lists and dictionaries.

    Unprintable characters are escaped, because vl-convert ends the whole process if a text has a
    character that XML forbids. Then each text is cut to 2000 characters.
    """
    if isinstance(value, dict):
        return {key: _escape_and_cut_texts(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_and_cut_texts(part) for part in value]
    if isinstance(value, str):
        return wire.escape_unprintable(value)[:_MAX_TEXT_CHARACTERS]
    return value
