"""What a page says of a session that measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.verdict import Answer as ModelAnswer
from busbw.model.verdict import SessionVerdict, Straggler
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.report.page import page
from busbw.report.page.content import Answer, Facts, Figure, Listing, Log, Part, Points, Text
from busbw.report.reading import Session
from tests import build
from tests.report.written import session, verdict


def _parts(found: Session, heading: str) -> tuple[Part, ...]:
    """What is below a heading of its page."""
    return next(
        (one.parts for one in page([found]).sections if one.heading == heading and one.parts), ()
    )


def _texts(found: Session, heading: str) -> str:
    """The words of all points and texts below a heading."""
    words = []
    for one in _parts(found, heading):
        if isinstance(one, Points):
            words += [one.title, *one.points]
        if isinstance(one, Text):
            words.append(one.text)
    return "\n".join(words)


def _titles(found: Session, heading: str) -> list[str]:
    return [one.picture.title for one in _parts(found, heading) if isinstance(one, Figure)]


def _answers(found: Session) -> list[Answer]:
    return [one for one in page([found]).parts if isinstance(one, Answer)]


def _answered(found: Session, outcome: SessionOutcome, text: str, **changes: Any) -> Session:
    return replace(found, answer=SessionVerdict(outcomes=(outcome,), text=text, **changes))


def test_a_session_whose_test_did_not_run_has_no_verdict() -> None:
    (answer,) = _answers(session(verdict(4096, 6.0)))
    assert (answer.word, answer.is_good) == ("NO_VERDICT", False)


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_only_fine_is_good(outcome: SessionOutcome) -> None:
    found = session(verdict(4096, 6.0))
    (answer,) = _answers(_answered(found, outcome, "because"))
    assert (answer.word, answer.text) == (outcome.value, "because")
    assert answer.is_good == (outcome is SessionOutcome.FINE)


def test_stack_and_machine_have_answers_of_their_own() -> None:
    stack = ModelAnswer(text="8 % slower", is_slower=True)
    machine = ModelAnswer(text="as it was", is_slower=False)
    found = _answered(
        session(verdict(4096, 6.0)), SessionOutcome.SLOWER, "x", stack=stack, machine=machine
    )
    _, *two = _answers(found)
    assert [(one.word, one.text, one.is_good) for one in two] == [
        ("The stack is slower.", "8 % slower", False),
        ("The machine is not slower.", "as it was", True),
    ]
    unknown = replace(stack, is_slower=None)
    _, one = _answers(_answered(found, SessionOutcome.FINE, "x", stack=unknown))
    assert (one.word, one.is_good) == ("The stack is unknown.", False)


def test_facts_say_where_it_was_measured_and_leave_out_what_is_not_known() -> None:
    key = build.key(hosts=2, processes=2, mesh="2x2")
    found = session(verdict(4096, 6.0), key=key, host="a")
    found = replace(found, process_hosts=("a", "b"), busbw="")
    first, second = (one for one in page([found]).parts if isinstance(one, Facts))
    assert first.facts["ranks"] == "4 ranks in a 2x2 mesh, 2 hosts, 2 processes"
    assert first.facts["hosts"] == "a, b"
    assert "busbw" not in first.facts and not first.title
    assert second.title and second.facts["file"] == "night.json"
    assert "" not in {*first.facts.values(), *second.facts.values()}


def test_what_failed_comes_first_then_what_got_faster() -> None:
    slow = verdict(4096, 6.0, outcome=Outcome.REGRESSED, failed=True, ratio=1.5, limit=1.2)
    fast = verdict(8192, 7.0, outcome=Outcome.IMPROVED, ratio=0.5, text="half the time")
    found = _answered(session(fast, slow), SessionOutcome.FAILED, "x")
    said = _texts(found, "What changed")
    assert said.index("1 of 2 cases failed") < said.index("1 case got faster")
    assert "1 REGRESSED: jax 4K 1.50 x (limit 1.20 x)" in said
    assert "8K: half the time" in said


def test_a_reason_that_cases_share_is_said_once() -> None:
    skipped = [
        verdict(1024 << n, 6.0, outcome=Outcome.SKIPPED, text="not on a CPU") for n in range(5)
    ]
    said = _texts(session(*skipped), "What changed")
    assert said.count("not on a CPU") == 1
    assert "jax all_reduce (psum) 1K to 16K: not on a CPU" in said


def test_more_reasons_than_a_reader_wants_are_counted() -> None:
    skipped = [
        verdict(1024 << n, 6.0, outcome=Outcome.NOISY, text=f"reason {n}") for n in range(20)
    ]
    said = _texts(session(*skipped), "What changed")
    assert "reason 11" in said and "reason 12" not in said
    assert "and 8 more: see the tables of cases" in said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (None, "There was nothing to compare with: no case has a baseline."),
        (1.043, "Nothing: 1 case compared, the slowest takes 1.043 x its baseline."),
    ],
)
def test_nothing_that_changed_is_said_too(ratio: float | None, said: str) -> None:
    assert _texts(session(verdict(4096, 6.0, ratio=ratio)), "What changed") == said


def test_a_straggler_is_named_once_and_logs_are_folded() -> None:
    straggler = Straggler(process=1, ratio=2.0, host="b")
    failure = Failure(
        kind=FailureKind.CRASHED, message="gone", launch=LaunchId(name="1"), log="one\ntwo"
    )
    failed = verdict(4096, None, outcome=Outcome.FAILED, failed=True, failure=failure)
    found = session(failed, verdict(8192, 6.0, straggler=straggler))
    assert _texts(found, "What changed").count("process 1 (b) takes 2.0 x") == 1
    (log,) = (one for one in _parts(found, "What changed") if isinstance(one, Log))
    assert "4K" in log.title
    assert [line.strip() for line in log.lines][-2:] == ["one", "two"]


def test_few_curves_share_a_chart_and_several_have_one_each_too() -> None:
    few = [verdict(4096, 6.0, dtype=name) for name in ("float32", "int32", "float16")]
    assert len(_titles(session(*few), "Bandwidth")) == 1
    several = [*few, verdict(4096, 6.0, dtype="bfloat16")]
    assert len(_titles(session(*several), "Bandwidth")) == 5
    many = [
        verdict(4096, 6.0, dtype=name, ranks=ranks, failed=ranks == 8)
        for name in ("float32", "int32", "float16", "bfloat16")
        for ranks in (2, 4, 6, 8)
    ]
    found = session(*many)
    assert len(_titles(found, "Bandwidth")) == 12
    assert "4 curves more" in _texts(found, "Bandwidth")
    first = _parts(found, "Bandwidth")[0]
    assert isinstance(first, Figure) and "8 ranks" in first.picture.subtitle


def test_ratios_have_a_chart_with_interval_and_limit_and_the_word_of_their_reference() -> None:
    compared = verdict(4096, 6.0, ratio=1.3, ratio_interval=(1.2, 1.4), limit=1.1)
    found = session(compared, verdict(8192, 6.0))
    assert _titles(found, "Ratios") == ["Time over that of the baseline"]
    paired = replace(found, references={build.spec(): Measurement(case=build.case())})
    assert _titles(paired, "Ratios") == ["Time over that of the reference"]
    (figure,) = _parts(found, "Ratios")
    assert isinstance(figure, Figure)
    (row,) = figure.table.rows
    assert list(row.values.values()) == [4096, 1.3, 1.1, 1.2, 1.4]
    assert not _parts(session(verdict(4096, 6.0)), "Ratios")


def _measured(found: Session, **changes: Any) -> Session:
    """With launches that have these times of processes or ranks."""
    measurements = {
        one.spec: Measurement(case=one.case, runs=(build.run(1e-3, **changes),))
        for one in found.verdicts
        if one.case is not None
    }
    return replace(found, measurements=measurements)


def test_spread_is_of_launches_and_in_a_group_of_processes_with_their_hosts() -> None:
    found = session(verdict(4096, 6.0), verdict(8192, 6.0))
    assert _titles(found, "Spread") == ["Launches"]
    group = replace(_measured(found, process_own_s=(1e-3, 3e-3)), process_hosts=("a", "b"))
    assert _titles(group, "Spread") == ["Launches", "Processes"]
    _, figure = _parts(group, "Spread")
    assert isinstance(figure, Figure)
    assert [list(row.values.values()) for row in figure.table.rows] == [
        ["0 (a)", "0.500", "0.500"],
        ["1 (b)", "1.500", "1.500"],
    ]
    ranks = _measured(found, rank_times_s=(1e-3, 1e-3, 2e-3))
    assert _titles(ranks, "Spread") == ["Launches", "Ranks"]


def test_the_table_of_launches_has_every_time() -> None:
    now = build.summary(times_s=(1e-3, 2e-3, 3e-3), median_s=2e-3)
    found = session(replace(verdict(4096, 6.0), now=now), verdict(8192, None))
    (figure,) = _parts(found, "Spread")
    assert isinstance(figure, Figure)
    (row,) = figure.table.rows
    assert list(row.values.values())[-3:] == [1e-3, 2e-3, 3e-3]


def test_steps_have_times_instead_of_bandwidths_and_strategies_a_dot_each() -> None:
    steps = [verdict(1024 << n, 6.0, step="dense") for n in range(3)]
    strategies = [
        verdict(143656, 6.0, step="cnn", strategy=name, framework="tensorflow", ranks=ranks)
        for name, ranks in (("one_device", 1), ("mirrored", 4))
    ]
    found = session(*steps, *strategies)
    assert not _parts(found, "Bandwidth")
    assert _titles(found, "Training") == ["Training steps", "Training under strategies"]


def test_the_tables_of_the_terminal_are_there_with_every_case() -> None:
    found = session(verdict(4096, 6.0), verdict(8192, None), verdict(4096, 5.0, dtype="int32"))
    tables = [one.table for one in _parts(found, "Cases") if isinstance(one, Listing)]
    assert [len(one.rows) for one in tables] == [2, 1]


def test_several_sessions_have_a_chart_together_and_a_section_each() -> None:
    one = session(verdict(4096, 6.0), name="a.json", host="a")
    other = session(verdict(4096, 5.0), name="b.json", host="b")
    found = page([one, other])
    assert found.title == "2 sessions"
    first, *others = found.sections
    assert first.heading == "Bandwidth of all sessions"
    assert len(others) == 2 and all(section.sections for section in others)
    (figure,) = first.parts
    assert isinstance(figure, Figure)
    assert len(figure.table.columns) == 3 + 1
