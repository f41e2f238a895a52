"""A level that rose over the sessions since it was accepted: found, with the night it began."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from busbw.judge.levels import Drift, drift_text, drifts
from busbw.judge.policy import POLICIES, Policy
from busbw.model.stored import EarlierSession
from busbw.model.words import Device as Class
from tests import build

from .nightly import FIRST, Device, called, levels, session

POLICY = POLICIES[Class.TPU]
STACK = {"jaxlib": "0.10.1", "XLA_FLAGS": "--a"}
NEWER = {"jaxlib": "0.10.2", "XLA_FLAGS": "--a"}


def _drifts(sessions: list[EarlierSession]) -> tuple[Drift, ...]:
    """What is found on the last of `sessions`, the first of which was accepted."""
    return _found(sessions, POLICY)


def _found(sessions: list[EarlierSession], policy: Policy) -> tuple[Drift, ...]:
    known, today = levels(sessions[:-1], policy), sessions[-1]
    return drifts(known.sessions, today, known.tonight(today.times_s, policy))


def _stepped(
    device: Device, factor: float, *, begin: int = 10, count: int = 20, number: int | None = None
) -> list[EarlierSession]:
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
    sessions[:4] = [replace(one, surroundings={"jaxlib": "0.9"}) for one in sessions[:4]]
    sessions[15:] = [replace(one, surroundings={"jaxlib": "0.11"}) for one in sessions[15:]]
    (found,) = _drifts(sessions)
    assert found.changes == ("jaxlib 0.10.1 -> 0.10.2",)


def test_no_single_night_needs_to_show_it() -> None:
    """A loss below the floor of the policy, which no session flags."""
    device = Device(seed=1, own=0.002)
    lost = device.cases[2]
    sessions = _stepped(device, 1.018, number=2)
    assert [one.case for one in _drifts(sessions)] == [lost]
    for at in range(10, 20):
        found = called(levels(sessions[:at], POLICY), sessions[at], POLICY)
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
    lower, higher = (replace(POLICY, rule=replace(POLICY.rule, rise=one)) for one in (0.02, 0.06))
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
