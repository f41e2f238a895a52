"""What a step should cost as a figure: a bar for each method, its computing and what comes on top.

SVG written by hand, since a few rectangles need no package. Text is escaped; sizes are in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from busbw.model import seconds_text

from .estimate import Asked, Estimated, mb_text

_LABEL, _BARS, _VALUE = 330, 480, 150
_ROW, _TOP, _BAR = 24, 60, 16
_COMPUTE, _COMMUNICATION = "#4c78a8", "#f58518"


def estimate_figure(asked: Asked, rows: Sequence[Estimated]) -> str:
    """An SVG document. Without the computing's time the bars are communication alone."""
    width, height = _LABEL + _BARS + _VALUE, _TOP + _ROW * len(rows) + 10
    title = f"{asked.name}, {mb_text(asked.payload_bytes)} MB of gradients: a step"
    if asked.compute_s is None:
        title = title.removesuffix(" a step") + " communication"
    longest_s = max(_whole_s(row) for row in rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(10, 22, title, size=14),
        *_legend(asked.compute_s is not None),
    ]
    for place, row in enumerate(rows):
        lines += _bar(row, asked.compute_s or 0.0, longest_s, top=_TOP + _ROW * place)
    return "\n".join([*lines, "</svg>", ""])


def is_estimate_figure(text: str) -> bool:
    """Whether `text` is such a document."""
    return text.startswith("<svg ") and " MB of gradients:" in text


def _whole_s(row: Estimated) -> float:
    return row.communication_s if row.step_s is None else row.step_s


def _legend(with_compute: bool) -> Iterator[str]:
    entries = [("computing", _COMPUTE)] if with_compute else []
    entries.append(("communication that is not hidden", _COMMUNICATION))
    for place, (words, colour) in enumerate(entries):
        left = _LABEL + 110 * place
        yield f'<rect x="{left}" y="36" width="10" height="10" fill="{colour}"/>'
        yield _text(left + 15, 45, words)


def _bar(row: Estimated, compute_s: float, longest_s: float, *, top: int) -> Iterator[str]:
    hosts = "1 host" if row.hosts == 1 else f"{row.hosts} hosts"
    middle = top + _BAR - 4
    yield _text(10, middle, f"{row.method}, {hosts}")
    whole_s = _whole_s(row)
    scale = _BARS / longest_s
    beside = _LABEL + compute_s * scale
    if compute_s:
        yield _rect(_LABEL, top, compute_s * scale, _COMPUTE)
    yield _rect(beside, top, (whole_s - compute_s) * scale, _COMMUNICATION)
    share = "" if row.efficiency is None else f", {100 * row.efficiency:.1f} %"
    yield _text(_LABEL + whole_s * scale + 6, middle, f"{seconds_text(whole_s)}{share}")


def _rect(left: float, top: float, width: float, colour: str) -> str:
    return f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'


def _text(left: float, base: float, words: str, *, size: int = 12) -> str:
    return f'<text x="{left:.1f}" y="{base}" font-size="{size}">{escape(words)}</text>'
