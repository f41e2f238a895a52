"""A table as a frozen value: columns with units, rows and notes. `renderers` write its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from busbw.model.words import payload_text

# A longer list of payloads is shortened to the first and the last payload.
_MAX_LISTED_PAYLOADS = 4


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text with its markup on a terminal, such as ``{"red": True, "bold": True}``."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: which raw values of a row it shows, and in which format.

    Attributes:
        id: The key of the raw values in a row, which includes their unit, such as ``median_s``.
        heading: The heading.
        unit: The unit of the cells.
        text: Converts a raw value to the text of a cell.
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

    def align(self, cell: str, width: int) -> str:
        """Return a cell padded with spaces to `width` characters."""
        return cell.ljust(width) if self.left_aligned else cell.rjust(width)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        values: The raw values by the ids of columns; None for an empty cell.
        markup: The options of pytest's terminal writer for the row, such as ``{"red": True}``.
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
        """Return the texts of the cells of a row. Raises KeyError if the row lacks a column."""
        return [
            self.missing_text
            if row.values[column.id] is None
            else column.text(row.values[column.id])
            for column in self.columns
        ]


def make_rows(values: Iterable[Mapping[str, object]]) -> tuple[Row, ...]:
    """Return a row for each mapping of raw values by the ids of columns."""
    return tuple(map(Row, values))


def attributes_or_none(value: object | None, *names: str) -> dict[str, object]:
    """Map each of `names` to this attribute of `value`, or to None if `value` is None."""
    return {name: None if value is None else getattr(value, name) for name in names}


def payload_span_text(payloads: Sequence[int]) -> str:
    """Return a text such as ``1M, 4M`` or, for more than four payloads, ``1M to 64M``."""
    texts = [payload_text(payload_bytes) for payload_bytes in sorted(payloads)]
    return ", ".join(texts) if len(texts) <= _MAX_LISTED_PAYLOADS else f"{texts[0]} to {texts[-1]}"


def percent_text(fraction: float) -> str:
    """Return a fraction, such as 0.25, as whole per cent without the per-cent sign."""
    return f"{100 * fraction:.0f}"
