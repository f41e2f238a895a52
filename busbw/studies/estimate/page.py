"""What a step should cost, as a table, a document and a figure.

Computes nothing itself. MB is 10^6 bytes here, as the rates of links are stated; sizes and rates of
the document are bytes, and its times seconds. The figure is SVG
written by hand, since a few rectangles need no package: a bar for each method, its computing and
what comes on top; text is escaped, sizes are in pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from html import escape

from busbw.model import plural, seconds_text
from busbw.report import Column, Table, rendered, rows_of

from .answer import Estimated, Estimates
from .catalog import memory_by_optimizer
from .cost import Level, Link
from .question import Question

SCHEMA = 1

# The figure's columns, rows and colours.
_LABEL, _BARS, _VALUE = 330, 480, 150
_ROW, _TOP, _BAR = 24, 60, 16
_COMPUTE, _COMMUNICATION = "#4c78a8", "#f58518"


def document(question: Question, answer: Estimates) -> dict[str, object]:
    """Plain dicts, lists, strings, numbers and None; the unit is in the name."""
    asked = question.step
    return {
        "schema": SCHEMA,
        "name": asked.name,
        "payload_bytes": asked.payload_bytes,
        "parameters": asked.parameters,
        "dtype": asked.dtype,
        "buckets": len(asked.buckets),
        "compute_s": asked.compute_s,
        "overlap": asked.overlap,
        "wanted_efficiency": question.wanted_efficiency,
        "links": [
            {"level": level.value, **dataclasses.asdict(link)}
            for level, link in question.used_links.items()
        ],
        "memory_bytes_per_parameter": memory_by_optimizer(asked.dtype),
        "notes": answer.notes,
        "estimates": [dataclasses.asdict(row) for row in answer.rows],
    }


def lines(question: Question, answer: Estimates) -> list[str]:
    """The head, a table with a line for each row, and the notes."""
    shown = [*_head(question), "", *rendered("text", _table(question, answer.rows))]
    return shown + ([""] if answer.notes else []) + [f"note: {note}" for note in answer.notes]


def mb_text(count: float) -> str:
    """Bytes in MB (10^6): two decimals, or three digits where there is less than one MB."""
    return f"{count / 1e6:.2f}" if count >= 1e6 else f"{count / 1e6:.3g}"


def _table(question: Question, rows: Sequence[Estimated]) -> Table:
    wanted = question.wanted_efficiency
    last = "bottleneck" if wanted is None else f"bottleneck, and what it needs for {wanted:g}"
    return Table(
        columns=(
            Column("method", "method", width=34, left=True),
            Column("hosts", "hosts", width=7),
            Column("traffic_bytes", "MB a rank", text=mb_text, width=11),
            Column("communication_s", "communication", text=seconds_text, width=13),
            Column("step_s", "step", text=seconds_text, width=10),
            Column("efficiency", "efficiency", text="{:.4f}".format, width=10),
            Column("bottleneck", last, left=True, gap=2),
        ),
        rows=rows_of(_values(row, is_wanted=wanted is not None) for row in rows),
    )


def _values(row: Estimated, *, is_wanted: bool) -> dict[str, object]:
    needs = ""
    if is_wanted:
        needs = "no bandwidth suffices"
        if row.wanted_bytes_per_s is not None:
            needs = f"{row.wanted_bytes_per_s / 1e6:.0f} MB/s"
    last = "; ".join(part for part in (row.bottleneck, row.how, needs) if part)
    return {**dataclasses.asdict(row), "bottleneck": last}


def _head(question: Question) -> Iterator[str]:
    asked = question.step
    what = f"{asked.name}: {mb_text(asked.payload_bytes)} MB of gradients"
    if asked.parameters is not None:
        what += f", {asked.parameters} parameters in {asked.dtype}"
    if asked.buckets:
        what += f", in {plural(len(asked.buckets), 'bucket')}"
    yield what + "; MB is 10^6 bytes, a rank sends and takes as much"
    if asked.compute_s is not None:
        shared = f", {100 * asked.overlap:g} % of it beside communication" if asked.overlap else ""
        yield f"computing: {seconds_text(asked.compute_s)} a step{shared}"
    kept = memory_by_optimizer(asked.dtype)
    if asked.parameters is not None and kept:
        parameters = asked.parameters
        each = (
            f"{name} {count} ({count * parameters / 1e9:.2f} GB)" for name, count in kept.items()
        )
        words = "memory, bytes a parameter for weights, gradients and state"
        yield f"{words}: {', '.join(each)}"
    for level, link in question.used_links.items():
        yield _link_line(level, link)


def _link_line(level: Level, link: Link) -> str:
    name = {Level.INTRA: "inside a host", Level.INTER: "between hosts"}[level]
    duplex = "each direction" if link.full_duplex else "both directions together"
    return (
        f"{name}: {link.name}, {link.bytes_per_s / 1e6:.6g} MB/s {duplex}, "
        f"{seconds_text(link.latency_s)} a step"
    )


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
        _svg_text(10, 22, title, size=14),
        *_legend(asked.compute_s is not None),
    ]
    for index, row in enumerate(rows):
        lines += _bar(row, asked.compute_s or 0.0, longest_s, top=_TOP + _ROW * index)
    return "\n".join([*lines, "</svg>", ""])


def is_figure(text: str) -> bool:
    """Whether `text` is such a document."""
    return text.startswith("<svg ") and " MB of gradients:" in text


def _legend(with_compute: bool) -> Iterator[str]:
    entries = [("computing", _COMPUTE)] if with_compute else []
    entries.append(("communication that is not hidden", _COMMUNICATION))
    for index, (words, colour) in enumerate(entries):
        left = _LABEL + 110 * index
        yield f'<rect x="{left}" y="36" width="10" height="10" fill="{colour}"/>'
        yield _svg_text(left + 15, 45, words)


def _bar(row: Estimated, compute_s: float, longest_s: float, *, top: int) -> Iterator[str]:
    middle = top + _BAR - 4
    scale = _BARS / longest_s
    yield _svg_text(10, middle, f"{row.method}, {plural(row.hosts, 'host')}")
    if compute_s:
        yield _rect(_LABEL, top, compute_s * scale, _COMPUTE)
    yield _rect(_LABEL + compute_s * scale, top, (row.whole_s - compute_s) * scale, _COMMUNICATION)
    share = "" if row.efficiency is None else f", {100 * row.efficiency:.1f} %"
    end = _LABEL + row.whole_s * scale + 6
    yield _svg_text(end, middle, f"{seconds_text(row.whole_s)}{share}")


def _rect(left: float, top: float, width: float, colour: str) -> str:
    return f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'


def _svg_text(left: float, base: float, words: str, *, size: int = 12) -> str:
    return f'<text x="{left:.1f}" y="{base}" font-size="{size}">{escape(words)}</text>'
