"""The criterion of a bisection: what the bad release shows and the good one does not.

Times are compared with those of the good release in the same session (`--against`), programs with
those that were stored for it, and failures (a wrong value, a crash, no memory) with none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.extensions.bisect.search import Status
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.stats.launches import estimate_mean

FAILURES = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_SLOWER = (Outcome.REGRESSED, Outcome.CHANGED)
_UNKNOWN = (Outcome.SKIPPED, Outcome.INCOMPARABLE)
# The chance that a release is taken for the other kind; a bisection tests several.
RISK = 0.01 / 8


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """The verdicts of one session by case, and the log ratios of its pairs of launches.

    `failed` of the `launches` of the candidate have a failure.
    """

    verdicts: Mapping[str, Verdict]
    log_ratios: Mapping[str, Sequence[float]] = field(default_factory=dict)
    launches: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """A release is bad if one of these `cases` has this `outcome`.

    `kind` is the kind of a failure, such as ``WRONG_RESULT``, and `rate` the share of the bad
    release's launches that have it. `ratio` is the time of a slow release over that of the good
    release.
    """

    cases: tuple[str, ...]
    outcome: Outcome
    kind: str = ""
    rate: float = 1.0
    ratio: float = 1.0

    @property
    def word(self) -> str:
        if self.kind:
            return self.kind.replace("_", " ").lower()
        return {Outcome.REGRESSED: "slow", Outcome.CHANGED: "changed"}[self.outcome]

    @property
    def is_failure(self) -> bool:
        return self.outcome in FAILURES

    @property
    def launches(self) -> int:
        """The launches without the failure after which its absence is wrong with a chance of RISK.

        It may be half as frequent as it seemed.
        """
        share = min(0.999, self.rate / 2)
        return math.ceil(math.log(RISK) / math.log1p(-share)) if self.rate < 1 else 1

    def status_of_times(self, log_ratios: Sequence[float]) -> Status | None:
        """Compare a time with half the way to the bad one's (logarithmic), None if undecided."""
        if len(log_ratios) < 2:
            return None
        mean, half = estimate_mean(log_ratios), math.log(self.ratio) / 2
        if mean.lower(RISK) > half:
            return Status.BAD
        return Status.GOOD if mean.upper(RISK) < half else None

    def status(self, result: SessionResult) -> Status | None:
        """Return the status that a session shows, None if it is to be repeated.

        A release that fails in another way, or without a case of the criterion, is untestable.
        """
        verdicts = self.verdicts(result)
        if any(_key(verdict) == (self.outcome, self.kind) for verdict in verdicts):
            return Status.BAD
        outcomes = {verdict.outcome for verdict in verdicts}
        if len(verdicts) < len(self.cases) or outcomes.intersection((*FAILURES, *_UNKNOWN)):
            return Status.UNTESTABLE
        return None if Outcome.NOISY in outcomes and not self.is_failure else Status.GOOD

    def verdicts(self, result: SessionResult) -> list[Verdict]:
        return [result.verdicts[case] for case in self.cases if case in result.verdicts]

    def reason(self, result: SessionResult) -> str:
        verdicts = self.verdicts(result)
        return verdicts[0].headline() if verdicts else "the session has no such case"


def find_criterion(good: SessionResult, bad: SessionResult) -> Criterion | None:
    """Return what the bad release shows and the good one does not, None if nothing."""
    good_failures = {case for case, v in good.verdicts.items() if v.outcome in FAILURES}
    failures: dict[tuple[Outcome, str], list[str]] = {}
    for case, verdict in bad.verdicts.items():
        if verdict.outcome in FAILURES and case not in good_failures:
            failures.setdefault(_key(verdict), []).append(case)
    if failures:
        (outcome, kind), cases = next(iter(failures.items()))
        return Criterion(cases=tuple(cases), outcome=outcome, kind=kind)
    slower = [case for case, verdict in bad.verdicts.items() if verdict.outcome in _SLOWER]
    if not slower:
        return None
    # Cases that are less slow may be so because of another release.
    worst = max(slower, key=lambda case: bad.verdicts[case].ratio or 0.0)
    verdict = bad.verdicts[worst]
    return Criterion(cases=(worst,), outcome=verdict.outcome, ratio=verdict.ratio or 1.0)


def _key(verdict: Verdict) -> tuple[Outcome, str]:
    """Return the outcome, and the kind of a failure."""
    if verdict.outcome not in FAILURES:
        return verdict.outcome, ""
    failure = verdict.failure
    return verdict.outcome, failure.kind.value if failure else verdict.outcome.value.lower()
