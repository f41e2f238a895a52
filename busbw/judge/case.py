"""The verdict of one case: its measurement compared with its baseline.

This file has the order of the checks, the decision on the launches of today (slower, faster,
neither, or not yet), and the cases that are measured again; `rule` has the limits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw import metrics
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, Measurement
from busbw.model.stored import Baseline
from busbw.model.verdict import Reference, Summary, Verdict
from busbw.model.words import Outcome, change_text, plural, seconds_text
from busbw.stats.launches import launch_time_s, relative_mad

from .expected_times import UNREMARKABLE, State, nearest
from .policy import Policy, Rule
from .rule import CaseTimes, Limit
from .validity import find_failed_launches, is_temporary, memory_verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """The terms of a session: its policy, the planned number of launches, and the user's options.

    `cases` is the number of cases that share the error rates of two interleaved stacks.
    `accept_all`: today's times become the baselines, including slower ones; `accept_new`: only
    of cases without a baseline. `fail_above` is the user's fixed limit, a ratio, which replaces
    the limit of the rule. `memory_limit_bytes` is an artificial limit, under which running out of
    memory says nothing of the machine.
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
        """Whether a case without a baseline fails."""
        return self.require_baselines and not (self.accept_all or self.accept_new)


def summary_of(case: Case, times_s: Sequence[float], level_s: float | None = None) -> Summary:
    """Return the summary of one launch or more, in seconds.

    Bandwidths are computed from `level_s`, or from the median of the launches if it is None.
    """
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
    """The verdict so far; with `needed_launches` in all it would be decided, None for no more.

    `is_suspected`: the case seems slower, and the confirmation is still missing. `is_doubted`: it
    is slower, and NOISY only because a finding says what else may have made it slower.
    """

    verdict: Verdict
    needed_launches: int | None = None
    is_suspected: bool = False
    is_doubted: bool = False


def judge_case(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline | None,
    limit: Limit | None,
    terms: Terms,
    *,
    state: State | None = None,
    incomparable: str = "",
    published: Reference | None = None,
) -> Ruling:
    """Judge one case against its baseline.

    Args:
        spec: The requested case.
        measurement: What was measured of it.
        baseline: The stored baseline, None for none.
        limit: The limit of this session, None if the baseline has no times or nothing was timed.
        terms: The terms of the session.
        state: The losses that several sessions show, None for none.
        incomparable: Why the baseline of this machine cannot be compared with.
        published: A published figure to show with the verdict.

    """
    if baseline is not None and measurement.failures and baseline.oom:
        # Out of memory under one limit says nothing of out of memory under another.
        same = baseline.memory_limit_bytes == terms.memory_limit_bytes
        baseline = baseline if same else None
    state = state or UNREMARKABLE
    judged = _judge(spec, measurement, baseline, limit, terms, state, incomparable)
    return add_summaries(judged, measurement, published=published)


def add_summaries(ruling: Ruling, measurement: Measurement, **fields: Any) -> Ruling:
    """Add the case, its summary if it has times and did not fail, and other `fields`."""
    verdict = ruling.verdict
    if measurement.runs and verdict.outcome is not Outcome.FAILED:
        fields["now"] = summary_of_runs(measurement)
    return replace(ruling, verdict=replace(verdict, case=measurement.case, **fields))


def summary_of_runs(measurement: Measurement) -> Summary:
    """Return the summary of the launches of a measurement, which has one at least."""
    runs = measurement.runs
    dispatch_s = [run.dispatch_s for run in runs if run.dispatch_s is not None]
    return replace(
        summary_of(measurement.case, [launch_time_s(run) for run in runs]),
        dispatch_s=statistics.median(dispatch_s) if dispatch_s else None,
    )


def may_become_baseline(verdict: Verdict) -> bool:
    """Return whether the measurement may be stored.

    A failure may be stored only if the case ran out of memory and always will on this machine.
    """
    if verdict.outcome in (Outcome.FAILED, Outcome.SKIPPED):
        return False
    return verdict.failure is None or not is_temporary(verdict.failure)


def _judge(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline | None,
    limit: Limit | None,
    terms: Terms,
    state: State,
    incomparable: str,
) -> Ruling:
    def rule_that(outcome: Outcome, text: str, *, failed: bool = False) -> Ruling:
        return Ruling(verdict=Verdict(spec=spec, outcome=outcome, failed=failed, text=text))

    failed_launches, protocol = find_failed_launches(spec, measurement), measurement.case.protocol
    if failed_launches is not None:
        if failed_launches.outcome is not Outcome.SKIPPED or baseline is None:
            return Ruling(verdict=failed_launches)
        text = f"{failed_launches.text}; its baseline of {baseline.date} was measured"
        return rule_that(Outcome.FAILED, text, failed=True)
    if baseline is not None and baseline.case.protocol != protocol:
        before = f"the baseline of {baseline.date} with {baseline.case.protocol}"
        text = f"measured with protocol {protocol}, {before}"
        failed = terms.require_baselines and not terms.accept_all
        return rule_that(Outcome.INCOMPARABLE, text, failed=failed)
    if measurement.failures:
        return Ruling(verdict=_out_of_memory(spec, measurement.failures, baseline, terms))
    if baseline is None:
        required = "; a baseline is required" if terms.missing_fails else ""
        text = incomparable or f"measured, nothing to compare with{required}"
        outcome = Outcome.INCOMPARABLE if incomparable else Outcome.NO_BASELINE
        return rule_that(outcome, text, failed=terms.missing_fails)
    if baseline.oom or limit is None:
        text = f"the baseline of {baseline.date} says out of memory and is stale"
        return rule_that(Outcome.IMPROVED, f"it fits now; {text}")
    return _compare(spec, measurement, baseline, limit, terms, state)


def _out_of_memory(
    spec: Spec, failures: Sequence[Failure], baseline: Baseline | None, terms: Terms
) -> Verdict:
    worst = failures[0]
    if baseline is None:
        return memory_verdict(spec, worst, " (no baseline)", failed=terms.missing_fails)
    if baseline.oom:
        more = f" (expected: so it was on {baseline.date})"
        return memory_verdict(spec, worst, more, failed=False, expected=True)
    if all(is_temporary(failure) for failure in failures):
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
    limit: Limit,
    terms: Terms,
    state: State,
) -> Ruling:
    policy, expected, max_log_ratio = terms.policy, limit.expected, limit.slower
    times_s = [launch_time_s(run) for run in measurement.runs]
    if terms.fail_above is not None:
        # The user's limit is that of the fastest launch, too, and nothing else fails.
        max_log_ratio, state = math.log(terms.fail_above), UNREMARKABLE
        limit = replace(limit, fastest=None)
    times = CaseTimes.split(times_s, policy.rule, terms.launches)
    decision = decide(times, limit, policy.rule, max_log_ratio)
    outcome, reason = _outcome(decision, terms, state)
    before = summary_of(measurement.case, baseline.times_s, math.exp(expected.level))
    text = (
        f"{seconds_text(before.median_s)} -> {seconds_text(statistics.median(times_s))}, "
        f"{math.exp(decision.log_ratio):.3f} x the expected time"
        f"{reason and f'; {reason}'} (limit {math.exp(decision.limit):.3f} x)"
    )
    fastest, slowest = (
        math.exp(math.log(time_s) - expected.level) for time_s in (min(times_s), max(times_s))
    )
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED and not terms.accept_all,
        text=text,
        baseline=before,
        ratio=math.exp(decision.log_ratio),
        ratio_interval=(fastest, slowest),
        ratio_error=limit.stddev,
        limit=math.exp(decision.limit),
        provisional=expected.sessions < policy.full_sessions,
        notes=_notes(decision),
    )
    is_undecided = decision.direction is None
    needed = terms.launches + policy.rule.confirming_launches if is_undecided else None
    return Ruling(verdict=verdict, needed_launches=needed, is_suspected=is_undecided)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision on a case: slower (1), faster (-1), neither (0), or None.

    None: the first launches seem slower (`is_suspected`), and the launches that confirm it are
    missing. `log_ratio` is the median of all launches over the level, `limit` what it was compared
    with, and `confirmation` the log ratio of the confirming launches, None without them.
    `is_confirmed`: these are slower, too.
    """

    direction: int | None
    log_ratio: float
    limit: float
    confirmation: float | None
    is_suspected: bool
    is_confirmed: bool

    @property
    def is_noisy(self) -> bool:
        """Whether not all launches agree that the case is slower.

        It was confirmed and is within the limit, or exceeds the limit and was not confirmed.
        """
        return self.direction == 0 and (self.is_confirmed or self.log_ratio > self.limit)


def decide(times: CaseTimes, limit: Limit, rule: Rule, max_log_ratio: float) -> Decision:
    """Decide whether a case is slower than its expected time by more than `max_log_ratio`.

    It is slower if the median of all launches exceeds `max_log_ratio`, and the first launches, the
    confirming ones and the fastest of all exceed a part of it.

    Args:
        times: Today's launches of the case.
        limit: The computed limits of the case.
        rule: The numbers of the rule.
        max_log_ratio: `limit.slower`, or the user's fixed limit.

    """
    suspicion = _partial_limit(limit, max_log_ratio, rule.suspicion_share, rule)
    level = limit.expected.level
    log_ratio = times.together.median - level
    confirmation = None if times.confirmation is None else times.confirmation - level
    is_suspected = times.first.median - level > suspicion
    is_confirmed = is_suspected and confirmation is not None and confirmation > suspicion
    direction: int | None = 0
    if is_suspected and confirmation is None:
        direction = None
    elif is_confirmed and log_ratio > max_log_ratio:
        partial = _partial_limit(limit, max_log_ratio, rule.fastest_share, rule)
        fastest = partial if limit.fastest is None else limit.fastest
        direction = int(times.together.fastest - limit.expected.fastest > fastest)
    elif log_ratio < limit.faster:
        direction = -1
    return Decision(
        direction=direction,
        log_ratio=log_ratio,
        limit=max_log_ratio,
        confirmation=confirmation,
        is_suspected=is_suspected,
        is_confirmed=is_confirmed,
    )


def _partial_limit(limit: Limit, max_log_ratio: float, share: float, rule: Rule) -> float:
    """Return a part of the way to the limit, above what the case shares with others now."""
    shift = limit.common_shift if rule.compares_neighbours else max(0.0, limit.common_shift)
    return min(max_log_ratio, max(share * max_log_ratio, shift + share * limit.residual_limit))


def _outcome(decision: Decision, terms: Terms, state: State) -> tuple[Outcome, str]:
    """Return the outcome, and the text about it, which may be empty."""
    confirmation = (
        "" if decision.confirmation is None else f"{math.exp(decision.confirmation):.3f} x"
    )
    if decision.direction is None:
        return Outcome.NOISY, "seems slower, not yet confirmed"
    if state.lost_sessions:
        loss = change_text(math.expm1(state.mean_loss))
        return (
            Outcome.REGRESSED,
            f"{loss} slower over the last {plural(state.lost_sessions, 'session')}",
        )
    if decision.direction > 0:
        return Outcome.REGRESSED, f"confirmed: {confirmation} in additional launches"
    if decision.direction < 0:
        return Outcome.IMPROVED, "the baseline is stale"
    if decision.is_noisy and not decision.is_confirmed:
        return Outcome.NOISY, f"slower, but not confirmed ({confirmation or 'by first launches'})"
    seen = f"slower, confirmed ({confirmation})"
    if decision.is_noisy and decision.log_ratio > decision.limit:
        return Outcome.NOISY, f"{seen}, but not by the fastest launch"
    if decision.is_noisy:
        return Outcome.NOISY, f"{seen}, within the limit (--against=baseline tells)"
    useful = terms.policy.rule.max_useful_limit
    if decision.limit <= math.log1p(useful):
        return Outcome.PASS, ""
    # The user chose how wide the limit is.
    outcome = Outcome.NOISY if terms.fail_above is None else Outcome.PASS
    return outcome, f"{1 + useful:g} x the expected time cannot be ruled out"


def _notes(decision: Decision) -> tuple[str, ...]:
    """Return what became of a suspicion."""
    is_over = decision.is_suspected and decision.direction == 0 and not decision.is_noisy
    if decision.confirmation is None or not is_over:
        return ()
    ratio = f"{math.exp(decision.confirmation):.3f} x"
    return (f"seemed slower, but additional launches did not confirm it ({ratio})",)


def plan_rerun(
    judged: Mapping[Spec, Ruling], launches: Mapping[Spec, int], *, by_neighbours: bool
) -> tuple[tuple[Spec, ...], int]:
    """Return the undecided cases, and the number of rounds that decide the first of them.

    Args:
        judged: The rulings so far.
        launches: The number of launches so far.
        by_neighbours: Measure the two sizes next to a case that seems slower, too.

    """
    lacking = {
        spec: ruling.needed_launches - launches[spec]
        for spec, ruling in judged.items()
        if ruling.needed_launches is not None and ruling.needed_launches > launches[spec]
    }
    undecided = set(lacking)
    for spec in lacking:
        if judged[spec].is_suspected and by_neighbours:
            family = [
                other
                for other, ruling in judged.items()
                if replace(other, payload_bytes=spec.payload_bytes) == spec
                and ruling.verdict.now is not None
            ]
            undecided.update(nearest(spec, sorted(family, key=lambda other: other.payload_bytes)))
    ordered = tuple(spec for spec in judged if spec in undecided)
    return ordered, min(lacking.values(), default=0)
