"""Today's launches against stored sessions: the limit, its noise, the anchor, the confirmation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.judge.policy import Policy
from busbw.judge.stored import Compared, SessionLaunches, compare, launches_of, now_of
from busbw.model import MIB, Outcome
from tests import build

from .rules import POLICY

STEADY = [SessionLaunches(times_s=(1e-3, 1e-3, 1e-3))] * 3
CORRECTED = replace(POLICY, anchor_weight=1.0)


def _compared(
    *times_s: float,
    sessions: list[SessionLaunches] = STEADY,
    policy: Policy = POLICY,
    anchors_s: tuple[float, ...] = (),
    payload_bytes: int = 4096,
    cases: int = 1,
) -> Compared:
    return compare(
        sessions,
        SessionLaunches(times_s=times_s, anchors_s=anchors_s),
        policy,
        payload_bytes=payload_bytes,
        cases=cases,
        launches=3,
    )


def _sessions(*levels_s: float) -> list[SessionLaunches]:
    return [SessionLaunches(times_s=(level_s,)) for level_s in levels_s]


def test_three_launches_beyond_the_limit_are_a_suspicion_that_wants_three_more() -> None:
    found = _compared(1.3e-3, 1.5e-3, 1.4e-3)
    assert (found.outcome, found.wanted) == (None, 6)
    assert math.exp(found.log_ratio) == pytest.approx(1.4)
    assert math.exp(found.limit) == pytest.approx(1.2)


def test_seen_again_it_has_regressed_and_nothing_more_is_wanted() -> None:
    found = _compared(*(1.4e-3,) * 6)
    assert (found.outcome, found.wanted) == (Outcome.REGRESSED, None)


def test_not_seen_again_it_passes_although_all_launches_together_are_beyond_the_limit() -> None:
    found = _compared(1.6e-3, 1.6e-3, 1.6e-3, 1.6e-3, 1.19e-3, 1.2e-3)
    assert found.log_ratio > found.limit
    assert Outcome.PASS is found.outcome
    found = _compared(1.6e-3, 1.6e-3, 1.6e-3, 1.21e-3, 1.21e-3, 1.19e-3)
    assert Outcome.PASS is found.outcome


def test_one_launch_within_the_limit_is_no_suspicion() -> None:
    found = _compared(1.15e-3, 1.3e-3, 1.25e-3)
    assert (found.outcome, found.wanted) == (Outcome.PASS, None)


def test_launches_that_lie_further_apart_than_the_baseline_s_widen_the_limit() -> None:
    even, apart = _compared(1.2e-3, 1.2e-3, 1.2e-3), _compared(1.0e-3, 1.2e-3, 1.4e-3)
    assert (even.noise or 0.0) < (apart.noise or 0.0)
    few = _compared(1.1e-3, 1.5e-3, 1.4e-3)
    assert (few.outcome, few.wanted, few.suspected) == (None, 6, False)
    assert Outcome.NOISY is _compared(*[0.8e-3, 2e-3] * 3).outcome


def test_a_time_is_within_the_limit_up_to_the_limit_itself() -> None:
    assert Outcome.PASS is _compared(1.1999e-3).outcome
    assert _compared(1.2001e-3).wanted == 6


def test_a_median_faster_within_the_limit_is_as_before() -> None:
    assert Outcome.PASS is _compared(0.84e-3).outcome
    assert Outcome.IMPROVED is _compared(0.83e-3).outcome


@pytest.mark.parametrize(
    ("levels_s", "limit"),
    [
        ((1e-3,) * 3, 1.2),
        ((0.9e-3, 0.95e-3, 1e-3, 1.05e-3, 1.1e-3), 1.22061),
        ((0.6e-3, 0.8e-3, 1e-3, 1.2e-3, 1.4e-3), 1.4),
    ],
)
def test_the_limit_is_the_noise_between_sessions_between_floor_and_ceiling(
    levels_s: tuple[float, ...], limit: float
) -> None:
    found = _compared(1e-3, sessions=_sessions(*levels_s))
    assert math.exp(found.limit) == pytest.approx(limit, rel=1e-3)
    assert not found.provisional


def test_the_noise_is_student_s_bound_on_one_session_more() -> None:
    spread = 1.4826 * math.log(1.1)
    found = _compared(1e-3, sessions=_sessions(0.9e-3, 1e-3, 1.1e-3))
    variance = (4 * 0.01**2 + 2 * spread**2) / 6
    error = math.sqrt(variance * 4 / 3)
    assert found.error == pytest.approx(error)
    # scipy.stats.t.isf(0.005, 6)
    assert found.noise == pytest.approx(3.707428021 * error, rel=1e-5)


def test_more_sessions_and_fewer_cases_make_the_noise_smaller() -> None:
    levels_s = (0.99e-3, 1e-3, 1.01e-3)
    few, many = _sessions(*levels_s), _sessions(*levels_s * 3)
    noise = [
        _compared(1e-3, sessions=sessions, cases=cases).noise or 0.0
        for sessions, cases in ((many, 1), (few, 1), (few, 20))
    ]
    assert 0 < noise[0] < noise[1] < noise[2]


def test_a_session_counts_once_however_many_launches_it_had() -> None:
    lopsided = [SessionLaunches(times_s=(2e-3,) * 50), *_sessions(1e-3, 1e-3, 1e-3)]
    even = _sessions(2e-3, 1e-3, 1e-3, 1e-3)
    assert _compared(1e-3, sessions=lopsided) == _compared(1e-3, sessions=even)


@pytest.mark.parametrize("number", [1, 2])
def test_with_few_sessions_the_ceiling_holds_for_the_best_launch_provisionally(number: int) -> None:
    sessions = STEADY[:number]
    found = _compared(1.39e-3, 1.9e-3, 1.9e-3, sessions=sessions)
    assert (found.outcome, found.provisional, found.noise) == (Outcome.PASS, True, None)
    assert math.exp(found.limit) == pytest.approx(1.4)
    assert _compared(1.41e-3, 1.9e-3, 1.9e-3, sessions=sessions).wanted == 6


def test_where_sessions_differ_beyond_the_ceiling_it_is_noisy_unless_it_is_slower_still() -> None:
    wild = _sessions(0.5e-3, 1e-3, 2e-3)
    assert Outcome.NOISY is _compared(1e-3, sessions=wild).outcome
    assert Outcome.NOISY is _compared(0.1e-3, sessions=wild).outcome
    assert Outcome.REGRESSED is _compared(*(9e-3,) * 6, sessions=wild).outcome


def test_a_larger_payload_has_the_limit_of_its_tier() -> None:
    assert Outcome.PASS is _compared(1.15e-3).outcome
    assert _compared(1.15e-3, payload_bytes=2 * MIB).wanted == 6


def test_a_difference_that_no_clock_resolves_is_no_regression() -> None:
    tiny = _sessions(1e-6, 1e-6, 1e-6)
    assert Outcome.PASS is _compared(1.99e-6, sessions=tiny).outcome
    assert _compared(2.01e-6, sessions=tiny).wanted == 6


def test_corrected_by_the_anchor_the_machine_s_mood_falls_out() -> None:
    before = [SessionLaunches(times_s=(1e-3,), anchors_s=(1e-4,))] * 3
    moody = _compared(2e-3, sessions=before, anchors_s=(2e-4,), policy=CORRECTED)
    assert (moody.outcome, moody.anchored) == (Outcome.PASS, True)
    hidden = _compared(1e-3, sessions=before, anchors_s=(0.5e-4,), policy=CORRECTED)
    assert hidden.wanted == 6
    absolute = _compared(2e-3, sessions=before, anchors_s=(2e-4,))
    assert (absolute.wanted, absolute.anchored) == (6, False)


def test_where_one_session_has_no_anchor_all_are_compared_without() -> None:
    before = [*STEADY, SessionLaunches(times_s=(1e-3,), anchors_s=(1e-4,))]
    found = _compared(1e-3, sessions=before, anchors_s=(5e-4,), policy=CORRECTED)
    assert (found.outcome, found.anchored) == (Outcome.PASS, False)
    assert not _compared(1e-3, sessions=before[3:] * 3, policy=CORRECTED).anchored


def test_the_sessions_and_the_launches_are_those_of_the_baseline_and_the_runs() -> None:
    baseline = build.pooled(build.session(1e-3, 2e-3, anchors_s=(1e-4, 2e-4)), build.session(3e-3))
    assert launches_of(baseline) == [
        SessionLaunches(times_s=(1e-3, 2e-3), anchors_s=(1e-4, 2e-4)),
        SessionLaunches(times_s=(3e-3,)),
    ]
    runs = (build.run(1e-3, anchors_s=(3.0, 1.0, 2.0)), build.run(2e-3, anchors_s=(4.0,)))
    assert now_of(runs) == SessionLaunches(times_s=(1e-3, 2e-3), anchors_s=(2.0, 4.0))
    assert now_of((*runs, build.run(1e-3))).anchors_s == ()


@given(st.floats(min_value=0.01, max_value=100), st.floats(min_value=1.0, max_value=10))
def test_a_slower_measurement_never_has_a_better_outcome(first: float, times: float) -> None:
    order = [Outcome.IMPROVED, Outcome.PASS, Outcome.REGRESSED]
    before = _compared(*(first * 1e-3,) * 6).outcome
    after = _compared(*(first * times * 1e-3,) * 6).outcome
    assert before is not None and after is not None
    assert order.index(before) <= order.index(after)
