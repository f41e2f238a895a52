"""Verdicts word themselves, and a session fails unless it is fine."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.verdict import Ceiling, SessionVerdict
from busbw.model.words import Outcome, SessionOutcome
from tests.helpers import build


def test_the_explanation_of_a_verdict_without_a_failure_is_one_line() -> None:
    verdict = build.verdict(text="as before")
    assert verdict.headline() == verdict.explain()


def test_the_explanation_of_a_failed_verdict_has_the_exit_code_and_the_end_of_the_log() -> None:
    failure = build.failure(exit_code=139, log="first row\nlast row\n")
    verdict = build.verdict(Outcome.FAILED, text="crashed", failure=failure)
    assert verdict.explain().splitlines() == [
        "FAILED: crashed",
        "launch 2.0: CRASHED: it broke",
        "exit code 139",
        "end of the worker's log:",
        "    first row",
        "    last row",
    ]


def test_the_explanation_of_a_failure_without_exit_code_and_log_mentions_neither_of_them() -> None:
    text = build.verdict(Outcome.FAILED, failure=build.failure()).explain()
    assert "exit code" not in text
    assert "log" not in text


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_a_session_fails_unless_its_outcome_is_pass_or_nothing_compared(
    outcome: SessionOutcome,
) -> None:
    session = SessionVerdict(outcomes=(outcome,), text="")
    passes = (SessionOutcome.PASS, SessionOutcome.NOTHING_COMPARED)
    assert (outcome not in passes) == session.failed


def test_the_percentage_of_the_ceiling_is_the_shown_busbw_divided_by_the_ceiling() -> None:
    ceiling = Ceiling(bytes_per_s=8e9, most_bytes_per_s=9e9, text="links", sure=True)
    assert build.verdict(ceiling=ceiling).ceiling_share == pytest.approx(0.75)


@pytest.mark.parametrize("missing", ["now", "ceiling"])
def test_a_verdict_without_a_time_or_without_a_ceiling_has_no_percentage_of_the_ceiling(
    missing: str,
) -> None:
    ceiling = Ceiling(bytes_per_s=8e9, most_bytes_per_s=9e9, text="links", sure=True)
    changes: dict[str, Any] = {"ceiling": ceiling, missing: None}
    assert build.verdict(**changes).ceiling_share is None
