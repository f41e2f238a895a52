"""Judge a MeasuredSession by the rules for cases and sessions, and return a JudgedSession.

The functions here pass measurements, baselines, levels and options to the rules in `busbw.judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from busbw import extensions
from busbw.baselines.store import frameworks_with_baselines, newest_baseline_dates_by_rank_count
from busbw.judge.case import InterimVerdict, JudgingSettings, judge_case
from busbw.judge.decision import Finding, apply_findings
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import (
    LastingLoss,
    cases_decided_by_first_launch,
    ended_losses_text,
    find_lasting_losses,
    lasting_losses_text,
    log_ratios_of_unusual_accepted_sessions,
    unusual_accepted_sessions_text,
)
from busbw.judge.paired import judge_paired_case, prior_variance_from_measurements
from busbw.judge.session import (
    SessionVerdictInput,
    judge_session,
    slower_framework_text,
)
from busbw.judge.validity import apply_ceiling
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Record, StoredSession
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural
from busbw.stats.launches import clock_tick_s, launch_time_s

from .accept import accepts_slower_times
from .state import JudgedSession, MeasuredSession, TimedJob

_Assessments = Mapping[EnvironmentKey, Assessment]


def assess_times_by_environment_key(
    measured_session: MeasuredSession,
) -> dict[EnvironmentKey, Assessment]:
    """Compare today's times with the levels, and return an Assessment for each environment key.

    An Assessment has the limits of today's session, and says how the session differs from earlier
    sessions. The result lacks environment keys that have no baselines or no times of today.
    """
    times_s: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    # The tick of the clock, for each case whose samples show that the clock ticks.
    clock_ticks_s: dict[Case, float] = {}
    launches = measured_session.plan.launches
    for job, measurement in jobs_without_failures(measured_session, measured_session.measurements):
        if job.key in measured_session.levels:
            launches_s = tuple(launch_time_s(run) for run in measurement.runs)
            times_s.setdefault(job.key, {})[job.case] = launches_s
            # Only the planned launches count, not the launches that confirm a suspicion.
            planned_runs = measurement.runs[:launches]
            tick_s = clock_tick_s([sample for run in planned_runs for sample in run.samples_s])
            if tick_s:
                clock_ticks_s[job.case] = tick_s
    return {
        key: measured_session.levels[key].assess_session(
            today,
            measured_session.policy,
            planned_launch_count=launches,
            clock_ticks_s=clock_ticks_s,
        )
        for key, today in times_s.items()
    }


def jobs_without_failures(
    measured_session: MeasuredSession, measurements: Mapping[CaseSpec, Measurement]
) -> Iterator[tuple[TimedJob, Measurement]]:
    """Yield each job with its Measurement, if launches measured the case and no launch failed.

    `measurements` are the measurements of the candidate, or the measurements of the reference.
    """
    for spec, job in measured_session.jobs.items():
        measurement = measurements[spec]
        if measurement.runs and not measurement.failures:
            yield job, measurement


def todays_session_by_key(
    measured_session: MeasuredSession, measurements: Mapping[CaseSpec, Measurement]
) -> dict[EnvironmentKey, StoredSession]:
    """Return today's times in the form of stored sessions, a StoredSession by environment key.

    `measurements` are the measurements of the candidate, or the measurements of the reference.
    Cases with a failed launch are left out. Nothing is stored.
    """
    records: dict[EnvironmentKey, dict[Case, Record]] = {}
    for job, measurement in jobs_without_failures(measured_session, measurements):
        records.setdefault(job.key, {})[job.case] = measured_session.record_of(measurement)
    return {key: StoredSession.from_records(by_case) for key, by_case in records.items()}


def judge_cases(measured_session: MeasuredSession) -> dict[CaseSpec, InterimVerdict]:
    """Judge each case by the launches so far, and return the interim verdicts by CaseSpec.

    An InterimVerdict has the verdict so far, and the number of launches that the case needs for the
    next decision. The findings of extensions are included.
    """
    interim_verdicts = (
        _judge_interleaved(measured_session)
        if measured_session.options.is_paired
        else _judge_against_baselines(measured_session)
    )
    return {
        spec: _add_ceiling_and_findings(measured_session, spec, interim)
        for spec, interim in interim_verdicts.items()
    }


def _add_ceiling_and_findings(
    measured_session: MeasuredSession, spec: CaseSpec, interim: InterimVerdict
) -> InterimVerdict:
    """Return `interim` after comparing with the ceiling and adding the findings of extensions.

    A busbw above the ceiling, or a finding of an extension, may change the outcome.
    """
    runs = measured_session.measurements[spec].runs
    key = measured_session.machine.target.key_with_device_shape(spec)
    verdict = apply_ceiling(
        interim.verdict, key, runs, is_paired=measured_session.options.is_paired
    )
    merged = apply_findings(verdict, findings_of_extensions(measured_session, spec, verdict))
    if merged.outcome is Outcome.FAILED:
        # More launches do not change a failure.
        return InterimVerdict(verdict=merged)
    is_doubted = verdict.outcome is Outcome.REGRESSED and merged.outcome is Outcome.NOISY
    return replace(interim, verdict=merged, is_doubted=is_doubted)


def findings_of_extensions(
    measured_session: MeasuredSession, spec: CaseSpec, verdict: Verdict
) -> list[Finding]:
    """Return a Finding of each extension on the case `spec`, whose verdict so far is `verdict`."""
    return [
        find(measured_session, spec, verdict) for find in extensions.load_table("FINDINGS").values()
    ]


def _judge_interleaved(measured_session: MeasuredSession) -> dict[CaseSpec, InterimVerdict]:
    """Judge each case by pairs of launches of two interleaved stacks; return interim verdicts."""
    settings = _judging_settings(measured_session)
    jobs = measured_session.jobs
    pairs = {
        spec: (measured_session.references[spec], measured_session.measurements[spec])
        for spec in jobs
    }
    # Two CaseSpecs with different strategies can be the same Case.
    cases = {job.case: pairs[spec] for spec, job in jobs.items()}
    prior = prior_variance_from_measurements(cases.values(), settings)
    return {spec: judge_paired_case(spec, *sides, settings, prior) for spec, sides in pairs.items()}


def _judge_against_baselines(measured_session: MeasuredSession) -> dict[CaseSpec, InterimVerdict]:
    """Judge each case by its baseline and by the history since then; return interim verdicts."""
    assessments, settings = (
        assess_times_by_environment_key(measured_session),
        _judging_settings(measured_session),
    )
    interim_verdicts = {}
    for spec, job in measured_session.jobs.items():
        measurement = measured_session.measurements[spec]
        assessment = assessments.get(job.key)
        baseline = job.baseline_search.baseline
        budget = settings.policy.budget
        accepts_slower = accepts_slower_times(
            measured_session.options, baseline, measurement, budget
        )
        interim_verdicts[spec] = judge_case(
            spec,
            measurement,
            baseline,
            assessment.limits.get(job.case) if assessment else None,
            replace(settings, accepts_slower_times=accepts_slower),
            latest_loss=assessment.latest_losses.get(job.case) if assessment else None,
            published_bandwidth=job.published,
        )
    return interim_verdicts


def find_decided_cases(measured_session: MeasuredSession) -> set[Case]:
    """Return the cases that need no second launch, because the first launch is clearly a PASS.

    The measurements in `measured_session` have a single launch of each case. A case that failed in
    a session of the history needs more launches, and is not returned.
    """
    undecided = {
        measured_session.jobs[spec].case
        for spec, interim in judge_cases(measured_session).items()
        if interim.verdict.outcome is not Outcome.PASS or interim.needed_launch_count
    }
    return {
        case
        for key, assessment in assess_times_by_environment_key(measured_session).items()
        for case in cases_decided_by_first_launch(assessment)
        if case not in undecided | measured_session.levels[key].failed_cases
    }


def _judging_settings(measured_session: MeasuredSession) -> JudgingSettings:
    """Return the thresholds and the options by which the cases of the session are judged."""
    options = measured_session.options
    return JudgingSettings(
        policy=measured_session.policy,
        case_count=len(measured_session.jobs),
        planned_launch_count=measured_session.plan.launches,
        min_launch_count=1 if options.launches == 0 else None,
        require_baselines=options.require_baselines,
        accepts_new_cases=options.update_baselines == "new",
        memory_limit_bytes=options.memory_limit,
        fail_above=options.fail_above,
    )


def judge_measured_session(measured_session: MeasuredSession) -> JudgedSession:
    """Judge all cases, then the session as a whole, and return the JudgedSession.

    Extensions may change the verdict of the session by findings on the session as a whole.
    """
    interim_verdicts = judge_cases(measured_session)
    assessments = assess_times_by_environment_key(measured_session)
    verdicts = {
        **measured_session.skipped_verdicts,
        **{spec: r.verdict for spec, r in interim_verdicts.items()},
    }
    verdicts = {spec: verdicts[spec] for spec in measured_session.specs}
    sessions = todays_session_by_key(measured_session, measured_session.measurements)
    losses = [
        loss
        for key, assessment in assessments.items()
        for loss in find_lasting_losses(
            measured_session.levels[key].sessions, sessions[key], assessment
        )
    ]
    context = _session_verdict_input(measured_session, interim_verdicts, assessments, losses)
    judged_session = JudgedSession(
        session_verdict=judge_session(
            list(verdicts.values()), list(measured_session.measurements.values()), context
        ),
        verdicts=verdicts,
        observations=measured_session,
        cases_to_replace=_find_cases_to_accept_again(measured_session, assessments, losses),
    )
    for verdict_with_finding in extensions.load_declared_functions("session_findings"):
        judged_session = replace(
            judged_session,
            session_verdict=verdict_with_finding(measured_session, judged_session.session_verdict),
        )
    return judged_session


def _session_verdict_input(
    measured_session: MeasuredSession,
    interim_verdicts: Mapping[CaseSpec, InterimVerdict],
    assessments: _Assessments,
    losses: Sequence[LastingLoss],
) -> SessionVerdictInput:
    """Return what the rules for the verdict of the session need besides the verdicts of cases.

    `losses` are the losses of cases and of frameworks that several sessions show.
    """
    options = measured_session.options
    other_ranks_text = _other_ranks_text(measured_session)
    is_required = bool(other_ranks_text) and options.require_baselines
    suspected = ", ".join(
        spec.id for spec, interim in interim_verdicts.items() if interim.is_suspected
    )
    reasons = (
        _unmeasured_frameworks_text(measured_session),
        *_changed_default_texts(measured_session),
        other_ranks_text if is_required else "",
        suspected
        and f"seemed slower, but --time-budget ran out before it was confirmed: {suspected}",
        measured_session.lost_host_text,
    )
    # The notes name losses that are over, and accepted sessions that all later sessions contradict.
    # An update that accepts all times replaces such an accepted session.
    accepts_all_times = options.update_baselines == "all"
    today = assessments.values()
    texts_of = [
        ended_losses_text,
        *([] if accepts_all_times else [unusual_accepted_sessions_text]),
    ]
    return SessionVerdictInput(
        settings=_judging_settings(measured_session),
        has_baselines=not measured_session.options.is_paired,
        # Running out of memory under --memory-limit says nothing of the machine's own memory.
        accepts_new_cases=options.update_baselines in ("all", "new")
        and options.memory_limit is None,
        no_verdict_reasons=tuple(filter(None, reasons)),
        notes=(
            "" if is_required else other_ranks_text,
            *(text_of(assessment) for assessment in today for text_of in texts_of),
        ),
        accepts_all_times=accepts_all_times,
        slower_framework_texts=tuple(
            _slower_framework_texts(measured_session, assessments, losses, interim_verdicts)
        ),
        drift_text=lasting_losses_text(
            [
                loss
                for loss in losses
                if isinstance(loss.subject, str) and loss.series_loss.is_gradual
            ]
        ),
        noise_ratio=max((a.noise_ratio for a in today), default=1.0),
        recent_noisy_session_count=max((a.recent_noisy_session_count for a in today), default=0),
        doubted_cases=frozenset(
            spec for spec, interim in interim_verdicts.items() if interim.is_doubted
        ),
    )


def _slower_framework_texts(
    measured_session: MeasuredSession,
    assessments: _Assessments,
    losses: Iterable[LastingLoss],
    interim_verdicts: Mapping[CaseSpec, InterimVerdict],
) -> Iterator[str]:
    """Yield a text on each framework whose cases together are slower.

    The first texts are on losses of today. A framework is left out if a finding of an extension
    names another possible cause for a slower case of this framework. The other texts are on
    `losses`, which several sessions show. Gradual losses are left out, because the outcome DRIFT
    reports gradual losses.
    """
    counts = Counter(job.case.framework for job in measured_session.jobs.values())
    doubted_frameworks = {
        spec.framework for spec, interim in interim_verdicts.items() if interim.is_doubted
    }
    for assessment in assessments.values():
        for name, shared_part in assessment.shared_parts.items():
            if shared_part.is_slower and name not in doubted_frameworks:
                yield slower_framework_text(name, counts[name], shared_part)
    for loss in losses:
        if isinstance(loss.subject, str) and not loss.series_loss.is_gradual:
            yield loss.text


def _find_cases_to_accept_again(
    measured_session: MeasuredSession, assessments: _Assessments, losses: Iterable[LastingLoss]
) -> frozenset[Case]:
    """Return the cases whose stored times --update-baselines replaces, even if the case is PASS.

    These are the cases in `losses`, the losses that several sessions show. The result also has the
    cases whose accepted session clearly differs from all later sessions. A framework in `losses`,
    or with such an accepted session, stands for all its cases. With --accept-regression the result
    also has all cases of frameworks that are slower as a whole. If the session is noisy, the result
    has all cases.
    """
    names: set[Case | str] = {loss.subject for loss in losses}
    for assessment in assessments.values():
        names.update(log_ratios_of_unusual_accepted_sessions(assessment))
        if assessment.is_noisy:
            names.update(assessment.shared_parts)
        if measured_session.options.accept_regression:
            names |= assessment.slower_frameworks
    cases = {job.case for job in measured_session.jobs.values()}
    return frozenset(case for case in cases if names & {case, case.framework})


def _unmeasured_frameworks_text(measured_session: MeasuredSession) -> str:
    """Return a text on skipped frameworks that have baselines on this machine.

    The text says why each framework was skipped. The text is empty if no such framework was
    skipped, or if two stacks are interleaved.
    """
    texts = {
        spec.framework: verdict.text for spec, verdict in measured_session.skipped_verdicts.items()
    }
    if measured_session.options.is_paired or not texts:
        return ""
    with_baselines = frameworks_with_baselines(
        measured_session.options.baselines, measured_session.environment.key
    )
    text = "; ".join(text for name, text in texts.items() if name in with_baselines)
    return text and f"cases that have a baseline were not measured: {text}"


def _other_ranks_text(measured_session: MeasuredSession) -> str:
    """Return a text on a changed number of ranks: ``8 ranks here until 2026-11-20, 7 today``.

    The text is empty in each of these cases:

    - An option chose the number of ranks, and not busbw because processes share a GPU.
    - Two stacks are interleaved, or there is no case to measure.
    - Today's number of ranks has baselines on this kind of device.
    - No other number of ranks has baselines on this kind of device.
    """
    options = measured_session.options
    key = measured_session.environment.key
    is_chosen = options.ranks or options.mesh or options.remote or options.processes > 1
    # On a shared GPU busbw chose the ranks itself, perhaps because other GPUs are missing today.
    if (
        (is_chosen and not key.shared)
        or measured_session.options.is_paired
        or not measured_session.jobs
    ):
        return ""
    dates = newest_baseline_dates_by_rank_count(options.baselines, key)
    if not dates:
        return ""
    ranks, date = max(dates.items(), key=lambda pair: pair[1])
    shared = " on a shared device" if key.shared else ""
    return f"{plural(ranks, 'rank')} here until {date}, {key.ranks} today{shared}"


def _changed_default_texts(measured_session: MeasuredSession) -> list[str]:
    """Return texts on default clocks and strategies that are not those of the baselines.

    Each text is returned once. A clock or a strategy that an option chose is not compared.
    """
    texts = []
    for spec, job in measured_session.jobs.items():
        case = job.case
        baseline = job.baseline_search.baseline
        clock = baseline.case.clock if baseline is not None else case.clock
        if baseline is None and job.baseline_search.other_strategy and spec.strategy == "default":
            texts.append(
                f"{case.framework}: the default is {case.strategy} now, "
                f"the baseline is of {job.baseline_search.other_strategy}"
            )
        if spec.clock == "default" and clock is not case.clock:
            texts.append(
                f"{case.framework}: the clock fell back to {case.clock.value}, "
                f"the baseline was read from {clock.value}"
            )
    return list(dict.fromkeys(texts))
