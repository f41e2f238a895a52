"""The session: green only if everything that was asked for was measured."""

from __future__ import annotations

from busbw.judge import judge_session
from busbw.model import Outcome, SessionOutcome
from tests import build


def test_a_session_with_all_its_launches_is_fine_and_says_how_many() -> None:
    session = judge_session([build.verdict()], [build.measurement(1e-3, 1e-3, 1e-3)], launches=3)
    assert SessionOutcome.FINE is session.outcome
    assert session.text == "1 cases measured in 3 launches each"
    assert not session.failed


def test_a_failed_launch_is_a_launch() -> None:
    measurement = build.measurement(1e-3, failures=(build.failure(), build.failure()))
    session = judge_session([build.verdict(Outcome.FAILED)], [measurement], launches=3)
    assert SessionOutcome.FINE is session.outcome


def test_a_session_that_measured_nothing_is_not_green() -> None:
    session = judge_session([], [], launches=3)
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text == "nothing was measured"
    assert session.failed


def test_a_session_that_measured_nothing_says_each_reason_once() -> None:
    skipped = [build.verdict(Outcome.SKIPPED, text=text) for text in ("b", "a", "b")]
    assert judge_session(skipped, [], launches=3).text == "nothing was measured: a; b"


def test_cases_without_any_launch_are_not_a_measurement() -> None:
    session = judge_session([build.verdict()], [build.measurement()], launches=3)
    assert SessionOutcome.NO_VERDICT is session.outcome


def test_a_missing_launch_is_no_verdict_and_the_first_case_is_named() -> None:
    short = build.measurement(1e-3, 1e-3, payload_bytes=1024)
    whole = build.measurement(1e-3, 1e-3, 1e-3)
    session = judge_session([build.verdict()], [whole, short], launches=3)
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert (
        session.text == "1 cases have fewer than 3 launches, first jax.all_reduce.psum.float32.1K"
    )


def test_a_session_asked_to_skip_is_not_green_although_it_measured() -> None:
    session = judge_session(
        [build.verdict()],
        [build.measurement(1e-3)],
        launches=1,
        asked_to_skip="--benchmark-skip",
    )
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text.startswith("--benchmark-skip asks")


def test_every_reason_against_a_session_is_said() -> None:
    text = judge_session(
        [build.verdict()], [build.measurement(1e-3)], launches=2, asked_to_skip="--x"
    ).text
    assert "fewer than 2 launches" in text
    assert "--x asks" in text
