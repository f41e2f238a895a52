"""A session as Markdown, for the summary of a workflow run, an issue or a mail.

Names, reasons and logs are shown as text: no markup, mention or link in them has an effect. Also
the annotations of a workflow run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from busbw import wire
from busbw.model.verdict import SessionVerdict, Verdict

from .answer import answer_lines
from .reading import SessionRecord, Text
from .renderers import render


def summary(
    session: SessionRecord, since: Sequence[str] = (), machines: Mapping[str, Iterable[Text]] = {}
) -> str:
    """Write the outcome, what failed and since when, the tables, and the command that repeats it.

    `machines` are what the history of each machine says, by its heading.
    """
    words = session.describe(since)
    lines = [f"## {_plain(words.title)}"]
    if words.verdict is not None:
        outcomes = ", ".join(words.verdict.outcomes)
        lines += ["", f"**{_plain(outcomes)}** {_plain(words.verdict.text)}"]
    for heading, texts in {"What changed": words.changes, **machines}.items():
        lines += _section(heading, texts)
    for log in words.logs:
        lines += _fenced(log.title, log.lines)
    for table in words.tables:
        title = table.title.text if table.title else "All cases"
        lines += _fenced(title, render("text", replace(table, title=None)))
    for note in words.notes:
        lines += ["", _plain(note)]
    facts = [f"{name}: {text}" for name, text in words.facts.items()]
    lines += _section("Where and with what", [("The session:", facts)])
    command = wire.escape_unprintable(" ".join(session.command.split()))
    lines += ["", "To see it again:", "", f"    {command}"] if command else []
    return "\n".join(lines) + "\n"


def _section(heading: str, texts: Iterable[Text]) -> Iterator[str]:
    yield from ("", f"### {_plain(heading)}")
    for text, points in texts:
        yield from ("", _plain(text))
        yield from ["", *(f"- {_plain(point)}" for point in points)] if points else []


def _fenced(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines that a click unfolds, between fences that are longer than any fence in them.

    No line moves a terminal or is a command of the runner of a workflow.
    """
    text = wire.escape_unprintable("\n".join(line.replace("\n", " ") for line in lines))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    heading = f"<details><summary>{_plain(title)}</summary>"
    return ["", heading, "", fence, wire.without_workflow_commands(text), fence, "", "</details>"]


# Characters that Markdown could take for markup, except between two letters; and texts that GitHub
# makes a mention, a reference or a link, which a comment inside prevents.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|GH(?=-\d)|:(?=//)|www(?=\.)")
_COMMENT = "<!-- -->"


def _plain(text: str) -> str:
    """Return one line of text, in which nothing is markup."""
    words = wire.escape_unprintable(" ".join(text.split()))
    words = _MARKUP.sub(r"\\\g<0>", words).replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub(rf"\g<0>{_COMMENT}", words)


def workflow_commands(verdicts: Sequence[Verdict], answer: SessionVerdict | None) -> list[str]:
    """Return commands that show on a workflow run what failed; none where nothing did."""
    if answer is None or not answer.failed:
        return []
    texts = (wire.escape_unprintable(line.text) for line in answer_lines(verdicts, answer))
    escaped = (text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A") for text in texts)
    return [f"::error title=busbw::{text}" for text in escaped]
