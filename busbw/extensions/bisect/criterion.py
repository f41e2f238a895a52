"""The criterion of a bisection: a problem that the bad release has and the good release lacks.

Times of a release are compared with times of the good release, measured in the same session
(`--against`). Compiled programs are compared with the stored programs of the good release.
Failures, such as a wrong value, a crash or too little memory, are not compared.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.stats.launches import estimate_mean

FAILURES = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_SLOWER_OR_CHANGED = (Outcome.REGRESSED, Outcome.CHANGED)
_UNDECIDABLE = (Outcome.SKIPPED, Outcome.INCOMPARABLE)
# The probability that a test calls a good release bad, or a bad release good. A bisection tests
# about eight releases, and its answer should be wrong with a probability of at most 1 %.
ERROR_RISK = 0.01 / 8


class Status(enum.StrEnum):
    """The status of a release: it lacks the problem, has the problem, or cannot be tested."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """The result of a session: the verdicts on its cases, and how often the cases were measured.

    Attributes:
        verdicts: The verdict on each case, by the id of the case.
        log_ratios: The values of log(candidate time / reference time) of all pairs of launches of
            a case, by the id of the case. Empty without a reference.
        launch_count: The number of launches of the candidate; 0 if the session compiles.
        failed_launch_count: The number of failed launches of the case with the most failures.

    """

    verdicts: Mapping[str, Verdict]
    log_ratios: Mapping[str, Sequence[float]] = field(default_factory=dict)
    launch_count: int = 0
    failed_launch_count: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """The problem by which a release is bad: at least one of `cases` has the outcome `outcome`.

    Attributes:
        cases: The ids of the cases that show the problem.
        outcome: The outcome of these cases.
        kind: The kind of the failure, such as ``WRONG_RESULT``; empty if the problem is no failure.
        rate: For a failure, the fraction of the launches of the bad release that fail.
        ratio: For a slow release, the time of the bad release divided by the time of the good
            release.

    """

    cases: tuple[str, ...]
    outcome: Outcome
    kind: str = ""
    rate: float = 1.0
    ratio: float = 1.0

    @property
    def problem(self) -> str:
        """The problem in words, such as ``slow`` or ``wrong result``."""
        if self.kind:
            return self.kind.replace("_", " ").lower()
        return {Outcome.REGRESSED: "slow", Outcome.CHANGED: "changed"}[self.outcome]

    @property
    def is_failure(self) -> bool:
        return self.outcome in FAILURES

    @property
    def needed_launch_count(self) -> int:
        """The number of launches without the failure after which a release counts as good.

        If a release has the failure, at least half as often as the bad release, so many launches
        all succeed with a probability of at most ERROR_RISK.
        """
        rate = min(0.999, self.rate / 2)
        return math.ceil(math.log(ERROR_RISK) / math.log1p(-rate)) if self.rate < 1 else 1

    def status_of_times(self, log_ratios: Sequence[float]) -> Status | None:
        """Return the status of a release by its times: GOOD, BAD, or None if undecided.

        `log_ratios` are the values of log(time of the release / time of the good release), one for
        each pair of launches. The limit is halfway between the times of the good and the bad
        release, on a logarithmic scale. Returns None if the times are too few or too uncertain.
        """
        if len(log_ratios) < 2:
            return None
        mean, limit_log_ratio = estimate_mean(log_ratios), math.log(self.ratio) / 2
        if mean.lower_bound(ERROR_RISK) > limit_log_ratio:
            return Status.BAD
        return Status.GOOD if mean.upper_bound(ERROR_RISK) < limit_log_ratio else None

    def status_of_session(self, result: SessionResult) -> Status | None:
        """Return the status of a release by the verdicts of a session on the criterion's cases.

        `result` is the result of that session. The first of these rules that applies decides:

        - BAD, if a case has the problem.
        - UNTESTABLE, if a case is missing, is skipped, is not comparable, or fails in another way.
        - None (undecided), if a case is NOISY and the problem is not a failure.
        - GOOD otherwise.
        """
        verdicts = self.relevant_verdicts(result)
        if any(_outcome_and_kind(verdict) == (self.outcome, self.kind) for verdict in verdicts):
            return Status.BAD
        outcomes = {verdict.outcome for verdict in verdicts}
        if len(verdicts) < len(self.cases) or outcomes.intersection((*FAILURES, *_UNDECIDABLE)):
            return Status.UNTESTABLE
        return None if Outcome.NOISY in outcomes and not self.is_failure else Status.GOOD

    def relevant_verdicts(self, result: SessionResult) -> list[Verdict]:
        """Return the verdicts of a session on the cases of the criterion."""
        return [result.verdicts[case] for case in self.cases if case in result.verdicts]

    def reason_text(self, result: SessionResult) -> str:
        """Return a sentence on the first case of the criterion that `result` has."""
        verdicts = self.relevant_verdicts(result)
        return verdicts[0].headline() if verdicts else "the session has no such case"


def find_criterion(good_result: SessionResult, bad_result: SessionResult) -> Criterion | None:
    """Return the problem that the bad release's session shows and the good release's does not.

    A failure is preferred to a slower or changed case. Returns None without such a problem.
    """
    good_failures = {case for case, v in good_result.verdicts.items() if v.outcome in FAILURES}
    failures: dict[tuple[Outcome, str], list[str]] = {}
    for case, verdict in bad_result.verdicts.items():
        if verdict.outcome in FAILURES and case not in good_failures:
            failures.setdefault(_outcome_and_kind(verdict), []).append(case)
    if failures:
        (outcome, kind), cases = next(iter(failures.items()))
        return Criterion(cases=tuple(cases), outcome=outcome, kind=kind)
    slower = [
        case
        for case, verdict in bad_result.verdicts.items()
        if verdict.outcome in _SLOWER_OR_CHANGED
    ]
    if not slower:
        return None
    # Another release may have made the less slow cases slow, so the slowest case is the criterion.
    worst = max(slower, key=lambda case: bad_result.verdicts[case].ratio or 0.0)
    verdict = bad_result.verdicts[worst]
    return Criterion(cases=(worst,), outcome=verdict.outcome, ratio=verdict.ratio or 1.0)


def _outcome_and_kind(verdict: Verdict) -> tuple[Outcome, str]:
    """Return the outcome of a verdict, and the kind of its failure; empty without a failure."""
    if verdict.outcome not in FAILURES:
        return verdict.outcome, ""
    failure = verdict.failure
    return verdict.outcome, failure.kind.value if failure else verdict.outcome.value.lower()
