"""The verdict of one case: its measurement compared with its baseline.

Holds the order of the checks, and which cases are measured again; times are compared in `rule`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw import metrics
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, Measurement
from busbw.model.stored import Baseline
from busbw.model.verdict import Reference, Summary, Verdict
from busbw.model.words import Outcome, change_text, plural, seconds_text
from busbw.stats.launches import launch_time_s, quantile, relative_mad

from . import rule
from .expected_times import UNREMARKABLE, State, nearest
from .policy import Policy
from .validity import broken, memory_verdict, only_at_the_moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a session judges by: its policy, how many cases share it, launches asked for.

    `cases` is for two stacks in turn; a stored reference has its own. `accept_all`: today's times
    become the baselines, including slower ones. `accept_new`: only where there is none.
    `fail_above` is the user's own limit, a ratio, in place of that of the rule.
    `memory_limit_bytes` is an artificial limit, under which running out of memory says nothing of
    the machine.
    """

    policy: Policy
    cases: int = 1
    launches: int = 3
    require_baselines: bool = False
    accept_all: bool = False
    accept_new: bool = False
    fail_above: float | None = None
    memory_limit_bytes: int | None = None

    @property
    def missing_fails(self) -> bool:
        return self.require_baselines and not (self.accept_all or self.accept_new)


def summary_of(case: Case, times_s: Sequence[float], level_s: float | None = None) -> Summary:
    """Summarize launches; rates are those of the `level_s`, the median if there is none."""
    median_s = statistics.median(times_s) if level_s is None else level_s
    return Summary(
        times_s=tuple(times_s),
        median_s=median_s,
        best_s=min(times_s),
        worst_s=max(times_s),
        spread=relative_mad(times_s),
        algbw_gb_per_s=metrics.algbw_gb_per_s(case.payload_bytes, median_s),
        busbw_gb_per_s=metrics.busbw_gb_per_s(case, median_s),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """The verdict so far; `wanted` is how many launches in all would decide it, None for no more.

    `suspected`: it looks slower, and the confirmation is still missing. `throttled`: it is slower,
    and NOISY only because a device or the kernel slowed it down meanwhile.
    """

    verdict: Verdict
    wanted: int | None = None
    suspected: bool = False
    throttled: bool = False


def judge_case(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline | None,
    limit: rule.Limit | None,
    terms: Terms,
    *,
    state: State | None = None,
    nearest: str = "",
    incomparable: str = "",
    published: Reference | None = None,
) -> Ruling:
    """Judge one case by this session's `limit` and by what several sessions say, its `state`.

    There is no limit where the baseline has no times or nothing was timed. Where there is no
    baseline `nearest` says which other machine has one, and `incomparable` why a baseline of this
    machine cannot be compared with.
    """
    if baseline is not None and measurement.failures and baseline.oom:
        # Out of memory under one limit says nothing of out of memory under another.
        same = baseline.memory_limit_bytes == terms.memory_limit_bytes
        baseline = baseline if same else None
    judged = _judge(spec, measurement, baseline, limit, terms, state or UNREMARKABLE, nearest)
    if incomparable and judged.verdict.outcome is Outcome.NO_BASELINE:
        other = replace(judged.verdict, outcome=Outcome.INCOMPARABLE, text=incomparable)
        judged = replace(judged, verdict=other)
    return with_sides(judged, terms, measurement, published=published)


def with_sides(judged: Ruling, terms: Terms, now: Measurement, **sides: Any) -> Ruling:
    """Add the case, and both sides' summaries where they have times."""
    verdict = judged.verdict
    if now.runs and verdict.outcome is not Outcome.FAILED:
        sides["now"] = summary_of_runs(now)
    return replace(judged, verdict=replace(verdict, case=now.case, **sides))


def summary_of_runs(measurement: Measurement) -> Summary:
    runs = measurement.runs
    samples_s = [sample for run in runs for sample in run.samples_s]
    return replace(
        summary_of(measurement.case, [launch_time_s(run) for run in runs]),
        dispatch_s=_median([run.dispatch_s for run in runs]),
        first_call_s=_median([run.first_call_s for run in runs]),
        samples=len(samples_s),
        p99_s=quantile(samples_s, 0.99),
    )


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def may_become_baseline(verdict: Verdict) -> bool:
    """Return whether the measurement may be stored: of failures a lasting out of memory alone."""
    if verdict.outcome in (Outcome.FAILED, Outcome.SKIPPED):
        return False
    return verdict.failure is None or not only_at_the_moment(verdict.failure)


def _judge(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline | None,
    limit: rule.Limit | None,
    terms: Terms,
    state: State,
    nearest: str,
) -> Ruling:
    def said(outcome: Outcome, text: str, *, failed: bool = False) -> Ruling:
        return Ruling(verdict=Verdict(spec=spec, outcome=outcome, failed=failed, text=text))

    failed_launches, protocol = broken(spec, measurement), measurement.case.protocol
    if (
        failed_launches is not None
        and failed_launches.outcome is Outcome.SKIPPED
        and baseline is not None
    ):
        text = f"{failed_launches.text}; its baseline of {baseline.date} was measured"
        return said(Outcome.FAILED, text, failed=True)
    if failed_launches is not None:
        return Ruling(verdict=failed_launches)
    if baseline is not None and baseline.case.protocol != protocol:
        before = f"the baseline of {baseline.date} with {baseline.case.protocol}"
        text = f"measured with protocol {protocol}, {before}"
        failed = terms.require_baselines and not terms.accept_all
        return said(Outcome.INCOMPARABLE, text, failed=failed)
    if measurement.failures:
        return Ruling(verdict=_out_of_memory(spec, measurement.failures, baseline, terms, nearest))
    if baseline is None:
        text = "measured, nothing to compare with" + (f"; {nearest}" if nearest else "")
        text += "; a baseline is required" if terms.missing_fails else ""
        return said(Outcome.NO_BASELINE, text, failed=terms.missing_fails)
    if baseline.oom or limit is None:
        text = f"the baseline of {baseline.date} says out of memory and is stale"
        return said(Outcome.IMPROVED, f"it fits now; {text}")
    return _compare(spec, measurement, baseline, limit, terms, state)


def _out_of_memory(
    spec: Spec, failures: Sequence[Failure], baseline: Baseline | None, terms: Terms, nearest: str
) -> Verdict:
    worst = failures[0]
    if baseline is None:
        more = f" (no baseline{f'; {nearest}' if nearest else ''})"
        return memory_verdict(spec, worst, more, failed=terms.missing_fails)
    if baseline.oom:
        more = f" (expected: so it was on {baseline.date})"
        return memory_verdict(spec, worst, more, failed=False, expected=True)
    if all(only_at_the_moment(failure) for failure in failures):
        more = "; with the machine's memory free it would fit"
        verdict = memory_verdict(spec, worst, more, failed=terms.require_baselines)
        return replace(verdict, outcome=Outcome.INCOMPARABLE)
    before = seconds_text(statistics.median(baseline.times_s))
    more = f"; the baseline of {baseline.date} has {before}"
    return memory_verdict(spec, worst, more, failed=not terms.accept_all)


def _compare(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline,
    limit: rule.Limit,
    terms: Terms,
    state: State,
) -> Ruling:
    case, policy, expected = measurement.case, terms.policy, limit.expected
    times_s = [launch_time_s(run) for run in measurement.runs]
    most = limit.slower
    if terms.fail_above is not None:
        # A limit of the user's own is that of the fastest launch, too, and nothing else fails.
        most, state = math.log(terms.fail_above), UNREMARKABLE
        limit = replace(limit, fastest=None)
    times = rule.CaseTimes.of(times_s, policy.rule, terms.launches)
    wanted = terms.launches + policy.rule.confirming
    decision = rule.decide(times, limit, policy.rule, most, wanted)
    outcome, word = _outcome(decision, expected.sessions, terms, state)
    before, now = (
        summary_of(case, baseline.times_s, math.exp(expected.level)),
        summary_of(case, times_s),
    )
    text = (
        f"{seconds_text(before.median_s)} -> {seconds_text(now.median_s)}, "
        f"{math.exp(decision.off):.3f} x the expected time, "
        f"busbw {before.busbw_gb_per_s:.4g} -> {now.busbw_gb_per_s:.4g} GB/s"
        f"{word and f'; {word}'} ({_limit_text(decision, limit, terms)})"
    )
    ratios = [
        math.exp(math.log(time_s) - expected.level) for time_s in (min(times_s), max(times_s))
    ]
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED and not terms.accept_all,
        text=text,
        baseline=before,
        ratio=math.exp(decision.off),
        ratio_interval=(ratios[0], ratios[1]),
        ratio_error=limit.deviation,
        limit=math.exp(decision.limit),
        provisional=expected.sessions < policy.full_sessions,
        notes=tuple(_notes(decision, state)),
    )
    return Ruling(verdict=verdict, wanted=decision.wanted, suspected=decision.direction is None)


def _outcome(
    decision: rule.Decision, sessions: int, terms: Terms, state: State
) -> tuple[Outcome, str]:
    """Return the outcome, and what to say about it, if anything."""
    fresh = "" if decision.fresh is None else f"{math.exp(decision.fresh):.3f} x"
    if decision.direction is None:
        return Outcome.NOISY, "seems slower, not yet confirmed"
    if state.lasting is not None:
        loss = change_text(math.expm1(state.lasting.log_ratio))
        return (
            Outcome.REGRESSED,
            f"{loss} slower over the last {plural(state.lasting.sessions, 'session')}",
        )
    if decision.direction > 0:
        return Outcome.REGRESSED, f"confirmed: {fresh} in additional launches"
    if decision.direction < 0:
        return Outcome.IMPROVED, "the baseline is stale"
    if decision.is_noisy and not decision.confirmed:
        which = f"additional launches ({fresh})" if fresh else "the first launches"
        return Outcome.NOISY, f"slower, but not by {which}"
    seen = f"slower, confirmed ({fresh})"
    if decision.is_noisy and decision.off > decision.limit:
        return Outcome.NOISY, f"{seen}, but not by the fastest launch"
    if decision.is_noisy:
        few = sessions < terms.policy.full_sessions and terms.fail_above is None
        way = f"the limit of {plural(sessions, 'session')}: accept more, or " if few else ""
        return Outcome.NOISY, f"{seen}, within the limit ({way}--against=baseline tells)"
    blind = terms.policy.rule.blind
    if decision.limit <= math.log1p(blind):
        return Outcome.PASS, ""
    # A limit of the user's own is as wide as it shall be.
    outcome = Outcome.NOISY if terms.fail_above is None else Outcome.PASS
    return outcome, f"{1 + blind:g} x the expected time cannot be ruled out"


def _limit_text(decision: rule.Decision, limit: rule.Limit, terms: Terms) -> str:
    parts = [f"limit {math.exp(decision.limit):.3f} x"]
    if terms.fail_above is not None:
        parts[0] += " by --fail-above"
    elif limit.common_shift:
        parts.append(f"shared with others: {math.exp(limit.common_shift):.3f} x")
    sessions, full = limit.expected.sessions, terms.policy.full_sessions
    if sessions < full:
        parts.append(f"provisional: {sessions} of {plural(full, 'session')}")
    return ", ".join(parts)


def _notes(decision: rule.Decision, state: State) -> Iterator[str]:
    """Yield what became of a suspicion, and that a loss is over."""
    if (
        decision.suspected
        and decision.fresh is not None
        and not decision.direction
        and not decision.is_noisy
    ):
        yield (
            "seemed slower, but additional launches did not confirm it "
            f"({math.exp(decision.fresh):.3f} x)"
        )
    if state.repaired:
        yield f"repaired: back at its level after {plural(state.repaired, 'session')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerun:
    """How many more passes over the cases of `specs`; none when everything is decided."""

    specs: tuple[Spec, ...]
    passes: int


def rerun(
    judged: Mapping[Spec, Ruling], launches: Mapping[Spec, int], *, by_neighbours: bool
) -> Rerun:
    """Return the undecided cases and, `by_neighbours`, the two sizes next to each suspect.

    `launches` is how many there are by now. Enough passes for the first case to be decided.
    """
    lacking = {
        spec: ruling.wanted - launches[spec]
        for spec, ruling in judged.items()
        if ruling.wanted is not None and ruling.wanted > launches[spec]
    }
    undecided = set(lacking)
    for spec in lacking:
        if judged[spec].suspected and by_neighbours:
            undecided.update(_neighbours(spec, judged))
    ordered = tuple(spec for spec in judged if spec in undecided)
    return Rerun(specs=ordered, passes=min(lacking.values(), default=0))


def _neighbours(spec: Spec, judged: Mapping[Spec, Ruling]) -> list[Spec]:
    alike = [
        other
        for other, ruling in judged.items()
        if replace(other, payload_bytes=spec.payload_bytes) == spec
        and ruling.verdict.now is not None
    ]
    return nearest(spec, sorted(alike, key=lambda other: other.payload_bytes))
