"""The first failing session of a case, and the changes in that session."""

from __future__ import annotations

from busbw.history.files import HistoryLine
from busbw.history.texts import failing_since_texts
from busbw.model.words import DeviceClass, Outcome, SessionOutcome
from tests.helpers import build


def _line(minute: int, outcome: Outcome, flags: str = "") -> HistoryLine:
    return HistoryLine(
        session=f"{minute:016x}",
        moment=f"2026-01-31T03:{minute:02d}:00Z",
        device=DeviceClass.CPU,
        case=build.case(),
        times_us=(1e3,),
        versions={"jax": "1"},
        surroundings={"XLA_FLAGS": flags} if flags else {},
        outcome=outcome,
        session_outcome=SessionOutcome.PASS,
    )


def test_the_text_of_a_failing_case_names_a_flag_that_was_set_minutes_before() -> None:
    lines = [
        _line(0, Outcome.PASS),
        _line(5, Outcome.PASS),
        *(_line(minute, Outcome.REGRESSED, "--x") for minute in (10, 15)),
    ]
    name = "jax.all_reduce.psum.float32.4K"
    text = f"{name}: REGRESSED since 2026-01-31 (2 sessions); changed there: XLA_FLAGS none -> --x"
    failed = [build.verdict(Outcome.REGRESSED, failed=True)]
    assert list(failing_since_texts(lines, failed)) == [text]
    assert list(failing_since_texts(lines[:2], failed)) == []
    assert list(failing_since_texts(lines, [build.verdict(Outcome.REGRESSED)])) == []
