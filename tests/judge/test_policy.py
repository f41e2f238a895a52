"""The thresholds: every payload has a tier, and the figures keep the order that the rules need."""

from __future__ import annotations

import pytest

from busbw.judge import POLICIES, Policy, Tier
from busbw.model import MIB, Device

SMALL = Tier(up_to_bytes=MIB, floor=0.1, ceiling=0.2)
LARGE = Tier(up_to_bytes=None, floor=0.05, ceiling=0.1)
POLICY = Policy(
    tiers=(SMALL, LARGE),
    noise_factor=3.0,
    full_launches=5,
    provisional=0.5,
    least_difference_s=1e-6,
)


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
def test_no_limit_lies_below_its_floor_or_above_what_a_provisional_one_allows(
    device: Device,
) -> None:
    policy = POLICIES[device]
    assert all(0 < tier.floor < tier.ceiling <= policy.provisional for tier in policy.tiers)


@pytest.mark.parametrize("device", Device)
def test_a_slowdown_to_a_third_is_beyond_every_limit(device: Device) -> None:
    policy = POLICIES[device]
    assert all(1 + max(tier.ceiling, policy.provisional) < 3 for tier in policy.tiers)
