"""The thresholds: every payload has a tier, and the figures keep the order that the rules need."""

from __future__ import annotations

import pytest

from busbw.judge import POLICIES
from busbw.judge.policy import Policy, Tier
from busbw.model import MIB, Device

from .rules import LOOKS

SMALL = Tier(up_to_bytes=MIB, floor=0.1, ceiling=0.2)
LARGE = Tier(up_to_bytes=None, floor=0.05, ceiling=0.1)
POLICY = Policy(tiers=(SMALL, LARGE), usual_noise=0.05, looks=LOOKS, anchor_shift=0.2)


@pytest.mark.parametrize(
    ("payload_bytes", "tier"), [(1, SMALL), (MIB, SMALL), (MIB + 1, LARGE), (2**40, LARGE)]
)
def test_a_tier_reaches_up_to_its_last_payload(payload_bytes: int, tier: Tier) -> None:
    assert tier is POLICY.tier(payload_bytes)


@pytest.mark.parametrize("device", Device)
def test_every_device_class_has_a_policy_with_a_tier_for_any_payload(device: Device) -> None:
    policy = POLICIES[device]
    assert policy.tiers[-1].up_to_bytes is None
    assert policy.tiers[-1] is policy.tier(2**50)


@pytest.mark.parametrize("device", Device)
def test_the_tiers_of_a_policy_ascend_and_larger_payloads_have_narrower_limits(
    device: Device,
) -> None:
    tiers = POLICIES[device].tiers
    bounds = [tier.up_to_bytes for tier in tiers[:-1] if tier.up_to_bytes is not None]
    assert sorted(bounds) == bounds
    assert len(tiers) - 1 == len(bounds)
    assert sorted((tier.floor for tier in tiers), reverse=True) == [tier.floor for tier in tiers]


@pytest.mark.parametrize("device", Device)
def test_no_limit_lies_below_its_floor_or_lets_three_times_the_time_pass(device: Device) -> None:
    policy = POLICIES[device]
    assert all(0 < tier.floor < tier.ceiling < 2 for tier in policy.tiers)


@pytest.mark.parametrize("device", Device)
def test_a_session_of_unchanged_code_alarms_less_than_once_in_a_hundred(device: Device) -> None:
    policy = POLICIES[device]
    assert 0 < policy.false_alarms < 0.01
    assert 0 < policy.looks.false_alarms < 0.01


@pytest.mark.parametrize("device", Device)
def test_looks_follow_each_other_and_a_confirmation_needs_fresh_launches(device: Device) -> None:
    looks = POLICIES[device].looks
    assert sorted(set(looks.counts)) == list(looks.counts)
    assert looks.counts[0] > 2
    assert looks.confirming > 0 and POLICIES[device].confirming > 0


@pytest.mark.parametrize("device", Device)
def test_what_is_wanted_is_found_above_the_floor_and_below_the_budget(device: Device) -> None:
    policy = POLICIES[device]
    assert 0 < policy.looks.floor < policy.looks.wanted < policy.budget < 1


@pytest.mark.parametrize("device", Device)
def test_the_noise_of_sessions_is_known_only_from_several(device: Device) -> None:
    assert POLICIES[device].full_sessions > 2
    assert POLICIES[device].usual_noise > 0


def test_only_a_cpu_shares_its_machine_and_is_measured_by_the_anchor() -> None:
    assert [device for device in Device if POLICIES[device].anchor_weight] == [Device.CPU]
