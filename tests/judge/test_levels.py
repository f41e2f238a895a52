"""Which earlier sessions count, and what levels they make."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from busbw.judge import usual
from busbw.judge.levels import Known, Levels, levels_of
from busbw.model.case import Case
from busbw.model.stored import Baseline, EarlierSession
from tests import build

from .nightly import FIRST, Device, accepted, cases, levels, session
from .rules import POLICY, night, nights

CASE = build.case()


def _earlier(at: float, *times_s: float, **changes: Any) -> EarlierSession:
    one = session(0, {CASE: times_s}, **changes)
    return replace(one, began=FIRST + timedelta(days=at))


def _levels(*baselines: Baseline, history: list[EarlierSession], **known: Any) -> Levels:
    found = levels_of({"jax": Known(baselines=baselines, history=history, **known)}, POLICY)
    assert found is not None
    return found


def _usual(found: Levels, case: Case = CASE) -> usual.Usual:
    """What it is, where the case takes a millisecond today."""
    return found.tonight({case: (1e-3,)}, POLICY).limits[case].usual


def _level_s(found: Levels, case: Case = CASE) -> float:
    return math.exp(_usual(found, case).level)


def _sessions(found: Levels, case: Case = CASE) -> int:
    return len(_usual(found, case).own)


def _times(found: Levels) -> list[tuple[float, ...]]:
    return [one.times_s[CASE] for one in found.sessions]


def test_sessions_of_the_baseline_and_of_the_history_since_count_in_the_order_of_time() -> None:
    stored = build.pooled(night(2, 1e-3), night(6, 1.06e-3))
    history = [_earlier(8, 1.08e-3), _earlier(2, 1.04e-3), _earlier(-1, 9e-3)]
    found = _levels(stored, history=history)
    assert _times(found) == [(1e-3,), (1.04e-3,), (1.06e-3,), (1.08e-3,)]
    expected = math.exp(sum(map(math.log, (1e-3, 1.04e-3, 1.06e-3, 1.08e-3))) / 4)
    assert _level_s(found) == pytest.approx(expected)
    assert _sessions(found) == 4


def test_each_case_counts_from_its_own_acceptance() -> None:
    other = build.case(payload_bytes=8192)
    early = build.pooled(night(2, 1e-3))
    late = build.pooled(night(5, 2e-3), payload_bytes=8192)
    both = [session(at, {CASE: (1e-3 + at * 1e-6,), other: (5e-3,)}) for at in (1, 2)]
    found = _levels(early, late, history=both)
    assert _level_s(found, other) == pytest.approx(2e-3)
    assert _sessions(found, CASE) == 3
    assert _sessions(found, other) == 1


def test_a_session_that_the_baseline_and_the_history_have_counts_once() -> None:
    stored = build.pooled(night(2, 1e-3, 1.1e-3), night(4, 2e-3))
    history = [_earlier(0, 1e-3, 1.1e-3), _earlier(1, 1e-3), _earlier(2, 2e-3)]
    found = _levels(stored, history=history)
    assert _times(found) == [(1e-3, 1.1e-3), (1e-3,), (2e-3,)]


@pytest.mark.parametrize(("minutes", "count"), [(0, 1), (59, 1), (60, 2), (90, 2)])
def test_sessions_minutes_apart_are_one(minutes: int, count: int) -> None:
    stored = build.pooled(night(2, 1e-3))
    found = _levels(stored, history=[_earlier(minutes / 24 / 60, 3e-3)])
    assert len(found.sessions) == count
    assert _sessions(found, CASE) == count
    if count == 1:
        assert _times(found) == [(1e-3, 3e-3)]


def test_launches_of_sessions_that_were_joined_differ_within_each_of_them() -> None:
    """Else losses that were accepted one after the other would be noise."""
    stored = build.pooled(night(2, 1e-3))
    history = [_earlier(at / 24 / 60, 1e-3 * 1.02**at, 1e-3 * 1.02**at) for at in range(1, 20)]
    found = _levels(stored, history=history)
    assert len(found.sessions) == 1
    assert found.tonight({CASE: (1e-3,)}, POLICY).launch == pytest.approx(0.0, abs=2e-3)


def test_sessions_are_not_joined_to_one_without_end() -> None:
    """Every half hour: what begins an hour after the first of a group begins another."""
    stored = build.pooled(night(2, 1e-3))
    found = _levels(stored, history=[_earlier(half / 48, 1e-3 + half) for half in range(1, 6)])
    assert [len(one) for one in _times(found)] == [2, 2, 2]


def test_one_that_was_joined_is_left_out_where_any_of_them_regressed() -> None:
    stored = build.pooled(*nights(1e-3, 1e-3, 1e-3))
    slow = _earlier(3, 5e-3, regressed=frozenset({CASE}))
    found = _levels(stored, history=[slow, _earlier(3.01, 5e-3)])
    assert found.sessions[-1].regressed == {CASE}
    assert _level_s(found) == pytest.approx(1e-3)


def test_sessions_of_a_baseline_that_began_at_one_moment_are_one() -> None:
    day = [build.session(1e-3, date="2026-01-02"), build.session(3e-3, 3e-3, date="2026-01-02")]
    stored = build.pooled(*day, build.session(1e-3, date="2026-01-03"))
    found = _levels(stored, history=[])
    assert _times(found) == [(1e-3, 3e-3, 3e-3), (1e-3,)]
    assert _sessions(found, CASE) == 2


def test_cases_that_one_session_stored_are_of_one_session() -> None:
    device = Device(seed=1)
    found = levels(device.nights(1), POLICY)
    assert len(found.sessions) == 1
    assert found.sessions[0].times_s.keys() == set(device.cases)
    assert found.highest.keys() == set(device.cases)


def test_a_stored_session_has_its_versions_and_flags_and_not_what_differs_every_night() -> None:
    surroundings = {"load": "0.10", "clock MHz": "2600", "XLA_FLAGS": "--a"}
    found = _levels(build.pooled(night(2, 1e-3, surroundings=surroundings)), history=[])
    assert found.sessions[0].surroundings == {**build.VERSIONS, "XLA_FLAGS": "--a"}


def test_what_regressed_and_stays_moves_no_level_and_widens_no_limit() -> None:
    device, other = Device(seed=2), Device(seed=2)
    slow = device.cases[3]
    calm = levels([*device.nights(6)], POLICY)
    nights = other.nights(6)
    nights += [other.night(at, {slow: 1.5}, regressed=frozenset({slow})) for at in (6, 7)]
    before, after = _usual(calm, slow), _usual(levels(nights, POLICY), slow)
    assert after.level == pytest.approx(before.level, abs=2e-3)
    assert len(after.own) == len(before.own) == 6


def test_a_night_in_which_everything_regressed_moves_nothing_that_cases_share() -> None:
    device, other = Device(seed=2), Device(seed=2)
    calm = levels(device.nights(6), POLICY)
    slow = other.nights(6)
    slow += [other.night(at, 1.5, regressed=frozenset(other.cases)) for at in (6, 7, 8)]
    today = device.night(9, 1.5).times_s
    ours, theirs = (
        one.tonight(today, POLICY).shared["jax"] for one in (levels(slow, POLICY), calm)
    )
    assert len(ours.before) == 6
    assert ours.off == pytest.approx(math.log(1.5), abs=0.01)
    assert ours.limit == pytest.approx(theirs.limit, rel=0.1)


def test_a_level_is_never_above_the_pinned_one_and_its_budget() -> None:
    stored = build.pooled(night(2, 1e-3))
    crept = [_earlier(at, 1e-3 * 1.02**at) for at in range(1, 15)]
    found = _levels(stored, history=crept)
    unpinned = replace(found, highest={CASE: math.inf})
    assert _level_s(unpinned) > 1.1e-3
    assert _level_s(found) == pytest.approx(1e-3 * (1 + POLICY.budget))


def test_a_level_below_that_is_as_it_is() -> None:
    found = _levels(build.pooled(night(2, 1e-3)), history=[_earlier(1, 0.5e-3)])
    assert _level_s(found) == pytest.approx(1e-3 * math.sqrt(0.5))


def test_what_was_before_an_acknowledged_change_does_not_count() -> None:
    stored = build.pooled(*nights(1e-3, 1e-3))
    history = [_earlier(at, 1.08e-3) for at in (3, 4)]
    since = {CASE: FIRST + timedelta(days=3)}
    found = _levels(stored, history=history, since=since)
    assert _times(found) == [(1.08e-3,), (1.08e-3,)]
    assert _level_s(found) == pytest.approx(1.08e-3)
    assert _level_s(_levels(stored, history=history)) < 1.05e-3


def test_before_anything_is_measured_after_the_change_what_was_counts_still() -> None:
    stored = build.pooled(*nights(1e-3, 1.02e-3))
    found = _levels(stored, history=[], since={CASE: FIRST + timedelta(days=3)})
    assert _times(found) == [(1e-3,), (1.02e-3,)]


def test_an_acknowledged_change_of_one_case_leaves_the_others() -> None:
    one, other = cases(2)
    sessions = [
        session(at, {one: (1e-3 + at * 1e-6,), other: (2e-3 + at * 1e-6,)}) for at in range(4)
    ]
    found = levels(sessions, POLICY, since={one: FIRST + timedelta(days=2)})
    assert _sessions(found, one) == 2
    assert _sessions(found, other) == 4


def test_a_case_without_a_baseline_has_no_level_whatever_the_history_says() -> None:
    new = build.case(payload_bytes=8192)
    history = [session(1, {CASE: (1e-3,), new: (1e-3,)})]
    found = _levels(build.pooled(night(2, 1e-3)), history=history)
    assert found.tonight({CASE: (1e-3,), new: (1e-3,)}, POLICY).limits.keys() == {CASE}


def test_out_of_memory_is_no_level() -> None:
    assert levels_of({"jax": Known(baselines=[build.baseline()])}, POLICY) is None
    found = _levels(build.pooled(night(2, 1e-3)), build.baseline(payload_bytes=8192), history=[])
    assert found.highest.keys() == {CASE}


def test_frameworks_share_sessions_and_have_shared_parts_of_their_own() -> None:
    ours, theirs = Device(seed=3), Device(seed=4, measured=cases(framework="tensorflow"))
    known = {
        "jax": Known(baselines=accepted(ours.night(0)), history=ours.nights(5, first=1)),
        "tensorflow": Known(
            baselines=accepted(theirs.night(0)), history=theirs.nights(5, first=1, slower=1.1)
        ),
    }
    found = levels_of(known, POLICY)
    assert found is not None and len(found.sessions) == 6
    today = {**ours.night(6).times_s, **theirs.night(6, 1.1).times_s}
    shared = found.tonight(today, POLICY).shared
    assert shared["jax"].before != shared["tensorflow"].before
    assert shared["jax"].off == pytest.approx(0.0, abs=0.01)
    assert 0.01 < shared["tensorflow"].off < math.log(1.1)
