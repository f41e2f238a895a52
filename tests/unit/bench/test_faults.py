"""Signals at random moments: which are drawn, what a session may lose, and the command itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from bench.faults.command import table
from bench.faults.hits import LAYOUTS, LEAVING, MEASURING, MOMENTS, Hit, Result, drawn, surprises
from bench.faults.sandbox import PAYLOADS, Sandbox
from busbw.history.files import append
from tests.helpers import history_lines as lines

WHY = "the worker was killed (SIGKILL) while measuring jax.all_reduce.psum.float32.1K"
LOST: dict[str, Any] = {
    "exit_code": 1,
    "lost": 1,
    "failures": (WHY,),
    "output": f"test session\nFAILED: killed in 1 of 2 launches: {WHY}\n",
}
ENDED: dict[str, Any] = {"lost": None}
FOLDER = ("busbw-0.a",)


def result(target: str = "worker", number: signal.Signals = SIGKILL, **changes: Any) -> Result:
    return Result(hit=Hit(target=target, signal=number, moment=MEASURING), **changes)


def unexpected(end: Result) -> str:
    """Return the last column of the table, which has one row for this result."""
    *_, row = table("local", [end])
    return row.split(" | ")[-1].strip(" |")


@pytest.mark.parametrize(
    "end",
    [
        result(),
        result(**LOST),
        result("agent", **LOST),
        result("session", SIGSTOP),
        result("session", exit_code=-9, folders=FOLDER, **ENDED),
        result("session", SIGTERM, exit_code=-15, folders=FOLDER, **ENDED),
        result("session", SIGINT, exit_code=2, **ENDED),
        # The signal came when all was done.
        result("session", SIGINT, exit_code=-2),
        result("session", struck=False),
    ],
)
def test_what_a_hit_has_to_cost_is_no_surprise(end: Result) -> None:
    assert list(surprises(end)) == []
    assert unexpected(end) == "0"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (result(traces=("process 7",)), "left: process 7"),
        (result(folders=FOLDER), "left: busbw-0.a"),
        (result(exit_code=None), "the session never ended"),
        (result(exit_code=4, **ENDED), "no results, exit code 4"),
        (result(exit_code=1), "exit code 1 with 0 lost"),
        (result(**LOST | {"lost": 3}), "3 lost by one hit"),
        (result(**LOST | {"failures": ("as it left",)}), "lost while nothing was measured"),
        (
            result(**LOST | {"output": "FINE: 7 cases measured"}),
            "a launch is lost and the output has no FAILED",
        ),
        (result(**LOST | {"exit_code": 0}), "exit code 0 with 1 lost"),
        (result(**LOST, green=("1K is PASS",)), "lost and 1K is PASS"),
        (result("session", SIGINT, exit_code=0, **ENDED), "exit code 0, expected 2"),
        (result("session", SIGINT, exit_code=2, folders=FOLDER, **ENDED), "left: busbw-0.a"),
        (result("session", SIGSTOP, lost=1), "1 lost"),
        (result("session", exit_code=0, **ENDED), "exit code 0, expected -9"),
    ],
)
def test_what_is_more_is_said_in_words_and_counted(end: Result, message: str) -> None:
    assert list(surprises(end)) == [message]
    assert unexpected(end) == "1"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_signal_to_everything_comes_in_every_part_of_a_session(layout: Any) -> None:
    every = len(layout.targets) * len(layout.signals) * len(MOMENTS)
    hits = drawn(layout, 2 * every, 1)
    counted = Counter((hit.target, hit.signal, hit.moment) for hit in hits)
    assert len(counted) == every and set(counted.values()) == {2}
    assert {hit.member for hit in hits} == ({""} if layout.members == 1 else {"0", "1"})
    assert all(0.1 <= hit.fraction <= 0.9 for hit in hits)
    assert {hit.launch for hit in hits if hit.moment == LEAVING} == {1}
    assert {hit.launch for hit in hits if hit.moment == MEASURING} == {1, 2}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    local = LAYOUTS["local"]
    assert drawn(local, 20, 1) == drawn(local, 20, 1) != drawn(local, 20, 2)


OURS = "aaaaaaaaaaaaaaaa"
WHOLE = len(PAYLOADS)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    for root in (tmp_path / "before" / "history", sandbox.history):
        append(root, lines.KEY, lines.session(lines.SESSION))
    return sandbox


def appended(sandbox: Sandbox, cases: int) -> Path:
    return append(sandbox.history, lines.KEY, lines.session(OURS, cases)).path


def damage(sandbox: Sandbox, *, ended: bool) -> list[str]:
    return sandbox.damage(stored=WHOLE, ended=ended)


def test_a_whole_session_is_no_damage_and_a_torn_line_is(sandbox: Sandbox) -> None:
    assert damage(sandbox, ended=True) == []
    path = appended(sandbox, WHOLE)
    assert damage(sandbox, ended=False) == []
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert len(damage(sandbox, ended=True)) == 1


def test_a_session_that_went_on_has_appended_and_a_part_of_one_is_damage(sandbox: Sandbox) -> None:
    (missing,) = damage(sandbox, ended=False)
    assert missing == "the history has 0 lines of the session, expected 7"
    appended(sandbox, 3)
    (part,) = damage(sandbox, ended=True)
    assert part == "the history has 3 lines of the session, expected 7"


def test_a_line_that_was_there_and_is_not_is_damage(sandbox: Sandbox) -> None:
    path = appended(sandbox, WHOLE + 1)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert damage(sandbox, ended=False) == ["the history has lost lines"]


def test_a_history_that_cannot_be_read_is_damage(sandbox: Sandbox) -> None:
    path = appended(sandbox, WHOLE)
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    (message,) = damage(sandbox, ended=False)
    assert str(path) in message


def test_a_file_beside_the_baselines_is_damage(sandbox: Sandbox) -> None:
    appended(sandbox, WHOLE)
    sandbox.baselines.mkdir()
    (sandbox.baselines / "x.json.part").write_text("{}")
    assert damage(sandbox, ended=False) == ["x.json.part is new or gone"]


ROOT = Path(__file__).parents[3]


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_some_hits_leave_nothing_and_stand_in_the_table() -> None:
    command = [
        sys.executable,
        "-m",
        "bench",
        "faults",
        "--framework=fake",
        "--kills=5",
        "--seed=18",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.splitlines()
    assert title.startswith("| layout | hit | times |")
    assert sum(int(row.split(" | ")[2]) for row in rows) == 5
