"""The candidate's launches against the reference's, measured in turn: no baseline, no drift.

The test is sequential: several looks at a growing number of launches, with stated error rates.
Given the launches of one case so far, in order, and what the session's other cases say of the
noise, it decides or says how many it needs. Pure, so that recorded launches can be replayed through
the same rule.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.model.verdict import Summary, Verdict
from busbw.model.words import Outcome, plural, seconds_text
from busbw.stats.launches import Estimate, launch_time_s, of_launches, quantile, shift_of_samples
from busbw.stats.variance import Variance, moderated, prior_variance, t_quantile, variance_of

from .case import Ruling, Terms, summary_of_runs, with_sides
from .policy import SHOWN_LEVEL, TAIL_GROWTH, TAIL_LEVEL, Looks
from .validity import WHOSE, broken, memory_text, memory_verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """PASS, REGRESSED or IMPROVED, or None and how many launches in all are wanted (None: no more).

    `estimate` is of the log ratio; `limit` is the log ratio that would have been a suspicion.
    `suspected`: only the confirmation is missing. `dropped` is after how many launches there was a
    suspicion that fresh ones did not confirm, 0 for none.
    """

    outcome: Outcome | None
    estimate: Estimate | None
    limit: float | None = None
    wanted: int | None = None
    suspected: bool = False
    dropped: int = 0


def decide(
    shifts: Sequence[float],
    looks: Looks,
    *,
    cases: int,
    floor: float,
    prior: Variance | None = None,
) -> Decision:
    """The decision on one of `cases` cases from `shifts`, one log ratio per launch, in order.

    Each look has the level that its part of the error rates allows (`stats.look_levels`). The
    bounds are those of the t-distribution. `floor` is the least slowdown that is a regression of
    this case, as a fraction; `prior` is what the session's cases say of its noise (`prior_of`).
    """
    found = Decision(outcome=None, estimate=None)
    alarms = look_levels(looks.counts, looks.false_alarms / cases, looks.spending)
    misses = look_levels(looks.counts, looks.misses, looks.spending)
    for count, alarm, miss in zip(looks.counts, alarms, misses):
        if len(shifts) < count:
            return replace(found, wanted=count)
        estimate = _estimate(shifts[:count], prior)
        limit = _limit(estimate, alarm, floor)
        found = replace(found, estimate=estimate, limit=limit)
        if estimate.mean > limit:
            confirmed = count + looks.confirming
            if len(shifts) < confirmed:
                return replace(found, wanted=confirmed, suspected=True)
            again = _estimate(shifts[:confirmed], prior)
            limit = _limit(again, alarm, floor)
            fresh = shifts[count:confirmed]
            if again.mean > limit and sum(fresh) / len(fresh) > math.log1p(floor):
                return replace(found, outcome=Outcome.REGRESSED, estimate=again, limit=limit)
            found = replace(found, dropped=count)
        elif -estimate.mean > limit:
            return replace(found, outcome=Outcome.IMPROVED)
        elif estimate.upper(miss) < math.log1p(max(looks.wanted, floor)):
            return replace(found, outcome=Outcome.PASS)
    return found


def prior_of(cases: Iterable[Sequence[float]], looks: Looks) -> Variance | None:
    """What the shifts of a session's `cases` say of the noise of each; None from fewer than two.

    Those up to the first look only, so that no look's answer changes with later launches. It weighs
    as much as the cases are alike in (`stats.prior_variance`), never more than the number of other
    cases, which is what this likeness is known from, and `pooled_freedom`. A case whose shifts do
    not differ at all says nothing.
    """
    first = looks.counts[0]
    found = [variance_of(shifts[:first]) for shifts in cases if len(shifts) >= first]
    found = [one for one in found if one.value > 0]
    if len(found) < 2:
        return None
    prior = prior_variance(found)
    return replace(prior, freedom=min(prior.freedom, looks.pooled_freedom, len(found) - 1))


def _estimate(shifts: Sequence[float], prior: Variance | None) -> Estimate:
    """The mean with the error that the case's own shifts and the prior give together.

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
    """The log ratio beyond which it is slower by both the noise and the least effect."""
    return max(estimate.mean - estimate.lower(level), math.log1p(floor))


def prior_of_pairs(
    pairs: Iterable[tuple[Measurement, Measurement]], terms: Terms
) -> Variance | None:
    """What the cases of a session, each a reference and a candidate, say of the noise of each."""
    found = (
        _shifts(pairs_of(reference.runs, candidate.runs))
        for reference, candidate in pairs
        if not (reference.failures or candidate.failures)
    )
    return prior_of(found, _looks(terms))


def judge_pair(
    spec: Spec,
    reference: Measurement,
    candidate: Measurement,
    terms: Terms,
    prior: Variance | None = None,
) -> Ruling:
    """The verdict so far on one case of two stacks measured in turn.

    `prior` is what the session's cases say of the noise (`prior_of_pairs`).
    """
    judged = _judge(spec, reference, candidate, terms, prior)
    is_shown = bool(reference.runs) and judged.verdict.outcome is not Outcome.FAILED
    before = summary_of_runs(reference) if is_shown else None
    return with_sides(judged, terms, candidate, baseline=before)


def _judge(
    spec: Spec,
    reference: Measurement,
    candidate: Measurement,
    terms: Terms,
    prior: Variance | None,
) -> Ruling:
    found = broken(spec, candidate) or broken(spec, reference, WHOSE)
    if found is not None:
        return Ruling(verdict=found)
    if candidate.failures or reference.failures:
        return Ruling(verdict=_out_of_memory(spec, reference, candidate))
    pairs = pairs_of(reference.runs, candidate.runs)
    looks = _looks(terms)
    usual_s = statistics.median(launch_time_s(run) for run in reference.runs)
    least_s = terms.policy.least_difference_of(candidate.case.clock)
    floor = max(looks.floor, least_s / usual_s)
    shifts = _shifts(pairs)
    decision = decide(shifts, looks, cases=terms.cases, floor=floor, prior=prior)
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
        notes=tuple(_notes(outcome, decision, tail)),
    )
    if estimate is not None:
        verdict = replace(
            verdict,
            ratio=math.exp(estimate.mean),
            ratio_interval=_interval(estimate),
            ratio_error=estimate.error,
            limit=None if decision.limit is None else math.exp(decision.limit),
        )
    return Ruling(verdict=verdict, wanted=decision.wanted, suspected=decision.suspected)


def _interval(estimate: Estimate) -> tuple[float, float]:
    return math.exp(estimate.lower(SHOWN_LEVEL)), math.exp(estimate.upper(SHOWN_LEVEL))


def pairs_of(reference: Sequence[Run], candidate: Sequence[Run]) -> list[tuple[Run, Run]]:
    """The runs of both sides by pass, which is the number that a launch's name begins with."""
    by_pass = {run.launch.pass_number: run for run in reference}
    found = ((by_pass.get(run.launch.pass_number), run) for run in candidate)
    return [(before, now) for before, now in found if before is not None]


def _shifts(pairs: Sequence[tuple[Run, Run]]) -> list[float]:
    """The log ratio of each pair of runs."""
    return [shift_of_samples(before.samples_s, now.samples_s) for before, now in pairs]


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
    expected = bool(reference.failures)
    more = " (expected: the reference's is too)" if expected else "; the reference fits"
    return memory_verdict(spec, worst, more, failed=not expected, expected=expected)


def _notes(outcome: Outcome, decision: Decision, tail: float | None) -> Iterator[str]:
    if tail is not None:
        yield f"the tail grew: p90 over p25 is {tail:.2f} x the reference's"
    if decision.dropped and outcome is not Outcome.REGRESSED:
        yield f"suspected after {plural(decision.dropped, 'pair')}, not seen again in fresh ones"


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
    said = {Outcome.NOISY: ": undecided", Outcome.REGRESSED: f", {limit}, seen again"}
    word = f", {limit}: suspected, not yet seen again" if decision.suspected else said.get(outcome)
    return f"{times}, {ratio}{word or ''}"


def _tail_ratio(pairs: Sequence[tuple[Run, Run]]) -> float | None:
    """How much the tail, p90 over p25, grew, whether or not the time did; None if it did not."""
    if len(pairs) < 2:
        return None
    growth = of_launches([_tail_log(now) - _tail_log(before) for before, now in pairs])
    if growth.mean < math.log1p(TAIL_GROWTH) or growth.lower(TAIL_LEVEL) <= 0:
        return None
    return math.exp(growth.mean)


def _tail_log(run: Run) -> float:
    return math.log(quantile(run.samples_s, 0.9) / launch_time_s(run))


# Of the integration by Simpson's rule: intervals, and standard deviations below to begin at.
_INTERVALS = 128
_LOWEST = -7.0


def spent(fraction: float, shape: float) -> float:
    """The share of an error rate that is spent by `fraction` (0 to 1) of the observations.

    (1 - e^(-shape t)) / (1 - e^-shape), of I. K. Hwang, W. J. Shih and J. S. DeCani, "Group
    sequential designs using a family of type I error probability spending functions", 1990: early
    for a shape above 0 (1 is close to Pocock's test), in proportion for 0, late for one below.
    """
    if shape == 0:
        return fraction
    return math.expm1(-shape * fraction) / math.expm1(-shape)


@functools.lru_cache(maxsize=256)
def look_levels(counts: tuple[int, ...], rate: float, shape: float) -> tuple[float, ...]:
    """The one-sided level of the look after each of `counts` observations, in ascending order.

    All looks together then err with probability `rate` (K. K. G. Lan and D. L. DeMets, "Discrete
    sequential boundaries for clinical trials", 1983): at each look the probability to cross its
    bound for the first time is what the spending function gives since the look before. The
    distribution of the sum of those that crossed none is integrated from look to look (P. Armitage,
    C. K. McPherson and B. C. Rowe, "Repeated significance tests on accumulating data", 1969) for
    normal observations of a known variance. Where the variance is estimated, the same levels are
    applied to Student's t (C. Jennison and B. W. Turnbull, "Group Sequential Methods with
    Applications to Clinical Trials", 2000, section 4.4), which is close, not exact.
    """
    by_look = [rate * spent(count / counts[-1], shape) for count in counts]
    found = [by_look[0]]
    sums, weights = _first(counts[0], t_quantile(found[0], math.inf))
    for before, count, least, most in zip(counts, counts[1:], by_look, by_look[1:]):
        added = math.sqrt(count - before)
        bound = _bound(sums, weights, added, most - least, math.sqrt(count))
        found.append(_tail(bound))
        sums, weights = _next(sums, weights, added, bound, math.sqrt(count))
    return tuple(found)


def _first(count: int, bound: float) -> tuple[list[float], list[float]]:
    """Sums below the bound of the first look, and their probabilities."""
    sums, widths = _grid(bound, math.sqrt(count))
    return sums, [
        width * _density(value / math.sqrt(count)) / math.sqrt(count)
        for value, width in zip(sums, widths)
    ]


def _next(
    sums: Sequence[float], weights: Sequence[float], added: float, bound: float, deviation: float
) -> tuple[list[float], list[float]]:
    """The same at the next look, with observations of deviation `added` more."""
    further, widths = _grid(bound, deviation)
    return further, [
        width
        * math.fsum(
            weight * _density((value - before) / added) for before, weight in zip(sums, weights)
        )
        / added
        for value, width in zip(further, widths)
    ]


def _bound(
    sums: Sequence[float],
    weights: Sequence[float],
    added: float,
    wanted: float,
    deviation: float,
) -> float:
    """The bound, in standard deviations, that is crossed with probability `wanted`."""
    low, high = _LOWEST, 40.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        crossing = math.fsum(
            weight * _tail((middle * deviation - before) / added)
            for before, weight in zip(sums, weights)
        )
        low, high = (middle, high) if crossing > wanted else (low, middle)
    return high


def _grid(bound: float, deviation: float) -> tuple[list[float], list[float]]:
    """Simpson's abscissas and weights from the lowest to `bound` standard deviations."""
    step = (bound - _LOWEST) * deviation / _INTERVALS
    values = [_LOWEST * deviation + step * index for index in range(_INTERVALS + 1)]
    inner = [4.0, 2.0] * (_INTERVALS // 2)
    return values, [step / 3 * weight for weight in (1.0, *inner[:-1], 1.0)]


def _density(value: float) -> float:
    return math.exp(-value * value / 2) / math.sqrt(2 * math.pi)


def _tail(value: float) -> float:
    return math.erfc(value / math.sqrt(2)) / 2
