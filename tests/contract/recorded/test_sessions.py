"""Recorded sessions give the same outcomes, figures and words when they are judged now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.recorded_sessions import Recorded, sessions
from tests.unit.recorded import replayed

SESSIONS = sessions()

# What only the session itself knew: how long things took, and what its clock said of each launch.
NOT_JUDGED = {"launches", "failures", "reference_launches"}


def test_there_are_sessions_of_every_kind() -> None:
    measured = [one for one in SESSIONS if not one.is_compiled]
    outcomes = {case["outcome"] for one in SESSIONS for case in one.results["cases"]}
    assert len(SESSIONS) > 110 and len(measured) > 70
    assert outcomes == {
        *("PASS", "REGRESSED", "IMPROVED", "NOISY", "NO_BASELINE", "OUT_OF_MEMORY"),
        *("INCOMPARABLE", "FAILED", "SKIPPED", "CHANGED", "COMPILE_ERROR"),
    }
    assert {one.results["session"]["outcomes"][0] for one in measured} == {
        *("FAILED", "FINE", "NOTHING_COMPARED", "NO_VERDICT"),
    }
    assert {one.given["settings"]["paired"] for one in measured} == {True, False}


@pytest.mark.parametrize("recorded", SESSIONS, ids=lambda one: one.name)
def test_a_recorded_session_is_judged_as_it_was(recorded: Recorded, tmp_path: Path) -> None:
    recorded.write_baselines(tmp_path)
    now = json.loads(json.dumps(replayed.results(recorded, tmp_path)))
    assert now["session"] == recorded.results["session"]
    for case, before in zip(now["cases"], recorded.results["cases"], strict=True):
        for key in before.keys() - NOT_JUDGED:
            assert case[key] == before[key], (before["id"], key)
