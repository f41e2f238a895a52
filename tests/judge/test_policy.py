"""The thresholds: the figures keep the order that the rules need."""

from __future__ import annotations

import math

import pytest

from busbw.judge.policy import POLICIES
from busbw.model.words import Clock, Device

OWN_MACHINE = (Device.GPU, Device.TPU)


@pytest.mark.parametrize("device", Device)
def test_the_floor_is_below_a_loss_that_must_not_go_unseen(device: Device) -> None:
    rule = POLICIES[device].rule
    assert 0 < rule.floor < rule.blind
    assert 0 < rule.rise <= rule.slower


@pytest.mark.parametrize("device", OWN_MACHINE)
def test_what_all_cases_lost_is_seen_before_it_is_lost_to_the_budget(device: Device) -> None:
    policy = POLICIES[device]
    assert policy.rule.slower < policy.budget and policy.rule.rise < policy.budget


@pytest.mark.parametrize("device", Device)
def test_one_accepted_session_is_blind_to_nothing_that_must_be_seen(device: Device) -> None:
    rule = POLICIES[device].rule
    factor = rule.factor + rule.factor_of_one
    for prior in (rule.prior, rule.prior_alone):
        assert math.sqrt(2) * factor * prior < math.log1p(rule.blind)


@pytest.mark.parametrize("device", Device)
def test_two_stacks_in_turn_alarm_less_than_once_in_a_hundred_on_any_machine(
    device: Device,
) -> None:
    assert 0 < POLICIES[device].looks.false_alarms < 0.01


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
    assert looks.confirming > 0 and POLICIES[device].rule.confirming > 0


@pytest.mark.parametrize("device", Device)
def test_what_is_suspected_lies_between_nothing_and_the_limit(device: Device) -> None:
    rule = POLICIES[device].rule
    assert 0 < rule.suspect <= rule.by_fastest <= 1


@pytest.mark.parametrize("device", Device)
def test_what_is_wanted_is_found_above_the_floor_and_below_the_budget(device: Device) -> None:
    policy = POLICIES[device]
    assert 0 < policy.looks.floor < policy.looks.wanted < policy.budget < 1


@pytest.mark.parametrize("device", Device)
def test_the_noise_of_sessions_is_known_only_from_several(device: Device) -> None:
    policy = POLICIES[device]
    assert policy.full_sessions > 2
