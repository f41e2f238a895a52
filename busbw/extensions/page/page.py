"""A page of sessions and their history as one HTML file, which a template writes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import busbw
from busbw import wire
from busbw.history.failing import failed_since_texts
from busbw.history.levels import MachineHistory, change_texts
from busbw.model.words import plural
from busbw.report.reading import Outline, Session, SessionRecord, Text
from busbw.report.table import Table

from . import curves, drawing, history
from .figures import Figure

_MARK = '<meta name="generator" content="busbw page">'


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading with what is below it: sentences, then figures, then tables."""

    heading: str
    texts: Sequence[Text] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chapter:
    """A session, or a history, with its sections; `words` has the outcome, facts and logs.

    `moment` tells the chapters of several sessions apart.
    """

    words: Outline
    sections: Sequence[Section]
    moment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A whole page; a single chapter has the page's title."""

    title: str
    chapters: Sequence[Chapter]


def page(sessions: Sequence[SessionRecord], machines: Sequence[MachineHistory] = ()) -> Page:
    """Return the page of sessions and of the history of their machines."""
    machine_sections = [section for machine in machines for section in _history(machine)]
    chapters = [_chapter(session, machines) for session in sessions]
    if len(chapters) == 1:
        # The table of all cases is last.
        (chapter,) = chapters
        sections = [*chapter.sections[:-1], *machine_sections, chapter.sections[-1]]
        return Page(title=chapter.words.title, chapters=[replace(chapter, sections=sections)])
    folder = machines[0].folder if len(machines) == 1 else plural(len(machines), "machine")
    title = plural(len(sessions), "session") if sessions else f"Sessions of {folder}"
    overview = [*_together(sessions), *machine_sections]
    words = Outline(title=title)
    return Page(title=title, chapters=[Chapter(words=words, sections=overview), *chapters])


def _chapter(session: SessionRecord, machines: Sequence[MachineHistory]) -> Chapter:
    words = session.describe(failed_since_texts(session.verdicts, machines))
    figures = curves.session_figures(session) if isinstance(session, Session) else {}
    cases = Section(
        heading="Cases", texts=[(note, ()) for note in words.notes], tables=words.tables
    )
    return Chapter(
        words=words,
        sections=[
            Section(heading="What changed", texts=words.changes),
            *(Section(heading=name, figures=drawn) for name, drawn in figures.items() if drawn),
            cases,
        ],
        moment=f"{session.began:%Y-%m-%d %H:%M} UTC",
    )


def _together(sessions: Sequence[SessionRecord]) -> Iterator[Section]:
    measured = [session for session in sessions if isinstance(session, Session)]
    all_curves = [curve for session in measured for curve in curves.curves_of(session)]
    try:
        figure = curves.bandwidth(all_curves)
    except ValueError:
        # Nothing to draw, or more than a reader can follow: each session has its own figures.
        return
    yield Section(heading="Bandwidth of all sessions", figures=[figure])


def _history(machine: MachineHistory) -> Iterator[Section]:
    changed = history.changed_cases(machine)
    more = len(changed) - history.MOST_CASES
    left_out = f"{plural(more, 'case')} more: the table of all cases says what changed."
    yield Section(
        heading=f"History of {machine.folder}",
        texts=list(change_texts(machine)),
        figures=[history.heat_map(machine)],
    )
    if changed:
        yield Section(
            heading=f"Cases that changed on {machine.folder}",
            texts=[(left_out, ())] if more > 0 else [],
            figures=[history.case_history(machine, case) for case in changed[: history.MOST_CASES]],
        )
    tables = [history.cases_table(machine)] if machine.cases else []
    yield Section(heading=f"All cases on {machine.folder}", tables=tables)


def html(page: Page) -> str:
    """Return the page as one HTML document. Raises DrawingError where a library is missing."""
    try:
        jinja = importlib.import_module("jinja2")
        markup = importlib.import_module("markupsafe").Markup
    except ImportError as error:
        raise drawing.DrawingError(drawing.MISSING) from error
    environment = jinja.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FunctionLoader(_source),
    )
    text: str = environment.get_template("page.html").render(
        page=page,
        version=busbw.__version__,
        style=markup(_source("page.css") + drawing.style_sheet()),
        svg=lambda figure: markup(drawing.svg(figure, has_style=False)),
    )
    # Names of files may hold what moves a terminal or cannot be encoded.
    return "\n".join(map(wire.escape_unprintable, text.split("\n")))


def is_page(text: str) -> bool:
    """Tell whether the text of a file is a page of busbw."""
    return text.startswith("<!DOCTYPE html>") and _MARK in text[:2000]


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
