"""A table as a value: columns with their units, rows, and notes.

What is shown is decided where a table is made, and how it looks in `renderers`: makes no line and
measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from busbw.model.words import payload_text


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text and how a terminal should mark it."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and how a value of it is written.

    `id` names the raw value in documents, its unit included; `unit` is that of the text. In plain
    text a column is at least `width` wide and `gap` spaces from the one before it; one that `fits`
    is as wide as its longest cell, in any other a longer cell sticks out.
    """

    id: str
    heading: str = ""
    _: KW_ONLY
    unit: str = ""
    text: Callable[[Any], str] = str
    width: int = 0
    fits: bool = False
    left: bool = False
    gap: int = 1

    def aligned(self, cell: str, width: int) -> str:
        return cell.ljust(width) if self.left else cell.rjust(width)


@dataclass(frozen=True, slots=True)
class Row:
    """Raw values by the ids of columns, None where there is none; `notes` are shown below it."""

    values: Mapping[str, object]
    _: KW_ONLY
    markup: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[TextLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Columns and rows. `missing` is shown where a row has no value, `notes` below all rows."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: TextLine | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
    indent: int = 0

    def cells(self, row: Row) -> list[str]:
        return [
            self.missing if row.values[column.id] is None else column.text(row.values[column.id])
            for column in self.columns
        ]


def rows_of(values: Iterable[Mapping[str, object]]) -> tuple[Row, ...]:
    return tuple(map(Row, values))


def attributes(value: object | None, *names: str) -> dict[str, object]:
    return {name: None if value is None else getattr(value, name) for name in names}


def span_text(payloads: Sequence[int]) -> str:
    """The first and the last of some payloads, such as ``1M to 64M``; a single one by itself."""
    texts = [payload_text(size) for size in payloads]
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def percent_text(share: float) -> str:
    return f"{100 * share:.0f}"
