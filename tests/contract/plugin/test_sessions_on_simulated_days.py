"""Daily sessions on a device with little noise: exactly the slower payloads regress."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(KIB << power for power in range(21))
UPPER = {size for size in SIZES if size >= MIB}
QUIET = {
    "device": "tpu",
    "device_kind": "TPU v2",
    "ranks": 8,
    "latency_s": 2e-5,
    "gb_per_s": 80,
    "clocks": ["device", "host"],
}
# As many passes as a session can need.
PASSES = 9

# By size, the time over what it was.
Ratio = Callable[[int], float]


class DailySessions:
    """Sessions of 21 payloads a day apart; sessions and launches differ by 0.5 %."""

    def __init__(self, folder: Folder, seed: int, **machine: object) -> None:
        """Use the quiet machine, except for the values `machine` of its script."""
        self._folder, self._random = folder, random.Random(seed)
        self._machine = {**QUIET, **machine}

    def night(self, ratio: Ratio, *options: str) -> dict[str, Any]:
        """Run a session, let a day go by, and return its --results with its exit code."""
        self._folder.script(**self._machine, cases=list(self._cases(ratio)))
        path = self._folder.path / "night.json"
        usual = ("--payloads=1K:1024M", "--launches=auto", "--history=history", f"--results={path}")
        code, text = self._folder.ended(*usual, *options)
        assert code in (0, 1), text
        self._a_day_goes_by()
        return {**json.loads(path.read_text()), "exit_code": code}

    def _cases(self, ratio: Ratio) -> Iterator[dict[str, object]]:
        gauss = self._random.gauss
        shared = gauss(0.0, 0.003)
        for size in SIZES:
            level = math.log(ratio(size)) + shared + gauss(0.0, 0.005)
            for number in range(1, PASSES + 1):
                slower = math.exp(level + gauss(0.0, 0.005))
                yield {"payload_bytes": size, "passes": [number], "slower": slower}

    def _a_day_goes_by(self) -> None:
        for path in [*self._folder.baseline_files, *self._folder.path.glob("history/*/*/*.jsonl")]:
            if path.suffix in (".json", ".jsonl"):
                lines = [_moved_to_previous_day(row) for row in path.read_text().splitlines()]
                path.write_text("\n".join(lines) + "\n")


_MOMENT = re.compile(r'"(20\d\d-\d\d-\d\d)(T\d\d:\d\d:\d\dZ)?"')


def _moved_to_previous_day(line: str) -> str:
    """Move every moment and every day in a line to the day before."""

    def move(match: re.Match[str]) -> str:
        day = date.fromisoformat(match[1]) - timedelta(days=1)
        return f'"{day}{match[2] or ""}"'

    return _MOMENT.sub(move, line)


def _payloads_with(night: dict[str, Any], outcome: str) -> set[int]:
    """Return the payloads whose cases have this outcome."""
    return {case["case"]["payload_bytes"] for case in night["cases"] if case["outcome"] == outcome}


def _bandwidth(size: int) -> float:
    """Return the ratio of a payload after a tenth of the bandwidth was lost."""
    return 1.1 if size in UPPER else 1.0


def _faster(size: int) -> float:
    """Return the ratio of a payload under a release that made large payloads faster."""
    return _bandwidth(size) * (0.94 if size >= 2 * MIB else 1.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_only_the_large_payloads_regress_after_a_loss_of_bandwidth(
    folder: Folder, seed: int
) -> None:
    nights = DailySessions(folder, seed)
    nights.night(lambda _: 1.0, "--update-baselines")
    for _ in range(6):
        assert nights.night(lambda _: 1.0)["exit_code"] == 0
    lost = nights.night(_bandwidth)
    assert (_payloads_with(lost, "REGRESSED"), lost["session"]["outcomes"][0]) == (UPPER, "FAILED")
    accepted = nights.night(_bandwidth, "--update-baselines", "--accept-regression=known")
    assert accepted["exit_code"] == 0
    for _ in range(6):
        night = nights.night(_faster)
        assert night["session"]["outcomes"] == ["PASS"], night["session"]["text"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", sweep(range(8)))
def test_the_second_session_finds_a_loss_of_a_tenth_in_one_payload_and_no_other_regression(
    folder: Folder, seed: int
) -> None:
    nights = DailySessions(folder, seed)
    nights.night(lambda _: 1.0, "--update-baselines")
    slow = SIZES[2 * seed + 3]
    night = nights.night(lambda size: 1.1 if size == slow else 1.0)
    assert _payloads_with(night, "REGRESSED") == {slow}
    assert nights.night(lambda _: 1.0)["session"]["outcomes"] == ["PASS"]


@pytest.mark.exhaustive
def test_a_loss_fails_every_daily_session_until_the_loss_is_repaired(folder: Folder) -> None:
    nights = DailySessions(folder, 5)
    nights.night(lambda _: 1.0, "--update-baselines")
    assert [nights.night(lambda _: 1.0)["exit_code"] for _ in range(3)] == [0] * 3
    slow = [nights.night(lambda size: 1.1 if size == MIB else 1.0) for _ in range(5)]
    assert [night["exit_code"] for night in slow] == [1] * 5
    assert all(MIB in _payloads_with(night, "REGRESSED") for night in slow)
    repaired = [nights.night(lambda _: 1.0) for _ in range(4)]
    assert [night["exit_code"] for night in repaired[2:]] == [0] * 2
    assert any("repaired" in json.dumps(night) for night in repaired)


def _launches(night: dict[str, Any]) -> dict[int, int]:
    """Return the number of launches by size."""
    return {case["case"]["payload_bytes"]: len(case["launches"]) for case in night["cases"]}


@pytest.mark.exhaustive
def test_a_single_launch_decides_most_cases_if_the_history_has_five_sessions(
    folder: Folder,
) -> None:
    nights = DailySessions(folder, 5)
    nights.night(lambda _: 1.0, "--update-baselines")
    assert [min(_launches(nights.night(lambda _: 1.0)).values()) for _ in range(4)] == [3] * 4
    few, slow = nights.night(lambda _: 1.0), nights.night(lambda size: 1.05 if size == MIB else 1.0)
    assert all(list(_launches(night).values()).count(1) > 10 for night in (few, slow))
    assert (few["exit_code"], _payloads_with(slow, "REGRESSED")) == (0, {MIB})
    assert _launches(slow)[MIB] == 6 and _launches(nights.night(lambda _: 1.0))[MIB] >= 3


@pytest.mark.exhaustive
def test_a_cpu_measures_no_case_drawn_at_random_in_more_launches(folder: Folder) -> None:
    nights = DailySessions(folder, 5, device="cpu", clocks=["host"])
    nights.night(lambda _: 1.0, "--update-baselines")
    for _ in range(4):
        nights.night(lambda _: 1.0)
    few = [_launches(nights.night(lambda _: 1.0)) for _ in range(4)]
    assert few == [dict.fromkeys(SIZES, 1)] * 4
