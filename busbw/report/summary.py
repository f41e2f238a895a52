"""Write a session as Markdown, for the summary of a GitHub workflow run, an issue or a mail.

Names, reasons and logs are escaped, so that no markup, mention or link in them has an effect. This
module also writes the commands that annotate a workflow run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from busbw import wire
from busbw.model.verdict import SessionVerdict, Verdict

from .conclusion import conclusion_lines
from .reading import Paragraph, SessionRecord
from .table import render


def markdown_summary(
    session: SessionRecord,
    failing_since_texts: Sequence[str] = (),
    history_sections: Mapping[str, Iterable[Paragraph]] = {},
) -> str:
    """Return a session as Markdown: its verdict, failures, tables and facts.

    Args:
        session: The session, read from results.
        failing_since_texts: Sentences that say since when cases fail.
        history_sections: The paragraphs on the history of each machine, by heading.

    """
    description = session.describe(failing_since_texts)
    outcomes, text = ", ".join(session.session_verdict.outcomes), session.session_verdict.text
    lines = [
        f"## {_escape_markdown(description.title)}",
        "",
        f"**{_escape_markdown(outcomes)}** {_escape_markdown(text)}",
    ]
    for heading, paragraphs in {"What changed": description.changes, **history_sections}.items():
        lines += _section_lines(heading, paragraphs)
    for log in description.logs:
        lines += _folded_block(log.title, log.lines)
    for table in description.tables:
        title = table.title.text if table.title else "All cases"
        lines += _folded_block(title, render("text", replace(table, title=None)))
    for note in description.notes:
        lines += ["", _escape_markdown(note)]
    facts = [f"{name}: {text}" for name, text in description.facts.items()]
    lines += _section_lines("Where and with what", [("The session:", facts)])
    return "\n".join(lines) + "\n"


def _section_lines(heading: str, paragraphs: Iterable[Paragraph]) -> Iterator[str]:
    yield from ("", f"### {_escape_markdown(heading)}")
    for text, points in paragraphs:
        yield from ("", _escape_markdown(text))
        yield from ["", *(f"- {_escape_markdown(point)}" for point in points)] if points else []


def _folded_block(title: str, lines: Sequence[str]) -> list[str]:
    """Return the Markdown of a block of `lines` that is hidden below its title until it is clicked.

    The fences around the block are longer than any fence in its lines. Control characters and
    GitHub workflow commands in the lines are escaped.
    """
    text = wire.escape_unprintable("\n".join(line.replace("\n", " ") for line in lines))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    heading = f"<details><summary>{_escape_markdown(title)}</summary>"
    return ["", heading, "", fence, wire.without_workflow_commands(text), fence, "", "</details>"]


# Markdown reads these characters as markup. An underscore between two letters is no markup.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# GitHub turns these texts into a mention, a reference or a link, unless a comment interrupts them.
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|GH(?=-\d)|:(?=//)|www(?=\.)")
_COMMENT = "<!-- -->"


def _escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown in which no character acts as markup."""
    line = wire.escape_unprintable(" ".join(text.split()))
    line = _MARKUP.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub(rf"\g<0>{_COMMENT}", line)


def annotation_commands(verdicts: Sequence[Verdict], session_verdict: SessionVerdict) -> list[str]:
    """Return commands that annotate a GitHub workflow run with the failures of a session.

    The list is empty if the session did not fail.
    """
    if not session_verdict.failed:
        return []
    texts = (
        wire.escape_unprintable(line.text) for line in conclusion_lines(verdicts, session_verdict)
    )
    escaped = (text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A") for text in texts)
    return [f"::error title=busbw::{text}" for text in escaped]
