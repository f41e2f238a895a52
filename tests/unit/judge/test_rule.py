"""The rule against stored times: regressions, noise, limits and thresholds of devices."""

from __future__ import annotations

import math
import statistics

import pytest

from busbw.judge.decision import decide_speed_change
from busbw.judge.policy import POLICIES
from busbw.judge.series import CaseTimes, LogTimeSummary
from busbw.model.words import Clock, DeviceClass
from tests.unit.judge.simulated_sessions import (
    Device,
    cases,
    decide_all,
    levels,
    retimed,
    session,
)

TPU = POLICIES[DeviceClass.TPU]
CPU = POLICIES[DeviceClass.CPU]


def test_the_summary_of_launches_is_computed_from_the_logarithms_of_their_times() -> None:
    launches = LogTimeSummary.summarize([2e-3, 1e-3, 4e-3])
    logs = [math.log(time_s) for time_s in (1e-3, 2e-3, 4e-3)]
    assert launches.log_median == logs[1] and launches.log_fastest == logs[0]
    assert launches.sum_of_squares / launches.degrees_of_freedom == pytest.approx(
        statistics.variance(logs)
    )


@pytest.mark.parametrize(
    ("launches", "count", "first", "fresh"),
    [
        (3, None, 3, False),
        (6, None, 3, True),
        (4, None, 1, True),
        (5, 5, 5, False),
        (8, 5, 5, True),
    ],
)
def test_launches_are_split_into_first_launches_and_three_confirming_launches(
    launches: int, count: int | None, first: int, fresh: bool
) -> None:
    times = CaseTimes.split([1e-3 + index * 1e-6 for index in range(launches)], TPU.rule, count)
    assert (
        times.first_launches.degrees_of_freedom + 1,
        times.confirming_log_median is not None,
    ) == (
        first,
        fresh,
    )


@pytest.mark.parametrize("seed", range(5))
def test_exactly_the_payloads_that_a_loss_of_bandwidth_slows_regress(seed: int) -> None:
    device = Device(seed)
    slow = {case: 1.1 for case in device.cases if case.payload_bytes >= 1 << 20}
    today = device.session(4, slow, launches=6)
    decisions = decide_all(levels(device.sessions(4), TPU), today, TPU)
    assert {case for case, decision in decisions.items() if decision.direction == 1} == slow.keys()


@pytest.mark.parametrize("seed", range(5))
def test_no_payload_regresses_in_any_session_after_half_of_the_payloads_became_faster(
    seed: int,
) -> None:
    device = Device(seed)
    fast = {case: 0.9 for case in device.cases[10:]}
    sessions = device.sessions(6)
    for day in range(6, 12):
        today = device.session(day, fast, launches=6)
        decisions = decide_all(levels(sessions, TPU), today, TPU)
        assert fast.keys() <= {
            case for case, decision in decisions.items() if decision.direction == -1
        }
        assert not any(decision.direction == 1 for decision in decisions.values())
        assert not levels(sessions, TPU).assess_session(today.times_s, TPU).slower_frameworks
        sessions.append(retimed(today, today.times_s, has_change=True))


def test_a_case_regresses_only_if_first_and_confirming_and_fastest_launches_are_slower() -> None:
    """Judge a case as noisy if its first and its confirming launches, but not all, are slower."""
    device = Device(seed=1)
    earlier, slow = levels(device.sessions(4), TPU), device.cases[3]
    today = device.session(4, launches=6)
    usual = today.times_s[slow]
    for launches, *expected in (
        ([1.1] * 6, 1, False),
        ([1.1] * 3 + [1.0] * 3, 0, False),
        ([1.1] * 5 + [1.0], 0, True),
        ([1.0] * 3 + [1.1] * 3, 0, False),
    ):
        times_s = tuple(time_s * factor for time_s, factor in zip(usual, launches))
        decision = decide_all(earlier, retimed(today, {**today.times_s, slow: times_s}), TPU)[slow]
        assert [decision.direction, decision.is_noisy] == expected


@pytest.mark.parametrize("fresh", [1, 2])
def test_a_case_with_too_few_confirming_launches_is_undecided(fresh: int) -> None:
    """Give all cases as many launches as the case that needs the fewest."""
    device = Device(seed=1)
    slow = device.cases[3]
    today = device.session(4, {slow: 1.1}, launches=3 + fresh)
    limit = levels(device.sessions(4), TPU).assess_session(today.times_s, TPU).limits[slow]
    times = CaseTimes.split(today.times_s[slow], TPU.rule, 3)
    decision = decide_speed_change(times, limit, TPU.rule, limit.slower_above_log_ratio)
    assert (decision.direction, decision.confirming_log_ratio) == (None, None)


def test_a_limit_that_the_user_sets_replaces_the_computed_limit() -> None:
    device = Device(seed=1)
    earlier, slow = levels(device.sessions(4), TPU), device.cases[3]
    today = device.session(4, {slow: 1.3}, launches=6)
    assert (
        decide_all(earlier, today, TPU, slower_above_log_ratio=math.log(1.25))[slow].direction == 1
    )
    assert (
        decide_all(earlier, today, TPU, slower_above_log_ratio=math.log(1.35))[slow].direction == 0
    )
    assert (
        decide_all(
            earlier, device.session(5, launches=6), TPU, slower_above_log_ratio=math.log(1.0001)
        )[slow].slower_above_log_ratio
        < 0.01
    )


def test_noise_raises_the_noise_ratio_of_a_session_and_a_loss_of_large_payloads_does_not() -> None:
    calm, noisy = Device(seed=1), Device(seed=2, residual=0.025)
    earlier = levels(calm.sessions(5), TPU)
    assert earlier.assess_session(noisy.session(5).times_s, TPU).noise_ratio > 2
    stepped = calm.session(5, {case: 1.2 for case in calm.cases[9:]})
    assert earlier.assess_session(stepped.times_s, TPU).noise_ratio == 1


def test_the_part_of_a_loss_that_all_cases_share_is_not_part_of_the_residual_of_a_case() -> None:
    device = Device(seed=1)
    slow, *others = device.cases
    today = device.session(5, {slow: 1.08, **dict.fromkeys(others, 1.02)})
    limits = levels(device.sessions(5), TPU).assess_session(today.times_s, TPU).limits
    assert math.exp(limits[slow].residual) == pytest.approx(1.08 / 1.02, abs=0.01)
    assert math.exp(limits[others[0]].residual) == pytest.approx(1.0, abs=0.01)


def test_the_error_of_small_payloads_is_larger_if_their_earlier_sessions_were_noisier() -> None:
    small, large = (
        Device(seed=1, residual=0.02, launch=0.02),
        Device(seed=2, residual=0.002, launch=0.002),
    )
    sessions = []
    for day in range(6):
        noisy, quiet = small.session(day), large.session(day)
        times_s = {
            case: (noisy if number < 10 else quiet).times_s[case]
            for number, case in enumerate(small.cases)
        }
        sessions.append(retimed(noisy, times_s))
    limits = levels(sessions, TPU).assess_session(sessions[-1].times_s, TPU).limits
    first, last = limits[small.cases[0]], limits[small.cases[-1]]
    assert first.residual_stddev > 3 * last.residual_stddev


def test_the_limits_of_a_session_with_three_payloads_shrink_with_more_earlier_sessions() -> None:
    few = cases(3)
    limits = [
        max(
            limit.slower_above_log_ratio
            for limit in levels(device.sessions(count), CPU)
            .assess_session(device.session(count).times_s, CPU)
            .limits.values()
        )
        for device in [Device(seed=3, measured=few, residual=0.02, launch=0.02)]
        for count in (1, 4)
    ]
    assert limits[0] > limits[1] and limits[1] < math.log(1.5)


def test_a_slower_payload_regresses_on_a_cpu_only_if_its_neighbours_are_not_slower() -> None:
    device = Device(seed=4, residual=0.02)
    earlier = levels(device.sessions(1), CPU)
    hit = {case: 1.8 for case in device.cases[4:12]}
    decisions = decide_all(earlier, device.session(1, hit, launches=6), CPU)
    assert all(
        decision.direction == 0
        for case, decision in decisions.items()
        if case in device.cases[5:11]
    )
    alone = decide_all(earlier, device.session(1, {device.cases[7]: 1.8}, launches=6), CPU)
    assert [case for case, decision in alone.items() if decision.direction] == [device.cases[7]]
    everything = earlier.assess_session(
        device.session(1, 3.0, launches=6).times_s, CPU, planned_launch_count=3
    )
    assert everything.slower_frameworks == {"jax"}


def test_the_limit_of_a_case_is_2_percent_even_if_earlier_sessions_have_no_noise() -> None:
    """Judge sessions of a scripted device, which has no noise."""
    same = [session(day, {case: [1e-3 + day * 1e-9] * 3 for case in cases()}) for day in range(12)]
    judged = levels(same, TPU).assess_session({case: [1e-3 * 1.019] for case in cases()}, TPU)
    assert {
        round(math.exp(limit.slower_above_log_ratio), 3) for limit in judged.limits.values()
    } == {1.02}
    assert judged.noise_ratio == 1


@pytest.mark.parametrize("device", DeviceClass)
def test_the_thresholds_of_each_device_are_consistent_with_each_other(device: DeviceClass) -> None:
    policy = POLICIES[device]
    rule, looks = policy.rule, policy.looks
    assert 0 < rule.min_case_loss < rule.max_useful_limit
    # The limit after a single accepted session can be useful.
    factor = rule.case_sigmas + rule.case_sigmas_over_sessions
    assert math.sqrt(2) * factor * rule.prior_stddev < math.log1p(rule.max_useful_limit)
    # Except on a CPU, which also does other work, the least loss of all cases is below the budget.
    assert device is DeviceClass.CPU or rule.min_session_loss < policy.budget
    # Fewer than 1 percent of the sessions that compare a stack with itself have a false alarm.
    assert 0 < looks.session_false_alarm_rate < 0.01
    # Each decision needs more launches than the previous decision.
    assert sorted(set(looks.pair_counts)) == list(looks.pair_counts)
    assert looks.pair_counts[0] > 2
    assert looks.confirming_pair_count > 0 and rule.confirming_launch_count > 0
    # A case seems slower from a fraction of its limit on.
    assert 0 < rule.suspicion_limit_share <= rule.fastest_launch_limit_share <= 1
    assert 0 < looks.min_loss < looks.detectable_loss < policy.budget < 1
    # A verdict that is based on two sessions is provisional.
    assert policy.provisional_below_sessions > 2


@pytest.mark.parametrize("device", DeviceClass)
def test_only_the_clocks_of_the_host_have_a_resolution_above_0(device: DeviceClass) -> None:
    policy = POLICIES[device]
    for clock in (Clock.HOST, Clock.DISPATCH):
        assert policy.least_visible_difference_s(clock) == policy.host_clock_resolution_s > 0
    assert policy.least_visible_difference_s(Clock.DEVICE) == 0
