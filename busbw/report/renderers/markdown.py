"""A table as Markdown that is readable as text, too: each column as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Sequence

from ..table import Column, Table, TextLine


def render(table: Table) -> list[TextLine]:
    heads = [f"{c.heading} ({c.unit})" if c.unit else c.heading for c in table.columns]
    rows = [heads, *map(table.cells, table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    head, *body = [_line(table.columns, cells, widths) for cells in rows]
    lines = [table.title.text, ""] if table.title else []
    lines += [head, _rule(table.columns, widths), *body]
    for notes in (_row_notes(table), table.notes):
        lines += ["", *notes] if notes else []
    return [TextLine(line) for line in lines]


def _rule(columns: Sequence[Column], widths: Sequence[int]) -> str:
    dashes = ["-" * (width + 1) for width in widths]
    ends = [f":{one}" if column.left else f"{one}:" for column, one in zip(columns, dashes)]
    return f"|{'|'.join(ends)}|"


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (column.aligned(cell, width) for column, cell, width in zip(columns, cells, widths))
    return f"| {' | '.join(aligned)} |"


def _row_notes(table: Table) -> list[str]:
    """The notes of rows, each with the first cell of its row, since a table cannot hold them."""
    return [f"- {table.cells(row)[0]}: {note.text}" for row in table.rows for note in row.notes]
