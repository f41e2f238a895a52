"""Figures as SVG and PNG: Altair makes Vega-Lite of them, which vl-convert renders.

Colours are those of the light theme; a style sheet replaces each by that of the dark theme where
the reader's system is dark.
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

from .figures import BACKGROUND, CURVES, DARK, GRID, MUTED, TEXT, Figure

MISSING = "pages and figures need busbw[page]: python -m pip install 'busbw[page]'"
_WRITER = "busbw figure"
_WRITTEN_BY = f'data-written-by="{_WRITER}"'
_PNG_TEXT = b"tEXtSoftware\x00" + _WRITER.encode()
# The signature of a PNG file and its first chunk, behind which a chunk of text may stand.
_PNG_HEAD = 8 + 25
_LONGEST = 600
_TAG = re.compile(r"<[^>]*>")
_FRAME = re.compile(r'<path class="(?:fore|back)ground"')
_UNUSED = re.compile(r' (?:(?:aria-[a-z]+|pointer-events|role)="[^"]*"|opacity="1")')
_DIGITS = re.compile(r"(\d\.\d)\d+")
_CONFIG: dict[str, Any] = {
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
    "range": {"category": CURVES},
    "text": {"fontSize": 14},
}


class DrawingError(Exception):
    """Why there is no figure or page; the message is a sentence for the user."""


def svg(figure: Figure, *, has_style: bool = True) -> str:
    """Draw the figure as SVG, an image with a text for screen readers.

    Without `has_style` the page around it has the `style_sheet`. Raises DrawingError.
    """
    text: str = _rendered(figure, "svg")
    head, _, body = text.replace('class="marks"', 'class="busbw-figure"', 1).partition(">")
    label = escape(_plain(figure.description, 2000))
    head += f' {_WRITTEN_BY} role="img" aria-label="{label}">'
    style = f"<style>{style_sheet()}</style>" if has_style else ""
    return head + style + _TAG.sub(lambda match: _shortened(match[0]), body)


def _shortened(tag: str) -> str:
    """Return a tag without parts of no effect, and without digits that nobody sees."""
    return "" if _FRAME.match(tag) else _DIGITS.sub(r"\1", _UNUSED.sub("", tag))


def png(figure: Figure) -> bytes:
    """Draw the figure as PNG, two dots to a pixel. Raises DrawingError."""
    content: bytes = _rendered(figure, "png", scale=2)
    size, check = struct.pack(">I", len(_PNG_TEXT) - 4), struct.pack(">I", zlib.crc32(_PNG_TEXT))
    return content[:_PNG_HEAD] + size + _PNG_TEXT + check + content[_PNG_HEAD:]


def is_figure(text: str) -> bool:
    """Tell whether the text of a file, decoded with replacements, is a figure of busbw."""
    head = text[:4000]
    is_svg = head.startswith("<svg ") and _WRITTEN_BY in head
    return is_svg or ("PNG" in head[:8] and _PNG_TEXT.decode() in head)


def style_sheet() -> str:
    """Return the CSS that gives figures the colours of the dark theme."""
    colours = "".join(
        f'.busbw-figure [{kind}="{light}"]{{{kind}:{dark}}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{colours}}}"


def missing_libraries() -> str:
    """Say what to install where a page cannot be made; "" where nothing is missing."""
    names = ("altair", "jinja2", "vl_convert")
    return "" if all(map(importlib.util.find_spec, names)) else MISSING


def _rendered(figure: Figure, form: str, **options: float) -> Any:
    try:
        altair = importlib.import_module("altair")
        render = getattr(importlib.import_module("vl_convert"), f"vegalite_to_{form}")
    except ImportError as error:
        raise DrawingError(MISSING) from error
    try:
        specification = figure.chart(altair).to_dict() | {"config": _CONFIG}
        specification["datasets"] = {"rows": figure.rows}
        return render(_plain(specification), show_warnings=False, allowed_base_urls=[], **options)
    except ValueError as error:
        raise DrawingError(f"this figure cannot be drawn: {error}") from error


def _plain(value: Any, longest: int = _LONGEST) -> Any:
    """Return the value with texts of one line each, of characters that XML may hold."""
    if isinstance(value, dict):
        return {key: _plain(part, longest) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, longest) for part in value]
    if not isinstance(value, str) or (value.isprintable() and len(value) <= longest):
        return value
    characters = (" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in value)
    return " ".join("".join(characters).split())[:longest]
