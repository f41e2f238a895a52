"""The benchmark of faults: its signals, permitted losses, and the command."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from bench.faults import Hit, draw_hits, find_surprises

ROOT = Path(__file__).parents[3]


def case(launches: int = 2, message: str = "") -> dict[str, Any]:
    failure = {"failed": bool(message), "failure": {"message": message}}
    return {"id": "1K", "launches": [{}] * launches, "outcome": "PASS", **failure}


ALL = [case(), case()]
LOST = [case(), case(1, "the worker was killed (SIGKILL) while measuring 1K")]


@pytest.mark.parametrize(
    ("target", "number", "exit_code", "cases", "messages"),
    [
        ("worker", SIGKILL, 0, ALL, []),
        ("worker", SIGKILL, 1, LOST, []),
        ("session", SIGSTOP, 0, ALL, []),
        ("session", SIGKILL, -9, None, []),
        ("session", SIGTERM, -15, None, []),
        ("session", SIGINT, 2, None, []),
        # The signal came when all was done.
        ("session", SIGINT, -2, ALL, []),
        ("session", SIGKILL, 0, ALL, []),
        ("worker", SIGKILL, None, ALL, ["exit code None, expected 0"]),
        ("worker", SIGKILL, 0, None, ["no results"]),
        ("worker", SIGKILL, 1, ALL, ["exit code 1, expected 0"]),
        ("worker", SIGKILL, 0, LOST, ["exit code 0, expected 1"]),
        ("worker", SIGKILL, 1, LOST * 2, ["2 lost by one hit"]),
        ("worker", SIGKILL, 1, [case(1, "as it left")], ["lost: 1K: as it left"]),
        ("worker", SIGKILL, 1, [case(1)], ["lost: 1K: PASS"]),
        ("session", SIGINT, 0, None, ["exit code 0, expected 2"]),
        ("session", SIGSTOP, 1, LOST, ["1 lost by one hit"]),
        ("session", SIGKILL, 0, None, ["exit code 0, expected -9"]),
    ],
)
def test_the_faults_benchmark_reports_only_an_unexpected_exit_code_or_unexpectedly_lost_cases(
    target: str, number: Any, exit_code: int | None, cases: Any, messages: list[str]
) -> None:
    assert list(find_surprises(Hit(target=target, signal=number), exit_code, cases)) == messages


def test_the_faults_benchmark_sends_every_signal_to_every_target_equally_often() -> None:
    hits = list(draw_hits(48, 1, 9.0))
    assert set(Counter((hit.target, hit.signal, hit.launch) for hit in hits).values()) == {2}
    assert hits == list(draw_hits(48, 1, 9.0)) != list(draw_hits(48, 2, 9.0))


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_the_faults_benchmark_prints_a_row_for_each_signal_and_no_surprise() -> None:
    command = [sys.executable, "-m", "bench", "faults", "--kills=5", "--seed=18"]
    done = subprocess.run(
        [*command, "--", "--frameworks=fake"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, _, *rows, _, last = done.stdout.splitlines()
    assert len(rows) == 5 and last == "0 of 5 are unexpected."
