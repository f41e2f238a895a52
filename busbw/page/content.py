"""The parts of a page as values: sections, and in them texts, facts, figures and tables.

What is shown is decided where a part is made, how it looks in `html`. A part's `kind` is the name
of the macro that writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from busbw.report.table import Table

from .chart import Picture, table_of
from .nights import CaseNights


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer of a session: a word such as FINE, and the reason. `is_good` decides its look."""

    kind: ClassVar[str] = "answer"
    word: str
    text: str
    is_good: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """A list of sentences below a line that says what they are."""

    kind: ClassVar[str] = "points"
    title: str
    points: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Names with what they are, such as the device; with a title they are folded below it."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Lines as a program wrote them, folded below what they are about."""

    kind: ClassVar[str] = "log"
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A picture with the table of its values folded below it."""

    kind: ClassVar[str] = "figure"
    picture: Picture

    @property
    def table(self) -> Table:
        return table_of(self.picture)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gallery:
    """Small figures side by side, the same on a phone; with a title they are folded below it."""

    kind: ClassVar[str] = "gallery"
    figures: tuple[Figure, ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A table of its own; of `cases`, one for each row, a sparkline of the nights at its end."""

    kind: ClassVar[str] = "listing"
    table: Table
    cases: tuple[CaseNights, ...] = ()


Part: TypeAlias = Answer | Text | Points | Facts | Log | Figure | Gallery | Listing


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading, what is below it, and sections one level deeper."""

    heading: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.parts and not self.sections


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A whole page; `parts` come before the first section."""

    title: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()
