"""The parts of a page as values: sections, and in them points, facts, figures and tables.

What is shown is decided where a part is made, how it looks in `html` and `summary`. A macro of the
template is named like the part that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from busbw.report.table import Table

from .chart import Picture, table_of
from .nights import CaseNights


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer of a session: a word such as FINE, and the reason. `is_good` decides its look."""

    word: str
    text: str
    is_good: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A paragraph; with `points` a list of sentences, and the line that says what they are."""

    text: str
    points: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Names with what they are, such as the device; with a title they are folded below it."""

    facts: Mapping[str, str]
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Lines as a program wrote them, folded below what they are about."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A picture with the table of its values folded below it."""

    picture: Picture

    @property
    def table(self) -> Table:
        return table_of(self.picture)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gallery:
    """Small figures side by side, the same on a phone; with a title they are folded below it."""

    figures: tuple[Figure, ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A table of its own; of `cases`, one for each row, a sparkline of the nights at its end."""

    table: Table
    cases: tuple[CaseNights, ...] = ()


Part: TypeAlias = Answer | Text | Facts | Log | Figure | Gallery | Listing


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading, what is below it, and sections one level deeper."""

    heading: str
    parts: tuple[Part, ...]
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A whole page; `parts` come before the first section."""

    title: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()


def filled(*sections: Section) -> tuple[Section, ...]:
    """Those that have something below their heading."""
    return tuple(one for one in sections if one.parts or one.sections)
