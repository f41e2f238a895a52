"""One case: its measurement against its baseline gives its verdict.

Holds the order in which a case is looked at; the numbers are in `policy`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw import metrics, stats
from busbw.model import (
    Baseline,
    Case,
    Failure,
    FailureKind,
    Found,
    Measurement,
    Outcome,
    Reference,
    Spec,
    Summary,
    Verdict,
    bytes_text,
    seconds_text,
)

from . import clocks
from .policy import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a session judges by.

    `accept_all`: today's times become the baselines, slower ones too. `accept_new`: only where
    there is none.
    """

    policy: Policy
    require_baselines: bool = False
    accept_all: bool = False
    accept_new: bool = False


def summary_of(case: Case, times_s: Sequence[float]) -> Summary:
    """The Summary of launch times in seconds (at least one) of `case`."""
    median = statistics.median(times_s)
    return Summary(
        times_s=tuple(times_s),
        median_s=median,
        best_s=min(times_s),
        worst_s=max(times_s),
        spread=stats.relative_mad(times_s),
        algbw_gb_per_s=metrics.algbw_gb_per_s(case.payload_bytes, median),
        busbw_gb_per_s=metrics.busbw_gb_per_s(case, median),
    )


def judge_case(
    spec: Spec,
    measurement: Measurement,
    baseline: Baseline | None,
    terms: Terms,
    *,
    nearest: str = "",
    reference: Reference | None = None,
) -> Verdict:
    """The verdict for one measured case. `nearest` is said where `baseline` is None."""
    case = measurement.case
    verdict = _judge(spec, measurement, baseline, terms, nearest)
    now = None
    if measurement.runs and verdict.outcome is not Outcome.FAILED:
        now = _with_dispatch(
            summary_of(case, [stats.launch_time_s(run) for run in measurement.runs]), measurement
        )
    notes = clocks.disagreement(measurement.runs, terms.policy)
    return replace(verdict, case=case, now=now, reference=reference, notes=notes)


def _with_dispatch(now: Summary, measurement: Measurement) -> Summary:
    calls_s = [run.dispatch_s for run in measurement.runs if run.dispatch_s is not None]
    return replace(now, dispatch_s=statistics.median(calls_s)) if calls_s else now


def may_become_baseline(verdict: Verdict) -> bool:
    """Whether what was measured may be stored: no failure may, except out of memory for good."""
    if verdict.outcome in (Outcome.FAILED, Outcome.SKIPPED):
        return False
    return verdict.failure is None or not _only_at_the_moment(verdict.failure)


def _judge(
    spec: Spec, measurement: Measurement, baseline: Baseline | None, terms: Terms, nearest: str
) -> Verdict:
    broken = _broken(spec, measurement)
    if broken is not None:
        return broken
    if baseline is not None and baseline.case.protocol != measurement.case.protocol:
        return _other_protocol(spec, measurement, baseline, terms)
    if measurement.failures:
        return _out_of_memory(spec, measurement.failures, baseline, terms, nearest)
    if baseline is None:
        return _no_baseline(spec, terms, nearest)
    if baseline.oom:
        return _fits_now(spec, baseline)
    return _compare(spec, measurement, baseline, terms)


def _broken(spec: Spec, measurement: Measurement) -> Verdict | None:
    """FAILED for a dead or wrong launch and for memory that sufficed in some launches only."""
    failures, launches = measurement.failures, len(measurement.runs) + len(measurement.failures)
    hard = [f for f in failures if f.kind is not FailureKind.OUT_OF_MEMORY]
    if launches == 0:
        return Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text="it was not measured")
    if hard:
        text = f"{_kind_text(hard[0])} in {len(hard)} of {launches} launches: {hard[0].message}"
        return _failed(spec, text, hard[0])
    if failures and measurement.runs:
        text = f"out of memory in {len(failures)} of {launches} launches: {failures[0].message}"
        return _failed(spec, text, failures[0])
    return None


def _failed(spec: Spec, text: str, failure: Failure) -> Verdict:
    return Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=text, failure=failure)


def _kind_text(failure: Failure) -> str:
    return failure.kind.value.lower().replace("_", " ")


def _other_protocol(
    spec: Spec, measurement: Measurement, baseline: Baseline, terms: Terms
) -> Verdict:
    text = (
        f"measured with protocol {measurement.case.protocol}, "
        f"the baseline of {baseline.date} with {baseline.case.protocol}"
    )
    failed = terms.require_baselines and not terms.accept_all
    return Verdict(spec=spec, outcome=Outcome.INCOMPARABLE, failed=failed, text=text)


def _no_baseline(spec: Spec, terms: Terms, nearest: str) -> Verdict:
    accepted = terms.accept_all or terms.accept_new
    text = "measured, nothing to compare with" + (f"; {nearest}" if nearest else "")
    if terms.require_baselines and not accepted:
        text += "; a baseline is required"
    failed = terms.require_baselines and not accepted
    return Verdict(spec=spec, outcome=Outcome.NO_BASELINE, failed=failed, text=text)


def _fits_now(spec: Spec, baseline: Baseline) -> Verdict:
    text = f"it fits now; the baseline of {baseline.date} says out of memory and is stale"
    return Verdict(spec=spec, outcome=Outcome.IMPROVED, failed=False, text=text)


def _out_of_memory(
    spec: Spec,
    failures: Sequence[Failure],
    baseline: Baseline | None,
    terms: Terms,
    nearest: str,
) -> Verdict:
    worst = failures[0]
    base = Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY,
        failed=False,
        text=_memory_text(worst),
        failure=worst,
    )
    if baseline is None:
        accepted = terms.accept_all or terms.accept_new
        why = "no baseline" + (f"; {nearest}" if nearest else "")
        failed = terms.require_baselines and not accepted
        return replace(base, text=f"{base.text} ({why})", failed=failed)
    if baseline.oom:
        text = f"{base.text} (expected: so it was on {baseline.date})"
        return replace(base, text=text, expected=True)
    if all(_only_at_the_moment(failure) for failure in failures):
        text = f"{base.text}; with the machine's memory free it would fit"
        return replace(base, outcome=Outcome.INCOMPARABLE, text=text)
    before = seconds_text(statistics.median(baseline.times_s))
    text = f"{base.text}; the baseline of {baseline.date} has {before}"
    return replace(base, text=text, failed=not terms.accept_all)


def _memory_text(failure: Failure) -> str:
    how = {
        Found.PREDICTED: "predicted before touching memory",
        Found.RAISED: "raised by the framework",
        Found.KILLED: "the kernel killed the worker",
    }[failure.found or Found.RAISED]
    parts = []
    if failure.needed_bytes is not None:
        parts.append(f"needs {bytes_text(failure.needed_bytes)}")
    if failure.available_bytes is not None:
        parts.append(f"{bytes_text(failure.available_bytes)} available")
    return f"{', '.join(parts) or failure.message} ({how})"


def _only_at_the_moment(failure: Failure) -> bool:
    """A prediction that only the memory in use right now brought about."""
    return (
        failure.found is Found.PREDICTED
        and failure.needed_bytes is not None
        and failure.capacity_bytes is not None
        and failure.needed_bytes <= failure.capacity_bytes
    )


def limit_of(baseline: Summary, payload_bytes: int, policy: Policy) -> tuple[float, bool]:
    """The ratio beyond which the best launch has regressed, and whether it is provisional."""
    tier = policy.tier(payload_bytes)
    provisional = len(baseline.times_s) < policy.full_launches
    if provisional:
        relative = max(policy.provisional, tier.ceiling)
    else:
        relative = min(max(policy.noise_factor * baseline.spread, tier.floor), tier.ceiling)
    return 1 + max(relative, policy.least_difference_s / baseline.median_s), provisional


def _compare(spec: Spec, measurement: Measurement, baseline: Baseline, terms: Terms) -> Verdict:
    case = measurement.case
    before = summary_of(case, baseline.times_s)
    now = summary_of(case, [stats.launch_time_s(run) for run in measurement.runs])
    limit, provisional = limit_of(before, case.payload_bytes, terms.policy)
    ratio = now.median_s / before.median_s
    best, worst = now.best_s / before.median_s, now.worst_s / before.median_s
    outcome = Outcome.PASS
    if best > limit:
        outcome = Outcome.REGRESSED
    elif ratio * limit < 1:
        outcome = Outcome.IMPROVED
    return Verdict(
        spec=spec,
        outcome=outcome,
        failed=outcome is Outcome.REGRESSED and not terms.accept_all,
        text=_ratio_text(outcome, now, before, limit, provisional),
        baseline=before,
        ratio=ratio,
        ratio_interval=(best, worst),
        limit=limit,
        provisional=provisional,
    )


def _ratio_text(
    outcome: Outcome, now: Summary, before: Summary, limit: float, provisional: bool
) -> str:
    times = f"{seconds_text(before.median_s)} -> {seconds_text(now.median_s)}"
    ratio = f"{now.median_s / before.median_s:.2f} x the time"
    rates = f"busbw {before.busbw_gb_per_s:.4g} -> {now.busbw_gb_per_s:.4g} GB/s"
    bound = f"limit {limit:.2f} x" + (
        f", provisional: {len(before.times_s)} baseline launches" if provisional else ""
    )
    if outcome is Outcome.REGRESSED:
        multiple = now.best_s / before.median_s
        best = f"even the best launch, {seconds_text(now.best_s)}, is {multiple:.2f} x"
        return f"{times}, {ratio}, {rates}; {best} ({bound})"
    if outcome is Outcome.IMPROVED:
        return f"{times}, {ratio}, {rates}; the baseline is stale ({bound})"
    return f"{times}, {ratio}, {rates} ({bound})"
