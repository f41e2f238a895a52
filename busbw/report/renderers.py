"""Write a Table as plain text, Markdown or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence

from busbw import wire

from .table import Column, Table, TextLine

# Spreadsheets read a text that begins with one of these characters as a formula. A number such as
# -1.5 is no formula.
_FORMULA = re.compile(r"[=@\t]|[+-](?!(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$)", re.IGNORECASE)
_NOTE_INDENT = " " * 10


def render(format_name: str, *tables: Table) -> list[str]:
    """Return the lines of tables in a format: ``text``, ``markdown`` or ``csv``."""
    return [line.text for table in tables for line in RENDERERS[format_name](table)]


def render_text(table: Table) -> list[TextLine]:
    """Return the lines of a table for a terminal: aligned columns, with units below headings."""
    lines = [TextLine(""), table.title] if table.title else []
    headings = [column.heading for column in table.columns]
    units = [column.unit for column in table.columns]
    body = [table.cells(row) for row in table.rows]
    widths = [
        max(column.width, *map(len, cells)) if column.is_fitted_to_cells else column.width
        for column, cells in zip(table.columns, zip(headings, units, *body))
    ]
    heads = filter(any, (headings, units))
    lines += [TextLine(_text_line(table, cells, widths)) for cells in heads]
    for row, cells in zip(table.rows, body):
        lines.append(TextLine(_text_line(table, cells, widths), row.markup))
        lines += [TextLine(f"{_NOTE_INDENT}{note.text}", note.markup) for note in row.notes]
    return lines + [TextLine(note) for note in table.notes]


def _text_line(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        " " * column.gap + column.align(cell, width)
        for column, cell, width in zip(table.columns, cells, widths)
    ]
    return (" " * table.indent + "".join(aligned)[table.columns[0].gap :]).rstrip()


def render_markdown(table: Table) -> list[TextLine]:
    """Return the lines of a Markdown table, aligned so that its source is readable, too."""
    heads = [f"{c.heading} ({c.unit})" if c.unit else c.heading for c in table.columns]
    rows = [heads, *map(table.cells, table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    head, *body = [_markdown_line(table.columns, cells, widths) for cells in rows]
    lines = [table.title.text, ""] if table.title else []
    dashes = ["-" * (width + 1) for width in widths]
    ends = (
        f":{dash}" if column.left_aligned else f"{dash}:"
        for column, dash in zip(table.columns, dashes)
    )
    lines += [head, f"|{'|'.join(ends)}|", *body]
    # A Markdown table cannot hold the notes of its rows.
    row_notes = [
        f"- {table.cells(row)[0]}: {note.text}" for row in table.rows for note in row.notes
    ]
    for notes in (row_notes, table.notes):
        lines += ["", *notes] if notes else []
    return [TextLine(line) for line in lines]


def _markdown_line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (column.align(cell, width) for column, cell, width in zip(columns, cells, widths))
    return f"| {' | '.join(aligned)} |"


def render_csv(table: Table) -> list[TextLine]:
    """Return CSV lines: the ids of columns, which include units, and a line for each row.

    Values are not rounded, and None becomes an empty field. A text that a spreadsheet would read as
    a formula is prefixed with a quote. Control characters are escaped.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_csv_cell(column.id) for column in table.columns)
    for row in table.rows:
        writer.writerow(_csv_cell(row.values[column.id]) for column in table.columns)
    return [TextLine(line) for line in text.getvalue().splitlines()]


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = wire.escape_unprintable(value)
    return f"'{text}" if _FORMULA.match(text) else text


RENDERERS: Mapping[str, Callable[[Table], list[TextLine]]] = {
    "markdown": render_markdown,
    "csv": render_csv,
    "text": render_text,
}
