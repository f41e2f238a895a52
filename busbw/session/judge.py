"""Judge a Measured: pass its measurements, baselines, levels and options to the rules.

The rules are in `busbw.judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from busbw import extensions
from busbw.baselines.store import frameworks_on_machine, newest_dates_by_ranks
from busbw.judge.case import JudgingSettings, Ruling, judge_case
from busbw.judge.findings import Finding, merge_findings
from busbw.judge.first_launch import decided_cases
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import (
    Loss,
    find_losses,
    losses_text,
    odd_accepted_session_text,
    odd_accepted_sessions,
    repaired_losses_text,
)
from busbw.judge.paired import estimate_prior_variance_of_pairs, judge_pair
from busbw.judge.session import (
    SessionContext,
    judge_session,
    slower_framework_text,
)
from busbw.judge.validity import apply_ceiling, note_injections
from busbw.model.case import Case, Spec
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural

from .accept import accepts_slower_times
from .levels import assess_machines, sessions_of_today
from .state import Collected, Judged, Measured

_Assessments = Mapping[EnvironmentKey, Assessment]


def judge_cases(measured: Measured) -> dict[Spec, Ruling]:
    """Judge each case by itself, and return the Rulings by Spec.

    A Ruling has the verdict so far, and the number of launches that would decide it.
    """
    rulings = (
        _judge_interleaved(measured) if measured.is_paired else _judge_against_baselines(measured)
    )
    return {spec: _add_findings(measured, spec, ruling) for spec, ruling in rulings.items()}


def _add_findings(measured: Measured, spec: Spec, ruling: Ruling) -> Ruling:
    """Add the ceiling of the hardware and the findings of extensions to the verdict of a case."""
    runs, key = measured.measurements[spec].runs, measured.machine.target.slice_key(spec)
    verdict = apply_ceiling(ruling.verdict, key, runs, is_paired=measured.is_paired)
    merged = merge_findings(verdict, findings_of_extensions(measured, spec, verdict))
    if merged.outcome is Outcome.FAILED:
        # More launches do not change a failure.
        return Ruling(verdict=merged)
    is_doubted = verdict.outcome is Outcome.REGRESSED and merged.outcome is Outcome.NOISY
    return replace(ruling, verdict=merged, is_doubted=is_doubted)


def findings_of_extensions(measured: Measured, spec: Spec, verdict: Verdict) -> list[Finding]:
    """Return the Findings of extensions at the case `spec`, whose verdict so far is `verdict`."""
    return [find(measured, spec, verdict) for find in extensions.load_table("FINDINGS").values()]


def _judge_interleaved(measured: Measured) -> dict[Spec, Ruling]:
    """Judge each case by the pairs of launches of the two interleaved stacks."""
    settings, jobs = _judging_settings(measured), measured.jobs
    pairs = {spec: (measured.references[spec], measured.measurements[spec]) for spec in jobs}
    # Two Specs with different strategies can be the same Case.
    cases = {job.case: pairs[spec] for spec, job in jobs.items()}
    prior = estimate_prior_variance_of_pairs(cases.values(), settings)
    return {spec: judge_pair(spec, *sides, settings, prior) for spec, sides in pairs.items()}


def _judge_against_baselines(measured: Measured) -> dict[Spec, Ruling]:
    """Judge each case by its baseline, and by the sessions of the history since the baseline."""
    assessments, settings = assess_machines(measured), _judging_settings(measured)
    rulings = {}
    for spec, job in measured.jobs.items():
        measurement, assessment = measured.measurements[spec], assessments.get(job.key)
        baseline, budget = job.baseline_search.baseline, settings.policy.budget
        accepts_slower = accepts_slower_times(measured.options, baseline, measurement, budget)
        rulings[spec] = judge_case(
            spec,
            measurement,
            baseline,
            assessment.limits.get(job.case) if assessment else None,
            replace(settings, accepts_slower_times=accepts_slower),
            loss_state=assessment.loss_states.get(job.case) if assessment else None,
            incomparable_reason=job.baseline_search.incomparable_reason,
            published_bandwidth=job.published,
        )
    return rulings


def find_decided_cases(measured: Measured) -> set[Case]:
    """Return the cases whose first launch decides: they pass, and did not fail in the history."""
    undecided = {
        measured.jobs[spec].case
        for spec, ruling in judge_cases(measured).items()
        if ruling.verdict.outcome is not Outcome.PASS or ruling.needed_launch_count
    }
    return {
        case
        for key, assessment in assess_machines(measured).items()
        for case in decided_cases(assessment)
        if case not in undecided | measured.levels[key].failed_cases
    }


def _judging_settings(measured: Measured) -> JudgingSettings:
    options = measured.options
    return JudgingSettings(
        policy=measured.policy,
        case_count=len(measured.jobs),
        planned_launch_count=measured.plan.launches,
        min_launch_count=1 if options.launches == 0 else None,
        require_baselines=options.require_baselines,
        accepts_new_cases=options.update_baselines == "new",
        memory_limit_bytes=options.memory_limit,
        fail_above=options.fail_above,
    )


def judge_measured(measured: Measured) -> Judged:
    """Judge all cases and the session."""
    rulings, assessments = judge_cases(measured), assess_machines(measured)
    verdicts = {**measured.skipped_verdicts, **{spec: r.verdict for spec, r in rulings.items()}}
    verdicts = {spec: verdicts[spec] for spec in measured.specs}
    verdicts = note_injections(verdicts, measured.measurements)
    losses = _find_losses(measured, assessments)
    context = replace(
        _session_context(measured, verdicts, rulings),
        slower_framework_texts=tuple(
            _slower_framework_texts(measured, assessments, losses, rulings)
        ),
        drift_text=losses_text(
            [loss for loss in losses if isinstance(loss.subject, str) and loss.state.is_gradual]
        ),
        noise_ratio=max((a.noise_ratio for a in assessments.values()), default=1.0),
        recent_noisy_session_count=max(
            (a.recent_noisy_session_count for a in assessments.values()), default=0
        ),
    )
    # The notes name losses that are over, and accepted sessions that all later sessions contradict.
    # An update that accepts all times replaces such an accepted session.
    texts = (
        [repaired_losses_text]
        if context.accepts_all_times
        else [repaired_losses_text, odd_accepted_session_text]
    )
    notes = [text(assessment) for assessment in assessments.values() for text in texts]
    context = replace(context, notes=(*context.notes, *notes))
    judged = Judged(
        collected=measured.collected,
        session_verdict=judge_session(
            list(verdicts.values()), list(measured.measurements.values()), context
        ),
        verdicts=verdicts,
        observations=measured,
        replaced_cases=_find_replaced_cases(measured, assessments, losses),
    )
    for verdict_with_finding in extensions.load_functions("session_findings"):
        judged = replace(judged, session_verdict=verdict_with_finding(judged))
    return judged


def fail_all_cases(
    collected: Collected, specs: Sequence[Spec], reason: str, outcome: Outcome = Outcome.FAILED
) -> Judged:
    """Return the Judged of a session that found no machine: every case fails with `outcome`.

    `reason` is the text of all verdicts.
    """
    outcomes = (SessionOutcome.FAILED, SessionOutcome.NO_VERDICT)
    verdict = partial(Verdict, outcome=outcome, failed=True, text=reason)
    return Judged(
        collected=collected,
        session_verdict=SessionVerdict(outcomes=outcomes, text=reason),
        verdicts={spec: verdict(spec=spec) for spec in specs},
    )


def _session_context(
    measured: Measured,
    verdicts: Mapping[Spec, Verdict],
    rulings: Mapping[Spec, Ruling],
) -> SessionContext:
    options, other_ranks_text = measured.options, _other_ranks_text(measured)
    is_required = bool(other_ranks_text) and options.require_baselines
    suspected = ", ".join(spec.id for spec, ruling in rulings.items() if ruling.is_suspected)
    reasons = (
        _unmeasured_text(measured, verdicts),
        *_fallback_texts(measured),
        other_ranks_text if is_required else "",
        suspected
        and f"seemed slower, but --time-budget ran out before it was confirmed: {suspected}",
        measured.lost_host_text,
    )
    return SessionContext(
        settings=_judging_settings(measured),
        has_baselines=not measured.is_paired,
        # Running out of memory under --memory-limit says nothing of the machine's own memory.
        accepts_new_cases=options.update_baselines in ("all", "new")
        and options.memory_limit is None,
        no_verdict_reasons=tuple(filter(None, reasons)),
        notes=("" if is_required else other_ranks_text,),
        accepts_all_times=options.update_baselines == "all",
        doubted_cases=frozenset(spec for spec, ruling in rulings.items() if ruling.is_doubted),
    )


def _slower_framework_texts(
    measured: Measured,
    assessments: _Assessments,
    losses: Iterable[Loss],
    rulings: Mapping[Spec, Ruling],
) -> Iterator[str]:
    """Yield the losses that all cases of a framework share, today and over several sessions.

    Today's loss is left out if a finding already explains a slower case of that framework. Gradual
    losses are left out: they are a DRIFT.
    """
    counts = Counter(job.case.framework for job in measured.jobs.values())
    doubted_frameworks = {spec.framework for spec, ruling in rulings.items() if ruling.is_doubted}
    for assessment in assessments.values():
        for name, common_part in assessment.shared_parts.items():
            text = slower_framework_text(name, counts[name], common_part)
            if text and name not in doubted_frameworks:
                yield text
    for loss in losses:
        if isinstance(loss.subject, str) and not loss.state.is_gradual:
            yield loss.text


def _find_losses(measured: Measured, assessments: _Assessments) -> list[Loss]:
    sessions = sessions_of_today(measured)
    return [
        loss
        for key, assessment in assessments.items()
        for loss in find_losses(measured.levels[key].sessions, sessions[key], assessment)
    ]


def _find_replaced_cases(
    measured: Measured, assessments: _Assessments, losses: Iterable[Loss]
) -> frozenset[Case]:
    """Return the cases whose stored times an update replaces, even if the case is PASS today.

    They are the cases with a loss of several sessions, and the cases whose accepted session all
    later sessions contradict. If the session is noisier than usual, they are all of its cases. With
    --accept-regression they are also the cases of frameworks that are slower as a whole.
    """
    names: set[Case | str] = {loss.subject for loss in losses}
    for assessment in assessments.values():
        names.update(odd_accepted_sessions(assessment))
        if assessment.is_noisy:
            names.update(assessment.shared_parts)
        if measured.options.accept_regression:
            names |= assessment.slower_frameworks
    cases = {job.case for job in measured.jobs.values()}
    return frozenset(case for case in cases if names & {case, case.framework})


def _unmeasured_text(measured: Measured, verdicts: Mapping[Spec, Verdict]) -> str:
    """Return why selected frameworks that have baselines on this machine were not measured.

    The text is empty if all of these frameworks were measured, or if two stacks are interleaved.
    """
    unreached = {*measured.machine.target.unreached, *measured.options.absent_frameworks}
    texts = {
        spec.framework: verdict.text
        for spec, verdict in verdicts.items()
        if verdict.outcome is Outcome.SKIPPED and spec.framework in unreached
    }
    if measured.is_paired or not texts:
        return ""
    frameworks_with_baselines = frameworks_on_machine(
        measured.options.baselines, measured.environment.key
    )
    text = "; ".join(text for name, text in texts.items() if name in frameworks_with_baselines)
    return text and f"cases that have a baseline were not measured: {text}"


def _other_ranks_text(measured: Measured) -> str:
    """Return a text such as ``8 ranks here until 2026-11-20, 7 today``.

    The text is empty if an option chose the number of ranks, or if today's number of ranks has
    baselines on this kind of device. It is also empty if no other number has baselines.
    """
    options, key = measured.options, measured.environment.key
    is_chosen = options.ranks or options.mesh or options.remote or options.processes > 1
    # On a shared GPU busbw chose the ranks itself, perhaps because other GPUs are missing today.
    if (is_chosen and not key.shared) or measured.is_paired or not measured.jobs:
        return ""
    dates = newest_dates_by_ranks(options.baselines, key)
    if not dates:
        return ""
    ranks, date = max(dates.items(), key=lambda pair: pair[1])
    shared = " on a shared device" if key.shared else ""
    return f"{plural(ranks, 'rank')} here until {date}, {key.ranks} today{shared}"


def _fallback_texts(measured: Measured) -> list[str]:
    """Return a text for each default clock or strategy that the baseline does not have.

    Clocks and strategies that an option chose are left out.
    """
    texts = []
    for spec, job in measured.jobs.items():
        case, baseline = job.case, job.baseline_search.baseline
        if baseline is None and job.baseline_search.other_strategy and spec.strategy == "default":
            texts.append(
                f"{case.framework}: the default is {case.strategy} now, "
                f"the baseline is of {job.baseline_search.other_strategy}"
            )
        if baseline is None or spec.clock != "default":
            continue
        if baseline.case.clock is not case.clock:
            texts.append(
                f"{case.framework}: the clock fell back to {case.clock.value}, "
                f"the baseline was read from {baseline.case.clock.value}"
            )
    return list(dict.fromkeys(texts))
