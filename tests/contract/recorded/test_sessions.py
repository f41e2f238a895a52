"""Recorded sessions give the same outcomes and figures when they are judged now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.recorded_sessions import Recorded, sessions
from tests.unit.recorded import replayed

SESSIONS = sessions()

# The times of launches, which only the session itself knew, and sentences, which may change.
NOT_COMPARED = {"launches", "failures", "reference_launches", "text"}


def test_every_outcome_of_a_case_is_in_a_recorded_session() -> None:
    measured = [recorded for recorded in SESSIONS if not recorded.is_compiled]
    outcomes = {case["outcome"] for recorded in SESSIONS for case in recorded.results["cases"]}
    assert len(SESSIONS) >= 110 and len(measured) > 70
    assert outcomes == {
        *("PASS", "REGRESSED", "IMPROVED", "NOISY", "NO_BASELINE", "OUT_OF_MEMORY"),
        *("INCOMPARABLE", "FAILED", "SKIPPED", "CHANGED", "COMPILE_ERROR"),
    }
    assert {recorded.results["session"]["outcomes"][0] for recorded in measured} == {
        *("FAILED", "PASS", "NOTHING_COMPARED", "NO_VERDICT"),
    }
    assert {recorded.inputs["settings"]["paired"] for recorded in measured} == {True, False}


def _parameter(recorded: Recorded) -> Any:
    """Return `recorded` as a parameter; a session that compiled needs the extension."""
    marks = [pytest.mark.extension("compiled")] if recorded.is_compiled else []
    return pytest.param(recorded, marks=marks, id=recorded.name)


@pytest.mark.parametrize("recorded", [_parameter(recorded) for recorded in SESSIONS])
def test_a_recorded_session_gets_the_same_outcomes_and_numbers_when_it_is_judged_again(
    recorded: Recorded, tmp_path: Path
) -> None:
    recorded.write_baselines(tmp_path)
    today = json.loads(json.dumps(replayed.results(recorded, tmp_path)))
    before = recorded.results
    rows = [
        (today["session"], before["session"]),
        *zip(today["cases"], before["cases"], strict=True),
    ]
    for row, recorded_row in rows:
        for key in recorded_row.keys() - NOT_COMPARED:
            assert row[key] == recorded_row[key], (recorded_row.get("id"), key)
