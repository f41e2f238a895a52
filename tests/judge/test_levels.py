"""Which sessions count, what levels they make, and which rose; and what a machine is told by it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from busbw.judge import usual
from busbw.judge.levels import (
    Drift,
    Known,
    Levels,
    all_answers,
    drift_text,
    drifts,
    levels_of,
    machine_answer,
)
from busbw.judge.policy import POLICIES, Policy
from busbw.model.case import Case
from busbw.model.stored import Baseline, Session
from busbw.model.verdict import Answer
from busbw.model.words import Device as Class
from busbw.model.words import Outcome
from tests import build

from .nightly import FIRST, Device, accepted, called, cases, levels, on_stack, session
from .rules import POLICY, night, nights

CASE = build.case()


def _earlier(at: float, *times_s: float, **changes: Any) -> Session:
    return session(at, {CASE: times_s}, **changes)


def _levels(*baselines: Baseline, history: list[Session], **known: Any) -> Levels:
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
    limit = found.tonight({CASE: (1e-3,)}, POLICY).limits[CASE]
    assert limit.launch == pytest.approx(0.0, abs=2e-3)


def test_sessions_are_not_joined_to_one_without_end() -> None:
    """Every half hour: what begins an hour after the first of a group begins another."""
    stored = build.pooled(night(2, 1e-3))
    found = _levels(stored, history=[_earlier(half / 48, 1e-3 + half) for half in range(1, 6)])
    assert [len(one) for one in _times(found)] == [2, 2, 2]


def test_one_that_was_joined_is_left_out_where_any_of_them_regressed() -> None:
    stored = build.pooled(*nights(1e-3, 1e-3, 1e-3))
    slow = _earlier(3, 5e-3, regressed=frozenset({CASE}))
    found = _levels(stored, history=[slow, _earlier(3.01, 5e-3)])
    assert found.sessions[-1].called(Outcome.REGRESSED) == {CASE}
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
    ((record,),) = found.sessions[0].records.values()
    assert record.lasting == {**build.VERSIONS, "XLA_FLAGS": "--a"}


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


def test_the_fastest_launch_is_held_against_the_pinned_level_too() -> None:
    stored = build.pooled(night(2, 1e-3))
    found = _usual(_levels(stored, history=[_earlier(at, 1.3e-3) for at in range(1, 15)]))
    assert math.exp(found.level) == pytest.approx(1e-3 * (1 + POLICY.budget))
    # Sessions of one launch.
    assert found.fastest == pytest.approx(found.level)


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


TPU = POLICIES[Class.TPU]
STACK = {"jaxlib": "0.10.1", "XLA_FLAGS": "--a"}
NEWER = {"jaxlib": "0.10.2", "XLA_FLAGS": "--a"}


def _drifts(sessions: list[Session]) -> tuple[Drift, ...]:
    """What is found on the last of `sessions`, the first of which was accepted."""
    return _found(sessions, TPU)


def _found(sessions: list[Session], policy: Policy) -> tuple[Drift, ...]:
    known, today = levels(sessions[:-1], policy), sessions[-1]
    return drifts(known.sessions, today, known.tonight(today.times_s, policy))


def _stepped(
    device: Device, factor: float, *, begin: int = 10, count: int = 20, number: int | None = None
) -> list[Session]:
    """From the session `begin` on another jaxlib, and a case or all slower by `factor`."""
    slower = factor if number is None else {device.cases[number]: factor}
    return [
        device.night(
            at, slower if at >= begin else 1.0, surroundings=NEWER if at >= begin else STACK
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_step_in_one_case_is_found_with_its_night_and_what_changed_then(seed: int) -> None:
    device = Device(seed)
    (found,) = _drifts(_stepped(device, 1.05, number=4))
    assert found.case == device.cases[4]
    assert found.log_ratio == pytest.approx(math.log(1.05), abs=0.01)
    assert (found.began, found.sessions) == (FIRST + timedelta(days=10), 10)
    assert found.changes == ("jaxlib 0.10.1 -> 0.10.2",)


@pytest.mark.parametrize("seed", range(5))
def test_a_step_in_all_cases_is_what_they_share_and_accuses_no_single_one(seed: int) -> None:
    (found,) = _drifts(_stepped(Device(seed), 1.03))
    assert found.case is None
    assert found.log_ratio == pytest.approx(math.log(1.03), abs=0.008)
    assert found.began == FIRST + timedelta(days=10)
    assert found.changes == ("jaxlib 0.10.1 -> 0.10.2",)


def test_what_changed_on_another_night_is_not_what_changed_there() -> None:
    device = Device(seed=1)
    sessions = _stepped(device, 1.05)
    sessions[:4] = [on_stack(one, {"jaxlib": "0.9"}) for one in sessions[:4]]
    sessions[15:] = [on_stack(one, {"jaxlib": "0.11"}) for one in sessions[15:]]
    (found,) = _drifts(sessions)
    assert found.changes == ("jaxlib 0.10.1 -> 0.10.2",)


def test_no_single_night_needs_to_show_it() -> None:
    """A loss below the floor of the policy, which no session flags."""
    device = Device(seed=1, own=0.002)
    lost = device.cases[2]
    sessions = _stepped(device, 1.018, number=2)
    assert [one.case for one in _drifts(sessions)] == [lost]
    for at in range(10, 20):
        found = called(levels(sessions[:at], TPU), sessions[at], TPU)
        assert found[lost].called != 1


@pytest.mark.parametrize("seed", range(3))
def test_losses_of_half_a_per_cent_a_night_add_up_to_a_drift(seed: int) -> None:
    device = Device(seed)
    ramp = [device.night(at, {device.cases[7]: 1.005**at}) for at in range(20)]
    found = {one.case: one for one in _drifts(ramp)}
    assert set(found) == {device.cases[7]}
    assert found[device.cases[7]].log_ratio > math.log(1.03)


@pytest.mark.parametrize("seed", range(30))
def test_unchanged_sessions_have_no_drift(seed: int) -> None:
    assert _drifts(Device(seed).nights(4 + 2 * (seed % 10))) == ()


@pytest.mark.parametrize("number", [None, 4])
def test_what_became_faster_has_not_drifted(number: int | None) -> None:
    assert _drifts(_stepped(Device(seed=1), 0.9, number=number)) == ()


def test_a_step_that_went_again_has_not_drifted() -> None:
    device = Device(seed=1)
    slow = [device.night(at, 1.05 if 8 <= at < 16 else 1.0) for at in range(24)]
    assert _drifts(slow) == ()
    assert _drifts(slow[:16])


def test_steps_one_after_the_other_are_a_rise_since_the_first_session() -> None:
    device = Device(seed=1)
    factors = [*[1.0] * 10, *[1.05] * 10, *[1.1] * 10]
    (found,) = _drifts([device.night(at, factor) for at, factor in enumerate(factors)])
    assert (found.began, found.sessions) == (FIRST + timedelta(days=1), 29)
    assert found.log_ratio == pytest.approx(math.log(1.1), abs=0.03)


def test_a_step_below_the_drift_of_the_policy_is_none() -> None:
    sessions = _stepped(Device(seed=1, own=0.001, shared=0.0005), 1.03)
    lower, higher = (replace(TPU, rule=replace(TPU.rule, rise=one)) for one in (0.02, 0.06))
    assert _found(sessions, lower)
    assert _found(sessions, higher) == ()


def test_the_slowest_case_comes_first_and_what_all_share_before_it() -> None:
    device = Device(seed=1)
    slower = {device.cases[0]: 1.05, device.cases[1]: 1.1}
    sessions = [device.night(at, slower if at >= 10 else 1.0) for at in range(20)]
    assert [one.case for one in _drifts(sessions)] == [device.cases[1], device.cases[0]]
    both = [
        device.night(at, {c: 1.05 * slower.get(c, 1.0) for c in device.cases} if at >= 10 else 1.0)
        for at in range(20)
    ]
    assert [one.case for one in _drifts(both)] == [None, device.cases[1], device.cases[0]]


def test_today_counts_and_a_case_that_was_not_measured_today_is_not_said() -> None:
    device = Device(seed=1)
    sessions = _stepped(device, 1.05, number=4, begin=8, count=14)
    assert [one.sessions for one in _drifts(sessions)] == [6]
    # A rise needs more than five sessions.
    assert _drifts(sessions[5:10]) == ()
    without = {c: t for c, t in sessions[-1].times_s.items() if c != device.cases[4]}
    assert _drifts([*sessions, session(13, without)]) == ()


def _drift(**changes: object) -> Drift:
    ordinary = Drift(
        framework="jax",
        case=build.case(),
        log_ratio=math.log(1.034),
        began=FIRST,
        sessions=5,
        changes=("a 1 -> 2",),
    )
    return replace(ordinary, **changes)  # type: ignore[arg-type]


def test_the_words_have_the_loss_the_night_and_what_changed_there() -> None:
    assert _drift().text == (
        "jax.all_reduce.psum.float32.4K is 3.4 % slower than accepted since 2026-01-02, "
        "5 sessions ago; what changed there: a 1 -> 2"
    )
    assert _drift(case=None, changes=()).text == (
        "all cases of jax are 3.4 % slower than accepted since 2026-01-02, "
        "5 sessions ago; what changed there: nothing that is known"
    )


def test_a_night_that_is_back_is_told_as_such_and_has_not_drifted() -> None:
    device = Device(seed=1)
    sessions = [device.night(at, 1.002**at if at < 39 else 1.0) for at in range(40)]
    (shared,) = _drifts(sessions)
    assert shared.is_over and not _drifts(sessions[:-1])[0].is_over
    back = "all cases of jax are back, after being 3.4 % slower since 2026-01-02"
    assert _drift(case=None, is_over=True).text == back


def test_three_are_named_and_the_others_counted() -> None:
    assert drift_text([]) == ""
    assert drift_text([_drift()]) == _drift().text
    assert drift_text([_drift()] * 3).count("slower than accepted") == 3
    text = drift_text([_drift()] * 5)
    assert text.count("slower than accepted") == 3
    assert text.endswith("; and 2 cases more")


def _answer(nights: list[Session] | None, today: Session) -> Answer:
    return machine_answer("jax", nights, today, TPU)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_as_fast_as_before_is_not_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6))
    assert found.is_slower is False
    assert found.text.startswith("the reference takes ")
    assert " x the time of its 6 earlier nights, limit 1.0" in found.text


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_slows_every_case_of_the_reference_is_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6, 1.06))
    assert found.is_slower
    assert found.text.startswith("the reference takes 1.0")


def test_a_machine_that_got_faster_is_told_and_not_slower() -> None:
    device = Device(1)
    found = _answer(device.nights(6), device.night(6, 0.8))
    assert found.is_slower is False
    assert found.text.startswith("the reference takes 0.")


def test_a_level_that_rose_over_the_nights_is_told_with_its_night() -> None:
    device = Device(2)
    slow = {device.cases[4]: 1.05}
    nights = [device.night(at, slow if at >= 10 else 1.0) for at in range(20)]
    found = _answer(nights[:-1], nights[-1])
    assert found.is_slower
    since = f"{FIRST + timedelta(days=10):%Y-%m-%d}"
    assert f"{device.cases[4].name} is " in found.text
    assert f"slower than at first since {since}" in found.text


def test_without_an_earlier_night_nothing_is_told() -> None:
    found = _answer([], Device(1).night(0))
    text = "unknown, this reference has no earlier night here (jax)"
    assert found == Answer(text=text, is_slower=None)


def test_without_a_history_nothing_is_told_and_why() -> None:
    found = _answer(None, Device(1).night(0))
    assert found == Answer(text="unknown without --history (jax)", is_slower=None)


def test_a_few_cases_share_nothing_that_could_be_told() -> None:
    device = Device(1, measured=cases(3))
    found = _answer(device.nights(6), device.night(6, 1.5))
    assert found.text.startswith("unknown from fewer than 6 cases")
    assert found.is_slower is None


@pytest.mark.parametrize(
    ("told", "whole"),
    [
        ([False, False], False),
        ([False, True], True),
        ([None, True], True),
        ([None, False], None),
        ([None], None),
    ],
)
def test_the_answer_of_all_frameworks_is_no_only_if_each_says_no(
    told: list[bool | None], whole: bool | None
) -> None:
    answers = [Answer(text=str(one), is_slower=one) for one in told]
    found = all_answers(answers)
    assert found == Answer(text="; ".join(map(str, told)), is_slower=whole)


def test_without_a_reference_there_is_no_answer() -> None:
    assert all_answers([]) is None
