"""Judged → Written: what is accepted as baselines, only on request and only if it may be.

Decides which cases are stored; files, levels and budgets are in `busbw.baselines`. Nothing is
written from a session without a verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from busbw import files, grid
from busbw.baselines.document import TIMED, BaselineError
from busbw.baselines.files import Draft, drafted, locked
from busbw.baselines.updates import (
    Accepted,
    Change,
    Refusal,
    Rules,
    Saved,
    beyond,
    prune,
    rebase,
    save,
    save_compiled,
)
from busbw.judge.case import may_become_baseline
from busbw.judge.policy import POLICIES
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Measurement
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, CompiledBaseline, Record
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.stacks.lock import StackError
from busbw.stats.launches import launch_time_s

from . import compilation, references
from .settings import Settings
from .state import Judged, Measured, Programs, TimedJob, Written

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
    times_s = _times_s(measurement)
    return bool(times_s) and not beyond(statistics.median(times_s), stored.pinned_s, budget)


# A case that failed is not written, and the others are.
_WRITING = frozenset({SessionOutcome.FINE, SessionOutcome.FAILED})


def accepted(judged: Judged) -> Written:
    nothing = Written(judged=judged)
    if not judged.settings.writes_baselines:
        return nothing
    found = judged.session
    if not _WRITING.issuperset(found.outcomes):
        note = f"no baseline was written: {found.headline()}"
        return Written(judged=judged, notes=(note,))
    try:
        if isinstance(judged.observed, Programs):
            return _programs(judged, judged.observed)
        return _times(judged, judged.observed) if judged.observed else nothing
    except BaselineError as error:
        note = f"no baseline was written: {error}"
        return Written(judged=judged, notes=(note,), exit_code=_USAGE)
    except OSError as error:
        return Written(judged=judged, errors=(_unwritten(error),), exit_code=_FAILED)


def _unwritten(error: OSError) -> str:
    """All files are written or none; a PartlyWrittenError says which were."""
    if isinstance(error, files.PartlyWrittenError):
        return f"not all baselines were written: {error}"
    return f"no baseline was written: {files.reason(error)}"


def _times(judged: Judged, measured: Measured) -> Written:
    settings, saved = judged.settings, Saved()
    commit = measured.resolved.environment.commit
    session = Record(at=moment_text(judged.collected.began), commit=commit)
    changes: tuple[Change[Baseline], ...] = ()
    notes: list[str] = []
    wanted: list[Accepted] = []
    with drafted(settings.baselines, TIMED) as draft:
        if settings.update_baselines:
            wanted, notes = _wanted(judged, measured)
            saved = _save(measured, wanted, session, draft)
            notes += [_refused(one, settings.accept_regression) for one in saved.refusals]
        if settings.rebase:
            cases = [(job.key, job.case) for job in _storable(judged, measured).values()]
            changes += rebase(draft, cases, session=session, reason=settings.rebase)
        if settings.prune_baselines:
            asked = _asked(measured)
            changes += prune(draft, asked, session=session, reason="pruned")
    found = Written(judged=judged, changes=(*saved.changes, *changes), notes=tuple(notes))
    if saved.refusals and not settings.accept_regression:
        return replace(found, exit_code=_FAILED)
    return _with_locks(found, measured, wanted)


def _refused(refusal: Refusal, reason: str) -> str:
    if reason:
        return f"{refusal.text}; it is {refusal.why}: -k with its name accepts it"
    return f'{refusal.text}; --accept-regression "why" accepts it'


def _with_locks(written: Written, measured: Measured, wanted: Sequence[Accepted]) -> Written:
    """With the stacks locked whose times were accepted; the times stay where one cannot be."""
    if not measured.resolved.settings.locks_reference:
        return written
    frameworks = tuple(dict.fromkeys(one.measurement.case.framework for one in wanted))
    try:
        with locked(measured.resolved.settings.baselines):
            notes = references.locked(measured, frameworks)
    except (StackError, BaselineError, OSError) as error:
        words = files.reason(error) if isinstance(error, OSError) else str(error)
        text = (
            f"baselines were written, but no reference stack was locked: {words}; "
            "--no-reference-lock accepts times alone"
        )
        return replace(written, errors=(*written.errors, text))
    return replace(written, notes=(*written.notes, *notes))


def _save(
    measured: Measured, wanted: list[Accepted], session: Record, draft: Draft[Baseline]
) -> Saved:
    settings = measured.resolved.settings
    device = measured.resolved.machine.target.device
    return save(
        draft,
        wanted,
        session=session,
        rules=Rules(
            budget=POLICIES[device].budget,
            only_new=settings.update_baselines == "new",
        ),
        reason=settings.accept_regression,
    )


def _storable(judged: Judged, measured: Measured) -> dict[Spec, TimedJob]:
    """The jobs that may become baselines, each Case once."""
    jobs, verdicts = measured.resolved.jobs, judged.verdicts
    able = [spec for spec in jobs if may_become_baseline(verdicts[spec])]
    return {spec: jobs[spec] for spec in {jobs[spec].case: spec for spec in able}.values()}


def _wanted(judged: Judged, measured: Measured) -> tuple[list[Accepted], list[str]]:
    settings, found, notes = judged.settings, [], []
    policy = POLICIES[measured.resolved.machine.target.device]
    for spec, job in _storable(judged, measured).items():
        outcome, measurement = judged.verdicts[spec].outcome, measured.measurements[spec]
        if settings.update_baselines == "improved" and outcome is not Outcome.IMPROVED:
            continue
        if outcome is Outcome.NOISY:
            notes.append(f"{job.case.name}: the baseline was not written: NOISY")
            continue
        why, takes_loss = _reason(judged, spec, job)
        found.append(
            Accepted(
                key=job.key,
                measurement=measurement,
                record=references.record_of(measured, measurement),
                append=not _is_new_level(judged, spec, job, policy.budget),
                memory_limit_bytes=settings.memory_limit_bytes,
                why=why,
                takes_loss=takes_loss,
            )
        )
    return found, notes


# What a reason accepts of a case by itself.
_LOST = (Outcome.REGRESSED, Outcome.OUT_OF_MEMORY)


def _reason(judged: Judged, spec: Spec, job: TimedJob) -> tuple[str, bool]:
    """Why a case is stored, and whether the reason that was given accepts that it lost.

    It does for what is worse by itself, as a part of what moved, or named; and not for a case that
    happens to be slower tonight.
    """
    outcome, settings = judged.verdicts[spec].outcome, judged.settings
    why = outcome.value
    if job.case in judged.moved:
        why = "moved with others" if outcome is Outcome.PASS else f"{why}, moved with others"
    elif settings.names_cases and outcome is Outcome.PASS:
        why = f"{why}, named"
    accepts = outcome in _LOST or job.case in judged.moved or settings.names_cases
    return why, bool(settings.accept_regression) and accepts


def _is_new_level(judged: Judged, spec: Spec, job: TimedJob, budget: float) -> bool:
    """Whether today replaces the stored sessions instead of joining them.

    Only what chance does not give does: a drift over many sessions, a loss that somebody accepts
    with a reason, a loss or a gain beyond the budget. Without a reason such a loss is refused.
    """
    verdict, stored = judged.verdicts[spec], job.stored.baseline
    named = judged.settings.names_cases and judged.settings.accept_regression
    if job.case in judged.moved or (named and _is_beyond(job, verdict, budget)):
        return True
    if verdict.outcome not in (Outcome.REGRESSED, Outcome.IMPROVED):
        return verdict.outcome is not Outcome.PASS
    if stored is None or stored.pinned_s is None or verdict.now is None:
        return True
    if verdict.outcome is Outcome.IMPROVED:
        return beyond(stored.pinned_s, verdict.now.median_s, budget)
    return _is_beyond(job, verdict, budget) or bool(judged.settings.accept_regression)


def _is_beyond(job: TimedJob, verdict: Verdict, budget: float) -> bool:
    stored = job.stored.baseline
    if stored is None or stored.pinned_s is None or verdict.now is None:
        return False
    return beyond(verdict.now.median_s, stored.pinned_s, budget)


def _times_s(measurement: Measurement) -> tuple[float, ...]:
    return tuple(launch_time_s(run) for run in measurement.runs)


def _asked(measured: Measured) -> list[tuple[EnvironmentKey, Case]]:
    """Every case of the options' grid, deselected or not, whose file a measured case is in."""
    resolved = measured.resolved
    touched = {_file_of(job.key, job.case) for job in resolved.jobs.values()}
    asked = []
    for spec in resolved.collected.grid:
        target = resolved.machine.target
        try:
            case, key = grid.resolve(spec, target), target.key(spec)
        except GridError:
            # No case on this device, and therefore no baseline.
            continue
        if _file_of(key, case) in touched:
            asked.append((key, case))
    return asked


def _file_of(key: EnvironmentKey, case: Case) -> tuple[EnvironmentKey, str]:
    return key, case.key.file_name


def _programs(judged: Judged, programs: Programs) -> Written:
    """Programs, and cases that are out of memory; an error or a lost collective is no baseline."""
    asked, date = judged.settings.update_baselines, programs.resolved.collected.date
    wanted: list[tuple[EnvironmentKey, CompiledBaseline]] = []
    for spec, now in programs.results.items():
        job, verdict = programs.resolved.jobs[spec], judged.verdicts[spec]
        release = verdict.program.release if verdict.program else ""
        new = compilation.as_baseline(job.case, now, release, date)
        was_asked = asked != "improved" or verdict.outcome is Outcome.IMPROVED
        if asked == "new":
            # Also one that busbw ships is there already.
            was_asked = job.stored is None
        if new is not None and was_asked and not verdict.failed:
            wanted.append((job.key, new))
    changes = save_compiled(judged.settings.baselines, wanted, only_new=asked == "new")
    return Written(judged=judged, changes=changes)
