"""What a step should cost as a figure: a bar for each method, its computing and what comes on top.

SVG written by hand, since a few rectangles need no package. Text is escaped; sizes are in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from busbw.model import seconds_text

from .answer import Estimated, Estimates, hosts_text
from .question import Question
from .text import mb_text

_LABEL, _BARS, _VALUE = 330, 480, 150
_ROW, _TOP, _BAR = 24, 60, 16
_COMPUTE, _COMMUNICATION = "#4c78a8", "#f58518"


def figure(question: Question, answer: Estimates) -> str:
    """An SVG document. Without the computing's time the bars are communication alone."""
    asked, rows = question.step, answer.rows
    width, height = _LABEL + _BARS + _VALUE, _TOP + _ROW * len(rows) + 10
    shown = "a step" if asked.compute_s is not None else "communication"
    title = f"{asked.name}, {mb_text(asked.payload_bytes)} MB of gradients: {shown}"
    longest_s = max(row.whole_s for row in rows)
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


def is_figure(text: str) -> bool:
    """Whether `text` is such a document."""
    return text.startswith("<svg ") and " MB of gradients:" in text


def _legend(with_compute: bool) -> Iterator[str]:
    entries = [("computing", _COMPUTE)] if with_compute else []
    entries.append(("communication that is not hidden", _COMMUNICATION))
    for place, (words, colour) in enumerate(entries):
        left = _LABEL + 110 * place
        yield f'<rect x="{left}" y="36" width="10" height="10" fill="{colour}"/>'
        yield _text(left + 15, 45, words)


def _bar(row: Estimated, compute_s: float, longest_s: float, *, top: int) -> Iterator[str]:
    middle = top + _BAR - 4
    scale = _BARS / longest_s
    yield _text(10, middle, f"{row.method}, {hosts_text(row.hosts)}")
    if compute_s:
        yield _rect(_LABEL, top, compute_s * scale, _COMPUTE)
    yield _rect(_LABEL + compute_s * scale, top, (row.whole_s - compute_s) * scale, _COMMUNICATION)
    share = "" if row.efficiency is None else f", {100 * row.efficiency:.1f} %"
    end = _LABEL + row.whole_s * scale + 6
    yield _text(end, middle, f"{seconds_text(row.whole_s)}{share}")


def _rect(left: float, top: float, width: float, colour: str) -> str:
    return f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'


def _text(left: float, base: float, words: str, *, size: int = 12) -> str:
    return f'<text x="{left:.1f}" y="{base}" font-size="{size}">{escape(words)}</text>'
