"""Judge one case: compare today's launches of the case with its expected time.

This module has the order of the checks, and the choice of the cases that are measured again. `rule`
computes the limits of a case, and `decision` compares the case with these limits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw import metrics
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, Measurement
from busbw.model.stored import Baseline
from busbw.model.verdict import LaunchTimeSummary, PublishedBandwidth, Verdict
from busbw.model.words import Outcome, change_text, plural, seconds_text
from busbw.stats.launches import launch_time_s, robust_stddev

from .decision import CaseLimits, SpeedChangeDecision, decide_speed_change
from .noise import find_two_neighbours
from .policy import Policy
from .series import NO_LOSS, CaseTimes, SeriesLoss
from .validity import (
    injection_notes,
    judge_failed_launches,
    out_of_memory_verdict,
    would_fit_without_other_programs,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingSettings:
    """The policy and the user's options by which the cases of a session are judged.

    Attributes:
        policy: The thresholds for the class of devices.
        case_count: The number of cases of the session, among which the false-alarm rate of the test
            of two interleaved stacks is divided.
        planned_launch_count: The number of launches of each case before a case is measured again.
        min_launch_count: The session has no verdict if a case has fewer launches; None for
            `planned_launch_count`.
        require_baselines: Whether a case that has no comparable baseline fails, unless an update
            stores the case.
        accepts_slower_times: Whether an update stores today's times of the case even if these are
            slower than expected. A slower case does not fail then.
        accepts_new_cases: Whether an update stores only the cases without a baseline.
        fail_above: The user's limit of the ratio of today's time to the expected time; None if the
            limit is computed.
        memory_limit_bytes: The artificial limit of memory; None without such a limit.

    """

    policy: Policy
    case_count: int = 1
    planned_launch_count: int = 3
    min_launch_count: int | None = None
    require_baselines: bool = False
    accepts_slower_times: bool = False
    accepts_new_cases: bool = False
    fail_above: float | None = None
    memory_limit_bytes: int | None = None

    @property
    def fails_without_baseline(self) -> bool:
        """Whether a case fails if it has no baseline.

        Returns True if baselines are required, and the session does not store the missing baseline.
        """
        return self.require_baselines and not (self.accepts_slower_times or self.accepts_new_cases)


def summarize_times(
    case: Case, times_s: Sequence[float], level_s: float | None = None
) -> LaunchTimeSummary:
    """Summarize the times of one or more launches of a case, in seconds.

    `level_s` replaces the median of `times_s`, and None keeps the median. Bandwidths are computed
    from the median or from `level_s`.
    """
    median_s = statistics.median(times_s) if level_s is None else level_s
    return LaunchTimeSummary(
        times_s=tuple(times_s),
        median_s=median_s,
        best_s=min(times_s),
        worst_s=max(times_s),
        spread=robust_stddev(times_s) / statistics.median(times_s),
        algbw_gb_per_s=metrics.algbw_gb_per_s(case.payload_bytes, median_s),
        busbw_gb_per_s=metrics.busbw_gb_per_s(case, median_s),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class InterimVerdict:
    """The verdict on a case by the launches so far; more launches may change the verdict.

    Attributes:
        verdict: The verdict on the launches that were measured so far.
        needed_launch_count: The total number of launches that the case needs for the next decision;
            None if no more launches are needed.
        is_suspected: Whether the case seems slower, and confirming launches are still missing.
        is_doubted: Whether the case is slower but NOISY, because a finding of an extension names
            another possible cause.

    """

    verdict: Verdict
    needed_launch_count: int | None = None
    is_suspected: bool = False
    is_doubted: bool = False


def judge_case(
    spec: CaseSpec,
    measurement: Measurement,
    baseline: Baseline | None,
    limits: CaseLimits | None,
    settings: JudgingSettings,
    *,
    latest_loss: SeriesLoss | None = None,
    published_bandwidth: PublishedBandwidth | None = None,
) -> InterimVerdict:
    """Judge one case against its baseline, and return the interim verdict.

    Args:
        spec: The requested case.
        measurement: Today's runs and failures of the case.
        baseline: The stored baseline of the case; None if the case has no baseline.
        limits: Today's limits of the case; None if the baseline or today's measurement has no
            times.
        settings: The policy and the options of the session.
        latest_loss: The loss of the case over several sessions, today included; None if the case
            has no expected time.
        published_bandwidth: A bandwidth that others published, to show with the verdict; None
            without such a bandwidth.

    """
    if (
        baseline is not None
        and measurement.failures
        and baseline.is_out_of_memory
        and baseline.memory_limit_bytes != settings.memory_limit_bytes
    ):
        # Running out of memory under one artificial limit says nothing about another limit.
        baseline = None
    latest_loss = latest_loss or NO_LOSS
    judged = _judge_outcome(spec, measurement, baseline, limits, settings, latest_loss)
    return complete_verdict(judged, measurement, published=published_bandwidth)


def complete_verdict(
    interim: InterimVerdict, measurement: Measurement, **fields: Any
) -> InterimVerdict:
    """Return `interim` with a completed verdict: with the case, a summary of launches, and notes.

    The summary is left out if the case has no times, or if the case is FAILED. A note is added if
    the case was slowed down on purpose. `fields` maps the names of further fields of the Verdict to
    the values that replace these fields.
    """
    verdict = interim.verdict
    if measurement.runs and verdict.outcome is not Outcome.FAILED:
        fields["now"] = summarize_runs(measurement)
    notes = (*verdict.notes, *injection_notes(measurement.runs))
    return replace(interim, verdict=replace(verdict, case=measurement.case, notes=notes, **fields))


def summarize_runs(measurement: Measurement) -> LaunchTimeSummary:
    """Summarize the times of all runs (one or more) of the measurement of a case."""
    runs = measurement.runs
    dispatch_s = [run.dispatch_s for run in runs if run.dispatch_s is not None]
    return replace(
        summarize_times(measurement.case, [launch_time_s(run) for run in runs]),
        dispatch_s=statistics.median(dispatch_s) if dispatch_s else None,
    )


def may_become_baseline(verdict: Verdict) -> bool:
    """Return whether the measurement of a case may be stored as its baseline.

    A FAILED or SKIPPED case is never stored. A case that ran out of memory is stored, unless the
    case would fit if other programs used no memory.
    """
    if verdict.outcome in (Outcome.FAILED, Outcome.SKIPPED):
        return False
    return verdict.failure is None or not would_fit_without_other_programs(verdict.failure)


def _judge_outcome(
    spec: CaseSpec,
    measurement: Measurement,
    baseline: Baseline | None,
    limits: CaseLimits | None,
    settings: JudgingSettings,
    latest_loss: SeriesLoss,
) -> InterimVerdict:
    """Return the interim verdict of the first check that applies to a case.

    The checks are, in this order: failed launches, another protocol than that of the baseline,
    launches that ran out of memory, a missing baseline, a baseline without times, and the
    comparison with the expected time. The verdict has no summary of launches yet. The arguments are
    those of `judge_case`, but `latest_loss` is NO_LOSS instead of None.
    """

    def final_verdict(outcome: Outcome, text: str, *, failed: bool = False) -> InterimVerdict:
        """Return an interim verdict with the given verdict, which more launches do not change."""
        return InterimVerdict(verdict=Verdict(spec=spec, outcome=outcome, failed=failed, text=text))

    failure_verdict = judge_failed_launches(spec, measurement)
    protocol = measurement.case.protocol
    if failure_verdict is not None:
        if failure_verdict.outcome is not Outcome.SKIPPED or baseline is None:
            return InterimVerdict(verdict=failure_verdict)
        text = f"{failure_verdict.text}; its baseline of {baseline.date} was measured"
        return final_verdict(Outcome.FAILED, text, failed=True)
    if baseline is not None and baseline.case.protocol != protocol:
        before = f"the baseline of {baseline.date} with {baseline.case.protocol}"
        text = f"measured with protocol {protocol}, {before}"
        failed = settings.require_baselines and not settings.accepts_slower_times
        return final_verdict(Outcome.INCOMPARABLE, text, failed=failed)
    if measurement.failures:
        return InterimVerdict(
            verdict=_judge_out_of_memory(spec, measurement.failures, baseline, settings)
        )
    if baseline is None:
        required = "; a baseline is required" if settings.fails_without_baseline else ""
        text = f"measured, nothing to compare with{required}"
        return final_verdict(Outcome.NO_BASELINE, text, failed=settings.fails_without_baseline)
    if baseline.is_out_of_memory or limits is None:
        text = f"the baseline of {baseline.date} says out of memory and is stale"
        return final_verdict(Outcome.IMPROVED, f"it fits now; {text}")
    return _compare_with_level(spec, measurement, baseline, limits, settings, latest_loss)


def _judge_out_of_memory(
    spec: CaseSpec,
    failures: Sequence[Failure],
    baseline: Baseline | None,
    settings: JudgingSettings,
) -> Verdict:
    """Return the verdict on a case all of whose launches ran out of memory.

    The first of these rules that applies decides:

    1. If the case has no baseline, the case fails only if `settings.fails_without_baseline`.
    2. If the case also ran out of memory when the baseline was measured, the case does not fail.
    3. If the case would fit if other programs used no memory, the case is INCOMPARABLE, and fails
       only if baselines are required.
    4. Otherwise the baseline has a time. The case fails, unless an update accepts slower times.
    """
    first_failure = failures[0]
    if baseline is None:
        return out_of_memory_verdict(
            spec, first_failure, " (no baseline)", is_failed=settings.fails_without_baseline
        )
    if baseline.is_out_of_memory:
        more = f" (expected: so it was on {baseline.date})"
        return out_of_memory_verdict(spec, first_failure, more, is_failed=False, is_expected=True)
    if all(would_fit_without_other_programs(failure) for failure in failures):
        more = "; with the machine's memory free it would fit"
        verdict = out_of_memory_verdict(
            spec, first_failure, more, is_failed=settings.require_baselines
        )
        return replace(verdict, outcome=Outcome.INCOMPARABLE)
    before = seconds_text(statistics.median(baseline.times_s))
    more = f"; the baseline of {baseline.date} has {before}"
    return out_of_memory_verdict(
        spec, first_failure, more, is_failed=not settings.accepts_slower_times
    )


def _compare_with_level(
    spec: CaseSpec,
    measurement: Measurement,
    baseline: Baseline,
    limits: CaseLimits,
    settings: JudgingSettings,
    latest_loss: SeriesLoss,
) -> InterimVerdict:
    """Compare this session's times of a case with the expected time; return the interim verdict.

    Both the measurement and the baseline must have times. The arguments are those of `judge_case`.
    """
    policy = settings.policy
    expected = limits.expected_time
    slower_above_log_ratio = limits.slower_above_log_ratio
    times_s = [launch_time_s(run) for run in measurement.runs]
    if settings.fail_above is not None:
        # The user's limit applies to the fastest launch, too. No loss of earlier sessions fails.
        slower_above_log_ratio, latest_loss = math.log(settings.fail_above), NO_LOSS
        limits = replace(limits, fastest_launch_above_log_ratio=None)
    times = CaseTimes.split(times_s, policy.rule, settings.planned_launch_count)
    decision = decide_speed_change(times, limits, policy.rule, slower_above_log_ratio)
    outcome, reason = _outcome_and_reason(decision, settings, latest_loss)
    before = summarize_times(measurement.case, baseline.times_s, math.exp(expected.log_level))
    text = (
        f"{seconds_text(before.median_s)} -> {seconds_text(statistics.median(times_s))}, "
        f"{math.exp(decision.log_ratio):.3f} x the expected time"
        f"{reason and f'; {reason}'} (limit {math.exp(decision.slower_above_log_ratio):.3f} x)"
    )
    fastest, slowest = (
        math.exp(math.log(time_s) - expected.log_level) for time_s in (min(times_s), max(times_s))
    )
    verdict = Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED and not settings.accepts_slower_times,
        text=text,
        baseline=before,
        ratio=math.exp(decision.log_ratio),
        ratio_interval=(fastest, slowest),
        ratio_error=limits.residual_stddev,
        limit=math.exp(decision.slower_above_log_ratio),
        provisional=expected.session_count < policy.provisional_below_sessions,
    )
    is_undecided = decision.direction is None
    needed = (
        settings.planned_launch_count + policy.rule.confirming_launch_count
        if is_undecided
        else None
    )
    return InterimVerdict(verdict=verdict, needed_launch_count=needed, is_suspected=is_undecided)


def _outcome_and_reason(
    decision: SpeedChangeDecision, settings: JudgingSettings, latest_loss: SeriesLoss
) -> tuple[Outcome, str]:
    """Turn the decision on today's times of a case into an outcome and a reason of a few words.

    The case is REGRESSED if `latest_loss` is a loss over several sessions, whatever today's times
    are. But while confirming launches are missing, the outcome is NOISY. The reason becomes a part
    of the verdict's text. The reason of an ordinary PASS is "".
    """
    confirmation = (
        ""
        if decision.confirming_log_ratio is None
        else f"{math.exp(decision.confirming_log_ratio):.3f} x in additional launches"
    )
    if decision.direction is None:
        return Outcome.NOISY, "seems slower, not yet confirmed"
    if latest_loss.loss_session_count:
        loss = change_text(math.expm1(latest_loss.mean_loss))
        return (
            Outcome.REGRESSED,
            f"{loss} slower over the last {plural(latest_loss.loss_session_count, 'session')}",
        )
    if decision.direction > 0:
        return Outcome.REGRESSED, f"confirmed: {confirmation}"
    if decision.direction < 0:
        return Outcome.IMPROVED, "the baseline is stale"
    if decision.is_noisy:
        more = confirmation and f": {confirmation}"
        return Outcome.NOISY, f"slower, but not in all launches{more}"
    useful = settings.policy.rule.max_useful_limit
    if decision.slower_above_log_ratio <= math.log1p(useful):
        return Outcome.PASS, ""
    # A wide limit that the user chose does not make a case NOISY.
    outcome = Outcome.NOISY if settings.fail_above is None else Outcome.PASS
    return outcome, f"{1 + useful:g} x the expected time cannot be ruled out"


def plan_rerun(
    interim_verdicts: Mapping[CaseSpec, InterimVerdict],
    launch_counts: Mapping[CaseSpec, int],
    *,
    include_neighbours: bool,
) -> tuple[tuple[CaseSpec, ...], int]:
    """Choose the cases to measure again: those that lack launches, and perhaps their neighbours.

    A case lacks launches if it has fewer launches than its interim verdict needs.

    Args:
        interim_verdicts: The interim verdict on each case.
        launch_counts: The number of launches of each case so far.
        include_neighbours: Whether to measure also the two neighbouring payloads of a case that
            seems slower.

    Returns:
        The cases to measure again, and the number of launches to add to each of these cases. This
        number is the smallest number of launches that any case lacks. If no case lacks launches,
        the result is no cases and 0.

    """
    lacking = {
        spec: interim.needed_launch_count - launch_counts[spec]
        for spec, interim in interim_verdicts.items()
        if interim.needed_launch_count is not None
        and interim.needed_launch_count > launch_counts[spec]
    }
    undecided = set(lacking)
    for spec in lacking:
        if interim_verdicts[spec].is_suspected and include_neighbours:
            family = [
                other
                for other, interim in interim_verdicts.items()
                if replace(other, payload_bytes=spec.payload_bytes) == spec
                and interim.verdict.now is not None
            ]
            undecided.update(
                find_two_neighbours(spec, sorted(family, key=lambda other: other.payload_bytes))
            )
    ordered = tuple(spec for spec in interim_verdicts if spec in undecided)
    return ordered, min(lacking.values(), default=0)
