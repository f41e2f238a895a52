"""The candidate's launches against the reference's, measured in turn: no baseline, no drift."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from busbw import stats
from busbw.model import Measurement, Outcome, Run, Spec, Summary, Verdict, plural, seconds_text

from . import clocks
from .case import Ruling, Terms, summary_of_runs
from .estimate import Estimate, of_launches, shift_of_samples
from .failures import broken, memory_text
from .sequential_test import Decision, Looks, decide

# Two-sided, for what is shown.
_SHOWN_LEVEL = 0.025

# The tail is told of where it grew for sure, by a fifth at least.
_TAIL_LEVEL = 0.001
_TAIL_GROWTH = math.log(1.2)

_WHOSE = "the reference: "


def judge_pair(spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms) -> Ruling:
    """One case of two stacks measured in turn, as it stands."""
    judged = _judge(spec, reference, candidate, terms)
    verdict = judged.verdict
    now = before = None
    if candidate.runs and verdict.outcome is not Outcome.FAILED:
        now = summary_of_runs(candidate)
    if reference.runs and verdict.outcome is not Outcome.FAILED:
        before = summary_of_runs(reference)
    notes = (*verdict.notes, *clocks.disagreement(candidate.runs, terms.policy))
    whole = replace(verdict, case=candidate.case, now=now, baseline=before, notes=notes)
    return replace(judged, verdict=whole)


def _judge(spec: Spec, reference: Measurement, candidate: Measurement, terms: Terms) -> Ruling:
    found = broken(spec, candidate) or broken(spec, reference, _WHOSE)
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
    estimate = decision.estimate or _estimate(shifts)
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
    """The runs of one pass each: a pass is the number that a launch's name begins with."""
    by_pass = {run.launch.pass_number: run for run in reference}
    found = ((by_pass.get(run.launch.pass_number), run) for run in candidate)
    return [(before, now) for before, now in found if before is not None]


def _looks(terms: Terms) -> Looks:
    """The first look is after the launches asked for."""
    first = max(2, terms.launches)
    later = (count for count in terms.policy.looks.counts if count > first)
    return replace(terms.policy.looks, counts=(first, *later))


def _estimate(shifts: Sequence[float]) -> Estimate | None:
    return of_launches(shifts) if len(shifts) > 1 else None


def _out_of_memory(spec: Spec, reference: Measurement, candidate: Measurement) -> Verdict:
    """Memory that both lack is no difference; what fits only now is none to fear."""
    if not candidate.failures:
        text = f"it fits; {_WHOSE}{memory_text(reference.failures[0])}"
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
    """Advice: by how much the tail, p90 over p25, grew, although the time itself may not have."""
    if len(pairs) < 2:
        return None
    growth = of_launches([_tail_log(now) - _tail_log(before) for before, now in pairs])
    if growth.mean < _TAIL_GROWTH or growth.lower(_TAIL_LEVEL) <= 0:
        return None
    return math.exp(growth.mean)


def _tail_log(run: Run) -> float:
    return math.log(stats.quantile(run.samples_s, 0.9) / stats.launch_time_s(run))
