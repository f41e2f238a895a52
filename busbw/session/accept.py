"""Store the times that the user accepts as baselines, and add notes on them to the JudgedSession.

This file decides which cases are stored. The format of the files, the levels and the budgets are in
`busbw.baselines`. No baseline is written by a session without a verdict.
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
    prune_baselines,
    put_accepted_baselines,
)
from busbw.judge.case import may_become_baseline
from busbw.model.case import Case, GridError
from busbw.model.field_types import moment_text
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome, plural
from busbw.report.session import ChangeRow, baseline_text, written_baseline_tables
from busbw.stats.launches import launch_time_s

from .machine import interpreter_of_framework, key_of_all_devices
from .options import Options
from .state import JudgedSession, MeasuredSession, TimedJob

# Sessions with only these outcomes may write baselines. Cases of such sessions that are FAILED or
# SKIPPED are left out.
_WRITABLE_OUTCOMES = frozenset(
    {SessionOutcome.PASS, SessionOutcome.NOTHING_COMPARED, SessionOutcome.FAILED}
)


def accepts_slower_times(
    options: Options, stored_baseline: Baseline | None, measurement: Measurement, budget: float
) -> bool:
    """Tell whether --update-baselines stores today's times of a case even if the case is slower.

    Args:
        options: The options of the session.
        stored_baseline: The baseline of the case; None if the case has no baseline.
        measurement: Today's launches of the case.
        budget: The fraction by which a time may exceed the pinned time (the time that was accepted
            first) without a reason of the user, such as 0.1.

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


def write_requested_baselines(
    judged_session: JudgedSession, write_baselines: Callable[[JudgedSession], JudgedSession]
) -> JudgedSession:
    """Store or remove baselines by a call of `write_baselines`, if an option requests changes.

    Returns the session that `write_baselines` returns, which has notes on the changes. If the
    session has a problem other than failed cases, nothing is written, and the returned session has
    a note on the reason. If writing fails, the returned session has an error. If no option requests
    to change baselines, `judged_session` is returned unchanged.
    """
    if not judged_session.options.writes_baselines:
        return judged_session
    if not _WRITABLE_OUTCOMES.issuperset(judged_session.session_verdict.outcomes):
        return judged_session.with_notes(
            f"no baseline was written: {judged_session.session_verdict.headline()}"
        )
    try:
        return write_baselines(judged_session)
    except (BaselineError, OSError) as error:
        return judged_session.with_failing_error(
            f"not all baselines were written: {storage.error_text(error)}"
        )


def accept_times(judged_session: JudgedSession) -> JudgedSession:
    """Store accepted times as baselines, and lock the stacks of the frameworks of these times.

    With --prune-baselines, the baselines of cases that the options do not request are removed from
    the files of the measured cases. Returns the session with notes and with tables of the changed
    baselines. If a loss beyond the budget lacks a reason, the returned session also has an error,
    the time of this case is not stored, and no stack is locked. Raises BaselineError if a file of
    baselines cannot be read or locked, and OSError if a file cannot be written.
    """
    options = judged_session.options
    measured_session = judged_session.observations
    assert isinstance(measured_session, MeasuredSession)
    session = Record(
        moment=moment_text(measured_session.began),
        commit=measured_session.environment.commit,
    )
    accepted, notes = _find_accepted_cases(judged_session, measured_session)
    with open_draft(options.baselines) as draft:
        saved, refusals = put_accepted_baselines(
            draft,
            accepted,
            session=session,
            budget=measured_session.policy.budget,
            only_new_cases=options.update_baselines == "new",
            reason=options.accept_regression,
        )
        pruned: Sequence[BaselineChange] = (
            prune_baselines(
                draft, _cases_not_to_prune(measured_session), session=session, reason="pruned"
            )
            if options.prune_baselines
            else ()
        )
    notes += [f'{refusal}; --accept-regression "why" accepts it' for refusal in refusals]
    tables = written_baseline_tables(map(_change_row, (*saved, *pruned)))
    verdict = judged_session.session_verdict
    losses = sum(row.is_over_budget for row in saved)
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
    """Return the table row of a changed baseline: file, case, old and new baseline, and cause."""
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
    """Write the locks of the frameworks whose times were accepted; return the session with notes.

    A lock is the file that lists a stack. Raises BaselineError or OSError if a lock cannot be
    written. Then the accepted times stay stored.
    """
    frameworks = dict.fromkeys(times.measurement.case.framework for times in accepted_cases)
    with lock_for_writing(judged_session.options.baselines):
        for lock in extensions.load_declared_functions("lock_stack"):
            notes = [
                lock(
                    judged_session.options.baselines
                    / key_of_all_devices(measured_session.machine.target, framework).folder,
                    framework,
                    interpreter_of_framework(judged_session.options, framework),
                    measured_session.date,
                    replaces_lock=judged_session.options.update_baselines == "all",
                )
                for framework in frameworks
            ]
            judged_session = judged_session.with_notes(*filter(None, notes))
    return judged_session


def _find_accepted_cases(
    judged_session: JudgedSession, measured_session: MeasuredSession
) -> tuple[list[AcceptedCase], list[str]]:
    """Return the cases that --update-baselines accepts, and a note on each case that is NOISY.

    NOISY cases are not accepted. If several CaseSpecs stand for the same Case, the Case is returned
    once. Without --update-baselines both lists are empty.
    """
    accepted = dict[Case, AcceptedCase]()
    notes = list[str]()
    options = judged_session.options
    update = options.update_baselines
    for spec, job in measured_session.jobs.items():
        verdict = judged_session.verdicts[spec]
        is_requested = update != "improved" or verdict.outcome is Outcome.IMPROVED
        if not (update and is_requested and may_become_baseline(verdict)):
            continue
        if verdict.outcome is Outcome.NOISY:
            notes.append(f"{job.case.name}: the baseline was not written: NOISY")
            continue
        cause = verdict.outcome.value
        moves_with_others = job.case in judged_session.cases_to_replace
        replaces_stored = moves_with_others or _replaces_stored_sessions(
            options, verdict, job, measured_session.policy.budget
        )
        measurement = measured_session.measurements[spec]
        accepted[job.case] = AcceptedCase(
            key=job.key,
            measurement=measurement,
            record=measured_session.record_of(measurement),
            is_appended=not replaces_stored,
            memory_limit_bytes=options.memory_limit,
            cause=f"{cause}, moved with others" if moves_with_others else cause,
        )
    return list(accepted.values()), notes


def _replaces_stored_sessions(
    options: Options, verdict: Verdict, job: TimedJob, budget: float
) -> bool:
    """Tell whether today's times of a case replace the stored sessions of its baseline.

    Otherwise today's times are added to the stored sessions, because they may differ only by
    chance. A loss is "large" here if today's time exceeds the pinned time by more than the fraction
    `budget`. By the outcome of the case, today's times replace the stored sessions

    - if the case is PASS: only for a large loss that the user accepts with a reason,
    - if the case is REGRESSED: for a large loss, or if the user accepts the loss with a reason,
    - with any other outcome, such as IMPROVED: always.

    A large loss without a reason is refused later. Without a pinned time, only PASS is added.
    """
    outcome = verdict.outcome
    has_reason = bool(options.accept_regression)
    baseline = job.baseline_search.baseline
    if baseline is None or baseline.pinned_s is None or verdict.now is None:
        return outcome is not Outcome.PASS
    is_lost = exceeds_budget(verdict.now.median_s, baseline.pinned_s, budget)
    if outcome is Outcome.PASS:
        return is_lost and has_reason
    return is_lost or has_reason or outcome is not Outcome.REGRESSED


def _cases_not_to_prune(measured_session: MeasuredSession) -> list[tuple[EnvironmentKey, Case]]:
    """Return the environment key and the case of each baseline that --prune-baselines keeps.

    Only the files with baselines of measured cases are pruned. In these files, the baselines of all
    cases that the options request are kept, including the cases that pytest's -k deselected.
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
