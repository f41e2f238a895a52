"""Sessions from the product's own history, judged against one another."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import history
from busbw.model import Device, StoredCase
from evidence import kept
from tests import build
from tests.history.lines import KEY, line

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four sessions of ten cases on a CPU, of eight launches; and one of three launches."""
    source = random.Random(1)
    for night in range(5):
        count = 8 if night < 4 else 3
        lines = [
            replace(
                line(
                    session=f"{night:016x}",
                    at=f"2026-03-{1 + night:02d}T03:00:00Z",
                    case=StoredCase.of(build.case(payload_bytes=1024 << power)),
                ),
                device=Device.CPU,
                times_us=tuple(
                    100.0 * 2**power * math.exp(source.gauss(0, 0.05)) for _ in range(count)
                ),
            )
            for power in range(10)
        ]
        history.append(tmp_path, KEY, lines)
    return tmp_path


def test_sessions_with_enough_launches_are_read_oldest_first(folder: Path) -> None:
    sessions = kept.read(folder)
    assert [one.began.day for one in sessions] == [1, 2, 3, 4]
    assert all(len(one.times_s) == 10 for one in sessions)


def test_unchanged_is_not_red_and_three_times_the_time_is_flagged(folder: Path) -> None:
    accepted, tonight, *_ = kept.read(folder)
    assert not kept.judged(accepted, tonight).is_red
    slow = list(tonight.times_s)[4]
    found = kept.judged(accepted, tonight, {slow: 3.0})
    assert found.regressed == [slow]
    assert found.past.launches[slow].freedom == 5


def test_launches_a_minute_later_confirm_what_the_first_suspected(folder: Path) -> None:
    accepted, tonight, *_ = kept.read(folder)
    slow = list(tonight.times_s)[4]
    times_s = {case: tuple(times[:3]) for case, times in tonight.times_s.items()}
    gone = replace(tonight, later_s={**times_s, slow: tuple(t / 3 for t in times_s[slow])})
    assert kept.judged(accepted, gone, {slow: 3.0}).regressed == [slow]
    assert not kept.judged(accepted, gone, {slow: 3.0}, later=True).is_red


def test_a_session_of_three_launches_minutes_after_one_of_six_is_its_later_look(
    folder: Path,
) -> None:
    lines = [
        replace(
            line(
                session=f"{99:016x}",
                at="2026-03-04T03:02:00Z",
                case=StoredCase.of(build.case(payload_bytes=1024 << power)),
            ),
            device=Device.CPU,
            times_us=(100.0, 101.0, 102.0),
        )
        for power in range(10)
    ]
    history.append(folder, KEY, lines)
    *others, last = kept.read(folder)
    assert last.later_s and set(last.later_s.values()) == {(1e-4, 1.01e-4, 1.02e-4)}
    for one in others:
        assert one.later_s == {case: times[-3:] for case, times in one.times_s.items()}


def test_the_table_counts_what_was_asked(folder: Path) -> None:
    rows = list(kept.rows(kept.read(folder)))
    assert "0 of 6" in rows[2]
    assert all(" of 60 |" in row for row in rows[3:6])
    assert "6 of 6" in rows[6] and "| 10 | later |" in rows[7]
    assert "| 3 | at once |" in rows[12] and "0 of 120" in rows[12]
