"""Pool, level and pin: sessions join, losses add up to the budget and no further."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from busbw.baselines.document import Status
from busbw.baselines.timed import (
    MOST_SESSIONS,
    Accepted,
    Entry,
    Occasion,
    baseline_of,
    entry_of,
    joined,
    level_us,
    pinned_at_level,
)
from tests import build

BUDGET = 0.10


def session(*times_us: float, date: str = build.DATE, protocol: str = "host/chain2") -> Entry:
    """An entry of one session, without a pin."""
    times_s = tuple(time_us / 1e6 for time_us in times_us)
    measured = build.measurement(*times_s, protocol=protocol)
    one = Accepted(key=build.key(), measurement=measured, times_s=times_s)
    return entry_of(one, Occasion(at=f"{date}T03:00:00Z"))


def stored(*times_us: float) -> Entry:
    """An entry of one session, pinned at its level."""
    return pinned_at_level(session(*times_us))


def out_of_memory() -> Entry:
    measured = build.measurement(failures=(build.out_of_memory(),))
    one = Accepted(key=build.key(), measurement=measured, times_s=())
    return entry_of(one, Occasion(at=f"{build.DATE}T03:00:00Z"))


def test_a_session_keeps_when_it_began() -> None:
    measured = build.measurement(1e-3)
    one = Accepted(key=build.key(), measurement=measured, times_s=(1e-3,))
    entry = entry_of(one, Occasion(at="2026-01-02T03:04:05Z"))
    assert entry.sessions[0].at == "2026-01-02T03:04:05Z"
    (found,) = baseline_of(build.case(), entry).sessions
    assert found.began == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def test_a_first_entry_pins_its_own_level() -> None:
    step = joined(None, session(900, 1000, 1200), append=True, budget=BUDGET)
    assert not step.lost
    assert (step.entry.pinned_us, step.entry.pinned_date) == (1000, build.DATE)


def test_a_session_that_is_appended_stands_behind_the_others() -> None:
    step = joined(stored(1000), session(1020, 1040), append=True, budget=BUDGET)
    assert [found.times_us for found in step.entry.sessions] == [(1000,), (1020, 1040)]
    assert level_us(step.entry) == 1015
    assert step.entry.pinned_us == 1000


def test_a_session_that_is_not_appended_takes_the_place_of_all() -> None:
    old = joined(stored(1000), session(1020), append=True, budget=BUDGET).entry
    step = joined(old, session(1050), append=False, budget=BUDGET)
    assert [found.times_us for found in step.entry.sessions] == [(1050,)]
    assert step.entry.pinned_us == 1000


def test_a_session_counts_once_whatever_its_launches() -> None:
    old = joined(stored(1000), session(1100, 1100, 1100, 1100), append=True, budget=BUDGET).entry
    assert level_us(old) == 1050


def test_the_oldest_session_goes_when_there_are_too_many() -> None:
    entry = stored(1000)
    for turn in range(MOST_SESSIONS):
        entry = joined(entry, session(1001 + turn), append=True, budget=BUDGET).entry
    assert len(entry.sessions) == MOST_SESSIONS
    assert entry.sessions[0].times_us == (1001,)


def test_a_level_at_the_end_of_the_budget_is_written_and_one_beyond_is_lost() -> None:
    for time_us, lost in ((1100, False), (1101, True)):
        assert joined(stored(1000), session(time_us), append=False, budget=BUDGET).lost is lost


def test_what_is_lost_would_move_the_pin() -> None:
    step = joined(stored(1000), session(3000, date="2026-05-06"), append=False, budget=BUDGET)
    assert step.lost
    assert (step.entry.pinned_us, step.entry.pinned_date) == (3000, "2026-05-06")


def test_a_small_improvement_leaves_the_pin() -> None:
    step = joined(stored(1000), session(950), append=False, budget=BUDGET)
    assert step.entry.pinned_us == 1000


def test_an_improvement_beyond_the_budget_takes_the_pin_with_it_and_is_not_lost_unseen() -> None:
    step = joined(stored(1000), session(500), append=False, budget=BUDGET)
    assert (step.lost, step.entry.pinned_us) == (False, 500)
    assert joined(step.entry, session(900), append=False, budget=BUDGET).lost


def test_another_protocol_takes_the_place_and_pins_its_own_level() -> None:
    new = session(5000, protocol="device/chain9")
    step = joined(stored(1000), new, append=True, budget=BUDGET)
    assert (step.lost, step.entry.pinned_us) == (False, 5000)
    assert len(step.entry.sessions) == 1


def test_out_of_memory_where_a_time_stands_is_a_loss_and_elsewhere_none() -> None:
    assert joined(stored(1000), out_of_memory(), append=False, budget=BUDGET).lost
    assert not joined(None, out_of_memory(), append=False, budget=BUDGET).lost
    assert not joined(out_of_memory(), out_of_memory(), append=False, budget=BUDGET).lost


def test_what_fits_again_pins_its_own_level() -> None:
    step = joined(out_of_memory(), session(1000), append=False, budget=BUDGET)
    assert (step.lost, step.entry.status, step.entry.pinned_us) == (False, Status.OK, 1000)


@pytest.mark.parametrize("append", [True, False])
def test_twenty_steps_of_two_percent_are_stopped_by_the_budget(append: bool) -> None:
    entry = first = stored(1000)
    refused = []
    for turn in range(1, 21):
        step = joined(entry, session(1000 * 1.02**turn), append=append, budget=BUDGET)
        refused += [turn] if step.lost else []
        entry = entry if step.lost else step.entry
    assert refused and refused[-1] == 20
    level = level_us(entry)
    assert level is not None and level <= 1100
    assert entry.pinned_us == first.pinned_us


def test_a_pin_is_moved_by_nothing_else_than_the_level() -> None:
    entry = replace(stored(1000), pinned_us=980.0)
    assert joined(entry, session(1000), append=True, budget=BUDGET).entry.pinned_us == 980
