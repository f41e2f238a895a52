"""--rebase: the pins of the measured cases move to their stored levels, with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .folder import SLOW, Folder

SMALL_LOSS = {**SLOW, "cases": [{"slower": 1.3}]}


def entries(folder: Folder) -> dict[str, dict[str, Any]]:
    """The entry of each payload."""
    (path,) = folder.baseline_files
    return {entry["payload"]: entry for entry in json.loads(path.read_text())["entries"]}


def crept(folder: Folder, *options: str) -> None:
    """Baselines whose level lies above its pin."""
    folder.script(**SLOW)
    folder.with_baselines(*options)
    folder.script(**SMALL_LOSS)
    folder.with_baselines(*options)


def test_the_pin_moves_to_the_stored_level_and_is_shown_before_and_after(folder: Folder) -> None:
    crept(folder)
    before = entries(folder)["1M"]
    ran = folder.run("--rebase", "a new switch", exit_code=0)
    after = entries(folder)["1M"]
    assert abs(after["pinned_us"] / before["pinned_us"] - 1.15) < 0.01
    assert after["sessions"] == before["sessions"]
    (line,) = (row for row in ran.text.splitlines() if row.startswith("    float32 1M"))
    assert line.count("2 launches of 2 sessions, pinned") == 2
    (path,) = folder.baseline_files
    assert json.loads(path.read_text())["history"][-1]["reason"] == "a new switch"


@pytest.mark.exhaustive
def test_only_measured_cases_are_pinned_anew(folder: Folder) -> None:
    crept(folder, "--payloads=1M,2M")
    before = entries(folder)
    folder.run("--rebase=why", "--payloads=1M,2M", "-k", "2M", exit_code=0)
    after = entries(folder)
    assert after["1M"] == before["1M"]
    assert after["2M"]["pinned_us"] > before["2M"]["pinned_us"]


def test_a_regression_fails_as_ever_and_what_is_stored_stays(folder: Folder) -> None:
    crept(folder)
    before = entries(folder)["1M"]
    folder.script(**SLOW, cases=[{"slower": 5}])
    ran = folder.run("--rebase=why", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert entries(folder)["1M"]["sessions"] == before["sessions"]


@pytest.mark.exhaustive
def test_a_session_without_a_verdict_pins_nothing_and_says_why(folder: Folder) -> None:
    crept(folder)
    before = entries(folder)
    ran = folder.run("--rebase=why", "--benchmark-skip", exit_code=1)
    assert "note: no baseline was written: NO_VERDICT" in ran.text
    assert entries(folder) == before


@pytest.mark.parametrize("reason", ["", " "])
def test_an_empty_reason_is_a_usage_error(folder: Folder, reason: str) -> None:
    assert "accepted is a reason in words" in folder.run(f"--rebase={reason}", exit_code=4).sentence
