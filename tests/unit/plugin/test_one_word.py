"""The word of a session is the same in terminal, exit code, JUnit, results, history and page."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from busbw.history.files import read_all
from busbw.report.outline import outline
from busbw.report.reading import Session, read_results
from tests.helpers.command_line import command
from tests.helpers.session_folder import TPU, Folder, Ran
from tests.helpers.sweep import sweep
from tests.unit.plugin import nightly

SEVEN = ("--payloads=1K:64K", "--history=history")
KILLED = {"payload_bytes": 2048, "then": "kill"}


def _nothing_compared(folder: Folder) -> Ran:
    return folder.run(*SEVEN, exit_code=0)


def _failed(folder: Folder) -> Ran:
    folder.script(**TPU, cases=[KILLED])
    return folder.run(*SEVEN, exit_code=1)


def _slower(folder: Folder) -> Ran:
    """All by less than what a single case can show after one session."""
    folder.with_baselines(*SEVEN[:1])
    folder.script(**TPU, cases=[{"slower": 1.07}])
    return folder.run(*SEVEN, exit_code=1)


def _drift(folder: Folder, *options: str) -> Ran:
    folder.with_baselines(*SEVEN[:1])
    nightly.stored_before(folder, {20: 1.0})
    nightly.nights(folder, [*[1.01, 0.99] * 6, *[1.03] * 3])
    folder.script(**TPU, cases=[{"slower": 1.03}])
    return folder.run(*SEVEN, *options, exit_code=1)


def _without(folder: Folder) -> Ran:
    return folder.run(*SEVEN, "--benchmark-skip", exit_code=1)


def _failed_and_without(folder: Folder) -> Ran:
    folder.script(**TPU, cases=[KILLED])
    return folder.run(*SEVEN, "--benchmark-skip", exit_code=1)


def _failed_and_slower(folder: Folder) -> Ran:
    folder.with_baselines(*SEVEN[:1])
    folder.script(**TPU, cases=[KILLED, {"slower": 1.07}])
    return folder.run(*SEVEN, exit_code=1)


def _drift_and_without(folder: Folder) -> Ran:
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
            (_without, ["NO_VERDICT"]),
            (_failed_and_without, ["FAILED", "NO_VERDICT"]),
            (_drift_and_without, ["DRIFT", "NO_VERDICT"]),
        ]
    ),
)
def test_all_that_holds_is_said_everywhere_and_the_first_is_the_word(
    folder: Folder, night: Callable[[Folder], Ran], words: list[str]
) -> None:
    folder.script(**TPU)
    assert_said_everywhere(folder, night(folder), words)


def assert_said_everywhere(folder: Folder, ran: Ran, words: list[str]) -> None:
    """That all words are said, and the first stored as the word, in every place."""
    said, found = ", ".join(words), ran.document
    assert any(line.startswith(f"{said}: ") for line in ran.text.splitlines()), ran.text
    assert found is not None
    assert (found["session"]["outcomes"][0], found["session"]["outcomes"]) == (words[0], words)
    assert said == "NOTHING_COMPARED" or ran.session_failure.count(f"{said}: ") > 0
    (machine,) = read_all(folder.path / "history").values()
    last = [line for line in machine if not line.is_reference][-1]
    assert (last.session_outcome.value, [one.value for one in last.session_outcomes]) == (
        words[0],
        words,
    )
    shown = command("history", folder.path / "history").out.splitlines()[0]
    assert f"1 {words[0]}" in shown
    read = read_results(json.dumps(found), "night.json")
    assert isinstance(read, Session)
    statement = outline(read).statements[0]
    assert (statement.word, statement.is_good) == (said, said == "FINE")
