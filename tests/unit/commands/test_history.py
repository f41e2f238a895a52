"""`python -m busbw history`: tables and a document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.history.files import append
from busbw.model.machine import EnvironmentKey
from busbw.model.words import FailureKind, Outcome
from tests.helpers import build
from tests.helpers.command_line import asked_here
from tests.helpers.history_lines import KEY, line, session

OTHER = EnvironmentKey(device_kind="NVIDIA H200", ranks=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three sessions of two cases on one machine."""
    for night in range(3):
        append(tmp_path, KEY, session(f"{night:016x}"))
    return tmp_path


def test_each_case_has_a_row_and_the_machine_a_line(folder: Path) -> None:
    answer = asked_here("history", folder)
    assert (answer.code, answer.err) == (0, "")
    head, titles, first, second, *_ = answer.out.splitlines()
    assert head == "tpu-v5-lite/4r: 3 sessions (3 FINE), baselines up to 29 days old"
    assert titles.split() == [
        *("case", "sessions", "level", "spread", "newest", "ratio", "NOISY", "baseline")
    ]
    row = "jax.all_reduce.psum.float32.1K 3 11.38 us - 11.38 us 1.000 0 2026-01-02"
    assert first.split() == row.split()
    assert second.split()[0] == "jax.all_reduce.psum.float32.2K"


def test_a_wrong_value_is_told_with_how_often_and_when_last(folder: Path) -> None:
    wrong = {"outcome": Outcome.FAILED, "failure": FailureKind.WRONG_RESULT, "times_us": ()}
    case = session("f" * 16)[0].case
    append(folder, KEY, [line(session="f" * 16, at="2026-02-01T03:00:00Z", case=case, **wrong)])
    assert "    wrong in 1 of 4 sessions, last on 2026-02-01" in asked_here("history", folder).out


def test_of_two_protocols_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    other = build.case(protocol="host/chain2/malloc")
    append(tmp_path, KEY, [line(), line(case=other)])
    answer = asked_here("history", tmp_path)
    assert "float32.4K (host/chain2/malloc)" in answer.out


def test_several_machines_follow_each_other_and_one_can_be_chosen(folder: Path) -> None:
    append(folder, OTHER, session("e" * 16))
    assert "nvidia-h200/8r: 1 session (" in asked_here("history", folder).out
    chosen = asked_here("history", folder, "--machine=tpu-v5-lite/4r").out
    assert "nvidia" not in chosen


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("missing", "busbw history: there is no folder missing\n"),
        (".", "holds no history"),
    ],
)
def test_what_cannot_be_shown_or_appended_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    asked_here("history", *asked.split()).refuses(reason)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", ["}\n", ""])
def test_a_damaged_and_a_torn_line_are_refused_with_file_and_number(folder: Path, end: str) -> None:
    (path,) = folder.rglob("*.jsonl")
    path.write_text(path.read_text() + '{"version": 1' + end)
    asked_here("history", folder).refuses(f"{path}: line 7")


def _changed(folder: Path) -> None:
    """Twelve nights of eight cases; the third case is slower by a tenth from the seventh on."""
    for night in range(12):
        lines = session(f"{night:016x}", cases=8)
        slow = lines[2].times_us if night < 6 else tuple(1.1 * one for one in lines[2].times_us)
        lines[2] = replace(lines[2], times_us=slow)
        moment = f"2026-03-{1 + night:02d}T03:00:00Z"
        versions = {"jax": "0.10.0" if night < 6 else "0.10.1"}
        append(folder, KEY, [replace(one, at=moment, versions=versions) for one in lines])


CHANGE = "+10 % since 2026-03-07 (6 sessions); changed there: jax 0.10.0 -> 0.10.1"


def test_below_a_case_is_when_its_level_changed_and_what_changed_there(tmp_path: Path) -> None:
    _changed(tmp_path)
    lines = asked_here("history", tmp_path).out.splitlines()
    row = next(at for at, text in enumerate(lines) if ".float32.4K " in text)
    assert lines[row + 1].strip() == CHANGE
    assert sum("changed there" in text for text in lines) == 1


def test_a_change_that_is_acknowledged_beside_the_baselines_says_why(tmp_path: Path) -> None:
    _changed(tmp_path)
    reviewed = tmp_path / "reviewed"
    reviewed.mkdir()
    file = reviewed / "acknowledged.toml"
    file.write_text('[[change]]\nsince = 2026-03-07\ncase = "*.4K"\nreason = "see #7"\n')
    answer = asked_here("history", tmp_path, f"--baselines={reviewed}")
    assert f"{CHANGE}; accepted: see #7" in answer.out
    file.write_text("[[change]]\n")
    answer = asked_here("history", tmp_path, f"--baselines={reviewed}")
    answer.refuses(f"{file}: file.change[0].since: missing")


def test_nights_in_turn_with_a_reference_and_the_reference_have_tables(tmp_path: Path) -> None:
    stack = "0123456789abcdef"
    tonight = [replace(one, paired=True, stack=stack) for one in session("1" * 16)]
    theirs = [replace(one, outcome=Outcome.NO_BASELINE, is_reference=True) for one in tonight]
    append(tmp_path, KEY, [*tonight, *theirs])
    lines = asked_here("history", tmp_path).out.splitlines()
    assert lines[0].startswith("tpu-v5-lite/4r: 1 session (1 FINE)")
    assert lines[2] == f"jax in turn with the reference {stack}:"
    assert lines[7] == f"the reference {stack} of jax:"
