"""`busbw page RESULTS...` and `--page`: write sessions and their history as one HTML page.

The command reads files of `--results` and a folder of `--history`. With `--page` a session writes
its own page at its end. The template page.html makes the HTML. This module measures nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import busbw
from busbw import storage, wire
from busbw.cli import (
    Subparsers,
    add_baselines_option,
    add_command,
    add_machine_option,
    check_output_file,
    command_error,
)
from busbw.cli.history import cases_tables, read_session_document, select_machine_histories
from busbw.history.levels import MachineHistory
from busbw.history.texts import failing_since_texts, history_paragraphs
from busbw.model.words import plural
from busbw.report.conclusion import Paragraph
from busbw.report.results import SessionDescription, SessionDocument, read_results
from busbw.report.table import Table
from busbw.session.option import UsageError, as_usage_error, parse_path
from busbw.session.record import OutputFileKind, results_document
from busbw.session.state import JudgedSession

from . import curves, history
from .charts import (
    MISSING_LIBRARIES,
    Chart,
    DrawingError,
    draw_svg,
    read_resource,
)

_GENERATOR_TAG = '<meta name="generator" content="busbw page">'


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `busbw page` and its options to `commands`."""
    parser = add_command(
        commands,
        "page",
        run,
        help="Write an HTML page with the tables and charts of sessions and their history",
        description="Write one HTML file with the tables and charts of sessions, from files of "
        "busbw run --results=FILE, and of their history. The page loads nothing from the network "
        "and runs no script. Measures nothing.",
        example="busbw page results.json --history=history -o busbw.html",
    )
    add = parser.add_argument
    add(
        "results",
        nargs="*",
        type=parse_path,
        metavar="RESULTS",
        help="Files that busbw run --results=FILE wrote",
    )
    add("--history", type=parse_path, metavar="DIR", help="Show all sessions of this history too")
    add_machine_option(parser, " (default: those of the results, or all)")
    add_baselines_option(parser)
    add(
        "-o",
        "--output",
        type=parse_path,
        required=True,
        metavar="FILE",
        help="Write the page to FILE, for example busbw.html",
    )


def run(options: argparse.Namespace) -> int:
    """Write the page of `busbw page`, and return the exit code 0.

    Raises OSError if the file cannot be written, CommandError if a chart cannot be drawn, and
    UsageError if the options are wrong or an input cannot be read.
    """
    if not options.results and options.history is None:
        raise UsageError("expected files of --results, --history=DIR, or both")
    check_output_file("--output", options.output, "a page of busbw page", is_page, options.results)
    sessions = [read_session_document(path) for path in options.results]
    machines = select_machine_histories(
        options.history, options.baselines, name=options.machine, sessions=sessions
    )
    with command_error(DrawingError):
        storage.write(options.output, render_html(make_chapters(sessions, machines)))
    return 0


def page_view() -> OutputFileKind:
    """Return how to make the text of the page of --page, and how to recognize an earlier page.

    Raises ValueError if the libraries that draw are missing.
    """
    if not all(map(importlib.util.find_spec, ("altair", "jinja2", "vl_convert"))):
        raise ValueError(MISSING_LIBRARIES)
    return OutputFileKind(kind="an earlier page", recognizes_text=is_page, text=page_text)


def page_text(judged_session: JudgedSession) -> str:
    """Return the page of a judged session as HTML; with --history, include the machine's history.

    Raises UsageError if the history cannot be read, or if a chart cannot be drawn.
    """
    options = judged_session.options
    results = read_results(json.dumps(results_document(judged_session)))
    machines = select_machine_histories(options.history, options.baselines, sessions=[results])
    with as_usage_error(DrawingError):
        return render_html(make_chapters([results], machines))


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A section of a page: a heading, followed by paragraphs, charts and tables in this order."""

    heading: str
    paragraphs: Sequence[Paragraph] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chapter:
    """The part of a page that shows one session or, as an overview, several sessions.

    Attributes:
        description: The title, the verdict, the facts and the logs of the session.
        sections: The sections with paragraphs, charts and tables.

    """

    description: SessionDescription
    sections: Sequence[Section]


def make_chapters(
    sessions: Sequence[SessionDocument], machines: Sequence[MachineHistory] = ()
) -> list[Chapter]:
    """Return the chapters of a page that shows `sessions` and the histories of `machines`.

    For a single session there is a single chapter, which includes the histories. Otherwise the
    first chapter is an overview with the histories, and a chapter for each session follows. The
    title of the first chapter is the title of the page.
    """
    machine_sections = [section for machine in machines for section in _history_sections(machine)]
    if len(sessions) == 1:
        return [_session_chapter(sessions[0], machines, machine_sections)]
    folders = ", ".join(machine.folder for machine in machines)
    title = plural(len(sessions), "session") if sessions else f"Sessions of {folders}"
    all_curves = [curve for session in sessions for curve in curves.curves_of(session)]
    overview = []
    # There may be no bandwidth, or too many curves for one chart. Each session has its own charts.
    with contextlib.suppress(ValueError):
        charts = [curves.bandwidth_chart(all_curves)]
        overview.append(Section(heading="Bandwidth of all sessions", charts=charts))
    return [
        Chapter(
            description=SessionDescription(title=title), sections=[*overview, *machine_sections]
        ),
        *(_session_chapter(session, machines) for session in sessions),
    ]


def _session_chapter(
    session: SessionDocument,
    machines: Sequence[MachineHistory],
    machine_sections: Sequence[Section] = (),
) -> Chapter:
    """Return the chapter of a session, with `machine_sections` before the long table of all cases.

    The chapter also says since when failed cases fail, according to the histories of `machines`.
    """
    texts = (failing_since_texts(machine.lines, session.verdicts) for machine in machines)
    description = session.describe([*itertools.chain.from_iterable(texts)])
    return Chapter(
        description=description,
        sections=[
            Section(heading="What changed", paragraphs=description.changes),
            *(
                Section(heading=heading, charts=charts)
                for heading, charts in curves.session_charts(session).items()
            ),
            *machine_sections,
            Section(
                heading="Cases",
                paragraphs=[(note, ()) for note in description.notes],
                tables=description.tables,
            ),
        ],
    )


def _history_sections(machine: MachineHistory) -> list[Section]:
    """Return the sections of a machine's history: heat map, most changed cases, and all cases."""
    return [
        Section(
            heading=f"History of {machine.folder}",
            paragraphs=list(history_paragraphs(machine)),
            charts=[history.heat_map(machine)],
        ),
        Section(
            heading=f"Cases that changed most on {machine.folder}",
            charts=[
                history.case_history_chart(machine, case)
                for case in history.untimed_or_changed_cases(machine)[: history.MAX_CASE_CHARTS]
            ],
        ),
        Section(heading=f"All cases on {machine.folder}", tables=cases_tables(machine)),
    ]


def render_html(chapters: Sequence[Chapter]) -> str:
    """Return a page that shows `chapters`, as a single HTML document.

    Raises DrawingError if a library is missing, or if a chart cannot be drawn.
    """
    with storage.reraise_as(DrawingError, ImportError, where=f"{MISSING_LIBRARIES}: "):
        jinja = importlib.import_module("jinja2")
        markup = importlib.import_module("markupsafe").Markup
    environment = jinja.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FunctionLoader(read_resource),
    )
    text: str = environment.get_template("page.html").render(
        chapters=chapters,
        version=busbw.__version__,
        style=markup(read_resource("page.css") + read_resource("charts.css")),
        svg=lambda chart: markup(draw_svg(chart, has_style_sheet=False)),
    )
    # Names of files may hold control characters, or characters that UTF-8 cannot encode.
    return "\n".join(map(wire.escape_unprintable, text.split("\n")))


def is_page(text: str) -> bool:
    """Return whether `text` is the content of an HTML page that busbw wrote."""
    return text.startswith("<!DOCTYPE html>") and _GENERATOR_TAG in text[:2000]
