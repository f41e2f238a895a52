"""The summary of a session as Markdown, without markup from names, reasons or logs."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.cli.summary import markdown_summary
from busbw.history.texts import failing_since_texts, history_paragraphs
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, Outcome
from tests.helpers.history_lines import line
from tests.helpers.results_files import verdict
from tests.unit.extensions.page import made

# What Markdown, HTML, a table, a fence, GitHub and a terminal each take for something else than
# text, in lines of their own.
HOSTILE = (
    "<img src=x onerror=alert(1)> </details> [a](http://b) ![c](d) `e` **f** _g_ ~h~ &lt; "
    "i | j \\| k \\\n\n# l \x1b[31m \u202e\n```\n::error::m %0A\n::set-output name=a::b\n"
    "@someone #1 GH-2 www.n.org <!-- --> ##[error]o"
)


# What is markup unless a backslash stands before it.
_MARKUP = re.compile(r"(?<!\\)(?:\\\\)*[`*\[\]~<]|(?<![\\A-Za-z0-9])_")
_OURS = re.compile(r"</?details>|<summary>|</summary>|<!-- -->")
_LINKED = re.compile(r"@someone|#1|GH-2|www\.|://")


def _outside_of_logs(text: str) -> list[str]:
    outside, fence = [], ""
    for row in text.splitlines():
        assert row.isprintable()
        if re.fullmatch("````+", row) and fence in ("", row):
            fence = "" if fence else row
        elif not fence:
            outside.append(row)
    assert not fence
    return outside


def test_the_summary_escapes_markup_in_names_and_reasons_and_logs() -> None:
    failure = Failure(
        kind=FailureKind.CRASHED, message=HOSTILE, log=HOSTILE, launch=LaunchId(name="x")
    )
    crashed = {"outcome": Outcome.FAILED, "failed": True, "failure": failure}
    noisy = {"outcome": Outcome.NOISY, "notes": (HOSTILE,)}
    verdicts = [
        verdict(4096, None, text=HOSTILE, **crashed),
        verdict(8192, 6.0, text=HOSTILE, **noisy),
    ]
    session = made.answered(*verdicts, text=HOSTILE)
    environment = replace(
        session.environment, host=HOSTILE, versions={HOSTILE: {HOSTILE: HOSTILE}}, reason=HOSTILE
    )
    machine = made.machine(
        line(host=HOSTILE),
        line(session="f" * 16, moment="2026-03-31T03:00:00Z", versions={HOSTILE: HOSTILE}),
    )
    texts = {HOSTILE: history_paragraphs(machine)}
    hostile = replace(session, environment=environment)
    text = markdown_summary(hostile, [*failing_since_texts(machine.lines, verdicts)], texts)
    assert text.count("img src") > 8
    assert not re.search(r"^[^\S\n]*::|##\[", text, re.MULTILINE)
    for row in _outside_of_logs(text):
        plain = re.sub(r"^\*\*(.*?)\*\* ", r"\1 ", row)
        assert not _MARKUP.search(_OURS.sub("", plain)), row
        assert not _LINKED.search(plain), row
        assert not row.lstrip().startswith("::"), row
