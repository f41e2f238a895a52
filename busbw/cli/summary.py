"""`busbw summary RESULTS`: print the result of a session as Markdown.

The Markdown is for the summary of a workflow run, an issue or a mail. Names, reasons and logs are
escaped, so that no markup, mention or link in them has an effect. The command reads a file that
`--results` wrote and, if requested, the folder of `--history`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from busbw import wire
from busbw.history.texts import failing_since_texts, history_paragraphs
from busbw.report.conclusion import Paragraph
from busbw.report.results import SessionDocument
from busbw.report.table import render
from busbw.session.option import parse_path

from . import Subparsers, add_baselines_option, add_command
from .history import read_session_document, select_machine_histories


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `summary` and its options to `commands`."""
    parser = add_command(
        commands,
        "summary",
        run,
        help="Print the result of a session as Markdown, for an issue or a mail",
        description="Print the result of a session as Markdown, for the summary of a workflow "
        "run, an issue or a mail.",
        example="busbw summary results.json --history=history > summary.md",
    )
    results = "The file that busbw run --results=FILE wrote"
    parser.add_argument("results", type=parse_path, metavar="RESULTS", help=results)
    history = "Say since when each case fails, and what changed then, from this history"
    parser.add_argument("--history", type=parse_path, metavar="DIR", help=history)
    add_baselines_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print the session in the file `options.results` as Markdown, and return the exit code 0."""
    session = read_session_document(options.results)
    machines = select_machine_histories(options.history, options.baselines, sessions=[session])
    histories = {
        f"History of {machine.folder}": history_paragraphs(machine) for machine in machines
    }
    texts = [
        text
        for machine in machines
        for text in failing_since_texts(machine.lines, session.verdicts)
    ]
    sys.stdout.write(markdown_summary(session, texts, histories))
    return 0


def markdown_summary(
    session: SessionDocument,
    failing_since_sentences: Sequence[str] = (),
    history_sections: Mapping[str, Iterable[Paragraph]] = {},
) -> str:
    """Return a Markdown text that shows a session: its verdict, logs, tables, notes and stack.

    Args:
        session: The session, read from a file that `--results` wrote.
        failing_since_sentences: Sentences that say since when cases fail.
        history_sections: The paragraphs on the history of each machine, by the heading of their
            section.

    """
    description = session.describe(failing_since_sentences)
    outcomes, text = ", ".join(session.session.outcomes), session.session.text
    lines = [
        f"## {_escape_markdown(description.title)}",
        "",
        f"**{_escape_markdown(outcomes)}** {_escape_markdown(text)}",
    ]
    for heading, paragraphs in {"What changed": description.changes, **history_sections}.items():
        lines += _markdown_section(heading, paragraphs)
    for title, log_lines in description.logs:
        lines += _folded_block(title, log_lines)
    for table in description.tables:
        title = table.title.text if table.title else "All cases"
        lines += _folded_block(title, render("text", replace(table, title=None)))
    for note in description.notes:
        lines += ["", _escape_markdown(note)]
    facts = [f"{name}: {text}" for name, text in description.facts.items()]
    lines += _markdown_section("Where and with what", [("The session:", facts)])
    return "\n".join(lines) + "\n"


def _markdown_section(heading: str, paragraphs: Iterable[Paragraph]) -> Iterator[str]:
    """Yield the lines of a section in Markdown: the heading, and each paragraph with its list."""
    yield from ("", f"### {_escape_markdown(heading)}")
    for text, points in paragraphs:
        yield from ("", _escape_markdown(text))
        yield from ["", *(f"- {_escape_markdown(point)}" for point in points)] if points else []


def _folded_block(title: str, lines: Sequence[str]) -> list[str]:
    """Return the lines of Markdown for a block of `lines` that is hidden until a title is clicked.

    Control characters and GitHub workflow commands in `lines` are escaped. The fences of backticks
    around the block are longer than any run of backticks in it.
    """
    text = wire.escape_unprintable("\n".join(line.replace("\n", " ") for line in lines))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    heading = f"<details><summary>{_escape_markdown(title)}</summary>"
    return ["", heading, "", fence, wire.escape_workflow_commands(text), fence, "", "</details>"]


# Markdown reads these characters as markup. An underscore between two letters is no markup.
_MARKUP_PATTERN = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# GitHub turns these texts into a mention, a reference or a link, unless a comment interrupts them.
_LINK_PATTERN = re.compile(r"@(?=\w)|#(?=\d)|GH(?=-\d)|:(?=//)|www(?=\.)")
_COMMENT = "<!-- -->"


def _escape_markdown(text: str) -> str:
    """Return `text` as a single line of Markdown that shows the same characters.

    No character of `text` acts as markup, a mention or a link. Each run of spaces and line ends
    becomes a single space.
    """
    line = wire.escape_unprintable(" ".join(text.split()))
    line = _MARKUP_PATTERN.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;")
    return _LINK_PATTERN.sub(rf"\g<0>{_COMMENT}", line)
