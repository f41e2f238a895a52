"""Store the times that the user accepts as baselines, and say in the JudgedSession what was stored.

This file decides which cases are stored; files, levels and budgets are in `busbw.baselines`. No
baseline is written by a session without a verdict.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from busbw import extensions, grid, storage
from busbw.baselines.document import BaselineError
from busbw.baselines.store import lock_for_writing, open_draft
from busbw.baselines.updates import (
    AcceptedCase,
    BaselineChange,
    exceeds_budget,
    prune,
    save_accepted,
)
from busbw.judge.case import may_become_baseline
from busbw.model.case import Case, CaseSpec, GridError
from busbw.model.field_types import moment_text
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome, plural
from busbw.report.session import ChangeRow, baseline_text, written_baseline_tables
from busbw.stats.launches import launch_time_s

from .options import Options
from .state import JudgedSession, MeasuredSession, TimedJob

# Sessions with only these outcomes may write baselines. Their cases that are FAILED or SKIPPED are
# left out.
_WRITABLE_OUTCOMES = frozenset(
    {SessionOutcome.PASS, SessionOutcome.NOTHING_COMPARED, SessionOutcome.FAILED}
)


def accepts_slower_times(
    options: Options, stored_baseline: Baseline | None, measurement: Measurement, budget: float
) -> bool:
    """Tell whether --update-baselines stores today's times of a case even if they are slower.

    Args:
        options: The options of the session.
        stored_baseline: The baseline of the case, None if it has no baseline.
        measurement: Today's launches of the case.
        budget: The fraction by which a time may exceed the pinned time without a reason.

    """
    if options.update_baselines != "all":
        return False
    if (
        options.accept_regression
        or stored_baseline is None
        or stored_baseline.pinned_s is None
        or stored_baseline.case.protocol != measurement.case.protocol
    ):
        return True
    times_s = [launch_time_s(run) for run in measurement.runs]
    return bool(times_s) and not exceeds_budget(
        statistics.median(times_s), stored_baseline.pinned_s, budget
    )


def accept_baselines(
    judged_session: JudgedSession, write_accepted: Callable[[JudgedSession], JudgedSession]
) -> JudgedSession:
    """Call `write_accepted`, which stores or removes baselines, if an option requests it.

    Nothing is written if anything except failed cases is wrong with the session.
    """
    if not judged_session.options.writes_baselines:
        return judged_session
    if not _WRITABLE_OUTCOMES.issuperset(judged_session.session_verdict.outcomes):
        return judged_session.with_notes(
            f"no baseline was written: {judged_session.session_verdict.headline()}"
        )
    try:
        return write_accepted(judged_session)
    except (BaselineError, OSError) as error:
        return judged_session.with_failing_error(
            f"not all baselines were written: {storage.error_text(error)}"
        )


def accept_times(judged_session: JudgedSession) -> JudgedSession:
    """Store the accepted times as baselines, and lock the stacks that were measured.

    Raises BaselineError if a file of baselines cannot be read or locked, and OSError if it cannot
    be written.
    """
    options, measured_session = judged_session.options, judged_session.observations
    assert isinstance(measured_session, MeasuredSession)
    session = Record(
        moment=moment_text(measured_session.began),
        commit=measured_session.environment.commit,
    )
    accepted, notes = _find_accepted_times(judged_session, measured_session)
    with open_draft(options.baselines) as draft:
        saved, refusals = save_accepted(
            draft,
            accepted,
            session=session,
            budget=measured_session.policy.budget,
            only_new_cases=options.update_baselines == "new",
            reason=options.accept_regression,
        )
        pruned: Sequence[BaselineChange] = (
            prune(draft, _cases_to_keep(measured_session), session=session, reason="pruned")
            if options.prune_baselines
            else ()
        )
    remedy = '--accept-regression "why" accepts it'
    notes += [f"{refusal.refusal_text}; {remedy}" for refusal in refusals]
    tables = written_baseline_tables(map(_change_row, (*saved, *pruned)))
    verdict, losses = judged_session.session_verdict, sum(row.is_over_budget for row in saved)
    text = (
        f"{verdict.text}; accepted a loss of {plural(losses, 'case')}" if losses else verdict.text
    )
    judged_session = replace(
        judged_session.with_notes(*notes),
        baseline_tables=tables,
        session_verdict=replace(verdict, text=text),
    )
    if refusals:
        return judged_session.with_failing_error(
            "not all times were accepted: a loss beyond the budget needs --accept-regression"
        )
    return _lock_stacks(judged_session, measured_session, accepted)


def _change_row(change: BaselineChange) -> ChangeRow:
    before, after = (
        baseline_text(change.case, side) for side in (change.baseline_before, change.baseline_after)
    )
    cause = f"{change.cause}, loss accepted" if change.is_over_budget else change.cause
    return change.path, change.case, before, after, cause


def _lock_stacks(
    judged_session: JudgedSession,
    measured_session: MeasuredSession,
    accepted_cases: Sequence[AcceptedCase],
) -> JudgedSession:
    """Lock the stacks of the frameworks whose times were accepted.

    Raises BaselineError or OSError if a lock cannot be written; the accepted times stay.
    """
    frameworks = tuple(dict.fromkeys(times.measurement.case.framework for times in accepted_cases))
    with lock_for_writing(measured_session.options.baselines):
        for lock in extensions.load_functions("lock_references"):
            judged_session = judged_session.with_notes(*lock(measured_session, frameworks))
    return judged_session


def _find_accepted_times(
    judged_session: JudgedSession, measured_session: MeasuredSession
) -> tuple[list[AcceptedCase], list[str]]:
    """Return the times that --update-baselines accepts, and notes on the NOISY cases it leaves out.

    A Case that several CaseSpecs name is returned once.
    """
    accepted = dict[Case, AcceptedCase]()
    notes = list[str]()
    update = judged_session.options.update_baselines
    for spec, job in measured_session.jobs.items():
        verdict = judged_session.verdicts[spec]
        is_requested = update != "improved" or verdict.outcome is Outcome.IMPROVED
        if not (update and is_requested and may_become_baseline(verdict)):
            continue
        if verdict.outcome is Outcome.NOISY:
            notes.append(f"{job.case.name}: the baseline was not written: NOISY")
        else:
            accepted[job.case] = _accept_case(judged_session, measured_session, spec, job)
    return list(accepted.values()), notes


def _accept_case(
    judged_session: JudgedSession, measured_session: MeasuredSession, spec: CaseSpec, job: TimedJob
) -> AcceptedCase:
    """Return the times of a case that are stored, and why they are stored."""
    verdict, options = judged_session.verdicts[spec], judged_session.options
    is_moved = job.case in judged_session.replaced_cases
    cause = verdict.outcome.value
    replaces_stored = is_moved or _replaces_stored_sessions(
        options, verdict, job, measured_session.policy.budget
    )
    measurement = measured_session.measurements[spec]
    return AcceptedCase(
        key=job.key,
        measurement=measurement,
        record=measured_session.record_of(measurement),
        is_appended=not replaces_stored,
        memory_limit_bytes=options.memory_limit,
        cause=f"{cause}, moved with others" if is_moved else cause,
    )


def _replaces_stored_sessions(
    options: Options, verdict: Verdict, job: TimedJob, budget: float
) -> bool:
    """Tell whether today's times of a case replace its stored sessions instead of joining them.

    Times that differ from the stored times only by chance join them. Times replace them if the case
    improved, or lost more than the budget, or if the user accepts its loss with a reason. A loss
    beyond the budget is refused later if there is no reason.
    """
    outcome, has_reason = verdict.outcome, bool(options.accept_regression)
    baseline = job.baseline_search.baseline
    if baseline is None or baseline.pinned_s is None or verdict.now is None:
        return outcome is not Outcome.PASS
    is_lost = exceeds_budget(verdict.now.median_s, baseline.pinned_s, budget)
    if outcome is Outcome.PASS:
        return is_lost and has_reason
    return is_lost or has_reason or outcome is not Outcome.REGRESSED


def _cases_to_keep(measured_session: MeasuredSession) -> list[tuple[EnvironmentKey, Case]]:
    """Return the cases that --prune-baselines keeps in the files of the measured cases.

    These are all cases that the options request, including the cases that -k deselected.
    """
    target = measured_session.machine.target
    files = {(job.key, job.case.file_name) for job in measured_session.jobs.values()}
    cases = []
    for spec in measured_session.grid:
        # A CaseSpec that is not possible on this device has no baseline.
        with contextlib.suppress(GridError):
            case, key = grid.resolve_case(spec, target)
            if (key, case.file_name) in files:
                cases.append((key, case))
    return cases
