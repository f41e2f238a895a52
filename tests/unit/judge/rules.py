"""A policy with round figures for the tests of this folder, and a case that it judges."""

from __future__ import annotations

from typing import Any

from busbw.judge.case import InterimVerdict, JudgingSettings, judge_case
from busbw.judge.decision import CaseLimits
from busbw.judge.levels import StoredTimes, collect_earlier_sessions
from busbw.judge.policy import Policy, RuleThresholds, SequentialTestThresholds
from busbw.model.launch import Measurement
from busbw.model.stored import Baseline, Record
from busbw.stats.launches import launch_time_s
from tests.helpers import build

LOOKS = SequentialTestThresholds(pair_counts=(6, 9, 12), miss_rate=0.1)
POLICY = Policy(
    rule=RuleThresholds(
        min_case_loss=0.2,
        min_session_loss=0.2,
        max_useful_limit=1.0,
        prior_stddev=0.01,
        prior_shared_stddev=0.01,
    ),
    looks=LOOKS,
    host_clock_resolution_s=1e-6,
)


def record(day: int, *times_s: float, **changes: Any) -> Record:
    """Return the record of a session of a day in January."""
    return build.session(*times_s, date=f"2026-01-{day:02d}", **changes)


def records(*levels_s: float, first: int = 2) -> list[Record]:
    """Return a record of one launch each day, from the `first` on."""
    return [record(day, level_s) for day, level_s in enumerate(levels_s, first)]


# Three sessions that do not differ: the limit is the policy's floor, 1.2 times 1 ms.
STEADY = build.pooled(*(record(day, 1e-3, 1e-3, 1e-3) for day in (2, 3, 4)))
OOM = build.baseline()


def judged(
    measurement: Measurement,
    baseline: Baseline | None,
    *,
    policy: Policy = POLICY,
    **options: Any,
) -> InterimVerdict:
    """Judge `measurement`; `options` are other JudgingSettings."""
    terms = JudgingSettings(policy=policy, **options)
    limit = limit_of(baseline, measurement, policy)
    return judge_case(build.spec(), measurement, baseline, limit, terms)


def verdict_on(measurement: Measurement, baseline: Baseline | None, **options: Any) -> Any:
    """Return the verdict of the judge, typed so that a test needs no check for None."""
    return judged(measurement, baseline, **options).verdict


def limit_of(
    baseline: Baseline | None, measurement: Measurement, policy: Policy
) -> CaseLimits | None:
    """Return the limit if there is no other baseline and no other measurement today."""
    if baseline is None or baseline.is_out_of_memory or not measurement.runs:
        return None
    levels = collect_earlier_sessions([StoredTimes(baselines=[baseline])], policy)
    times_s = {baseline.case: [launch_time_s(run) for run in measurement.runs]}
    return levels.assess_session(times_s, policy).limits.get(baseline.case) if levels else None


def all_out_of_memory(**changes: Any) -> Measurement:
    """Return a measurement of which all three launches ran out of memory."""
    return build.measurement(failures=(build.out_of_memory(**changes),) * 3)


def six(*times_s: float, **changes: Any) -> Measurement:
    """Return a measurement with these launch times twice: planned launches, and confirming ones."""
    return build.measurement(*times_s, *times_s, **changes)
