"""A table as plain text for a terminal: columns of a fixed width, units below their headings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..table import Row, Table, TextLine

_NOTE_INDENT = " " * 10


def render(table: Table) -> list[TextLine]:
    lines = [TextLine(""), table.title] if table.title else []
    widths = [_width(table, index) for index in range(len(table.columns))]
    for heads in ([one.heading for one in table.columns], [one.unit for one in table.columns]):
        if any(heads):
            lines.append(TextLine(_line(table, heads, widths)))
    for row in table.rows:
        lines += _row_lines(table, row, widths)
    return lines + [TextLine(note) for note in table.notes]


def _width(table: Table, index: int) -> int:
    column = table.columns[index]
    cells = [table.cells(row)[index] for row in table.rows] if column.fits else []
    return max([column.width, *map(len, cells)])


def _row_lines(table: Table, row: Row, widths: Sequence[int]) -> Iterator[TextLine]:
    yield TextLine(_line(table, table.cells(row), widths), row.markup)
    for note in row.notes:
        yield TextLine(f"{_NOTE_INDENT}{note.text}", note.markup)


def _line(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        " " * column.gap + column.aligned(cell, width)
        for column, cell, width in zip(table.columns, cells, widths)
    ]
    return (" " * table.indent + "".join(aligned)[table.columns[0].gap :]).rstrip()
