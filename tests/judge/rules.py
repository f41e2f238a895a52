"""A policy with round figures, and what it makes of one case: for the tests of this folder."""

from __future__ import annotations

from typing import Any

from busbw import judge
from busbw.judge import Ruling, Terms
from busbw.judge.policy import Looks, Policy, Tier
from busbw.model import MIB, Baseline, Measurement
from tests import build

LOOKS = Looks(
    counts=(6, 9, 12), confirming=3, false_alarms=0.005, misses=0.1, wanted=0.05, floor=0.02
)
POLICY = Policy(
    tiers=(
        Tier(up_to_bytes=MIB, floor=0.2, ceiling=0.4),
        Tier(up_to_bytes=None, floor=0.1, ceiling=0.2),
    ),
    usual_noise=0.01,
    looks=LOOKS,
    anchor_shift=0.2,
    least_difference_s=1e-6,
)
# Three sessions that hardly differ: the limit is the floor of the tier, 1.2 times 1 ms.
STEADY = build.pooled(*[build.session(1e-3, 1e-3, 1e-3)] * 3)
OOM = build.baseline()


def judged(
    measurement: Measurement,
    baseline: Baseline | None,
    *,
    policy: Policy = POLICY,
    nearest: str = "",
    **given: Any,
) -> Ruling:
    """What the rules make of `measurement`; `given` are other Terms."""
    terms = Terms(policy=policy, **given)
    return judge.judge_case(build.spec(), measurement, baseline, terms, nearest=nearest)


def six(*times_s: float, **changes: Any) -> Measurement:
    """These launch times twice: those asked for, and those that confirm."""
    return build.measurement(*times_s, *times_s, **changes)
