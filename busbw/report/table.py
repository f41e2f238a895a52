"""Tables with columns, rows and notes, and the functions that turn tables into text and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from busbw import wire
from busbw.model.words import payload_text

# A longer list of payloads is shortened to the first and the last payload.
_MAX_LISTED_PAYLOADS = 4


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text with its markup for pytest's terminal writer.

    `markup` is, for example, ``{"red": True, "bold": True}``, and empty for plain text.
    """

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the raw values of a row that the column shows, and their format.

    Attributes:
        id: The key of the raw values in a row, which includes their unit, such as ``median_s``.
        heading: The heading.
        unit: The unit of the cells, which is shown below the heading.
        text: A function that returns the text of a cell, given the raw value.
        width: The least width in plain text, in characters.
        is_fitted_to_cells: Whether the column is as wide as its longest cell or heading in plain
            text. Other columns are not widened for a longer cell.
        left_aligned: Whether cells are aligned left.
        gap: The number of spaces before the column in plain text.

    """

    id: str
    heading: str = ""
    _: KW_ONLY
    unit: str = ""
    text: Callable[[Any], str] = str
    width: int = 0
    is_fitted_to_cells: bool = False
    left_aligned: bool = False
    gap: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: raw values, which the columns format.

    Attributes:
        values: The raw values by the ids of columns; None for an empty cell.
        markup: The markup of the row for pytest's terminal writer, such as ``{"red": True}``.
        notes: Lines to show below the row.

    """

    values: Mapping[str, object]
    _: KW_ONLY
    markup: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[TextLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of columns and rows.

    Attributes:
        columns: The columns from left to right.
        rows: The rows from top to bottom.
        title: The line above the table; None for no title.
        notes: Lines to show below the table.
        missing_text: The text of a cell whose value is None.
        indent: The number of spaces before each line in plain text.

    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: TextLine | None = None
    notes: tuple[str, ...] = ()
    missing_text: str = ""
    indent: int = 0

    def cells(self, row: Row) -> list[str]:
        """Return the texts of the cells of a row, which may lack values of columns."""
        return [
            self.missing_text if value is None else column.text(value)
            for column in self.columns
            for value in (row.values.get(column.id),)
        ]


def make_rows(values_of_rows: Iterable[Mapping[str, object]]) -> tuple[Row, ...]:
    """Return a row for each mapping in `values_of_rows`, from ids of columns to raw values."""
    return tuple(map(Row, values_of_rows))


def attributes_by_name(value: object | None, *names: str) -> dict[str, object]:
    """Return the attributes `names` of `value`, by name; all are None if `value` is None."""
    return {name: None if value is None else getattr(value, name) for name in names}


def payload_span_text(payloads: Sequence[int]) -> str:
    """Return a text such as ``1M, 4M`` or, for more than four payloads, ``1M to 64M``."""
    texts = [payload_text(payload_bytes) for payload_bytes in sorted(payloads)]
    return ", ".join(texts) if len(texts) <= _MAX_LISTED_PAYLOADS else f"{texts[0]} to {texts[-1]}"


def percent_text(fraction: float) -> str:
    """Return a fraction as whole per cent without the sign: 0.25 becomes ``25``."""
    return f"{100 * fraction:.0f}"


# Spreadsheets read a text that begins with one of these characters as a formula. A number such as
# -1.5 is no formula.
_FORMULA_PATTERN = re.compile(r"[=@\t]|[+-](?!(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$)", re.IGNORECASE)
_NOTE_INDENT = " " * 10


def render(format_name: str, *tables: Table) -> list[str]:
    """Return the lines of all `tables` in the format ``text`` or ``csv``."""
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
    """Return a row as a line of plain text, given its cells and the widths of the columns."""
    aligned = [
        " " * column.gap + (cell.ljust(width) if column.left_aligned else cell.rjust(width))
        for column, cell, width in zip(table.columns, cells, widths)
    ]
    return (" " * table.indent + "".join(aligned)[table.columns[0].gap :]).rstrip()


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
    """Return `value` for the CSV writer; a text is escaped, and a formula gets a quote in front."""
    if not isinstance(value, str):
        return value
    text = wire.escape_unprintable(value)
    return f"'{text}" if _FORMULA_PATTERN.match(text) else text


RENDERERS: Mapping[str, Callable[[Table], list[TextLine]]] = {
    "csv": render_csv,
    "text": render_text,
}
