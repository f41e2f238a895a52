"""Levels from baselines and history, lasting losses, and repaired losses."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import (
    EarlierSessions,
    LastingLoss,
    StoredTimes,
    collect_earlier_sessions,
    ended_losses_text,
    find_lasting_losses,
    lasting_losses_text,
    unusual_accepted_sessions_text,
)
from busbw.judge.policy import POLICIES
from busbw.judge.series import ExpectedTime, SeriesLoss
from busbw.model.case import Case
from busbw.model.stored import Baseline, StoredSession
from busbw.model.words import DeviceClass
from tests.helpers import build
from tests.unit.judge.rules import POLICY, record, records
from tests.unit.judge.simulated_sessions import (
    FIRST,
    Device,
    accepted,
    cases,
    levels,
    session,
)

CASE = build.case()


def _earlier(day: float, *times_s: float, **changes: Any) -> StoredSession:
    return session(day, {CASE: times_s}, **changes)


def _levels(*baselines: Baseline, history: list[StoredSession], **fields: Any) -> Any:
    """Return the levels, typed so that a test needs no check for None."""
    return collect_earlier_sessions(
        [StoredTimes(baselines=baselines, history=history, **fields)], POLICY
    )


def _expected(earlier: EarlierSessions, case: Case = CASE) -> ExpectedTime:
    """Return the expected time of a case that takes a millisecond today."""
    return earlier.assess_session({case: (1e-3,)}, POLICY).limits[case].expected_time


def _level_s(earlier: EarlierSessions, case: Case = CASE) -> float:
    return math.exp(_expected(earlier, case).log_level)


def _sessions(earlier: EarlierSessions, case: Case = CASE) -> int:
    return _expected(earlier, case).session_count


def _times(earlier: EarlierSessions) -> list[tuple[float, ...]]:
    return [session.times_s[CASE] for session in earlier.sessions]


def test_the_level_is_computed_from_sessions_of_the_baseline_and_later_of_the_history() -> None:
    stored = build.pooled(record(2, 1e-3), record(6, 1.06e-3))
    history = [_earlier(8, 1.08e-3), _earlier(2, 1.04e-3), _earlier(-1, 9e-3)]
    earlier = _levels(stored, history=history)
    assert _times(earlier) == [(1e-3,), (1.04e-3,), (1.06e-3,), (1.08e-3,)]
    expected = math.exp(sum(map(math.log, (1e-3, 1.04e-3, 1.06e-3, 1.08e-3))) / 4)
    assert _level_s(earlier) == pytest.approx(expected)
    assert _sessions(earlier) == 4


def test_the_level_of_a_case_includes_only_sessions_since_its_time_was_accepted() -> None:
    other = build.case(payload_bytes=8192)
    early = build.pooled(record(2, 1e-3))
    late = build.pooled(record(5, 2e-3), payload_bytes=8192)
    both = [session(day, {CASE: (1e-3 + day * 1e-6,), other: (5e-3,)}) for day in (1, 2)]
    earlier = _levels(early, late, history=both)
    assert _level_s(earlier, other) == pytest.approx(2e-3)
    assert _sessions(earlier, CASE) == 3
    assert _sessions(earlier, other) == 1


def test_a_session_that_is_in_both_the_baseline_and_the_history_counts_once() -> None:
    stored = build.pooled(record(2, 1e-3, 1.1e-3), record(4, 2e-3))
    history = [_earlier(0, 1e-3, 1.1e-3), _earlier(1, 1e-3), _earlier(2, 2e-3)]
    assert _times(_levels(stored, history=history)) == [(1e-3, 1.1e-3), (1e-3,), (2e-3,)]


@pytest.mark.parametrize(("minutes", "count"), [(0, 1), (59, 1), (60, 2), (90, 2)])
def test_a_session_within_an_hour_after_the_accepted_session_does_not_change_the_level(
    minutes: int, count: int
) -> None:
    earlier = _levels(build.pooled(record(2, 1e-3)), history=[_earlier(minutes / 24 / 60, 1.01e-3)])
    assert _sessions(earlier, CASE) == count
    if count == 1:
        assert _times(earlier) == [(1e-3,)]


def test_unaccepted_sessions_within_an_hour_of_each_other_count_as_one_session() -> None:
    stored = build.pooled(record(2, 1e-3))
    earlier = _levels(stored, history=[_earlier(day, 1.01e-3) for day in (1, 1.04, 1.05)])
    assert _times(earlier) == [(1e-3,), (1.01e-3, 1.01e-3), (1.01e-3,)]


def test_different_times_of_sessions_within_an_hour_do_not_widen_the_limit() -> None:
    """Otherwise losses that were accepted one after the other would count as noise."""
    times_s = [1e-3 * 1.02**n for n in range(20)]
    stored = build.pooled(*(build.session(t, t, date="2026-01-02") for t in times_s))
    earlier = _levels(stored, history=[])
    assert len(earlier.sessions) == 1
    limit = earlier.assess_session({CASE: (1e-3,)}, POLICY).limits[CASE]
    assert limit.slower_above_log_ratio == pytest.approx(math.log1p(POLICY.rule.min_case_loss))


def test_all_baselines_that_one_session_stored_count_as_one_session() -> None:
    device = Device(seed=1)
    earlier = levels(device.sessions(1), POLICY)
    assert len(earlier.sessions) == 1
    assert earlier.sessions[0].times_s.keys() == set(device.cases)
    assert earlier.cases == set(device.cases)


def test_a_stored_session_keeps_its_versions_and_flags() -> None:
    earlier = _levels(build.pooled(record(2, 1e-3, surroundings={"XLA_FLAGS": "--a"})), history=[])
    ((stored,),) = earlier.sessions[0].records.values()
    assert stored.setup == {**build.VERSIONS, "XLA_FLAGS": "--a"}


def test_sessions_with_a_regressed_case_do_not_change_the_level_of_the_case() -> None:
    device, other = Device(seed=2), Device(seed=2)
    slow = device.cases[3]
    sessions = other.sessions(6) + [other.session(day, {slow: 1.5}, launches=6) for day in (6, 7)]
    before = _expected(levels(device.sessions(6), POLICY), slow)
    after = _expected(levels(sessions, POLICY), slow)
    assert after.log_level == pytest.approx(before.log_level, abs=2e-3)
    assert after.session_count == before.session_count == 6


def test_sessions_in_which_all_cases_are_slower_do_not_change_the_expected_times() -> None:
    device, other = Device(seed=2), Device(seed=2)
    slow = other.sessions(6) + [other.session(day, 1.5, launches=6) for day in (6, 7, 8)]
    today = device.session(9, 1.5).times_s
    ours, theirs = (
        levels(sessions, POLICY).assess_session(today, POLICY)
        for sessions in (slow, Device(seed=2).sessions(6))
    )
    assert ours.slower_frameworks == theirs.slower_frameworks == {"jax"}
    ours_shared, theirs_shared = (judged.shared_parts["jax"] for judged in (ours, theirs))
    assert ours_shared.shift_log_ratio == pytest.approx(math.log(1.5), abs=0.01)
    assert ours_shared.max_shift_log_ratio == pytest.approx(
        theirs_shared.max_shift_log_ratio, rel=0.1
    )


def test_times_that_rise_slowly_over_sessions_raise_a_level_by_at_most_a_fixed_margin() -> None:
    stored = build.pooled(record(2, 1e-3))
    crept = [_earlier(day, 1e-3 * 1.002**day) for day in range(1, 60)]
    first = sum(1.002**day for day in range(10)) / 10
    most = math.log(1e-3 * first) + POLICY.rule.anchor_margin
    assert _expected(_levels(stored, history=crept)).log_level == pytest.approx(most, abs=1e-4)


def test_a_faster_session_changes_the_level_of_a_case_only_after_its_time_is_accepted() -> None:
    earlier = _levels(build.pooled(record(2, 1e-3)), history=[_earlier(1, 0.5e-3)])
    assert _level_s(earlier) == pytest.approx(1e-3)


def test_sessions_before_an_acknowledged_change_do_not_count_for_the_level() -> None:
    stored = build.pooled(*records(1e-3, 1e-3))
    history = [_earlier(day, 1.08e-3) for day in (3, 4)]
    since = {CASE: FIRST + timedelta(days=3)}
    earlier = _levels(stored, history=history, acknowledged_changes=since)
    assert _times(earlier) == [(1.08e-3,), (1.08e-3,)]
    assert _level_s(earlier) == pytest.approx(1.08e-3)
    assert _level_s(_levels(stored, history=history)) < 1.05e-3


def test_sessions_before_an_acknowledged_change_count_only_until_there_is_a_later_session() -> None:
    stored = build.pooled(*records(1e-3, 1.02e-3))
    earlier = _levels(stored, history=[], acknowledged_changes={CASE: FIRST + timedelta(days=3)})
    assert _times(earlier) == [(1e-3,), (1.02e-3,)]


def test_an_acknowledged_change_of_a_case_does_not_affect_the_sessions_of_other_cases() -> None:
    first, other = cases(2)
    sessions = [
        session(day, {first: (1e-3 + day * 1e-6,), other: (2e-3 + day * 1e-6,)}) for day in range(4)
    ]
    earlier = levels(sessions, POLICY, acknowledged_changes={first: FIRST + timedelta(days=2)})
    assert _sessions(earlier, first) == 2
    assert _sessions(earlier, other) == 4


def test_a_case_without_a_baseline_has_no_level_even_if_it_has_a_history() -> None:
    new = build.case(payload_bytes=8192)
    history = [session(1, {CASE: (1e-3,), new: (1e-3,)})]
    earlier = _levels(build.pooled(record(2, 1e-3)), history=history)
    assert earlier.assess_session({CASE: (1e-3,), new: (1e-3,)}, POLICY).limits.keys() == {CASE}


def test_the_shared_change_of_all_cases_is_computed_separately_for_each_framework() -> None:
    ours, theirs = Device(seed=3), Device(seed=4, measured=cases(framework="tensorflow"))
    stored = [
        StoredTimes(baselines=accepted(ours.session(0)), history=ours.sessions(5, first=1)),
        StoredTimes(
            baselines=accepted(theirs.session(0)), history=theirs.sessions(5, first=1, slower=1.1)
        ),
    ]
    earlier: Any = collect_earlier_sessions(stored, POLICY)
    assert len(earlier.sessions) == 6
    today = {**ours.session(6).times_s, **theirs.session(6, 1.1).times_s}
    shared = earlier.assess_session(today, TPU).shared_parts
    assert shared["jax"].shift_log_ratio == pytest.approx(0.0, abs=0.01)
    assert shared["tensorflow"].expected_log_ratio + shared["tensorflow"].shift_log_ratio > 0.05


TPU = POLICIES[DeviceClass.TPU]
STACK = {"jaxlib": "0.10.1", "XLA_FLAGS": "--a"}
NEWER = {"jaxlib": "0.10.2", "XLA_FLAGS": "--a"}


def _judged(sessions: list[StoredSession]) -> tuple[EarlierSessions, StoredSession, Assessment]:
    earlier, today = levels(sessions[:-1], TPU), sessions[-1]
    return earlier, today, earlier.assess_session(today.times_s, TPU, planned_launch_count=3)


def _losses(sessions: list[StoredSession]) -> tuple[LastingLoss, ...]:
    """Return the losses that the last of `sessions` shows; the first session was accepted."""
    earlier, today, judged = _judged(sessions)
    return find_lasting_losses(earlier.sessions, today, judged)


def _stepped(
    device: Device,
    factor: float,
    *,
    begin: int = 10,
    count: int = 14,
    number: int | None = None,
) -> list[StoredSession]:
    """Return sessions with another jaxlib and one or all cases slower from `begin` on."""
    slower = factor if number is None else {device.cases[number]: factor}
    return [
        device.session(
            day,
            slower if day >= begin else 1.0,
            surroundings=NEWER if day >= begin else STACK,
            launches=6,
        )
        for day in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("number", "factor"), [(4, 1.05), (None, 1.04)])
def test_a_lasting_loss_is_found_with_its_size_and_first_session_and_changed_version(
    seed: int, number: int | None, factor: float
) -> None:
    device = Device(seed)
    loss = _losses(_stepped(device, factor, number=number))[0]
    assert loss.subject == ("jax" if number is None else device.cases[number])
    assert loss.series_loss.mean_loss == pytest.approx(math.log(factor), abs=0.012)
    assert (loss.began, loss.series_loss.loss_session_count) == (FIRST + timedelta(days=10), 4)
    assert loss.stack_changes == ("jaxlib 0.10.1 -> 0.10.2",)
    assert f"over the last 4 sessions, since {loss.began:%Y-%m-%d}" in loss.text


def test_a_loss_of_all_cases_from_the_second_session_on_is_found_in_every_later_session() -> None:
    device = Device(seed=3)
    sessions = [device.session(day, 1.05 if day else 1.0, launches=6) for day in range(12)]
    for count in range(2, 13):
        assert _judged(sessions[:count])[2].slower_frameworks == {"jax"}


def test_a_repaired_loss_is_named_only_in_the_first_session_after_the_repair() -> None:
    device = Device(seed=1)
    slow = device.cases[4]
    lost = [device.session(day, {slow: 1.2} if day >= 6 else 1.0, launches=6) for day in range(12)]
    judged = _judged([*lost, device.session(12)])[2]
    assert (
        judged.latest_losses[slow].ended_loss_session_count == 6
        and not judged.latest_losses[slow].loss
    )
    name = slow.name
    assert ended_losses_text(judged) == f"repaired: back at the level after 6 sessions: {name}"
    assert ended_losses_text(_judged(lost)[2]) == ""


def test_a_loss_that_comes_and_goes_is_found_only_in_the_slow_sessions() -> None:
    device = Device(seed=2)
    slow, sessions = device.cases[7], device.sessions(5)
    for day in range(5, 17):
        lost = day % 3 == 0
        sessions.append(
            device.session(day, {slow: 1.1} if lost else 1.0, launches=6 if lost else 3)
        )
        assert (_judged(sessions)[2].latest_losses[slow].loss > 0) is lost


def test_a_loss_that_grows_by_half_a_percent_in_each_session_is_found() -> None:
    device = Device(seed=1)
    ramp = [device.session(day, {device.cases[7]: 1.005**day}, launches=6) for day in range(20)]
    assert [loss.subject for loss in _losses(ramp)] == [device.cases[7]]


def test_a_slow_rise_of_the_times_of_all_cases_is_found_as_a_gradual_loss() -> None:
    device = Device(seed=1)
    ramp = [device.session(day, 1.0015**day) for day in range(32)]
    losses = [loss for count in range(12, 33) for loss in _losses(ramp[:count])]
    assert {loss.subject for loss in losses} == {"jax"}
    assert losses[0].series_loss.is_gradual


@pytest.mark.parametrize("seed", range(5))
def test_unchanged_simulated_sessions_have_no_lasting_loss(seed: int) -> None:
    assert _losses(Device(seed).sessions(6 + 4 * seed)) == ()


@pytest.mark.parametrize(("factor", "word"), [(1.05, "slower"), (0.95, "faster")])
def test_an_accepted_session_that_differs_from_all_later_sessions_is_named(
    factor: float, word: str
) -> None:
    device = Device(seed=2)
    _, _, judged = _judged([device.session(0, factor), *device.sessions(3, first=1)])
    text = unusual_accepted_sessions_text(judged)
    assert text.startswith("the accepted session was ") and f"% {word} than the 3 since" in text
    assert "in all cases of jax; accept again with --update-baselines" in text
    _, _, judged = _judged(device.sessions(4))
    assert unusual_accepted_sessions_text(judged) == ""


@pytest.mark.parametrize(("slow_day", "is_named"), [(2, False), (3, True)])
def test_an_accepted_session_is_named_only_if_the_first_two_later_sessions_differ_from_it(
    slow_day: int, is_named: bool
) -> None:
    device = Device(seed=2)
    days = [device.session(day, 1.2 if day in (0, slow_day) else 1.0) for day in range(10)]
    assert bool(unusual_accepted_sessions_text(_judged(days)[2])) is is_named


def test_a_case_that_the_current_session_did_not_measure_has_no_lasting_loss() -> None:
    device = Device(seed=1)
    sessions = _stepped(device, 1.1, number=4, begin=8)
    without = {c: t for c, t in sessions[-1].times_s.items() if c != device.cases[4]}
    assert _losses([*sessions, session(14, without)]) == ()


LOSS = LastingLoss(
    subject=CASE,
    series_loss=SeriesLoss(mean_loss=math.log(1.034), loss_session_count=5),
    began=FIRST,
    stack_changes=("a 1 -> 2",),
)


def test_the_text_of_a_lasting_loss_has_its_size_and_sessions_and_the_changed_versions() -> None:
    assert lasting_losses_text([LOSS]) == (
        "jax.all_reduce.psum.float32.4K is 3.4 % slower than expected over the last 5 sessions, "
        "since 2026-01-02; changed there: a 1 -> 2"
    )
    assert lasting_losses_text([replace(LOSS, subject="jax", stack_changes=())]) == (
        "all cases of jax are 3.4 % slower than expected over the last 5 sessions, "
        "since 2026-01-02; changed there: nothing that is known"
    )


def test_the_text_of_lasting_losses_names_three_losses_and_counts_the_other_losses() -> None:
    assert lasting_losses_text([]) == ""
    assert lasting_losses_text([LOSS] * 3).count("slower than expected") == 3
    assert lasting_losses_text([LOSS] * 5).endswith("a 1 -> 2; and 2 cases more")
