"""The candidate's launches against the reference's, measured in turn: no baseline, no drift.

The test is sequential: at several looks, with stated error rates, it decides or says how many
launches it needs. Pure, so that recorded launches can be replayed through the same rule.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.model.verdict import Summary, Verdict
from busbw.model.words import Outcome, plural, seconds_text
from busbw.stats.launches import (
    Estimate,
    look_levels,
    of_launches,
    shift_of_samples,
)
from busbw.stats.variance import Variance, moderated, prior_variance, variance_of

from .case import Ruling, Terms, summary_of_runs, with_sides
from .policy import SHOWN_LEVEL, Looks
from .validity import WHOSE, broken, memory_text, memory_verdict


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


def decide(
    shifts: Sequence[float],
    looks: Looks,
    *,
    cases: int,
    floor: float,
    prior: Variance | None = None,
) -> Decision:
    """Decide on one of `cases` cases from `shifts`, one log ratio per launch, in order.

    Each look has the level that its part of the error rates allows (`look_levels`). The
    bounds are those of the t-distribution. `floor` is the least slowdown that is a regression of
    this case, as a fraction; `prior` is what the session's cases say of its noise (`prior_of`).
    """
    decision = Decision(outcome=None, estimate=None)
    alarms = look_levels(looks.counts, looks.false_alarms / cases, looks.spending)
    misses = look_levels(looks.counts, looks.misses, looks.spending)
    for count, alarm, miss in zip(looks.counts, alarms, misses):
        if len(shifts) < count:
            return replace(decision, wanted=count)
        estimate = _estimate(shifts[:count], prior)
        limit = _limit(estimate, alarm, floor)
        decision = replace(decision, estimate=estimate, limit=limit)
        if estimate.mean > limit:
            confirmed = count + looks.confirming
            if len(shifts) < confirmed:
                return replace(decision, wanted=confirmed, suspected=True)
            again = _estimate(shifts[:confirmed], prior)
            limit = _limit(again, alarm, floor)
            fresh = shifts[count:confirmed]
            if again.mean > limit and sum(fresh) / len(fresh) > math.log1p(floor):
                return replace(decision, outcome=Outcome.REGRESSED, estimate=again, limit=limit)
        elif -estimate.mean > limit:
            return replace(decision, outcome=Outcome.IMPROVED)
        elif estimate.upper(miss) < math.log1p(max(looks.wanted, floor)):
            return replace(decision, outcome=Outcome.PASS)
    return decision


def prior_of(cases: Iterable[Sequence[float]], looks: Looks) -> Variance | None:
    """Return what the shifts of `cases` say of the noise of each; None from fewer than two.

    Those up to the first look only, so that no look's answer changes with later launches. It weighs
    as much as the cases are alike in (`prior_variance`), never more than the number of other
    cases, which is what this likeness is known from, and `pooled_freedom`. A case whose shifts do
    not differ at all says nothing.
    """
    first = looks.counts[0]
    variances = [variance_of(shifts[:first]) for shifts in cases if len(shifts) >= first]
    variances = [variance for variance in variances if variance.value > 0]
    if len(variances) < 2:
        return None
    prior = prior_variance(variances)
    return replace(prior, freedom=min(prior.freedom, looks.pooled_freedom, len(variances) - 1))


def _estimate(shifts: Sequence[float], prior: Variance | None) -> Estimate:
    """Return the mean with the error that the case's own shifts and the prior give together.

    The prior adds certainty, and noise to a case that looks quieter; a case that looks noisier is
    taken at its word, or the noisiest of a session would pass and alarm more often than promised.
    """
    if prior is None:
        return of_launches(shifts)
    own = variance_of(shifts)
    both = moderated(own, prior)
    error = math.sqrt(max(own.value, both.value) / len(shifts))
    return Estimate(mean=statistics.fmean(shifts), error=error, freedom=both.freedom)


def _limit(estimate: Estimate, level: float, floor: float) -> float:
    return max(estimate.mean - estimate.lower(level), math.log1p(floor))


def prior_of_pairs(
    pairs: Iterable[tuple[Measurement, Measurement]], terms: Terms
) -> Variance | None:
    whole = [
        (reference, candidate)
        for reference, candidate in pairs
        if not (reference.failures or candidate.failures)
    ]
    return prior_of((_shifts(pairs_of(a.runs, b.runs)) for a, b in whole), _looks(terms))


def judge_pair(
    spec: Spec,
    reference: Measurement,
    candidate: Measurement,
    terms: Terms,
    prior: Variance | None = None,
) -> Ruling:
    """Judge one case of two interleaved stacks by the launches so far.

    `prior` is what the session's cases say of the noise (`prior_of_pairs`).
    """
    judged = _judge(spec, reference, candidate, terms, prior)
    is_shown = bool(reference.runs) and judged.verdict.outcome is not Outcome.FAILED
    before = summary_of_runs(reference) if is_shown else None
    return with_sides(judged, terms, candidate, baseline=before)


def _judge(
    spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms, prior: Variance | None
) -> Ruling:
    failed_launches = broken(spec, candidate) or broken(spec, reference, WHOSE)
    if failed_launches is not None:
        return Ruling(verdict=failed_launches)
    if candidate.failures or reference.failures:
        return Ruling(verdict=_out_of_memory(spec, reference, candidate))
    pairs, looks = pairs_of(reference.runs, candidate.runs), _looks(terms)
    before, now = summary_of_runs(reference), summary_of_runs(candidate)
    least_s = terms.policy.least_difference_of(candidate.case.clock)
    floor = max(looks.floor, least_s / before.median_s)
    shifts = _shifts(pairs)
    decision = decide(shifts, looks, cases=terms.cases, floor=floor, prior=prior)
    outcome = decision.outcome or Outcome.NOISY
    estimate = decision.estimate or (of_launches(shifts) if len(shifts) > 1 else None)
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED,
        text=_text(outcome, decision, estimate, len(pairs), before, now),
        ratio=None if estimate is None else math.exp(estimate.mean),
        ratio_interval=None if estimate is None else _interval(estimate),
        ratio_error=None if estimate is None else estimate.error,
        limit=None if decision.limit is None else math.exp(decision.limit),
    )
    return Ruling(verdict=verdict, wanted=decision.wanted, suspected=decision.suspected)


def _interval(estimate: Estimate) -> tuple[float, float]:
    return math.exp(estimate.lower(SHOWN_LEVEL)), math.exp(estimate.upper(SHOWN_LEVEL))


def pairs_of(reference: Sequence[Run], candidate: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return the runs of both sides by pass, the number that a launch's name begins with."""
    by_pass = {run.launch.pass_number: run for run in reference}
    pairs = ((by_pass.get(run.launch.pass_number), run) for run in candidate)
    return [(before, later) for before, later in pairs if before is not None]


def _shifts(pairs: Sequence[tuple[Run, Run]]) -> list[float]:
    return [shift_of_samples(before.samples_s, after.samples_s) for before, after in pairs]


def _looks(terms: Terms) -> Looks:
    first = max(2, terms.launches)
    later = (count for count in terms.policy.looks.counts if count > first)
    return replace(terms.policy.looks, counts=(first, *later))


def _out_of_memory(spec: Spec, reference: Measurement, candidate: Measurement) -> Verdict:
    """Out of memory on both sides is no difference; what fits only now has IMPROVED."""
    if not candidate.failures:
        text = f"it fits; {WHOSE}{memory_text(reference.failures[0])}"
        return Verdict(spec=spec, outcome=Outcome.IMPROVED, failed=False, text=text)
    worst = candidate.failures[0]
    expected = bool(reference.failures)
    more = " (expected: the reference's is too)" if expected else "; the reference fits"
    return memory_verdict(spec, worst, more, failed=not expected, expected=expected)


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
    low, high = _interval(estimate)
    ratio = (
        f"{math.exp(estimate.mean):.3f} x the reference's time in turn "
        f"(95 %: {low:.3f} to {high:.3f}; {counted})"
    )
    limit = f"limit {math.exp(decision.limit or 0.0):.3f} x"
    said = {Outcome.NOISY: ": undecided", Outcome.REGRESSED: f", {limit}, confirmed"}
    word = (
        f", {limit}: seems slower, not yet confirmed" if decision.suspected else said.get(outcome)
    )
    return f"{times}, {ratio}{word or ''}"
