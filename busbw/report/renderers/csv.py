"""A table as CSV: raw values below the columns' ids, which hold the units; empty where none is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from busbw import wire

from ..table import Table, TextLine

# What a spreadsheet takes for the beginning of a formula, at the beginning of a cell.
_FORMULA = ("=", "+", "-", "@", "\t")


def render(table: Table) -> list[TextLine]:
    heads = [column.id for column in table.columns]
    rows = ([row.values[column.id] for column in table.columns] for row in table.rows)
    return [TextLine(line) for line in csv_text([heads, *rows]).splitlines()]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows of values as CSV in which no text is a formula: a quote stands before it.

    Control characters are written as escapes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = wire.printable(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
