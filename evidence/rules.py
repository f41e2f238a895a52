"""The rules that recorded launches are put before: busbw's own, and those of other tools.

busbw's are the very functions that judge a session, with the policy for a CPU. Of the others each
has its source: a sample is what a tool times once, a launch is a process, a payload is a benchmark;
a session alarms if any benchmark does, and only slower is an alarm. Where a tool leaves a choice,
it is made in the tool's favour; docs/verdict.md says how. Nothing here is tuned to the recordings.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from busbw.judge import paired
from busbw.judge.levels import history_of
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes
from busbw.model.words import MIB, Device
from busbw.model.words import Outcome as Verdict
from busbw.stats.launches import quantile

from .agreement import case
from .corpus import RecordedLaunch, Side
from .night import night
from .replay import Draw, Outcome, Rule

POLICY = POLICIES[Device.CPU]


def in_turn(draw: Draw) -> Outcome:
    """The rule of `--against`; undecided is NOISY.

    Where the recorded pairs end before a suspicion could be seen again, it counts as an alarm.
    """
    looks, found = POLICY.looks, set()
    shifts = {payload: [one.shift for one in of] for payload, of in draw.pairs.items()}
    prior = paired.prior_of(shifts.values(), looks)
    for payload, pairs in draw.pairs.items():
        least_s = statistics.median(one.reference.launch_time_s for one in pairs)
        floor = max(looks.floor, POLICY.least_difference_s / least_s)
        one = paired.decide(shifts[payload], looks, cases=len(shifts), floor=floor, prior=prior)
        found.add(Verdict.REGRESSED if one.suspected else one.outcome or Verdict.NOISY)
    if Verdict.REGRESSED in found:
        return Outcome.ALARM
    return Outcome.UNDECIDED if Verdict.NOISY in found else Outcome.CLEAR


def stored(draw: Draw) -> Outcome:
    """The rule against a stored baseline of several sessions, suspects seen again.

    Where launches end before one could be seen again, that counts as an alarm.
    """
    cases = {payload: case(payload) for payload in draw.pairs}
    before = [
        {
            cases[at]: CaseTimes.of([side.launch_time_s for side in of], POLICY.rule)
            for at, of in one.items()
        }
        for one in draw.baseline
    ]
    today = {
        cases[payload]: [one.candidate.launch_time_s for one in pairs]
        for payload, pairs in draw.pairs.items()
    }
    found = night(history_of(before, POLICY, measured=today), today, POLICY)
    if found.is_red or found.undecided:
        return Outcome.ALARM
    return Outcome.UNDECIDED if found.blind else Outcome.CLEAR


def _any(slower: Sequence[bool]) -> Outcome:
    return Outcome.ALARM if any(slower) else Outcome.CLEAR


def pytest_benchmark(field: str, *, stored: bool) -> Rule:
    """`--benchmark-compare-fail=FIELD:10%`: `PercentageRegressionCheck`, one process against one.

    From `pytest_benchmark/utils.py`. That of another session if `stored`, or one beside it.
    """

    def value(side: Side) -> float:
        return side.mean_s if field == "mean" else min(side.samples_s)

    def slower(draw: Draw, payload: int) -> bool:
        pair = draw.pairs[payload][0]
        before = draw.baseline[0][payload][0] if stored else pair.reference
        return value(pair.candidate) / value(before) * 100 - 100 > 10

    return lambda draw: _any([slower(draw, payload) for payload in draw.pairs])


_ASV_ROUNDS, _ASV_FACTOR, _ASV_P = 2, 1.1, 0.002


def asv_continuous(draw: Draw) -> Outcome:
    """`_is_result_better` in `asv/commands/compare.py`, `is_different` in `asv/_stats.py`."""
    if any(len(pairs) < _ASV_ROUNDS for pairs in draw.pairs.values()):
        return Outcome.UNDECIDED
    return _any([_asv_slower(pairs[:_ASV_ROUNDS]) for pairs in draw.pairs.values()])


def _asv_slower(pairs: Sequence[RecordedLaunch]) -> bool:
    before = [one for pair in pairs for one in pair.reference.samples_s]
    now = [one for pair in pairs for one in pair.candidate.samples_s]
    if statistics.median(before) >= statistics.median(now) / _ASV_FACTOR:
        return False
    return mann_whitney_p(before, now) < _ASV_P


def mann_whitney_p(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of U by the normal approximation, as asv has it for over 20 samples.

    Two launches have more. Ties are broken so that the sides differ least.
    """
    ordered, product = sorted(second), len(first) * len(second)
    above = sum(bisect_left(ordered, one) for one in first)
    above_or_tied = sum(bisect_right(ordered, one) for one in first)
    if above <= product // 2 <= above_or_tied:
        least = product // 2
    else:
        least = max(min(u, product - u) for u in (above, above_or_tied))
    deviation = math.sqrt(product * (len(first) + len(second) + 1) / 12)
    return math.erfc((product / 2 - least) / deviation / math.sqrt(2))


def xla_presubmit(draw: Draw) -> Outcome:
    """`compare_metrics` in `.github/workflows/benchmarks/compare_with_baseline.py`.

    Thresholds of 0.30: `xla/tools/benchmarks/baseline/presubmit_baseline.yml`.
    """
    slower = []
    for payload, pairs in draw.pairs.items():
        medians_s = [side.median_s for session in draw.baseline for side in session[payload]]
        slower.append(pairs[0].candidate.median_s > statistics.median(medians_s) * 1.30)
    return _any(slower)


def github_action_benchmark(draw: Draw) -> Outcome:
    """`alert-threshold` in `action.yml`, `findAlerts` in `src/write.ts`."""
    before = draw.baseline[0]
    return _any(
        [pairs[0].candidate.mean_s / before[at][0].mean_s > 2.0 for at, pairs in draw.pairs.items()]
    )


# ROCm/cvs's calibration on four nodes, by the largest payload that each tier holds.
_RCCL_TIERS = ((MIB, 0.125), (64 * MIB, 0.061), (math.inf, 0.03))
_RCCL_PAIRS = 7


def rccl_paired(draw: Draw) -> Outcome:
    """`compare_key` and `detect_regressions` in ROCm/cvs's `cvs/lib/regression_lib.py`.

    Two adjacent payloads must be slower. A process counts with its mean, as in rccl-tests.
    """
    if any(len(pairs) < _RCCL_PAIRS for pairs in draw.pairs.values()):
        return Outcome.UNDECIDED
    slower = [_rccl_slower(size, pairs[:_RCCL_PAIRS]) for size, pairs in sorted(draw.pairs.items())]
    return _any([all(both) for both in itertools.pairwise(slower)])


def _rccl_slower(payload: int, pairs: Sequence[RecordedLaunch]) -> bool:
    before = [1 / pair.reference.mean_s for pair in pairs]
    now = [1 / pair.candidate.mean_s for pair in pairs]
    threshold = next(drop for most, drop in _RCCL_TIERS if payload <= most)
    dropped = 1 - statistics.median(now) / statistics.median(before) > threshold
    return dropped and quantile(now, 0.75) < quantile(before, 0.25)


OWN: Mapping[str, Rule] = {"busbw `--against`, in turn": in_turn, "busbw, stored baseline": stored}
OTHERS: Mapping[str, Rule] = {
    "pytest-benchmark mean:10%, stored run": pytest_benchmark("mean", stored=True),
    "pytest-benchmark min:10%, stored run": pytest_benchmark("min", stored=True),
    "pytest-benchmark mean:10%, same session": pytest_benchmark("mean", stored=False),
    "pytest-benchmark min:10%, same session": pytest_benchmark("min", stored=False),
    "asv continuous": asv_continuous,
    "XLA presubmit, 30 %": xla_presubmit,
    "github-action-benchmark, 200 %": github_action_benchmark,
    "ROCm/cvs RCCL paired, 7 pairs": rccl_paired,
}
