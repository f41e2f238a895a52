"""A table as a value: columns with their units, rows, and notes; `renderers` make lines of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from busbw.model.words import payload_text

# More payloads are not listed.
_MOST_SIZES = 4


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text and how a terminal should mark it."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `id` names its raw values, and `text` writes a value as a cell.

    The id includes the unit of the raw value, such as ``median_s``; `unit` is the unit of the
    cells. In plain text a column is at least `width` characters wide, `gap` spaces after the column
    before it. A column that `fits` is as wide as its longest cell or heading; in other columns a
    longer cell sticks out.
    """

    id: str
    heading: str = ""
    _: KW_ONLY
    unit: str = ""
    text: Callable[[Any], str] = str
    width: int = 0
    fits: bool = False
    left_aligned: bool = False
    gap: int = 1

    def align(self, cell: str, width: int) -> str:
        """Return `cell` with spaces up to `width` characters."""
        return cell.ljust(width) if self.left_aligned else cell.rjust(width)


@dataclass(frozen=True, slots=True)
class Row:
    """Raw values by the ids of columns, None for no value; `notes` are shown below the row."""

    values: Mapping[str, object]
    _: KW_ONLY
    markup: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[TextLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Columns and rows; `missing` is the cell of a value that is None, `notes` stand below."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: TextLine | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
    indent: int = 0

    def cells(self, row: Row) -> list[str]:
        """Return the cells of a row; a row that lacks a column is a KeyError."""
        return [
            self.missing if row.values[column.id] is None else column.text(row.values[column.id])
            for column in self.columns
        ]


def rows_of(values: Iterable[Mapping[str, object]]) -> tuple[Row, ...]:
    """Return rows without notes, one for each mapping of values by ids of columns."""
    return tuple(map(Row, values))


def attributes(value: object | None, *names: str) -> dict[str, object]:
    """Return the attributes `names` of `value`, or None for each if `value` is None."""
    return {name: None if value is None else getattr(value, name) for name in names}


def span_text(payloads: Sequence[int]) -> str:
    """Return a few payloads, or the first and the last of many, such as ``1M to 64M``."""
    texts = [payload_text(size) for size in sorted(payloads)]
    return ", ".join(texts) if len(texts) <= _MOST_SIZES else f"{texts[0]} to {texts[-1]}"


def percent_text(share: float) -> str:
    """Return a fraction in per cent, without decimals and without the sign."""
    return f"{100 * share:.0f}"
