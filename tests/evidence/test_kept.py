"""Sessions from the product's own history, judged against one another."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.history.files import append
from busbw.model.words import Device
from evidence import kept
from tests import build
from tests.history.lines import KEY, line

pytestmark = pytest.mark.exhaustive


def _append(folder: Path, number: int, at: str, launches: int) -> None:
    """A session of ten cases on a CPU."""
    chance = random.Random(number)
    lines = [
        replace(
            line(
                session=f"{number:016x}",
                at=at,
                case=build.case(payload_bytes=1024 << power),
            ),
            device=Device.CPU,
            times_us=tuple(
                100.0 * 2**power * math.exp(chance.gauss(0, 0.05)) for _ in range(launches)
            ),
        )
        for power in range(10)
    ]
    append(folder, KEY, lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four sessions of eight launches; and one of three launches."""
    for night in range(5):
        _append(tmp_path, night, f"2026-03-{1 + night:02d}T03:00:00Z", 8 if night < 4 else 3)
    return tmp_path


def test_sessions_with_enough_launches_are_read_oldest_first(folder: Path) -> None:
    sessions = kept.read(folder)
    assert [one.began.day for one in sessions] == [1, 2, 3, 4]
    for one in sessions:
        assert len(one.times_s) == 10
        assert one.later_s == {case: times[-3:] for case, times in one.times_s.items()}


def test_a_session_of_three_launches_minutes_later_is_the_later_look(folder: Path) -> None:
    _append(folder, 98, "2026-03-07T03:00:00Z", 6)
    assert len(kept.read(folder)) == 4
    _append(folder, 99, "2026-03-07T03:02:00Z", 3)
    *_, last = kept.read(folder)
    assert [len(of) for of in last.times_s.values()] == [6] * 10
    assert [len(of) for of in last.later_s.values()] == [3] * 10


def test_unchanged_is_not_red_and_three_times_the_time_is_flagged(folder: Path) -> None:
    accepted, tonight, *_ = kept.read(folder)
    assert not kept.judged(accepted, tonight, {}).is_red
    slow = list(tonight.times_s)[4]
    assert kept.judged(accepted, tonight, {slow: 3.0}).red == {slow}


def test_launches_a_minute_later_confirm_what_the_first_suspected(folder: Path) -> None:
    accepted, tonight, *_ = kept.read(folder)
    slow = list(tonight.times_s)[4]
    times_s = {case: tuple(times[:3]) for case, times in tonight.times_s.items()}
    gone = replace(tonight, later_s={**times_s, slow: tuple(t / 3 for t in times_s[slow])})
    assert kept.judged(accepted, gone, {slow: 3.0}).red == {slow}
    assert not kept.judged(accepted, gone, {slow: 3.0}, later=True).is_red


def test_the_table_counts_what_was_asked(folder: Path) -> None:
    rows = list(kept.rows(kept.read(folder)))
    assert "0 of 6" in rows[2]
    assert all(" of 60 |" in row for row in rows[3:6])
    assert "6 of 6" in rows[6] and "| 10 | later |" in rows[7]
    assert "| 3 | at once |" in rows[12] and "0 of 120" in rows[12]
