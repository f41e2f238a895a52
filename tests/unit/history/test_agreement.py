"""What is said where baselines and the history have the same session with other values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from busbw.history.agreement import DisagreementError, check, check_date
from busbw.history.lines import Line
from busbw.model.stored import MOST_SESSIONS, Baseline, Record
from tests.helpers import build
from tests.helpers.history_lines import line

AT, LATER = "2026-01-31T03:00:00Z", "2026-02-01T03:00:00Z"
TIMES = (11.25, 11.5, 11.375)


def _baseline(
    *times_us: float, at: str = AT, pinned_us: float | None = 11.375, **changes: Any
) -> Baseline:
    record = Record(moment=at, times_us=times_us)
    pin = pinned_us if times_us else None
    found = Baseline(case=build.case(), records=(record,), pinned_us=pin, pinned_date="2026-01-31")
    return replace(found, **changes)


def _refused(baseline: Baseline, *lines: Line) -> str:
    with pytest.raises(DisagreementError) as refused:
        check(baseline, lines)
    return str(refused.value)


def test_the_times_of_a_session_are_those_of_its_line() -> None:
    check(_baseline(*TIMES), [line()])
    # Nothing is known of a session that the history does not have.
    check(_baseline(1000.0, pinned_us=1000.0), [line(moment=LATER)])
    said = _refused(_baseline(112.5, 115.0, 113.75, pinned_us=113.75), line())
    assert said.startswith(
        "float32 4K: the session of 2026-01-31T03:00:00Z has 112.5, 115, 113.75 us here, "
        "11.25, 11.5, 11.375 us in the history: one of the two files was changed since; "
    )


@pytest.mark.parametrize(
    ("stored", "kept", "said"),
    [
        ((), TIMES, "has no time here, 11.25, 11.5, 11.375 us in the history"),
        (TIMES, (), "has 11.25, 11.5, 11.375 us here, no time in the history"),
        (TIMES[:2], TIMES, "has 11.25, 11.5 us here"),
        ((*TIMES[:2], 11.376), TIMES, "11.376 us here"),
    ],
)
def test_out_of_memory_in_one_of_them_and_a_lost_launch_are_contradictions(
    stored: tuple[float, ...], kept: tuple[float, ...], said: str
) -> None:
    assert said in _refused(_baseline(*stored), line(times_us=kept))
    check(_baseline(), [line(times_us=())])


def test_lines_of_others_of_the_same_moment_contradict_nothing() -> None:
    other = build.case(payload_bytes=8192)
    check(_baseline(*TIMES), [line(case=other, times_us=(1.0,))])
    check(_baseline(*TIMES), [line(is_reference=True, times_us=(1.0,))])
    # Two hosts began in the same second, and one of them was accepted.
    check(_baseline(*TIMES), [line(host="b", times_us=(1.0,)), line()])


def test_the_pinned_time_is_the_level_of_the_sessions_up_to_its_date() -> None:
    later = Record(moment=LATER, times_us=(12.5,))
    stored = _baseline(*TIMES)
    check(replace(stored, records=(*stored.records, later)), [])
    both = replace(stored, records=(*stored.records, later), pinned_date=later.date)
    check(replace(both, pinned_us=11.9375), [])
    assert "pinned_us is 11.375 on 2026-02-01, but" in _refused(both)
    assert "pinned_us is 22.75 on 2026-01-31, but" in _refused(replace(stored, pinned_us=22.75))
    # The sessions of an older pinned time, and of one in a full baseline, may have been dropped.
    check(replace(stored, pinned_us=22.75, pinned_date="2026-01-30"), [])
    check(replace(stored, pinned_us=22.75, records=stored.records * MOST_SESSIONS), [])


def test_a_session_in_the_future_is_named_with_the_machine_s_time() -> None:
    later = line(moment=LATER)
    check_date(later.case, later, datetime(2026, 1, 31, 12, tzinfo=UTC))
    with pytest.raises(DisagreementError, match=f"^float32 4K: the session of {LATER} is in the f"):
        check_date(later.case, later, datetime(2026, 1, 31, 2, tzinfo=UTC))
