"""The outcomes of a session are the same in terminal, JUnit, results, history and summary."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers import nightly
from tests.helpers.command_line import command
from tests.helpers.session_folder import HISTORY, SEVEN, TPU, Folder, Ran
from tests.helpers.sweep import sweep

WITH_HISTORY = (SEVEN, HISTORY)
KILLED = {"payload_bytes": 2048, "then": "kill"}


def _nothing_compared(folder: Folder) -> Ran:
    return folder.run(*WITH_HISTORY, exit_code=0)


def _failed(folder: Folder, *options: str) -> Ran:
    folder.script(**TPU, cases=[KILLED])
    return folder.run(*WITH_HISTORY, *options, exit_code=1)


def _slower(folder: Folder, *events: dict[str, object]) -> Ran:
    """Slow all cases down by less than the limit of a single case after one session."""
    folder.with_baselines(SEVEN)
    folder.script(**TPU, cases=[*events, {"slower": 1.07}])
    return folder.run(*WITH_HISTORY, exit_code=1)


def _drift(folder: Folder, *options: str) -> Ran:
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    nightly.nights(folder, [*[1.01, 0.99] * 6, *[1.03] * 3])
    folder.script(**TPU, cases=[{"slower": 1.03}])
    return folder.run(*WITH_HISTORY, *options, exit_code=1)


def _no_verdict(folder: Folder) -> Ran:
    return folder.run(*WITH_HISTORY, "--benchmark-skip", exit_code=1)


def _failed_and_no_verdict(folder: Folder) -> Ran:
    return _failed(folder, "--benchmark-skip")


def _failed_and_slower(folder: Folder) -> Ran:
    return _slower(folder, KILLED)


def _drift_and_no_verdict(folder: Folder) -> Ran:
    return _drift(folder, "--benchmark-skip")


@pytest.mark.parametrize(
    ("night", "words"),
    sweep(
        [
            (_failed_and_slower, ["FAILED", "SLOWER"]),
            (_nothing_compared, ["NOTHING_COMPARED"]),
            (_failed, ["FAILED"]),
            (_slower, ["SLOWER"]),
            (_drift, ["DRIFT"]),
            (_no_verdict, ["NO_VERDICT"]),
            (_failed_and_no_verdict, ["FAILED", "NO_VERDICT"]),
            (_drift_and_no_verdict, ["DRIFT", "NO_VERDICT"]),
        ]
    ),
)
def test_every_output_of_a_session_lists_the_same_outcomes_in_the_same_order(
    folder: Folder, night: Callable[[Folder], Ran], words: list[str]
) -> None:
    folder.script(**TPU)
    assert_shown_everywhere(folder, night(folder), words)


def assert_shown_everywhere(folder: Folder, ran: Ran, words: list[str]) -> None:
    """Check that every place has all these outcomes of the session, in this order."""
    text = ", ".join(words)
    assert any(line.startswith(f"{text}: ") for line in ran.text.splitlines()), ran.text
    assert ran.document["session"]["outcomes"] == words
    assert text == "NOTHING_COMPARED" or ran.session_failure.count(f"{text}: ") > 0
    last = [line for line in folder.history_lines if not line["is_reference"]][-1]
    assert (last["session_outcome"], last["session_outcomes"]) == (words[0], words)
    assert f"1 {words[0]}" in command("history", folder.path / "history").out.splitlines()[0]
    assert f"**{text}** " in command("summary", folder.path / "results.json").out
