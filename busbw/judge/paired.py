"""The candidate's launches against the reference's, measured in turn: no baseline, no drift.

The test is sequential: several looks at a growing number of launches, with stated error rates.
Given the launches of one case so far, in order, it decides or says how many it needs. Pure, so that
recorded launches can be replayed through the same rule.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw import stats
from busbw.model import Measurement, Outcome, Run, Spec, Summary, Verdict, plural, seconds_text
from busbw.stats import Estimate, of_launches, shift_of_samples

from .case import Ruling, Terms, summary_of_runs
from .policy import Looks
from .validity import WHOSE, broken, clock_disagreement, memory_text

# Two-sided, for the interval that is shown.
_SHOWN_LEVEL = 0.025

# The tail is reported if it grew significantly, and by a fifth at least.
_TAIL_LEVEL = 0.001
_TAIL_GROWTH = math.log(1.2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """PASS, REGRESSED or IMPROVED, or None and how many launches in all are wanted (None: no more).

    `estimate` is of the log ratio; `limit` is the log ratio that would have been a suspicion.
    `suspected`: only the confirmation is missing.
    """

    outcome: Outcome | None
    estimate: Estimate | None
    limit: float | None = None
    wanted: int | None = None
    suspected: bool = False


def decide(shifts: Sequence[float], looks: Looks, *, cases: int, floor: float) -> Decision:
    """The decision on one of `cases` cases from `shifts`, one log ratio per launch, in order.

    The error rate is split evenly over the looks, so that all of them together keep to it
    (Bonferroni). The bounds are those of the t-distribution. `floor` is the least slowdown that is
    a regression of this case, as a fraction.
    """
    estimate, limit = None, None
    spent = 1 / len(looks.counts)
    level = looks.false_alarms * spent / cases
    for count in looks.counts:
        if len(shifts) < count:
            return Decision(outcome=None, estimate=estimate, limit=limit, wanted=count)
        estimate = of_launches(shifts[:count])
        limit = _limit(estimate, level, floor)
        if estimate.mean > limit:
            confirmed = count + looks.confirming
            if len(shifts) < confirmed:
                return Decision(
                    outcome=None, estimate=estimate, limit=limit, wanted=confirmed, suspected=True
                )
            if _seen_again(shifts[count:confirmed], floor):
                estimate = of_launches(shifts[:confirmed])
                return Decision(outcome=Outcome.REGRESSED, estimate=estimate, limit=limit)
        elif -estimate.mean > limit:
            return Decision(outcome=Outcome.IMPROVED, estimate=estimate, limit=limit)
        elif estimate.upper(looks.misses * spent) < math.log1p(max(looks.wanted, floor)):
            return Decision(outcome=Outcome.PASS, estimate=estimate, limit=limit)
    return Decision(outcome=None, estimate=estimate, limit=limit)


def _limit(estimate: Estimate, level: float, floor: float) -> float:
    """The log ratio beyond which it is slower by both the noise and the least effect."""
    return max(estimate.mean - estimate.lower(level), math.log1p(floor))


def _seen_again(shifts: Sequence[float], floor: float) -> bool:
    return sum(shifts) / len(shifts) > math.log1p(floor)


def judge_pair(spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms) -> Ruling:
    """The verdict so far on one case of two stacks measured in turn."""
    judged = _judge(spec, reference, candidate, terms)
    verdict = judged.verdict
    now = before = None
    if candidate.runs and verdict.outcome is not Outcome.FAILED:
        now = summary_of_runs(candidate)
    if reference.runs and verdict.outcome is not Outcome.FAILED:
        before = summary_of_runs(reference)
    notes = (*verdict.notes, *clock_disagreement(candidate.runs, terms.policy))
    whole = replace(verdict, case=candidate.case, now=now, baseline=before, notes=notes)
    return replace(judged, verdict=whole)


def _judge(spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms) -> Ruling:
    found = broken(spec, candidate) or broken(spec, reference, WHOSE)
    if found is not None:
        return Ruling(verdict=found)
    if candidate.failures or reference.failures:
        return Ruling(verdict=_out_of_memory(spec, reference, candidate))
    pairs = pairs_of(reference.runs, candidate.runs)
    looks = _looks(terms)
    least_s = statistics.median(stats.launch_time_s(run) for run in reference.runs)
    floor = max(looks.floor, terms.policy.least_difference_s / least_s)
    shifts = [shift_of_samples(before.samples_s, now.samples_s) for before, now in pairs]
    decision = decide(shifts, looks, cases=terms.cases, floor=floor)
    outcome = decision.outcome or Outcome.NOISY
    before, now = summary_of_runs(reference), summary_of_runs(candidate)
    estimate = decision.estimate or (of_launches(shifts) if len(shifts) > 1 else None)
    tail = _tail_ratio(pairs)
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED,
        text=_text(outcome, decision, estimate, len(pairs), before, now),
        tail_ratio=tail,
        notes=()
        if tail is None
        else (f"the tail grew: p90 over p25 is {tail:.2f} x the reference's",),
    )
    if estimate is not None:
        low, high = estimate.lower(_SHOWN_LEVEL), estimate.upper(_SHOWN_LEVEL)
        verdict = replace(
            verdict,
            ratio=math.exp(estimate.mean),
            ratio_interval=(math.exp(low), math.exp(high)),
            ratio_error=estimate.error,
            limit=None if decision.limit is None else math.exp(decision.limit),
        )
    return Ruling(verdict=verdict, wanted=decision.wanted, suspected=decision.suspected)


def pairs_of(reference: Sequence[Run], candidate: Sequence[Run]) -> list[tuple[Run, Run]]:
    """The runs of both sides by pass, which is the number that a launch's name begins with."""
    by_pass = {run.launch.pass_number: run for run in reference}
    found = ((by_pass.get(run.launch.pass_number), run) for run in candidate)
    return [(before, now) for before, now in found if before is not None]


def _looks(terms: Terms) -> Looks:
    """The first look is after the launches asked for."""
    first = max(2, terms.launches)
    later = (count for count in terms.policy.looks.counts if count > first)
    return replace(terms.policy.looks, counts=(first, *later))


def _out_of_memory(spec: Spec, reference: Measurement, candidate: Measurement) -> Verdict:
    """Out of memory on both sides is no difference; what fits only now has IMPROVED."""
    if not candidate.failures:
        text = f"it fits; {WHOSE}{memory_text(reference.failures[0])}"
        return Verdict(spec=spec, outcome=Outcome.IMPROVED, failed=False, text=text)
    worst = candidate.failures[0]
    text = memory_text(worst)
    expected = bool(reference.failures)
    text += " (expected: the reference's is too)" if expected else "; the reference fits"
    return Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=not expected,
        text=text,
        failure=worst,
        expected=expected,
    )


def _text(
    outcome: Outcome,
    decision: Decision,
    estimate: Estimate | None,
    pairs: int,
    before: Summary,
    now: Summary,
) -> str:
    times = f"{seconds_text(before.median_s)} -> {seconds_text(now.median_s)}"
    counted = plural(pairs, "pair") + " of launches"
    if estimate is None:
        return f"{times}; {counted}, too few to compare"
    low, high = estimate.lower(_SHOWN_LEVEL), estimate.upper(_SHOWN_LEVEL)
    ratio = (
        f"{math.exp(estimate.mean):.3f} x the reference's time in turn "
        f"(95 %: {math.exp(low):.3f} to {math.exp(high):.3f}; {counted})"
    )
    limit = f"limit {math.exp(decision.limit or 0.0):.3f} x"
    if decision.suspected:
        return f"{times}, {ratio}, {limit}: suspected, not yet seen again"
    if outcome is Outcome.NOISY:
        return f"{times}, {ratio}: undecided"
    if outcome is Outcome.REGRESSED:
        return f"{times}, {ratio}, {limit}, seen again"
    return f"{times}, {ratio}"


def _tail_ratio(pairs: Sequence[tuple[Run, Run]]) -> float | None:
    """How much the tail, p90 over p25, grew, whether or not the time did; None if it did not."""
    if len(pairs) < 2:
        return None
    growth = of_launches([_tail_log(now) - _tail_log(before) for before, now in pairs])
    if growth.mean < _TAIL_GROWTH or growth.lower(_TAIL_LEVEL) <= 0:
        return None
    return math.exp(growth.mean)


def _tail_log(run: Run) -> float:
    return math.log(stats.quantile(run.samples_s, 0.9) / stats.launch_time_s(run))
