"""Today's launches against earlier sessions: the limit, the confirmation, what is ruled out."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw import judge
from busbw.judge import Policy, SharedShift, shared_shift
from busbw.judge.stored import Compared, compare
from busbw.model import Device as Class
from busbw.model import Outcome
from busbw.stats import CaseLevel, Variance, t_quantile
from tests import build

from .nightly import Device, cases, compared, levels
from .rules import POLICY

TPU = judge.POLICIES[Class.TPU]
LEVEL = CaseLevel(
    level=math.log(1e-3), sessions=10, own=Variance(value=0.01**2, freedom=20), segments=()
)
# Too few cases to tell what they share, which hardly differs from one session to the next.
ALONE = SharedShift(
    log_ratio=None, known=0.0, usual=Variance(value=1e-3**2, freedom=20), sessions=10
)
TOGETHER = replace(ALONE, log_ratio=0.0, known=1e-3**2)


def _compared(
    *times_ms: float,
    level: CaseLevel = LEVEL,
    shift: SharedShift = TOGETHER,
    policy: Policy = POLICY,
    cases: int = 1,
    least_s: float = 0.0,
) -> Compared:
    times_s = [time_ms * 1e-3 for time_ms in times_ms]
    return compare(
        level, times_s, shift, policy, case=build.case(), cases=cases, launches=3, least_s=least_s
    )


def _own(deviation: float, sessions: int = 10, freedom: float = 20) -> CaseLevel:
    own = Variance(value=deviation**2, freedom=freedom)
    return replace(LEVEL, own=own, sessions=sessions)


def test_launches_beyond_the_limit_are_a_suspicion_that_wants_three_more() -> None:
    found = _compared(1.3, 1.5, 1.4)
    assert (found.outcome, found.wanted, found.suspected) == (None, 6, True)
    assert math.exp(found.log_ratio) == pytest.approx(1.4)
    assert math.exp(found.limit) == pytest.approx(1.2)


def test_seen_again_it_has_regressed_and_nothing_more_is_wanted() -> None:
    found = _compared(*(1.4,) * 6)
    assert (found.outcome, found.wanted) == (Outcome.REGRESSED, None)
    assert math.exp(found.fresh or 0.0) == pytest.approx(1.4)


def test_not_seen_again_it_has_not_regressed_although_all_launches_are_beyond_the_limit() -> None:
    found = _compared(1.6, 1.6, 1.6, 1.3, 1.12, 1.12)
    assert found.log_ratio > found.limit
    assert found.suspected and found.outcome not in (None, Outcome.REGRESSED)


def test_seen_again_but_all_launches_within_the_limit_it_has_not_regressed() -> None:
    found = _compared(1.19, 1.19, 1.19, 1.19, 1.19, 1.19)
    assert found.suspected and found.log_ratio < found.limit
    assert found.outcome not in (None, Outcome.REGRESSED)


def test_what_comes_near_the_limit_is_measured_again() -> None:
    """Two thirds of the way, in log time: 1.2 ** 0.67 is 1.13."""
    assert _compared(1.125).outcome is Outcome.PASS
    assert _compared(1.135).wanted == 6


def test_fresh_launches_must_come_as_near_themselves() -> None:
    assert _compared(1.5, 1.5, 1.5, 1.125, 1.125, 1.5).outcome is not Outcome.REGRESSED
    assert _compared(1.5, 1.5, 1.5, 1.135, 1.135, 1.5).outcome is Outcome.REGRESSED


def test_what_was_measured_again_beside_a_suspect_can_regress_and_was_not_suspected() -> None:
    found = _compared(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert (found.outcome, found.suspected, found.wanted) == (Outcome.PASS, False, None)
    found = _compared(1.05, 1.05, 1.5, 1.5, 1.5, 1.5)
    assert (found.outcome, found.suspected) == (Outcome.REGRESSED, False)


def test_the_limit_is_the_noise_of_one_session_more_by_the_t_distribution() -> None:
    found = _compared(1.0, level=_own(0.1), shift=ALONE)
    variance = 0.1**2 * 1.1 + 1e-3**2 * 1.1
    assert found.error == pytest.approx(math.sqrt(variance))
    assert POLICY.false_alarms_of_cases == 0.004
    # scipy.stats.t.isf(0.004, 20)
    assert found.limit == pytest.approx(2.94521 * found.error, rel=1e-3)


def test_with_what_all_share_known_each_case_is_tested_twice_at_half_the_rate() -> None:
    found = _compared(1.0, level=_own(0.1))
    assert found.error == pytest.approx(math.sqrt(0.1**2 * 1.1 + 1e-3**2))
    assert found.limit == pytest.approx(t_quantile(0.002, 20) * found.error, rel=1e-3)


def test_more_sessions_make_the_limit_narrower_and_more_cases_wider() -> None:
    limits = [
        _compared(1.0, level=_own(0.1, sessions), cases=count).limit
        for sessions, count in ((20, 1), (2, 1), (2, 42))
    ]
    assert limits[0] < limits[1] < limits[2]


def test_launches_of_one_session_do_not_make_the_limit_narrower() -> None:
    assert _compared(*(1.0,) * 3).limit == _compared(*(1.0,) * 9).limit


def test_too_few_cases_add_the_shared_part_s_variance() -> None:
    moody = Variance(value=0.1**2, freedom=20)
    alone, together = replace(ALONE, usual=moody), replace(TOGETHER, usual=moody)
    assert _compared(1.0, shift=alone).error == pytest.approx(
        math.sqrt(1.1 * 0.01**2 + 1.1 * 0.1**2)
    )
    assert _compared(1.0, shift=together).error == pytest.approx(math.sqrt(1.1 * 0.01**2 + 1e-3**2))
    assert _compared(1.0, shift=alone).limit > 1.5 * _compared(1.0, shift=together).limit
    assert _compared(1.0, shift=alone).shared is None


def test_what_all_cases_share_is_no_loss_of_one_of_them() -> None:
    shared = replace(TOGETHER, log_ratio=math.log(1.4), usual=Variance(value=0.3**2, freedom=20))
    assert _compared(1.4, shift=shared).outcome is Outcome.PASS
    found = _compared(*(1.4 * 1.25,) * 6, shift=shared)
    assert found.outcome is Outcome.REGRESSED
    assert found.limit == pytest.approx(math.log(1.4) + math.log(1.2))


def test_a_case_beyond_what_sessions_differ_by_has_regressed_though_all_others_did_too() -> None:
    """Nothing in the sessions makes 1.4 plausible as the machine's state."""
    shared = replace(TOGETHER, log_ratio=math.log(1.4))
    assert _compared(*(1.4,) * 6, shift=shared).outcome is Outcome.REGRESSED


def test_a_case_that_is_as_it_was_has_not_regressed_because_all_others_are_faster() -> None:
    faster = replace(TOGETHER, log_ratio=math.log(0.7))
    found = _compared(1.0, shift=faster)
    assert found.outcome is not None and found.outcome is not Outcome.REGRESSED
    assert found.limit == pytest.approx(math.log(1.2))


def test_where_others_are_faster_a_loss_relative_to_them_is_seen_from_the_floor_on() -> None:
    level, moody = _own(0.1), Variance(value=0.2**2, freedom=20)
    usual = _compared(1.0, level=level, shift=replace(TOGETHER, usual=moody))
    faster = replace(TOGETHER, log_ratio=math.log(0.9), usual=moody)
    found = _compared(1.0, level=level, shift=faster)
    assert found.limit == pytest.approx(usual.limit + math.log(0.9))
    assert found.limit > math.log(1.2)


def test_cases_that_differ_more_among_each_other_than_usual_widen_the_limit() -> None:
    loud = replace(TOGETHER, excess=0.1**2)
    assert _compared(1.0, shift=loud).limit > 1.5 * _compared(1.0).limit


def test_a_difference_that_no_clock_resolves_is_no_regression() -> None:
    tiny = replace(LEVEL, level=math.log(1e-6))
    least = {"level": tiny, "least_s": 1e-6}
    assert _compared(*(1.9e-3,) * 6, **least).outcome is not Outcome.REGRESSED  # type: ignore[arg-type]
    assert _compared(*(2.1e-3,) * 6, **least).outcome is Outcome.REGRESSED  # type: ignore[arg-type]
    assert _compared(*(1.9e-3,) * 6, level=tiny).outcome is Outcome.REGRESSED


def test_faster_beyond_the_noise_has_improved_whatever_the_floor() -> None:
    assert _compared(0.95).outcome is Outcome.IMPROVED
    assert _compared(0.98).outcome is Outcome.PASS


def test_with_all_others_as_much_faster_a_case_has_not_improved_by_itself() -> None:
    assert _compared(0.9, shift=replace(TOGETHER, log_ratio=math.log(0.9))).outcome is Outcome.PASS


def test_slower_than_before_it_has_not_improved_though_all_others_are_slower_still() -> None:
    shared = replace(TOGETHER, log_ratio=math.log(1.3), usual=Variance(value=0.3**2, freedom=20))
    assert _compared(1.05, shift=shared).outcome is Outcome.PASS


def test_it_passes_only_where_the_loss_worth_seeing_is_ruled_out() -> None:
    """1.3 is; with an error of 16 % the limit of a tenth is at 1.3 / exp(1.325 * 0.168)."""
    loud = _own(0.16)
    highest = math.log(1.3) - t_quantile(0.1, 20) * _compared(1.0, level=loud).error
    assert highest > 0
    assert _compared(math.exp(highest - 1e-3), level=loud).outcome is Outcome.PASS
    assert _compared(math.exp(highest + 1e-3), level=loud).outcome is Outcome.NOISY


def test_before_there_are_enough_sessions_it_is_a_larger_loss() -> None:
    enough, few = (_compared(1.0, level=_own(0.2, sessions=count)) for count in (3, 2))
    assert (enough.outcome, enough.worth) == (Outcome.NOISY, 0.3)
    assert (few.outcome, few.worth) == (Outcome.PASS, 0.5)


def test_what_would_have_been_flagged_is_above_the_limit_by_what_chance_may_hide() -> None:
    found = _compared(1.0, level=_own(0.1))
    hidden = t_quantile(POLICY.detected, 20) * found.error
    assert found.detectable == pytest.approx(found.limit + hidden, rel=1e-3)
    shared = replace(TOGETHER, log_ratio=0.1, usual=Variance(value=1.0, freedom=20))
    moved = _compared(1.0, level=_own(0.1), shift=shared)
    assert moved.limit == pytest.approx(found.limit + 0.1, rel=1e-3)
    assert moved.detectable == pytest.approx(found.detectable, rel=1e-3)


@given(
    st.floats(min_value=0.01, max_value=100),
    st.floats(min_value=1.0, max_value=10),
    st.floats(min_value=-1, max_value=1),
)
def test_a_slower_measurement_never_has_a_better_outcome(
    first: float, times: float, shared: float
) -> None:
    order = [Outcome.IMPROVED, Outcome.PASS, Outcome.NOISY, Outcome.REGRESSED]
    shift = replace(TOGETHER, log_ratio=shared)
    before = _compared(*(first,) * 6, shift=shift).outcome
    after = _compared(*(first * times,) * 6, shift=shift).outcome
    assert before is not None and after is not None
    assert order.index(before) <= order.index(after)


@given(
    st.lists(st.floats(min_value=0.5, max_value=2), min_size=6, max_size=9),
    st.floats(min_value=-1, max_value=1),
)
def test_what_has_regressed_is_beyond_the_limit_which_is_never_below_the_floor(
    times_ms: list[float], shared: float
) -> None:
    found = _compared(*times_ms, shift=replace(TOGETHER, log_ratio=shared))
    assert found.limit >= math.log(1.2)
    assert found.outcome is not Outcome.REGRESSED or found.log_ratio > found.limit


@pytest.mark.parametrize(("count", "known"), [(5, False), (6, True)])
def test_six_cases_tell_what_all_share(count: int, known: bool) -> None:
    device = Device(seed=1, measured=cases(count))
    found = levels(device.nights(5), POLICY)
    shift = shared_shift(device.night(5, 1.1).times_s, found, POLICY)
    assert (shift.log_ratio is not None) is known
    if shift.log_ratio is not None:
        assert shift.log_ratio == pytest.approx(math.log(1.1), abs=0.01)
        assert shift.known > 0


def test_what_all_share_is_a_median_that_a_few_slow_cases_do_not_move() -> None:
    device = Device(seed=1)
    found = levels(device.nights(5), TPU)
    slow = dict.fromkeys(device.cases[:5], 3.0)
    shift = shared_shift(device.night(5, slow).times_s, found, TPU)
    assert shift.log_ratio == pytest.approx(0.0, abs=0.01)
    assert shift.excess == 0.0


def test_the_shift_of_a_session_has_the_levels_that_are_not_above_the_highest() -> None:
    device = Device(seed=1, measured=cases(7))
    crept = [device.night(at, 1.0 if at == 0 else 2.0) for at in range(8)]
    found = levels(crept, POLICY)
    shift = shared_shift(device.night(8, 2.0).times_s, found, POLICY)
    assert shift.log_ratio == pytest.approx(math.log(2 / (1 + POLICY.budget)), abs=0.02)


def test_cases_without_a_level_say_nothing_of_what_all_share() -> None:
    device = Device(seed=1, measured=cases(6))
    found = levels(device.nights(5), POLICY)
    today = dict(device.night(5).times_s)
    today[build.case(payload_bytes=3)] = today.pop(device.cases[0])
    assert shared_shift(today, found, POLICY).log_ratio is None


def test_other_work_that_some_cases_feel_is_told_from_what_sessions_differ_by() -> None:
    device, loud = Device(seed=1), Device(seed=2, own=0.05)
    found = levels(device.nights(8), TPU)
    calm = [shared_shift(one.times_s, found, TPU).excess for one in device.nights(20)]
    assert calm == [0.0] * 20
    excess = [shared_shift(one.times_s, found, TPU).excess for one in loud.nights(20)]
    assert math.sqrt(statistics.median(excess)) == pytest.approx(0.05, rel=0.2)


SLOWER = 1.05


@pytest.mark.parametrize(("count", "least"), [(3, 12), (5, 17)])
def test_a_quiet_device_sees_five_per_cent_after_a_few_nights(count: int, least: int) -> None:
    seen = 0
    for seed in range(20):
        device = Device(seed)
        slow = device.cases[seed % len(device.cases)]
        known = levels(device.nights(count), TPU)
        found = compared(known, device.night(count, {slow: SLOWER}, launches=6), TPU)
        seen += found[slow].outcome is Outcome.REGRESSED
        assert {case for case, one in found.items() if one.outcome is Outcome.REGRESSED} <= {slow}
    assert seen >= least


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
def test_unchanged_nights_of_a_quiet_device_regress_never_and_pass_with_a_few(count: int) -> None:
    for seed in range(20):
        device = Device(seed)
        known = levels(device.nights(count), TPU)
        found = compared(known, device.night(count, launches=6), TPU)
        outcomes = [one.outcome for one in found.values()]
        assert Outcome.REGRESSED not in outcomes
        if count >= 3:
            assert outcomes.count(Outcome.NOISY) <= 1


def test_a_loss_of_what_would_have_been_flagged_is_flagged() -> None:
    flagged = 0
    for seed in range(40):
        device = Device(seed)
        slow = device.cases[seed % len(device.cases)]
        known = levels(device.nights(8), TPU)
        detectable = compared(known, device.night(8), TPU)[slow].detectable
        assert 1.02 < math.exp(detectable) < 1.06
        today = device.night(9, {slow: math.exp(detectable)}, launches=6)
        flagged += compared(known, today, TPU)[slow].outcome is Outcome.REGRESSED
    assert flagged >= 35


def test_a_night_in_which_the_whole_device_is_slower_accuses_no_single_case_beyond_its_own() -> (
    None
):
    device = Device(seed=1)
    known = levels(device.nights(8), TPU)
    found = compared(known, device.night(8, 1.012, launches=6), TPU)
    assert Outcome.REGRESSED not in [one.outcome for one in found.values()]
