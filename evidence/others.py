"""The rules of other tools, applied to the recorded launches: pure, and each with its source.

A sample is what a tool times once, a launch is a process, a payload is a benchmark; a session
alarms if any benchmark does, and only slower is an alarm. Where a tool leaves a choice, it is made
in the tool's favour and said. Nothing here is tuned to the recordings.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import stats
from busbw.model import MIB

from . import mannwhitney
from .corpus import RecordedLaunch, Side
from .draw import Draw, Outcome, Rule, alarm_if


@dataclass(frozen=True, kw_only=True, slots=True)
class PytestBenchmark:
    """pytest-benchmark, `--benchmark-compare-fail=FIELD:PERCENT%`: one process against one.

    The field's percentage above the compared run's (`PercentageRegressionCheck` in
    `pytest_benchmark/utils.py`). The compared run is a stored one of another session, or, in the
    tool's favour, one that was measured at the same time.
    """

    field: str
    percent: int
    stored: bool

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        return alarm_if(any(self._slower(draw, payload) for payload in draw.now))

    def _slower(self, draw: Draw, payload: int) -> bool:
        pair = draw.now[payload][0]
        before = draw.baseline[0][payload][0] if self.stored else pair.reference
        return self._value(pair.candidate) / self._value(before) * 100 - 100 > self.percent

    def _value(self, side: Side) -> float:
        return side.mean_s if self.field == "mean" else side.least_s


@dataclass(frozen=True, kw_only=True, slots=True)
class AsvContinuous:
    """asv continuous: medians differ by the factor 1.1 and Mann-Whitney's p is below 0.002.

    `_is_result_better` in `asv/commands/compare.py` and `is_different` in `asv/_stats.py`; two
    rounds, so the samples of two processes of each side, pooled.
    """

    factor: float = 1.1
    p_below: float = 0.002
    rounds: int = 2

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        if any(len(pairs) < self.rounds for pairs in draw.now.values()):
            return Outcome.UNDECIDED
        return alarm_if(any(self._slower(pairs[: self.rounds]) for pairs in draw.now.values()))

    def _slower(self, pairs: Sequence[RecordedLaunch]) -> bool:
        before = [one for pair in pairs for one in pair.reference.samples_s]
        now = [one for pair in pairs for one in pair.candidate.samples_s]
        if statistics.median(before) >= statistics.median(now) / self.factor:
            return False
        return mannwhitney.two_sided_p(before, now) < self.p_below


@dataclass(frozen=True, kw_only=True, slots=True)
class XlaPresubmit:
    """XLA presubmit: one process's median above a stored number by more than 30 %.

    `compare_metrics` in `.github/workflows/benchmarks/compare_with_baseline.py`, all thresholds
    0.30 in `xla/tools/benchmarks/baseline/presubmit_baseline.yml`. The stored number is written by
    hand there; here, in favour of the tool, it is the median over the medians of all launches of
    the baseline.
    """

    threshold: float = 0.30

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        return alarm_if(any(self._slower(draw, payload) for payload in draw.now))

    def _slower(self, draw: Draw, payload: int) -> bool:
        stored = [side.median_s for session in draw.baseline for side in session[payload]]
        now_s = draw.now[payload][0].candidate.median_s
        return now_s > statistics.median(stored) * (1 + self.threshold)


@dataclass(frozen=True, kw_only=True, slots=True)
class GithubActionBenchmark:
    """github-action-benchmark: one process's mean more than 200 % of the run's before.

    `alert-threshold` in `action.yml`, `findAlerts` in `src/write.ts`: the ratio to the last
    entry of another commit, here a stored run of another session.
    """

    threshold: float = 2.0

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        return alarm_if(any(self._slower(draw, payload) for payload in draw.now))

    def _slower(self, draw: Draw, payload: int) -> bool:
        before = draw.baseline[0][payload][0]
        return draw.now[payload][0].candidate.mean_s / before.mean_s > self.threshold


# ROCm/cvs's calibration on four nodes, by the largest payload that each tier holds.
RCCL_TIERS = ((MIB, 0.125), (64 * MIB, 0.061), (None, 0.03))


@dataclass(frozen=True, kw_only=True, slots=True)
class RcclPaired:
    """ROCm/cvs, RCCL paired A/B: three gates over seven pairs of processes.

    `compare_key` and `detect_regressions` in `cvs/lib/regression_lib.py`: the median bandwidth
    drops by more than 12.5 % to 1M, 6.1 % to 64M, 3 % above; the candidate's p75 lies below the
    reference's p25; and so it is at two or more adjacent payloads of those measured. A process
    counts with its mean, as in rccl-tests. The floors that leave out small bandwidths are not
    applied: they belong to that cluster.
    """

    pairs: int = 7
    adjacent: int = 2

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        if any(len(pairs) < self.pairs for pairs in draw.now.values()):
            return Outcome.UNDECIDED
        slower = [self._slower(payload, draw.now[payload]) for payload in sorted(draw.now)]
        return alarm_if(_longest_run(slower) >= self.adjacent)

    def _slower(self, payload: int, pairs: Sequence[RecordedLaunch]) -> bool:
        before = [1 / pair.reference.mean_s for pair in pairs[: self.pairs]]
        now = [1 / pair.candidate.mean_s for pair in pairs[: self.pairs]]
        threshold = next(drop for most, drop in RCCL_TIERS if most is None or payload <= most)
        dropped = 1 - statistics.median(now) / statistics.median(before) > threshold
        return dropped and stats.quantile(now, 0.75) < stats.quantile(before, 0.25)


def _longest_run(flags: Sequence[bool]) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest


OTHERS: Mapping[str, Rule] = {
    "pytest-benchmark mean:10%, stored run": PytestBenchmark(field="mean", percent=10, stored=True),
    "pytest-benchmark min:10%, stored run": PytestBenchmark(field="min", percent=10, stored=True),
    "pytest-benchmark mean:10%, same session": PytestBenchmark(
        field="mean", percent=10, stored=False
    ),
    "pytest-benchmark min:10%, same session": PytestBenchmark(
        field="min", percent=10, stored=False
    ),
    "asv continuous": AsvContinuous(),
    "XLA presubmit, 30 %": XlaPresubmit(),
    "github-action-benchmark, 200 %": GithubActionBenchmark(),
    "ROCm/cvs RCCL paired, 7 pairs": RcclPaired(),
}
