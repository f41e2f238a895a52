"""The candidate's launches against the reference's, which are interleaved: no baseline, no drift.

The test is sequential: at several looks, with stated error rates, it decides or says how many
launches it needs. The functions measure nothing, so that recorded launches can be replayed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural, seconds_text
from busbw.stats.launches import (
    Estimate,
    estimate_mean,
    look_levels,
    shift_of_samples,
)
from busbw.stats.variance import Variance, moderated, prior_variance, variance_of

from .case import Ruling, Terms, add_summaries, summary_of_runs
from .policy import SHOWN_LEVEL, Looks
from .validity import REFERENCE, find_failed_launches, memory_text, memory_verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """PASS, REGRESSED, IMPROVED, or None if it is not decided.

    Then it would be decided by `needed_launches` in all, None for no more. `estimate` is that of
    the log ratio, and `limit` the log ratio above which the case would seem slower.
    `is_suspected`: it seems slower, and only the confirmation is missing.
    """

    outcome: Outcome | None
    estimate: Estimate | None
    limit: float | None = None
    needed_launches: int | None = None
    is_suspected: bool = False


def decide(
    shifts: Sequence[float],
    looks: Looks,
    *,
    cases: int,
    floor: float,
    prior: Variance | None = None,
) -> Decision:
    """Decide on one case by a group sequential t-test.

    Each look has the level that its part of the error rates allows (`look_levels`, with sources);
    bounds are those of Student's t. The shifts are assumed to be independent and normal.

    Args:
        shifts: log(candidate / reference) of each pair of launches, in order.
        looks: The looks and their error rates.
        cases: The number of cases that share the false-alarm rate of the session.
        floor: The least slowdown of this case that is a regression, as a fraction.
        prior: The noise of a shift by the session's other cases (`estimate_prior`), None for
            unknown.

    """
    decision = Decision(outcome=None, estimate=None)
    alarms = look_levels(looks.counts, looks.false_alarm_rate / cases, looks.spending_shape)
    misses = look_levels(looks.counts, looks.miss_rate, looks.spending_shape)
    for count, alarm, miss in zip(looks.counts, alarms, misses):
        if len(shifts) < count:
            return replace(decision, needed_launches=count)
        estimate = _estimate(shifts[:count], prior)
        limit = _limit(estimate, alarm, floor)
        decision = replace(decision, estimate=estimate, limit=limit)
        if estimate.mean > limit:
            confirmed = count + looks.confirming_launches
            if len(shifts) < confirmed:
                return replace(decision, needed_launches=confirmed, is_suspected=True)
            estimate = _estimate(shifts[:confirmed], prior)
            limit = _limit(estimate, alarm, floor)
            fresh = shifts[count:confirmed]
            if estimate.mean > limit and sum(fresh) / len(fresh) > math.log1p(floor):
                return replace(decision, outcome=Outcome.REGRESSED, estimate=estimate, limit=limit)
        elif -estimate.mean > limit:
            return replace(decision, outcome=Outcome.IMPROVED)
        elif estimate.upper(miss) < math.log1p(max(looks.detectable_loss, floor)):
            return replace(decision, outcome=Outcome.PASS)
    return decision


def estimate_prior(cases: Iterable[Sequence[float]], looks: Looks) -> Variance | None:
    """Return the variance of a shift that the shifts of `cases` lead to expect.

    The variances of the cases are pooled by empirical Bayes (`prior_variance`, Smyth 2004). The
    degrees of freedom, which say how alike the cases are, are at most the number of other cases and
    `looks.pooled_freedom`. Only shifts up to the first look are used, so that no look's result
    changes with later launches; cases whose shifts do not differ at all are left out. None for
    fewer than two cases.
    """
    first = looks.counts[0]
    variances = [variance_of(shifts[:first]) for shifts in cases if len(shifts) >= first]
    variances = [variance for variance in variances if variance.value > 0]
    if len(variances) < 2:
        return None
    prior = prior_variance(variances)
    return replace(prior, freedom=min(prior.freedom, looks.pooled_freedom, len(variances) - 1))


def _estimate(shifts: Sequence[float], prior: Variance | None) -> Estimate:
    """Return the mean with the error that the case's shifts and the prior give together.

    The prior adds certainty, and noise to a case that looks quieter. A case that looks noisier
    keeps its variance, or the noisiest case of a session would pass and alarm more often than
    stated.
    """
    if prior is None:
        return estimate_mean(shifts)
    variance = variance_of(shifts)
    both = moderated(variance, prior)
    error = math.sqrt(max(variance.value, both.value) / len(shifts))
    return Estimate(mean=statistics.fmean(shifts), error=error, freedom=both.freedom)


def _limit(estimate: Estimate, level: float, floor: float) -> float:
    return max(estimate.mean - estimate.lower(level), math.log1p(floor))


def estimate_prior_of_pairs(
    pairs: Iterable[tuple[Measurement, Measurement]], terms: Terms
) -> Variance | None:
    """Return `estimate_prior` of pairs of reference and candidate; failed pairs are left out."""
    shifts = [
        _shifts(reference, candidate)
        for reference, candidate in pairs
        if not (reference.failures or candidate.failures)
    ]
    return estimate_prior(shifts, _looks(terms))


def judge_pair(
    spec: Spec,
    reference: Measurement,
    candidate: Measurement,
    terms: Terms,
    prior: Variance | None = None,
) -> Ruling:
    """Judge one case of two interleaved stacks by the launches so far.

    Args:
        spec: The requested case.
        reference: What was measured of the reference.
        candidate: What was measured of the candidate.
        terms: The terms of the session.
        prior: The noise by the session's cases (`estimate_prior_of_pairs`), None for unknown.

    """
    judged = _judge(spec, reference, candidate, terms, prior)
    is_shown = bool(reference.runs) and judged.verdict.outcome is not Outcome.FAILED
    before = summary_of_runs(reference) if is_shown else None
    return add_summaries(judged, candidate, baseline=before)


def _judge(
    spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms, prior: Variance | None
) -> Ruling:
    failed_launches = find_failed_launches(spec, candidate)
    failed_launches = failed_launches or find_failed_launches(spec, reference, REFERENCE)
    if failed_launches is not None:
        return Ruling(verdict=failed_launches)
    if candidate.failures or reference.failures:
        return Ruling(verdict=_out_of_memory(spec, reference, candidate))
    shifts, looks = _shifts(reference, candidate), _looks(terms)
    before, after = summary_of_runs(reference), summary_of_runs(candidate)
    least_s = terms.policy.least_difference_of(candidate.case.clock)
    floor = max(looks.min_loss, least_s / before.median_s)
    times = f"{seconds_text(before.median_s)} -> {seconds_text(after.median_s)}"
    decision = decide(shifts, looks, cases=terms.cases, floor=floor, prior=prior)
    outcome = decision.outcome or Outcome.NOISY
    estimate = decision.estimate or (estimate_mean(shifts) if len(shifts) > 1 else None)
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED,
        text=_text(decision, estimate, len(shifts), times),
        ratio=None if estimate is None else math.exp(estimate.mean),
        ratio_interval=None if estimate is None else _interval(estimate),
        ratio_error=None if estimate is None else estimate.error,
        limit=None if decision.limit is None else math.exp(decision.limit),
    )
    return Ruling(
        verdict=verdict,
        needed_launches=decision.needed_launches,
        is_suspected=decision.is_suspected,
    )


def _interval(estimate: Estimate) -> tuple[float, float]:
    return math.exp(estimate.lower(SHOWN_LEVEL)), math.exp(estimate.upper(SHOWN_LEVEL))


def pair_launches(reference: Sequence[Run], candidate: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pair the runs of the same round; runs whose round the other side lacks are left out."""
    by_round = {run.launch.round_number: run for run in reference}
    pairs = ((by_round.get(run.launch.round_number), run) for run in candidate)
    return [(before, later) for before, later in pairs if before is not None]


def _shifts(reference: Measurement, candidate: Measurement) -> list[float]:
    pairs = pair_launches(reference.runs, candidate.runs)
    return [shift_of_samples(before.samples_s, after.samples_s) for before, after in pairs]


def _looks(terms: Terms) -> Looks:
    first = max(2, terms.launches)
    later = (count for count in terms.policy.looks.counts if count > first)
    return replace(terms.policy.looks, counts=(first, *later))


def _out_of_memory(spec: Spec, reference: Measurement, candidate: Measurement) -> Verdict:
    """Return OUT_OF_MEMORY, which fails unless both sides are, or IMPROVED if only one side was."""
    if not candidate.failures:
        text = f"it fits; {REFERENCE}{memory_text(reference.failures[0])}"
        return Verdict(spec=spec, outcome=Outcome.IMPROVED, failed=False, text=text)
    worst = candidate.failures[0]
    expected = bool(reference.failures)
    more = " (expected: the reference's is too)" if expected else "; the reference fits"
    return memory_verdict(spec, worst, more, failed=not expected, expected=expected)


def _text(decision: Decision, estimate: Estimate | None, pairs: int, times: str) -> str:
    counted = plural(pairs, "pair") + " of launches"
    if estimate is None:
        return f"{times}; {counted}, too few to compare"
    low, high = _interval(estimate)
    undecided = "seems slower, not yet confirmed" if decision.is_suspected else "undecided"
    end = {None: undecided, Outcome.REGRESSED: "confirmed"}.get(decision.outcome, "")
    limit = "" if decision.limit is None else f", limit {math.exp(decision.limit):.3f} x"
    return (
        f"{times}, {math.exp(estimate.mean):.3f} x the interleaved reference "
        f"(95 %: {low:.3f} to {high:.3f}; {counted}){limit}{end and f': {end}'}"
    )
