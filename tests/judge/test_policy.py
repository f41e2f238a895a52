"""The thresholds: the figures keep the order that the rules need."""

from __future__ import annotations

import math

import pytest

from busbw.judge import POLICIES
from busbw.model import Clock, Device
from busbw.stats import t_quantile

OWN_MACHINE = (Device.GPU, Device.TPU)


@pytest.mark.parametrize("device", Device)
def test_the_floor_is_below_the_loss_worth_seeing_which_is_never_below_what_is_early(
    device: Device,
) -> None:
    policy = POLICIES[device]
    assert 0 < policy.floor < policy.worth <= policy.worth_early
    assert policy.worth_after(policy.full_sessions) == policy.worth
    assert policy.worth_after(policy.full_sessions - 1) == policy.worth_early


@pytest.mark.parametrize("device", OWN_MACHINE)
def test_the_usual_noise_of_a_machine_of_one_s_own_allows_to_rule_out_the_loss_worth_seeing(
    device: Device,
) -> None:
    policy = POLICIES[device]
    own = policy.expected.own
    upper = t_quantile(policy.ruled_out, own.freedom) * math.sqrt(own.value * 4 / 3)
    assert upper < math.log1p(policy.worth)


@pytest.mark.parametrize("device", Device)
def test_what_all_cases_lost_is_worth_seeing_before_it_is_lost_to_the_budget(
    device: Device,
) -> None:
    policy = POLICIES[device]
    assert 0 < policy.drift <= policy.slower
    if device in OWN_MACHINE:
        assert policy.slower < policy.budget and policy.drift < policy.budget


@pytest.mark.parametrize("device", OWN_MACHINE)
def test_a_session_of_unchanged_code_alarms_less_than_once_in_a_hundred(device: Device) -> None:
    assert 0 < POLICIES[device].false_alarms < 0.01


@pytest.mark.parametrize("device", Device)
def test_two_stacks_in_turn_alarm_less_than_once_in_a_hundred_on_any_machine(
    device: Device,
) -> None:
    assert 0 < POLICIES[device].looks.false_alarms < 0.01


def test_a_machine_that_others_share_may_alarm_more_often_but_rarely() -> None:
    assert POLICIES[Device.GPU].false_alarms < POLICIES[Device.CPU].false_alarms <= 0.05


@pytest.mark.parametrize("device", Device)
def test_the_cases_and_what_they_have_in_common_share_the_false_alarms(device: Device) -> None:
    policy = POLICIES[device]
    parts = (policy.false_alarms_of_cases, policy.false_alarms_of_session)
    assert sum(parts) == pytest.approx(policy.false_alarms)
    assert min(parts) > 0


@pytest.mark.parametrize("device", Device)
def test_only_a_clock_of_the_host_has_a_least_difference(device: Device) -> None:
    policy = POLICIES[device]
    for clock in (Clock.HOST, Clock.DISPATCH):
        assert policy.least_difference_of(clock) == policy.least_difference_s > 0
    assert policy.least_difference_of(Clock.DEVICE) == 0


@pytest.mark.parametrize("device", Device)
def test_looks_follow_each_other_and_a_confirmation_needs_fresh_launches(device: Device) -> None:
    looks = POLICIES[device].looks
    assert sorted(set(looks.counts)) == list(looks.counts)
    assert looks.counts[0] > 2
    assert looks.confirming > 0 and POLICIES[device].confirming > 0


@pytest.mark.parametrize("device", Device)
def test_what_is_suspected_lies_between_nothing_and_the_limit(device: Device) -> None:
    assert 0 < POLICIES[device].suspect < 1


@pytest.mark.parametrize("device", Device)
def test_what_is_wanted_is_found_above_the_floor_and_below_the_budget(device: Device) -> None:
    policy = POLICIES[device]
    assert 0 < policy.looks.floor < policy.looks.wanted < policy.budget < 1


@pytest.mark.parametrize("device", Device)
def test_the_noise_of_sessions_is_known_only_from_several(device: Device) -> None:
    policy = POLICIES[device]
    assert policy.full_sessions > 2
    assert policy.expected.own.value > policy.expected.least_deviation**2 > 0
    assert policy.expected.shared.value > 0
