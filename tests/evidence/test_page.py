"""The page: numbers where they belong, words that hold, and nothing beside the marks touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evidence import page
from evidence.corpus import Injection, RecordedSession
from evidence.draw import Draw, Outcome
from evidence.page import BEGIN, END, PageError, replaced
from evidence.replay import replay
from evidence.resample import Scheme

from . import synthetic

SCHEME = Scheme(replays=30, baseline_sessions=3)


def _always(draw: Draw) -> Outcome:
    """Alarms, whatever it is given."""
    return Outcome.ALARM


def _never(draw: Draw) -> Outcome:
    """Alarms at nothing."""
    return Outcome.CLEAR


RULES = {"first": _always, "second": _never, "third": _never}


def _page(sessions: Sequence[RecordedSession]) -> str:
    found = replay(sessions, RULES, scheme=SCHEME)
    return page.generated(found, sessions, rules=RULES, scheme=SCHEME)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    sessions = synthetic.corpus(8, shares=(0.05, 0.3), each=5, noise=synthetic.QUIET)
    return _page(sessions).splitlines()


def test_each_rule_has_a_row_with_false_alarms_and_power_of_every_slowdown(
    lines: list[str],
) -> None:
    head, *seen = lines[0].split(" | seen at ")
    assert head == (
        "| rule | false alarms per session, replayed | sessions with one, as recorded (95 %) "
        "| undecided"
    )
    # What was measured, not what was asked for.
    measured = [float(one.split(" % (95 %)")[0]) for one in seen]
    assert measured == pytest.approx([5, 30], abs=0.5)
    assert lines[1] == "|---|---|---|---|---|---|"
    assert lines[2:4] == [
        "| first | 100 % | 8 of 8 (63 to 100 %) | 0 %" + 2 * " | 100 % (48 to 100 %)" + " |",
        "| second | 0 % | 0 of 8 (0 to 37 %) | 0 % | 0 % (0 to 52 %) | 0 % (0 to 52 %) |",
    ]


def test_every_table_has_rows_of_one_width(lines: list[str]) -> None:
    assert {line.count("|") for line in lines[:5]} == {7}
    got = [line for line in lines[5:] if line.startswith("|")]
    assert {line.count("|") for line in got} == {6}
    assert len(got) == 5


def test_what_was_asked_for_stands_beside_what_came_of_it(lines: list[str]) -> None:
    table = lines[lines.index("| asked for | sessions | got at 1K | got at 1M | got at 16M |") :]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:5]]
    assert [row[:2] for row in rows] == [
        ["nothing", "8"],
        ["+5 % (delay)", "5"],
        ["+30 % (delay)", "5"],
    ]
    got = [[float(cell.removesuffix(" %")) for cell in row[2:]] for row in rows]
    for asked, row in zip((0, 5, 30), got):
        assert row == pytest.approx([asked] * 3, abs=0.5)


def test_a_slowdown_of_one_payload_is_named_with_it_and_measured_there() -> None:
    slow = Injection(kind="delay", share=0.3, payload_bytes=1 << 20)
    sessions = [
        replace(one, injection=slow) if one.injection else one
        for one in synthetic.corpus(8, shares=(0.3,), each=5, noise=synthetic.QUIET)
    ]
    text = _page(sessions)
    assert re.search(r"seen at \+(29|30)\.\d % at 1M \(95 %\)", text)
    assert "| +30 % at 1M (delay) | 5 |" in text


def test_how_it_was_recorded_is_said(lines: list[str]) -> None:
    text = " ".join(lines)
    for words in (
        "Recorded from 2026-01-02 to 2026-01-02 on two fake cores: 18 sessions of jax, 4 ranks",
        "(jax 1.2.3), 8 launch pairs each, 10 samples a launch.",
        "Load average of the machine before a session: median ",
        "Wall time of a session: median ",
        "drawn from the 8 recorded sessions",
        "for each slowdown from 5 sessions",
        "A stored baseline is 3 other recorded sessions with 5 launches each.",
    ):
        assert words in text


def test_rules_are_described_by_their_docstrings_once(lines: list[str]) -> None:
    assert "- **first**: Alarms, whatever it is given." in lines
    assert "- **second; third**: Alarms at nothing." in lines


def test_no_line_of_prose_is_wide(lines: list[str]) -> None:
    assert all(len(line) <= 100 for line in lines if not line.startswith("|"))


def test_without_injections_there_is_no_power_and_no_word_of_it() -> None:
    sessions = synthetic.corpus(5)
    text = _page(sessions)
    assert "seen at" not in text
    assert "*Seen*" not in text


def test_several_kinds_of_injection_are_named_apart() -> None:
    sessions = synthetic.corpus(5, shares=(0.05, 0.3), each=2)
    assert sessions[5].injection
    other = replace(sessions[5], injection=replace(sessions[5].injection, kind="copy"))
    sessions = (*sessions[:5], other, *sessions[6:])
    header = _page(sessions)
    for name in (r"\+5\.\d % \(copy\)", r"\+[45]\.\d % \(delay\)", r"\+(29|30)\.\d % \(delay\)"):
        assert re.search(rf"seen at {name} \(95 %\)", header)


def test_only_what_lies_between_the_marks_is_replaced() -> None:
    document = f"# By hand\n\n{BEGIN}\nold\n{END}\n\nand more\n"
    once = replaced(document, "new\n\n")
    assert once == f"# By hand\n\n{BEGIN}\n\nnew\n\n{END}\n\nand more\n"
    assert replaced(once, "new") == once


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("nothing", "generated by python -m evidence page --> is there 0 times"),
        (BEGIN, "evidence: end --> is there 0 times"),
        (END, "generated by python -m evidence page --> is there 0 times"),
        (f"{BEGIN}{END}{BEGIN}", "is there 2 times"),
        (f"{END}{BEGIN}", "stands before"),
    ],
)
def test_a_page_without_one_pair_of_marks_is_refused(document: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        replaced(document, "new")
