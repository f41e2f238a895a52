"""Judged → Judged: what is accepted as baselines, only on request and only if it may be.

Decides which cases are stored; files, levels and budgets are in `busbw.baselines`. Nothing is
written from a session without a verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from busbw import grid, storage
from busbw.baselines.document import BaselineError
from busbw.baselines.files import drafted, locked
from busbw.baselines.updates import (
    Accepted,
    Change,
    Refusal,
    exceeds_budget,
    prune,
    save,
)
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

from . import references
from .settings import Settings
from .state import Judged, Measured, TimedJob

# A session whose times were not accepted has failed; a file of baselines that is damaged is a usage
# error. Both as pytest has them.
_FAILED, _USAGE = 1, 4


def takes_slower(
    settings: Settings, stored: Baseline | None, measurement: Measurement, budget: float
) -> bool:
    if settings.update_baselines != "all":
        return False
    if settings.accept_regression or stored is None or stored.pinned_s is None:
        return True
    if stored.case.protocol != measurement.case.protocol:
        return True
    times_s = [launch_time_s(run) for run in measurement.runs]
    return bool(times_s) and not exceeds_budget(statistics.median(times_s), stored.pinned_s, budget)


# A case that failed is not written, and the others are.
_WRITING = frozenset({SessionOutcome.FINE, SessionOutcome.NOTHING_COMPARED, SessionOutcome.FAILED})


def accepted(judged: Judged, write: Callable[[Judged], Judged] | None = None) -> Judged:
    """Write baselines where an option asks for it; what was not written is in the verdict.

    The baselines are times, or what `write` writes.
    """
    if not judged.settings.writes_baselines:
        return judged
    found = _written(judged, write or _times)
    if found.session.failed or not (found.exit_code or found.errors):
        return found
    text = "; ".join(found.errors) or "not all that was to be accepted could be: see the notes"
    return replace(found, session=found.session.with_outcome(SessionOutcome.NO_VERDICT, text))


def _written(judged: Judged, write: Callable[[Judged], Judged]) -> Judged:
    if not _WRITING.issuperset(judged.session.outcomes):
        return judged.with_notes(f"no baseline was written: {judged.session.headline()}")
    try:
        return write(judged)
    except BaselineError as error:
        found = judged.with_notes(f"no baseline was written: {error}")
        return replace(found, exit_code=_USAGE)
    except OSError as error:
        return judged.with_error(f"not all baselines were written: {storage.error_text(error)}")


def _times(judged: Judged) -> Judged:
    settings, measured = judged.settings, judged.observed
    if not isinstance(measured, Measured):
        return judged
    reason = settings.accept_regression
    session = Record(moment=moment_text(judged.collected.began), commit=measured.environment.commit)
    budget, only_new = measured.policy.budget, settings.update_baselines == "new"
    able = _storable(judged, measured)
    wanted, notes = _wanted(judged, measured, able) if settings.update_baselines else ([], [])
    with drafted(settings.baselines) as draft:
        saved, refusals = save(
            draft, wanted, session=session, budget=budget, only_new=only_new, reason=reason
        )
        changes = list(saved)
        if settings.prune_baselines:
            changes += prune(draft, _asked(measured), session=session, reason="pruned")
    notes += [_refused(one, reason) for one in refusals]
    tables = change_tables(map(_change_row, changes))
    found = _with_losses(replace(judged.with_notes(*notes), changes=tables), saved)
    if refusals and not reason:
        return replace(found, exit_code=_FAILED)
    return _with_locks(found, measured, wanted)


def _change_row(change: Change) -> ChangeRow:
    before, after = (baseline_text(change.case, one) for one in (change.before, change.after))
    cause = f"{change.cause}, accepted again" if change.lost else change.cause
    return change.path, change.case, before, after, cause


def _with_losses(judged: Judged, changes: Sequence[Change]) -> Judged:
    """Add to the session's verdict which losses were accepted, and how large each is."""
    slower = {one.case for one in judged.verdicts.values() if one.outcome in _LOST}
    accepted = (change for change in changes if change.lost or change.case in slower)
    losses = "; ".join(filter(None, map(_loss_text, accepted)))
    if not losses:
        return judged
    text = f"{judged.session.text}; accepted as a loss: {losses}"
    return replace(judged, session=replace(judged.session, text=text))


def _loss_text(change: Change) -> str:
    """Return an empty text where there was no time to lose."""
    before = change.before.pinned_s if change.before else None
    after = change.after.level_s if change.after else None
    if before is None:
        return ""
    if after is None:
        return f"{change.case.name} is out of memory"
    return f"{change.case.name} {ratio_text(after / before)} x its accepted time"


def _refused(refusal: Refusal, reason: str) -> str:
    if reason:
        return f"{refusal.text}; it is {refusal.cause}: -k with its name accepts it"
    return f'{refusal.text}; --accept-regression "why" accepts it'


def _with_locks(judged: Judged, measured: Measured, wanted: Sequence[Accepted]) -> Judged:
    """Lock the stacks whose times were accepted; the times stay where a lock cannot be written."""
    frameworks = tuple(dict.fromkeys(one.measurement.case.framework for one in wanted))
    try:
        with locked(measured.settings.baselines):
            return judged.with_notes(*references.locked(measured, frameworks))
    except (BaselineError, OSError) as error:
        words = storage.error_text(error) if isinstance(error, OSError) else str(error)
        return judged.with_error(f"baselines were written, but no reference stack: {words}")


def _storable(judged: Judged, measured: Measured) -> dict[Spec, TimedJob]:
    """The jobs that may become baselines, each Case once."""
    jobs, verdicts = measured.jobs, judged.verdicts
    able = [spec for spec in jobs if may_become_baseline(verdicts[spec])]
    return {spec: jobs[spec] for spec in {jobs[spec].case: spec for spec in able}.values()}


def _wanted(
    judged: Judged, measured: Measured, able: Mapping[Spec, TimedJob]
) -> tuple[list[Accepted], list[str]]:
    found, notes = [], []
    for spec, job in able.items():
        outcome = judged.verdicts[spec].outcome
        if judged.settings.update_baselines == "improved" and outcome is not Outcome.IMPROVED:
            continue
        if outcome is Outcome.NOISY:
            notes.append(f"{job.case.name}: the baseline was not written: NOISY")
            continue
        found.append(_accepted(judged, measured, spec, job))
    return found, notes


# What a reason accepts of a case by itself.
_LOST = (Outcome.REGRESSED, Outcome.OUT_OF_MEMORY)


def _accepted(judged: Judged, measured: Measured, spec: Spec, job: TimedJob) -> Accepted:
    """With why it is stored, and whether the reason that was given accepts that it lost.

    It does for what is worse by itself, as a part of what moved, or named; and not for a case that
    happens to be slower now.
    """
    outcome, settings = judged.verdicts[spec].outcome, judged.settings
    moved, cause = job.case in judged.moved, outcome.value
    if moved:
        cause = "moved with others" if outcome is Outcome.PASS else f"{cause}, moved with others"
    elif settings.names_cases and outcome is Outcome.PASS:
        cause = f"{cause}, named"
    accepts = outcome in _LOST or moved or settings.names_cases
    is_new = moved or _is_new_level(settings, judged.verdicts[spec], job, measured.policy.budget)
    return Accepted(
        key=job.key,
        measurement=measured.measurements[spec],
        record=references.record_of(measured, measured.measurements[spec]),
        append=not is_new,
        memory_limit_bytes=settings.memory_limit_bytes,
        cause=cause,
        takes_loss=bool(settings.accept_regression) and accepts,
    )


def _is_new_level(settings: Settings, verdict: Verdict, job: TimedJob, budget: float) -> bool:
    """Whether today replaces the stored sessions instead of joining them, though nothing moved.

    Only what chance does not give does: what improved, a loss that somebody accepts with a reason,
    a loss beyond the budget. Without a reason such a loss is refused.
    """
    outcome, reason = verdict.outcome, bool(settings.accept_regression)
    pinned_s = job.stored.baseline.pinned_s if job.stored.baseline is not None else None
    if pinned_s is None or verdict.now is None:
        return outcome is not Outcome.PASS
    lost = exceeds_budget(verdict.now.median_s, pinned_s, budget)
    if lost and reason and settings.names_cases:
        return True
    if outcome is Outcome.REGRESSED:
        return lost or reason
    return outcome is not Outcome.PASS


def _asked(measured: Measured) -> list[tuple[EnvironmentKey, Case]]:
    """Every case of the options' grid, deselected or not, whose file a measured case is in."""
    target = measured.machine.target
    touched = {(job.key, job.case.file_name) for job in measured.jobs.values()}
    asked = []
    for spec in measured.collected.grid:
        try:
            case, key = grid.resolve(spec, target), target.key(spec)
        except GridError:
            # No case on this device, and therefore no baseline.
            continue
        if (key, case.file_name) in touched:
            asked.append((key, case))
    return asked
