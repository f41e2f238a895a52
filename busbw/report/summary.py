"""A session as Markdown, for the summary of a workflow run, an issue or a mail.

Names, reasons and logs are shown as text: no markup, mention or link in them has an effect. Also
the annotations of a workflow run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from busbw import wire
from busbw.model.verdict import SessionVerdict, Verdict

from .answer import Log, answer_lines
from .outline import outline
from .reading import SessionRecord, Text
from .renderers import render
from .table import Table


def summary(
    session: SessionRecord, since: Sequence[str] = (), machines: Mapping[str, Iterable[Text]] = {}
) -> str:
    """Write the outcome, what failed and since when, the tables, and the command that repeats it.

    `machines` are what the history of each machine says, by its heading.
    """
    words = outline(session, since)
    lines = [f"## {_plain(words.title)}"]
    for statement in words.statements:
        lines += ["", f"**{_plain(statement.word)}** {_plain(statement.text)}"]
    lines += [*_section("What changed", words.changes), *_logs(words.logs)]
    for heading, texts in machines.items():
        lines += _section(heading, texts)
    lines += ["", "### Cases"] if words.tables else []
    for table in words.tables:
        title = table.title.text if table.title else "All cases"
        lines += _folded(title, render("markdown", _escaped(table)))
    for note in words.notes:
        lines += ["", _plain(note)]
    facts = [f"{name}: {text}" for name, text in words.facts.items()]
    lines += _section("Where and with what", [("The session:", facts)])
    command = again(session)
    lines += ["", "To see it again:", "", f"    {command}"] if command else []
    return "\n".join(lines) + "\n"


def _section(heading: str, texts: Iterable[Text]) -> Iterator[str]:
    yield from ("", f"### {_plain(heading)}")
    for text, points in texts:
        yield from ("", _plain(text))
        yield from ["", *(f"- {_plain(point)}" for point in points)] if points else []


def _logs(logs: Iterable[Log]) -> Iterator[str]:
    """Yield each log between fences that are longer than any fence in the log."""
    for log in logs:
        lines = [wire.printable(line) for line in log.lines]
        runs = [len(run) + 1 for line in lines for run in re.findall("`+", line)]
        fence = "`" * max(3, *runs, 0)
        yield from _folded(log.title, [fence, *lines, fence])


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines that a click unfolds; the empty lines make them Markdown."""
    return ["", f"<details><summary>{_plain(title)}</summary>", "", *lines, "", "</details>"]


def _escaped(table: Table) -> Table:
    """Return `table` with cells and notes in which nothing is markup, without its title."""
    rows = (
        replace(row, notes=tuple(replace(note, text=_plain(note.text)) for note in row.notes))
        for row in table.rows
    )
    return replace(
        table,
        title=None,
        columns=tuple(replace(c, text=partial(_escaped_cell, c.text)) for c in table.columns),
        rows=tuple(rows),
        notes=tuple(map(_plain, table.notes)),
    )


def _escaped_cell(text: Callable[[Any], str], value: object) -> str:
    return _plain(text(value))


# Characters that Markdown could take for markup, except between two letters; and texts that GitHub
# makes a mention, a reference or a link, which a comment inside prevents.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|GH(?=-\d)|:(?=//)|www(?=\.)")
_COMMENT = "<!-- -->"


def _plain(text: str) -> str:
    """Return one line of text, in which nothing is markup."""
    words = wire.printable(" ".join(text.split()))
    words = _MARKUP.sub(r"\\\g<0>", words).replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub(rf"\g<0>{_COMMENT}", words)


def workflow_commands(verdicts: Sequence[Verdict], answer: SessionVerdict | None) -> list[str]:
    """Return commands that show on a workflow run what failed; none where nothing did."""
    if answer is None or not answer.failed:
        return []
    return [
        f"::error title=busbw::{_command_text(line.text)}"
        for line in answer_lines(verdicts, answer)
    ]


def _command_text(text: str) -> str:
    text = wire.printable(text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def again(session: SessionRecord) -> str:
    """Return the command that repeats a session, on one line; empty where it is not known."""
    return wire.printable(" ".join(session.command.split()))
