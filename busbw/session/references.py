"""What each case is compared with: the levels of its machine, and a stack that is locked.

Levels are of one framework on one machine: its cases have a stack and a night in common. An
extension builds the reference stack from its lock for --against=baseline, and locks it with new
baselines.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from busbw import extensions
from busbw.baselines.document import BaselineError
from busbw.baselines.files import path_of as baseline_path
from busbw.baselines.store import all_at, frameworks_at
from busbw.driver.bundle import worker_hash
from busbw.grid import Target
from busbw.history import agreement
from busbw.history.files import Acknowledged, HistoryError, acknowledged
from busbw.history.files import read as read_history
from busbw.history.lines import Line, Series, earlier
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import Levels, StoredTimes, build_levels
from busbw.judge.policy import POLICIES
from busbw.judge.summation_order import signature_of
from busbw.model import variables
from busbw.model.case import Case, Spec
from busbw.model.launch import Measurement
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record, Session, changes, rounded_us
from busbw.model.verdict import Answer
from busbw.model.words import Device
from busbw.stats.launches import launch_time_s, tick_s

from .errors import usage_error
from .forms import BASELINE
from .machine import key_on, python_of, surroundings
from .settings import LockedStack, Settings
from .state import Collected, Measured, TimedJob

# How many sessions long a case is watched that was wrong.
_WATCHED_NIGHTS = 14


def levels_at(
    collected: Collected,
    keys: Iterable[EnvironmentKey],
    device: Device,
) -> dict[EnvironmentKey, Levels]:
    """Read what is known of the machine.

    Raises BaselineError, HistoryError and OSError for files that cannot be read, or
    contradict each other or the clock.
    """
    policy = POLICIES[device]
    found = {key: build_levels(_known(collected, key), policy) for key in dict.fromkeys(keys)}
    return {key: one for key, one in found.items() if one is not None}


def _known(collected: Collected, key: EnvironmentKey) -> dict[str, StoredTimes]:
    """Baselines by framework, and the history from the year of the oldest on."""
    settings, now = collected.settings, collected.began
    stored = {
        name: all_at(settings.baselines, key, name)
        for name in sorted(frameworks_at(settings.baselines, key))
    }
    every = [one for those in stored.values() for one in those]
    begins = [one.records[0].began for one in every]
    lines: tuple[Line, ...] = ()
    if settings.history is not None and begins:
        year = min(now, *begins).year
        lines = read_history(settings.history, key, year)
    _check_agreement(collected, key, every, lines)
    accepted = acknowledged(settings.baselines)
    return {
        name: StoredTimes(
            baselines=those,
            history=earlier(lines, Series(framework=name)),
            since=_since(those, accepted, str(key.folder)),
        )
        for name, those in stored.items()
    }


def _check_agreement(
    collected: Collected,
    key: EnvironmentKey,
    stored: Sequence[Baseline],
    lines: Sequence[Line],
) -> None:
    """Check baselines and the history of one machine against each other and the clock.

    Raises BaselineError for a baseline that its lines in the history contradict, BaselineError or
    HistoryError for a session in the future.
    """
    settings, began = collected.settings, collected.began
    moments = {record.moment for baseline in stored for record in baseline.records}
    shared = [line for line in lines if line.moment in moments]
    for baseline in stored:
        newest = max(baseline.records, key=lambda record: record.began)
        try:
            agreement.check_moment(baseline.case, newest, began)
            if settings.history is not None:
                agreement.check_times(baseline, shared)
        except agreement.DisagreementError as error:
            path = baseline_path(settings.baselines, key, baseline.case)
            raise BaselineError(f"{path}: {error}") from error
    try:
        for line in lines[-1:]:
            agreement.check_moment(line.case, line, began)
    except agreement.DisagreementError as error:
        raise HistoryError(f"{settings.history}/{key.folder}: {error}") from error


def _since(
    stored: Sequence[Baseline], accepted: Sequence[Acknowledged], folder: str
) -> dict[Case, datetime]:
    """By case, the newest change that somebody acknowledged."""
    found: dict[Case, datetime] = {}
    for one in sorted(accepted, key=lambda change: change.since):
        found.update({b.case: one.began for b in stored if one.matches(b.case.name, folder)})
    return found


def assessments(measured: Measured) -> dict[EnvironmentKey, Assessment]:
    """Judge the launches of the machines with levels."""
    found: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    for job, one in _whole(measured, measured.measurements):
        if job.key in measured.levels:
            times_s = tuple(launch_time_s(run) for run in one.runs)
            found.setdefault(job.key, {})[job.case] = times_s
    ticks_s, launches = ticks_of(measured), measured.plan.launches
    return {
        key: measured.levels[key].assess(own, measured.policy, launches=launches, ticks_s=ticks_s)
        for key, own in found.items()
    }


def ticks_of(measured: Measured) -> dict[Case, float]:
    """Return the steps of the clock in seconds, by case, where the first launches show steps."""
    found = {}
    for job, one in _whole(measured, measured.measurements):
        runs = one.runs[: measured.plan.launches]
        tick = tick_s([sample for run in runs for sample in run.samples_s])
        if tick:
            found[job.case] = tick
    return found


def _whole(
    measured: Measured, measurements: Mapping[Spec, Measurement]
) -> Iterator[tuple[TimedJob, Measurement]]:
    """The cases that were measured and of which none failed."""
    for spec, job in measured.jobs.items():
        one = measurements[spec]
        if one.runs and not one.failures:
            yield job, one


def record_of(
    measured: Measured, found: Measurement, flags: Mapping[str, str] | None = None
) -> Record:
    """What was `found` now, with the `flags` of a locked stack if they are not this session's."""
    environment = measured.environment
    return Record(
        moment=moment_text(measured.collected.began),
        commit=environment.commit,
        times_us=tuple(rounded_us(1e6 * launch_time_s(run)) for run in found.runs),
        versions=found.runs[0].versions if found.runs else {},
        surroundings=surroundings(environment) if flags is None else flags,
        host=platform.node(),
        worker=worker_hash(),
        signature=signature_of(found.runs),
    )


def today(measured: Measured) -> dict[EnvironmentKey, Session]:
    """Today's session, as later ones will see it."""
    found: dict[EnvironmentKey, dict[Case, Record]] = {}
    for job, one in _whole(measured, measured.measurements):
        if job.key in measured.levels:
            found.setdefault(job.key, {})[job.case] = record_of(measured, one)
    return {key: Session.from_records(records) for key, records in found.items()}


def wrong_before(settings: Settings, jobs: Iterable[TimedJob]) -> dict[Case, str]:
    """The cases that gave a wrong value in one of their last nights, and when last.

    Raises HistoryError for a history that cannot be read.
    """
    found: dict[Case, str] = {}
    if settings.history is None:
        return found
    by_key: dict[EnvironmentKey, set[Case]] = {}
    for job in jobs:
        by_key.setdefault(job.key, set()).add(job.case)
    for key, cases in by_key.items():
        lines = read_history(settings.history, key)
        nights = list(dict.fromkeys(line.session for line in lines))[-_WATCHED_NIGHTS:]
        recent = (line for line in lines if line.is_wrong and line.session in nights)
        found |= {line.case: line.date for line in recent if line.case in cases}
    return found


def nights_of(
    settings: Settings, jobs: Iterable[TimedJob]
) -> dict[tuple[EnvironmentKey, str], Sequence[Session] | None]:
    """What the locked reference stacks took in earlier sessions where `jobs` are measured.

    None without a history, which could tell. Only those that our code of today measured: a change
    of it is none of the machine. Raises HistoryError for a history that cannot be read.
    """
    locked = settings.against.locked if settings.against is not None else {}
    found: dict[tuple[EnvironmentKey, str], Sequence[Session] | None] = {}
    for key, framework in dict.fromkeys((job.key, job.case.framework) for job in jobs):
        if framework in locked and settings.history is not None:
            lines = read_history(settings.history, key)
            own = (line for line in lines if line.worker == worker_hash())
            series = Series(framework=framework, stack=locked[framework].digest, is_reference=True)
            found[key, framework] = earlier(own, series)
        elif framework in locked:
            found[key, framework] = None
    return found


def baseline_changes(measured: Measured) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each framework, the date of its newest baseline and what differs from it today.

    Differences are those of versions and flags. Nothing is measured yet.
    """
    newest: dict[str, Record] = {}
    for job in measured.jobs.values():
        for record in job.stored.baseline.sessions[-1:] if job.stored.baseline else ():
            before = newest.setdefault(job.case.framework, record)
            newest[job.case.framework] = max(before, record, key=lambda one: one.began)
    for framework, record in newest.items():
        today = replace(
            record,
            versions=measured.environment.versions.get(framework, {}),
            surroundings=surroundings(measured.environment),
        )
        found = changes(record.lasting, today.lasting)
        if found:
            yield framework, record.date, found


def stack_changes(measured: Measured) -> tuple[str, ...]:
    """What the present stacks have other than the locked references: versions and flags."""
    if not measured.nights:
        return ()
    found: dict[str, None] = {}
    for spec, reference in measured.references.items():
        ours, theirs = measured.measurements[spec].runs, reference.runs
        if ours and theirs:
            found.update(dict.fromkeys(changes(theirs[0].versions, ours[0].versions)))
    flags = _of_stack(measured.environment.flags)
    for probe in measured.machine.references:
        found.update(dict.fromkeys(changes(_of_stack(probe.flags), flags)))
    return tuple(found)


def _of_stack(flags: Mapping[str, str]) -> dict[str, str]:
    return {name: flags.get(name, "none") for name in sorted(variables.STACK)}


def machine_answer(measured: Measured) -> Answer | None:
    """Return whether the machine is slower by its locked references; None without any."""
    found: dict[tuple[EnvironmentKey, str], dict[Case, Record]] = {}
    for job, one in _whole(measured, measured.references) if measured.nights else ():
        key = job.key, job.case.framework
        found.setdefault(key, {})[job.case] = record_of(measured, one)
    locked_references = [
        (key[1], measured.nights[key], Session.from_records(records))
        for key, records in found.items()
    ]
    judges = extensions.hooks("judge_machine") if found else []
    return next((judge(locked_references, measured.policy) for judge in judges), None)


def with_stacks(
    collected: Collected, target: Target, frameworks: Sequence[str], say: Callable[[str], None]
) -> Collected:
    """Build the stacks that are locked for `frameworks`, where --against=baseline is given.

    Raises UsageError where there is no lock, and for one that cannot be built.
    """
    settings = collected.settings
    against = settings.against
    if against is None or not against.is_baseline:
        return collected
    locked: dict[str, LockedStack] = {}
    for framework in frameworks:
        folder = settings.baselines / key_on(target, framework).folder
        python = python_of(settings, framework)
        with usage_error(ValueError, where=f"--against={BASELINE}: {framework}: "):
            for build in extensions.hooks("build_reference"):
                locked[framework] = build(folder, framework, python, settings.stack_cache, say)
    pythons = {framework: stack.python for framework, stack in locked.items()}
    against = replace(against, pythons=pythons, locked=locked)
    return replace(collected, settings=replace(settings, against=against))


def check_locked(settings: Settings, framework: str) -> None:
    """Raise UsageError if no stack of `framework` is locked, for whichever machine."""
    with usage_error(ValueError, where=f"--against={BASELINE}: {framework}: "):
        checks = extensions.hooks("check_reference")
        if not checks:
            raise ValueError("this busbw was installed without its extension for stacks")
        for check in checks:
            check(settings.baselines, framework)


def locked(measured: Measured, frameworks: Sequence[str]) -> tuple[str, ...]:
    """Lock the stacks of `frameworks`, whose times were accepted; return notes on each.

    With times that were only added or that improved, an existing lock stays. Raises OSError.
    """
    settings, date = measured.settings, measured.collected.date
    notes: list[str] = []
    for framework in frameworks:
        folder = settings.baselines / key_on(measured.machine.target, framework).folder
        python, replaces = python_of(settings, framework), settings.update_baselines == "all"
        for lock in extensions.hooks("lock_reference"):
            notes.append(lock(folder, framework, python, date, replace=replaces))
    return tuple(filter(None, notes))
