"""A table as a frozen value: columns with units, rows and notes. `renderers` write its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from busbw.model.words import payload_text

# Of a longer list of payloads, only the first and the last are shown.
_MOST_LISTED_PAYLOADS = 4


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text with its markup on a terminal, such as ``{"red": True, "bold": True}``."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: how its raw values are found and written.

    `id` is the key of the raw values in a row, and includes their unit, such as ``median_s``.
    `text` converts a raw value to the text of a cell, and `unit` is the unit of that text. In plain
    text a column is at least `width` characters wide, and `gap` spaces separate it from the column
    before. A column that `is_fitted_to_cells` is as wide as its longest cell or heading; other
    columns are not widened for a longer cell.
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
    """A row of a table: its raw values by the ids of columns, and `notes` to show below the row.

    A value is None if the row has no value in that column. `markup` has the options of pytest's
    terminal writer for the row, such as ``{"red": True}``.
    """

    values: Mapping[str, object]
    _: KW_ONLY
    markup: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[TextLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table with columns, rows, and `notes` to show below it.

    `missing` is the text of a cell whose value is None. In plain text each line is indented by
    `indent` spaces.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: TextLine | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
    indent: int = 0

    def cells(self, row: Row) -> list[str]:
        """Return the texts of the cells of a row. Raises KeyError if the row lacks a column."""
        return [
            self.missing if row.values[column.id] is None else column.text(row.values[column.id])
            for column in self.columns
        ]


def rows_of(values: Iterable[Mapping[str, object]]) -> tuple[Row, ...]:
    """Return a row without notes for each mapping of raw values by the ids of columns."""
    return tuple(map(Row, values))


def attribute_values(value: object | None, *names: str) -> dict[str, object]:
    """Return the attributes `names` of `value` by name; each is None if `value` is None."""
    return {name: None if value is None else getattr(value, name) for name in names}


def payload_span_text(payloads: Sequence[int]) -> str:
    """Return payloads as a text: ``1M, 4M`` or, for more than four payloads, ``1M to 64M``."""
    texts = [payload_text(payload_bytes) for payload_bytes in sorted(payloads)]
    return ", ".join(texts) if len(texts) <= _MOST_LISTED_PAYLOADS else f"{texts[0]} to {texts[-1]}"


def percent_text(share: float) -> str:
    """Return a fraction, such as 0.25, as whole per cent without the per-cent sign."""
    return f"{100 * share:.0f}"
