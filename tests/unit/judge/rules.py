"""A policy with round figures, and what it makes of one case: for the tests of this folder."""

from __future__ import annotations

from typing import Any

from busbw.judge.case import Ruling, Terms, judge_case
from busbw.judge.levels import StoredTimes, build_levels
from busbw.judge.policy import Looks, Policy, Rule
from busbw.judge.rule import Limit
from busbw.model.launch import Measurement
from busbw.model.stored import Baseline, Record
from busbw.stats.launches import launch_time_s
from tests.helpers import build

LOOKS = Looks(counts=(6, 9, 12), miss_rate=0.1)
POLICY = Policy(
    rule=Rule(
        min_case_loss=0.2,
        min_session_loss=0.2,
        max_useful_limit=1.0,
        prior_deviation=0.01,
        prior_shared_deviation=0.01,
    ),
    looks=LOOKS,
    least_difference_s=1e-6,
)


def night(number: int, *times_s: float, **changes: Any) -> Record:
    """What the session of a night of January measured."""
    return build.session(*times_s, date=f"2026-01-{number:02d}", **changes)


def nights(*levels_s: float, first: int = 2) -> list[Record]:
    """A session of one launch each night, from the `first` on."""
    return [night(first + at, level_s) for at, level_s in enumerate(levels_s)]


# Three sessions that do not differ: the limit is the policy's floor, 1.2 times 1 ms.
STEADY = build.pooled(*(night(number, 1e-3, 1e-3, 1e-3) for number in (2, 3, 4)))
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
    limit = limit_of(baseline, measurement, policy)
    return judge_case(build.spec(), measurement, baseline, limit, terms, nearest=nearest)


def limit_of(baseline: Baseline | None, measurement: Measurement, policy: Policy) -> Limit | None:
    """Of `baseline` as the only one of its framework, and `measurement` as the only one today."""
    if baseline is None or not measurement.runs:
        return None
    levels = build_levels({baseline.case.framework: StoredTimes(baselines=[baseline])}, policy)
    times_s = {baseline.case: [launch_time_s(run) for run in measurement.runs]}
    return levels.assess(times_s, policy).limits.get(baseline.case) if levels else None


def six(*times_s: float, **changes: Any) -> Measurement:
    """These launch times twice: those asked for, and those that confirm."""
    return build.measurement(*times_s, *times_s, **changes)
