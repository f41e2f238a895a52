"""A page as Markdown, for the summary of a workflow run, an issue or a mail: without its pictures.

Whatever names, reasons and logs hold is shown as text: no markup of theirs, no mention and no link
has an effect. Also the annotations of a workflow run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw import wire
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.report.answer import answer_lines
from busbw.report.renderers import rendered
from busbw.report.table import Table, TextLine

from .content import Answer, Facts, Listing, Log, Part, Section, Text
from .nights import MachineNights
from .page import AnySession, page


def summary(session: AnySession, machines: Sequence[MachineNights] = ()) -> str:
    """Its verdict, what failed and since when, the tables, and the command that shows it again."""
    found = page([session], machines)
    facts = [one for one in found.parts if isinstance(one, Facts)]
    answers = [one for one in found.parts if one not in facts]
    sections = (*found.sections, Section(heading="Where and with what", parts=tuple(facts)))
    lines = [f"## {_plain(found.title)}", *_parts(answers), *_sections(sections, "###")]
    command = again(session)
    lines += ["", "To see it again:", "", f"    {command}"] if command else []
    return "\n".join(lines) + "\n"


def _sections(sections: Iterable[Section], mark: str) -> Iterator[str]:
    for one in sections:
        lines = [*_parts(one.parts), *_sections(one.sections, f"{mark}#")]
        if lines:
            yield from ("", f"{mark} {_plain(one.heading)}", *lines)


def _parts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        write = _WRITERS.get(type(part))
        if write is not None:
            yield ""
            yield from write(part)


def _answer(part: Answer) -> list[str]:
    return [f"**{_plain(part.word)}** {_plain(part.text)}"]


def _text(part: Text) -> list[str]:
    points = [f"- {_plain(one)}" for one in part.points]
    return [_plain(part.text), *(["", *points] if points else [])]


def _facts(part: Facts) -> list[str]:
    facts = [f"- {_plain(name)}: {_plain(text)}" for name, text in part.facts.items()]
    return _folded(part.title, facts) if part.title else facts


def _log(part: Log) -> list[str]:
    """A fence that is longer than any in it ends where we end it."""
    lines = [wire.printable(line) for line in part.lines]
    fence = "`" * max(3, *(len(run) + 1 for line in lines for run in re.findall("`+", line)), 0)
    return _folded(part.title, [fence, *lines, fence])


def _listing(part: Listing) -> list[str]:
    table = part.table
    title = table.title.text if table.title else "All cases"
    return _folded(title, rendered("markdown", _escaped(table)))


_WRITERS: Mapping[type, Callable[[Any], list[str]]] = {
    Answer: _answer,
    Text: _text,
    Facts: _facts,
    Log: _log,
    Listing: _listing,
}


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that a click unfolds; the empty ones make them Markdown."""
    return [f"<details><summary>{_plain(title)}</summary>", "", *lines, "", "</details>"]


def _escaped(table: Table) -> Table:
    def text_of(text: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda value: _plain(text(value))

    def noted(note: TextLine) -> TextLine:
        return replace(note, text=_plain(note.text))

    return replace(
        table,
        title=None,
        columns=tuple(replace(one, text=text_of(one.text)) for one in table.columns),
        rows=tuple(replace(row, notes=tuple(map(noted, row.notes))) for row in table.rows),
        notes=tuple(map(_plain, table.notes)),
    )


# What Markdown could take for markup, but for what stands between two letters; and what GitHub
# makes a mention, a reference or a link, which a comment inside of it keeps from being one.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|GH(?=-\d)|:(?=//)|www(?=\.)")
_COMMENT = "<!-- -->"


def _plain(text: str) -> str:
    """One line of text, in which nothing is markup."""
    words = wire.printable(" ".join(text.split()))
    words = _MARKUP.sub(r"\\\g<0>", words).replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub(rf"\g<0>{_COMMENT}", words)


def workflow_commands(verdicts: Sequence[Verdict], found: SessionVerdict | None) -> list[str]:
    """Commands that show on a workflow run what failed; none where nothing did."""
    if found is None or not found.failed:
        return []
    return [f"::error title=busbw::{_data(line.text)}" for line in answer_lines(verdicts, found)]


def _data(text: str) -> str:
    text = wire.printable(text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def again(session: AnySession) -> str:
    """Return the command that repeats a session, on one line; empty where it is not known."""
    return wire.printable(" ".join(session.command.split()))
