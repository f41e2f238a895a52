"""Draw charts as SVG and PNG: Altair writes a chart as Vega-Lite, and vl-convert renders it.

Charts are drawn in the colors of the light theme. A style sheet replaces each color by a color
of the dark theme if the reader's system uses a dark theme.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import struct
import unicodedata
import zlib
from html import escape
from typing import Any

from .charts import BACKGROUND, CURVE_COLORS, DARK_OF_LIGHT, GRID, MUTED, TEXT, Chart

MISSING_LIBRARIES = "pages and figures need busbw[page]: python -m pip install 'busbw[page]'"
_WRITER = "busbw figure"
_WRITTEN_BY = f'data-written-by="{_WRITER}"'
_PNG_TEXT = b"tEXtSoftware\x00" + _WRITER.encode()
# The length of a PNG's signature and first chunk (IHDR). A chunk of text may follow this chunk.
_PNG_HEAD = 8 + 25
_MAX_TEXT_CHARACTERS = 600
# A screen reader reads the description of a chart. The parts of a chart have no role of their own.
_ROLES_OF_PARTS = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
_CONFIG: dict[str, Any] = {
    # The default of Vega-Lite has twelve hours, and does not say which half of the day.
    "axisTemporal": {"format": {"hours": "%H:%M", "minutes": "%H:%M"}},
    "aria": False,
    "font": "sans-serif",
    "background": BACKGROUND,
    "padding": 8,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "bounds",
        "offset": 12,
        "color": TEXT,
        "fontSize": 16,
        "subtitleColor": MUTED,
        "subtitleFontSize": 14,
    },
    "axis": {
        "domainColor": MUTED,
        "gridColor": GRID,
        "labelColor": TEXT,
        "labelFontSize": 14,
        "labelOverlap": "greedy",
        "labelSeparation": 4,
        "tickColor": MUTED,
        "titleColor": TEXT,
        "titleFontSize": 14,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    },
    "header": {"labelColor": TEXT, "labelFontSize": 14, "labelFontWeight": "bold"},
    "legend": {
        "orient": "bottom",
        "columns": 1,
        "labelColor": TEXT,
        "labelFontSize": 14,
        "labelLimit": 440,
        "symbolStrokeColor": TEXT,
        "layout": {"bottom": {"direction": "vertical", "anchor": "start"}},
    },
    "range": {"category": CURVE_COLORS},
    "text": {"fontSize": 14},
}


class DrawingError(Exception):
    """A chart or page cannot be drawn. The message is the reason, for the user."""


def draw_svg(chart: Chart, *, has_style: bool = True) -> str:
    """Draw a chart as SVG with a description for screen readers.

    With `has_style` the SVG contains the style sheet of the dark theme; otherwise the page that
    contains the SVG must have it. Raises DrawingError if a library is missing or refuses the chart.
    """
    text: str = _render(chart, "svg")
    head, _, body = text.replace('class="marks"', 'class="busbw-figure"', 1).partition(">")
    label = escape(_sanitize(chart.description, 2000))
    head += f' {_WRITTEN_BY} role="img" aria-label="{label}">'
    style = f"<style>{dark_style_sheet()}</style>" if has_style else ""
    return head + style + _ROLES_OF_PARTS.sub("", body)


def draw_png(chart: Chart) -> bytes:
    """Draw a chart as PNG, twice as wide and high in pixels as the SVG, and marked as busbw's file.

    Raises DrawingError if a library is missing or refuses the chart.
    """
    content: bytes = _render(chart, "png", scale=2)
    size, check = struct.pack(">I", len(_PNG_TEXT) - 4), struct.pack(">I", zlib.crc32(_PNG_TEXT))
    return content[:_PNG_HEAD] + size + _PNG_TEXT + check + content[_PNG_HEAD:]


def is_drawn_chart(text: str) -> bool:
    """Return whether `text` is the content of an SVG or PNG file that busbw drew.

    A PNG file is decoded as text with replacement characters.
    """
    head = text[:4000]
    is_svg = head.startswith("<svg ") and _WRITTEN_BY in head
    return is_svg or ("PNG" in head[:8] and _PNG_TEXT.decode() in head)


def dark_style_sheet() -> str:
    """Return the CSS that shows charts in the colors of the dark theme on a dark system."""
    colors = "".join(
        f'.busbw-figure [{kind}="{light}"]{{{kind}:{dark}}}'
        for light, dark in DARK_OF_LIGHT.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{colors}}}"


def check_libraries() -> None:
    """Raise ValueError, which says how to install missing libraries, unless all are installed."""
    if not all(map(importlib.util.find_spec, ("altair", "jinja2", "vl_convert"))):
        raise ValueError(MISSING_LIBRARIES)


def _render(chart: Chart, format_name: str, **options: float) -> Any:
    """Return a chart in the format ``svg`` (text) or ``png`` (bytes).

    Raises DrawingError if a library is missing or refuses the chart.
    """
    try:
        altair = importlib.import_module("altair")
        render = getattr(importlib.import_module("vl_convert"), f"vegalite_to_{format_name}")
    except ImportError as error:
        raise DrawingError(MISSING_LIBRARIES) from error
    try:
        specification = chart.altair_chart(altair).to_dict() | {"config": _CONFIG}
        specification["datasets"] = {"rows": chart.rows}
        return render(
            _sanitize(specification), show_warnings=False, allowed_base_urls=[], **options
        )
    except ValueError as error:
        raise DrawingError(f"this figure cannot be drawn: {error}") from error


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
