"""The summary of a session as Markdown: what it says, and that nothing in it is markup."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.launch import Failure, LaunchId
from busbw.model.verdict import Answer, SessionVerdict, Straggler, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.page import nights
from busbw.page.nights import MachineNights
from busbw.page.page import AnySession
from busbw.page.summary import again, summary, workflow_commands
from tests import build
from tests.history.lines import line
from tests.report.written import compiled_session, program, session, verdict

# What Markdown, HTML, a table, a fence, GitHub and a terminal each take for something else than
# text, in lines of their own.
HOSTILE = (
    "<img src=x onerror=alert(1)> </details> [a](http://b) ![c](d) `e` **f** _g_ ~h~ &lt; "
    "i | j \\| k \\\n\n# l \x1b[31m \u202e\n```\n::error::m %0A\n::set-output name=a::b\n"
    "@someone #1 GH-2 www.n.org <!-- --> ##[error]o"
)
SLOW: dict[str, Any] = {"outcome": Outcome.REGRESSED, "failed": True, "ratio": 1.5, "limit": 1.2}


def _answered(*verdicts: Verdict, text: str = "because", **changes: Any) -> Any:
    failed = any(one.failed for one in verdicts)
    outcome = SessionOutcome.FAILED if failed else SessionOutcome.FINE
    answer = SessionVerdict(outcomes=(outcome,), text=text, **changes)
    return replace(session(*verdicts), answer=answer)


def _lines(found: AnySession, machines: Sequence[MachineNights] = ()) -> list[str]:
    text = summary(found, machines)
    assert text.endswith("\n") and "\n\n\n" not in text
    return text.splitlines()


def test_the_verdict_comes_first_then_what_failed_then_the_tables_and_the_command() -> None:
    slow, fine = verdict(4096, 6.0, **SLOW), verdict(8192, 7.0)
    found = _answered(slow, fine, stack=Answer(text="8 % slower", is_slower=True))
    lines = _lines(found)
    wanted = [
        "## All-reduce on AMD EPYC, 4 ranks",
        "**FAILED** because",
        "**The stack is slower.** 8 % slower",
        "### What changed",
        "1 of 2 cases failed:",
        "- 1 REGRESSED: jax 4K 1.50 x (limit 1.20 x)",
        "### Cases",
        "To see it again:",
        "    busbw run --device=cpu --frameworks=jax --strategies=psum --payloads=4K",
    ]
    assert [one for one in lines if one in wanted] == wanted
    table = lines[lines.index("### Cases") + 2 :]
    assert table[0] == (
        "<details><summary>jax all_reduce (psum), 4 ranks, sum of float32</summary>"
    )
    assert sum(one.startswith("| ") and "REGRESSED" in one for one in table) == 1


def test_a_session_in_which_nothing_changed_says_so_and_shows_all_again() -> None:
    lines = _lines(_answered(verdict(4096, 6.0, ratio=1.0), verdict(8192, 7.0, ratio=1.1)))
    assert "Nothing: 2 cases compared, the slowest takes 1.10 x its baseline." in lines
    assert lines[-1].endswith(" --payloads=4K,8K")


def test_the_command_names_what_is_not_usual() -> None:
    asked = [
        build.verdict(spec=build.spec(collective="all_gather", reduce_op="none")),
        build.verdict(spec=build.spec(dtype="int8", mesh="2x2", axes="y", ranks=4)),
    ]
    command = again(replace(session(), verdicts=tuple(asked)))
    assert command == (
        "busbw run --device=cpu --ranks=4 --frameworks=jax --collectives=all_gather,all_reduce "
        "--mesh=2x2 --axes=y --dtypes=float32,int8 --payloads=4K"
    )
    odd = build.verdict(spec=build.spec(strategy="$(id);\n\x1b[1m'`<b>"))
    command = again(replace(session(), verdicts=(odd,)))
    assert command.isprintable()
    assert [one for one in shlex.split(command) if "id" in one] == [
        "--strategies=$(id); \\x1b[1m'`<b>"
    ]
    step = build.verdict(spec=build.spec(step="dense"))
    assert again(replace(session(), verdicts=(step,))).endswith(" -m training")
    assert again(compiled_session(program(4096, 10))) == (
        "busbw run --topology=v5e:2x4 --frameworks=jax --payloads=4K"
    )


def test_of_what_was_compiled_it_says_what_is_not_as_before() -> None:
    changed = program(4096, 10, outcome=Outcome.CHANGED, failed=True, text="ring -> tree")
    lines = _lines(compiled_session(changed, program(8192, 10)))
    assert {"- 1 CHANGED: jax 4K: ring -> tree", "### Compiled cases"} <= set(lines)


def _machine(*lines: Line) -> MachineNights:
    return nights.machine("tpu-v5-lite/4r", Read(lines=lines))


def _night(number: int, outcome: Outcome, **changes: Any) -> Line:
    return line(
        session=f"{number:016x}", at=f"2026-03-{number:02d}T03:00:00Z", outcome=outcome, **changes
    )


def test_a_failure_is_said_with_the_night_that_it_is_there_since_and_what_changed_then() -> None:
    fine = [_night(1, Outcome.PASS), _night(2, Outcome.REGRESSED), _night(3, Outcome.PASS)]
    red = [_night(n, Outcome.REGRESSED, versions={"jax": "0.10.1"}) for n in (4, 5)]
    slow = verdict(line().case.payload_bytes, 6.0, **SLOW)
    slow = replace(slow, case=line().case, spec=replace(slow.spec, dtype=line().case.dtype))
    said = _lines(_answered(slow), [_machine(*fine, *red)])
    (since,) = (one for one in said if " since 2026-" in one and "REGRESSED" in one)
    assert since.startswith(f"- {line().case.name}: REGRESSED since 2026-03-04 (2 nights); ")
    assert "jax " in since and "-> 0.10.1" in since
    always = _lines(_answered(slow), [_machine(*red)])
    assert f"- {line().case.name}: REGRESSED in each of its 2 nights" in always
    new = _lines(_answered(slow), [_machine(*fine)])
    assert not any("REGRESSED since" in one for one in new)


# What is markup unless a backslash stands before it.
_MARKUP = re.compile(r"(?<!\\)(?:\\\\)*[`*\[\]~<]|(?<![\\A-Za-z0-9])_")
_OURS = re.compile(r"</?details>|<summary>|</summary>|<!-- -->")
_LINKED = re.compile(r"@someone|#1|GH-2|www\.|://")


def test_no_name_no_reason_and_no_log_is_taken_for_markup() -> None:
    failure = Failure(
        kind=FailureKind.CRASHED, message=HOSTILE, log=HOSTILE, launch=LaunchId(name="x")
    )
    bad = verdict(4096, None, outcome=Outcome.FAILED, failed=True, text=HOSTILE, failure=failure)
    noted = verdict(
        8192,
        6.0,
        outcome=Outcome.NOISY,
        text=HOSTILE,
        notes=(HOSTILE,),
        straggler=Straggler(process=0, host=HOSTILE, ratio=2.0),
    )
    answer = Answer(text=HOSTILE, is_slower=None)
    found = _answered(bad, noted, text=HOSTILE, stack=answer, machine=answer)
    environment = replace(
        found.environment, host=HOSTILE, versions={HOSTILE: {HOSTILE: HOSTILE}}, why=HOSTILE
    )
    machine = _machine(
        line(host=HOSTILE),
        line(session="f" * 16, at="2026-03-31T03:00:00Z", versions={HOSTILE: HOSTILE}),
    )
    text = summary(replace(found, environment=environment, name=HOSTILE), [machine])
    assert text.count("img src") > 8
    outside, is_log = [], ""
    for one in text.splitlines():
        assert one.isprintable()
        if re.fullmatch("````+", one) and is_log in ("", one):
            is_log = "" if is_log else one
        elif not is_log:
            outside.append(one)
    assert not is_log
    for one in outside:
        plain = re.sub(r"^\*\*(.*?)\*\* ", r"\1 ", one)
        assert not _MARKUP.search(_OURS.sub("", plain)), one
        assert not _LINKED.search(plain), one
        assert not one.lstrip().startswith("::"), one
        if one.startswith("| "):
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", one)) == one.count(" | ") + 2, one


def test_annotations_are_one_command_for_each_line_that_failed() -> None:
    slow = verdict(4096, 6.0, **SLOW)
    bad = verdict(8192, 6.0, outcome=Outcome.FAILED, failed=True, text=HOSTILE)
    found = _answered(slow, bad, text="50 % of\nit")
    lines = workflow_commands(found.verdicts, found.answer)
    assert len(lines) == 3
    assert lines[1:] == [
        "::error title=busbw::1 REGRESSED: jax 4K 1.50 x (limit 1.20 x)",
        "::error title=busbw::FAILED: 50 %25 of%0Ait",
    ]
    for one in lines:
        assert one.isprintable() and re.findall("^::|\n::", one) == ["::"]
    assert "%0A::error::m %250A%0A::set-output" in lines[0]
    fine = _answered(verdict(4096, 6.0))
    assert workflow_commands(fine.verdicts, fine.answer) == []
    assert workflow_commands(fine.verdicts, None) == []


@pytest.mark.parametrize("text", ["", "::error::x", "a\nb"])
def test_a_summary_of_no_case_is_one_too(text: str) -> None:
    assert _lines(_answered(text=text or "none"))[0].startswith("## Collectives on ")
