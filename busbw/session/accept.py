"""Judged → Judged: store what the user accepts as baselines, if it may be stored.

This file decides which cases are stored; files, levels and budgets are in `busbw.baselines`.
Nothing is written from a session without a verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from busbw import extensions, grid, storage
from busbw.baselines.document import BaselineError
from busbw.baselines.files import drafted, locked
from busbw.baselines.updates import Accepted, Change, exceeds_budget, prune, save
from busbw.judge.case import may_become_baseline
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Measurement
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome, ratio_text
from busbw.report.session import ChangeRow, baseline_text, change_tables
from busbw.stats.launches import launch_time_s

from .levels import record_of
from .options import Options
from .state import Judged, Measured, TimedJob

# pytest's exit codes: a session whose times were not accepted has failed, and a damaged file of
# baselines is a usage error.
_FAILED, _USAGE = 1, 4

# Outcomes of sessions that are written; cases that failed are not.
_WRITTEN = frozenset({SessionOutcome.PASS, SessionOutcome.NOTHING_COMPARED, SessionOutcome.FAILED})

# Outcomes of cases that a reason accepts by themselves.
_LOST = (Outcome.REGRESSED, Outcome.OUT_OF_MEMORY)


def accepts_slower(
    options: Options, stored: Baseline | None, measurement: Measurement, budget: float
) -> bool:
    """Tell whether an update stores the times of a case although they are slower."""
    if options.update_baselines != "all":
        return False
    if options.accept_regression or stored is None or stored.pinned_s is None:
        return True
    if stored.case.protocol != measurement.case.protocol:
        return True
    times_s = [launch_time_s(run) for run in measurement.runs]
    return bool(times_s) and not exceeds_budget(statistics.median(times_s), stored.pinned_s, budget)


def accept(judged: Judged, write: Callable[[Judged], Judged]) -> Judged:
    """Let `write` store baselines if an option requests it; say in the verdict what was not."""
    if not judged.options.writes_baselines:
        return judged
    if not _WRITTEN.issuperset(judged.session.outcomes):
        return judged.with_notes(f"no baseline was written: {judged.session.headline()}")
    try:
        accepted = write(judged)
    except BaselineError as error:
        accepted = replace(judged.with_notes(f"no baseline was written: {error}"), exit_code=_USAGE)
    except OSError as error:
        text = storage.error_text(error)
        accepted = judged.with_error(f"not all baselines were written: {text}")
    if accepted.session.failed or not (accepted.exit_code or accepted.errors):
        return accepted
    text = "; ".join(accepted.errors) or "not all times were accepted: see the notes"
    session = accepted.session.with_outcome(SessionOutcome.NO_VERDICT, text)
    return replace(accepted, session=session)


def accept_times(judged: Judged) -> Judged:
    """Store times, and lock the stacks that were measured. Raises BaselineError and OSError."""
    options, measured = judged.options, judged.observed
    if not isinstance(measured, Measured):
        return judged
    reason = options.accept_regression or ""
    session = Record(moment=moment_text(judged.collected.began), commit=measured.environment.commit)
    candidates, notes = _candidates(judged, measured)
    with drafted(options.baselines) as draft:
        saved, refusals = save(
            draft,
            candidates,
            session=session,
            budget=measured.policy.budget,
            only_new=options.update_baselines == "new",
            reason=reason,
        )
        pruned: Sequence[Change] = ()
        if options.prune_baselines:
            pruned = prune(draft, _grid_cases(measured), session=session, reason="pruned")
    for refusal in refusals:
        remedy = '--accept-regression "why" accepts it'
        if reason:
            remedy = f"it is {refusal.cause}: -k with its name accepts it"
        notes.append(f"{refusal.refusal}; {remedy}")
    tables = change_tables(map(_change_row, (*saved, *pruned)))
    judged = replace(judged.with_notes(*notes), changes=tables)
    judged = _add_losses(judged, saved)
    if refusals and not reason:
        return replace(judged, exit_code=_FAILED)
    return _lock_stacks(judged, measured, candidates)


def _change_row(change: Change) -> ChangeRow:
    before, after = (baseline_text(change.case, side) for side in (change.before, change.after))
    cause = f"{change.cause}, accepted again" if change.lost else change.cause
    return change.path, change.case, before, after, cause


def _add_losses(judged: Judged, changes: Sequence[Change]) -> Judged:
    """Add to the session's verdict which losses were accepted, and how large each is."""
    slower = {v.case for v in judged.verdicts.values() if v.outcome in _LOST}
    texts = []
    for change in changes:
        before_s = change.before.pinned_s if change.before else None
        after_s = change.after.level_s if change.after else None
        if before_s is None or not (change.lost or change.case in slower):
            continue
        loss = "is out of memory"
        if after_s is not None:
            loss = f"{ratio_text(after_s / before_s)} x its accepted time"
        texts.append(f"{change.case.name} {loss}")
    if not texts:
        return judged
    text = f"{judged.session.text}; accepted as a loss: {'; '.join(texts)}"
    return replace(judged, session=replace(judged.session, text=text))


def _lock_stacks(judged: Judged, measured: Measured, candidates: Sequence[Accepted]) -> Judged:
    """Lock the stacks whose times were accepted; the times stay if a lock cannot be written."""
    frameworks = tuple(dict.fromkeys(c.measurement.case.framework for c in candidates))
    try:
        with locked(measured.options.baselines):
            for lock in extensions.hooks("lock_references"):
                judged = judged.with_notes(*lock(measured, frameworks))
    except (BaselineError, OSError) as error:
        text = storage.error_text(error) if isinstance(error, OSError) else str(error)
        return judged.with_error(f"baselines were written, but no reference stack: {text}")
    return judged


def _candidates(judged: Judged, measured: Measured) -> tuple[list[Accepted], list[str]]:
    """Return what an update stores, each Case once, and notes on what it does not store."""
    candidates, notes, update = dict[Case, Accepted](), list[str](), judged.options.update_baselines
    for spec, job in measured.jobs.items():
        verdict = judged.verdicts[spec]
        is_requested = update != "improved" or verdict.outcome is Outcome.IMPROVED
        if not (update and is_requested and may_become_baseline(verdict)):
            continue
        if verdict.outcome is Outcome.NOISY:
            notes.append(f"{job.case.name}: the baseline was not written: NOISY")
        else:
            candidates[job.case] = _candidate(judged, measured, spec, job)
    return list(candidates.values()), notes


def _candidate(judged: Judged, measured: Measured, spec: Spec, job: TimedJob) -> Accepted:
    """Return what would be stored of a case, why, and whether the user's reason accepts a loss.

    A reason accepts the loss of a case that is worse by itself, that moved with others, or that is
    named; not of a case that happens to be slower now.
    """
    verdict, options = judged.verdicts[spec], judged.options
    outcome, is_moved, cause = verdict.outcome, job.case in judged.moved, verdict.outcome.value
    if is_moved:
        cause = "moved with others" if outcome is Outcome.PASS else f"{cause}, moved with others"
    elif options.is_filtered and outcome is Outcome.PASS:
        cause = f"{cause}, named"
    is_new = is_moved or _is_new_level(options, verdict, job, measured.policy.budget)
    return Accepted(
        key=job.key,
        measurement=measured.measurements[spec],
        record=record_of(measured, measured.measurements[spec]),
        append=not is_new,
        memory_limit_bytes=options.memory_limit,
        cause=cause,
        takes_loss=bool(options.accept_regression)
        and (outcome in _LOST or is_moved or options.is_filtered),
    )


def _is_new_level(options: Options, verdict: Verdict, job: TimedJob, budget: float) -> bool:
    """Tell whether today replaces the stored sessions instead of joining them.

    Only what chance does not give does: what improved, a loss that somebody accepts with a reason,
    a loss beyond the budget. Without a reason such a loss is refused.
    """
    outcome, has_reason = verdict.outcome, bool(options.accept_regression)
    pinned_s = job.stored.baseline.pinned_s if job.stored.baseline is not None else None
    if pinned_s is None or verdict.now is None:
        return outcome is not Outcome.PASS
    is_lost = exceeds_budget(verdict.now.median_s, pinned_s, budget)
    if is_lost and has_reason and options.is_filtered:
        return True
    if outcome is Outcome.REGRESSED:
        return is_lost or has_reason
    return outcome is not Outcome.PASS


def _grid_cases(measured: Measured) -> list[tuple[EnvironmentKey, Case]]:
    """Return every case of the options' grid, deselected or not, in a file of a measured case."""
    target = measured.machine.target
    files = {(job.key, job.case.file_name) for job in measured.jobs.values()}
    cases = []
    for spec in measured.collected.grid:
        try:
            case, key = grid.resolve(spec, target), target.key(spec)
        except GridError:
            # No case on this device, and therefore no baseline.
            continue
        if (key, case.file_name) in files:
            cases.append((key, case))
    return cases
