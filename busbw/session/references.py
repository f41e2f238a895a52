"""What each case is compared with: the levels of its machine, and a stack that is locked.

Levels are of one framework on one machine: its cases have a stack and a night in common. The
reference stack is built from its lock for --against=baseline, and locked with new baselines.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from busbw import storage
from busbw.baselines.document import BaselineError
from busbw.baselines.files import path_of as baseline_path
from busbw.baselines.store import all_at, frameworks_at
from busbw.driver.bundle import worker_hash
from busbw.frameworks import FRAMEWORKS
from busbw.grid import Target
from busbw.history import agreement
from busbw.history.files import Acknowledged, acknowledged
from busbw.history.files import read as read_history
from busbw.history.lines import Line, Series, earlier
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import Known, Levels, levels_of, machine_answer
from busbw.judge.order import signature_of
from busbw.judge.policy import POLICIES
from busbw.model import variables
from busbw.model.case import Case, Spec
from busbw.model.launch import Measurement
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record, Session, changes, rounded_us
from busbw.model.verdict import Answer
from busbw.model.words import Device, plural
from busbw.stacks.build import built, check_buildable, packages_of
from busbw.stacks.interpreter import installed, unlockable
from busbw.stacks.lock import Lock, StackError, path_of, paths_below
from busbw.stacks.lock import read as read_lock
from busbw.stats.launches import launch_time_s, tick_s

from .forms import BASELINE
from .machine import key_on, python_of, surroundings
from .option import usage_error
from .settings import Settings
from .state import Collected, Measured, TimedJob

# How many sessions long a case is watched that was wrong.
_WATCHED_NIGHTS = 14


def levels_at(
    collected: Collected,
    keys: Iterable[EnvironmentKey],
    device: Device,
) -> dict[EnvironmentKey, Levels]:
    """Read what is known of the machine.

    Raises BaselineError, HistoryError and OSError for files that cannot be read, or contradict each
    other.
    """
    policy = POLICIES[device]
    found = {key: levels_of(_known(collected, key), policy) for key in dict.fromkeys(keys)}
    return {key: one for key, one in found.items() if one is not None}


def _known(collected: Collected, key: EnvironmentKey) -> dict[str, Known]:
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
        _check_agreement(settings, key, every, lines)
    accepted = acknowledged(settings.baselines)
    return {
        name: Known(
            baselines=those,
            history=earlier(lines, Series(framework=name)),
            since=_since(those, accepted, str(key.folder)),
        )
        for name, those in stored.items()
    }


def _check_agreement(
    settings: Settings,
    key: EnvironmentKey,
    stored: Sequence[Baseline],
    lines: Sequence[Line],
) -> None:
    """Raise BaselineError for a baseline that its line in the history contradicts."""
    moments = {record.at for one in stored for record in one.records}
    shared = [line for line in lines if line.at in moments]
    for one in stored:
        try:
            agreement.check(one, shared)
        except agreement.DisagreementError as error:
            path = baseline_path(settings.baselines, key, one.case)
            raise BaselineError(f"{path}: {error}") from error


def _since(
    stored: Sequence[Baseline], accepted: Sequence[Acknowledged], folder: str
) -> dict[Case, datetime]:
    """By case, the newest change that somebody acknowledged."""
    found: dict[Case, datetime] = {}
    for one in sorted(accepted, key=lambda change: change.since):
        found.update({b.case: one.began for b in stored if one.is_of(b.case.name, folder)})
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
        at=moment_text(measured.collected.began),
        commit=environment.commit,
        times_us=tuple(rounded_us(1e6 * launch_time_s(run)) for run in found.runs),
        versions=found.runs[0].versions if found.runs else {},
        surroundings=(
            {**surroundings(environment), **_counted(measured)} if flags is None else flags
        ),
        host=platform.node(),
        worker=worker_hash(),
        signature=signature_of(found.runs),
    )


def _counted(measured: Measured) -> dict[str, str]:
    """What devices counted as going wrong, where they are asked: it may explain another level."""
    found = (one for counted in measured.counted.values() for one in counted.names)
    return {"device errors": ", ".join(dict.fromkeys(found)) or "none"} if measured.readings else {}


def today(measured: Measured) -> dict[EnvironmentKey, Session]:
    """Today's session, as later ones will see it."""
    found: dict[EnvironmentKey, dict[Case, Record]] = {}
    for job, one in _whole(measured, measured.measurements):
        if job.key in measured.levels:
            found.setdefault(job.key, {})[job.case] = record_of(measured, one)
    return {key: Session.of(records) for key, records in found.items()}


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
    locks = settings.against.locks if settings.against is not None else {}
    found: dict[tuple[EnvironmentKey, str], Sequence[Session] | None] = {}
    for key, framework in dict.fromkeys((job.key, job.case.framework) for job in jobs):
        if framework in locks and settings.history is not None:
            lines = read_history(settings.history, key)
            own = (line for line in lines if line.worker == worker_hash())
            series = Series(framework=framework, stack=locks[framework].digest, is_reference=True)
            found[key, framework] = earlier(own, series)
        elif framework in locks:
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


def machine_answers(measured: Measured) -> tuple[Answer, ...]:
    found: dict[tuple[EnvironmentKey, str], dict[Case, Record]] = {}
    for job, one in _whole(measured, measured.references) if measured.nights else ():
        key = job.key, job.case.framework
        found.setdefault(key, {})[job.case] = record_of(measured, one)
    return tuple(
        machine_answer(key[1], measured.nights[key], Session.of(records), measured.policy)
        for key, records in found.items()
    )


def with_stacks(
    collected: Collected, target: Target, frameworks: Sequence[str], say: Callable[[str], None]
) -> Collected:
    """Raises UsageError where there is no lock, and for one that cannot be built."""
    settings = collected.settings
    against = settings.against
    if against is None or not against.is_baseline:
        return collected
    locks: dict[str, Lock] = {}
    pythons: dict[str, str] = {}
    for framework in frameworks:
        with usage_error(StackError, where=f"--against={BASELINE}: {framework}: "):
            path = path_of(settings.baselines, key_on(target, framework), framework)
            if not path.exists():
                raise StackError(
                    f"no stack is locked: there is no {path}; "
                    "--update-baselines locks the one that it accepts"
                )
            locks[framework] = lock = read_lock(path)
            say(f"busbw reference: {framework} of {lock.date}, stack {lock.digest}")
            ours = python_of(settings, framework)
            assert settings.stack_cache is not None
            pythons[framework] = built(settings.stack_cache, lock, [ours]).python
    found = replace(against, pythons=pythons, locks=locks)
    return replace(collected, settings=replace(settings, against=found))


def check_locked(settings: Settings, framework: str) -> None:
    """Which of several locks it is, only the devices say. Raises UsageError."""
    with usage_error(StackError, where=f"--against={BASELINE}: {framework}: "):
        problems = []
        for path in paths_below(settings.baselines, framework):
            try:
                lock = read_lock(path)
                assert settings.stack_cache is not None
                check_buildable(settings.stack_cache, lock, [python_of(settings, framework)])
            except StackError as error:
                problems.append(error)
            else:
                return
        none = f"no stack is locked below {settings.baselines}; --update-baselines locks the one "
        raise problems[0] if problems else StackError(f"{none}that it accepts")


def _replaced() -> str:
    """Return which library is loaded in place of an installed one; empty for none."""
    for name in variables.REPLACES:
        if os.environ.get(name):
            return f"{name}={os.environ[name]} is loaded in place of what is installed; unset it"
    return ""


def locked(measured: Measured, frameworks: Sequence[str]) -> tuple[str, ...]:
    """Lock the stacks of `frameworks`, whose times were accepted; return notes on each.

    A stack that no index can give again is not locked, and its note says why. With times that were
    only added or that improved, an existing lock stays. Raises OSError.
    """
    notes: list[str] = []
    for framework in frameworks:
        root, key = measured.settings.baselines, key_on(measured.machine.target, framework)
        path = path_of(root, key, framework)
        if path.exists() and measured.settings.update_baselines != "all":
            continue
        try:
            lock = _lock(measured, framework)
            if lock is None or (path.exists() and read_lock(path).digest == lock.digest):
                continue
        except StackError as error:
            notes.append(f"{framework}: its stack is not locked as a reference: {error}")
            continue
        storage.write(path, lock.text)
        count = plural(len(lock.packages), "package")
        notes.append(f"{framework}: its stack is the reference now, {count} in {path}")
    return tuple(notes)


def _lock(measured: Measured, framework: str) -> Lock | None:
    """Return the measured stack; None for a simulated framework that is no package.

    Raises StackError for a stack that no index can give again.
    """
    python = python_of(measured.settings, framework)
    found = installed(python)
    stack = found.stack(FRAMEWORKS[framework].packages)
    if not stack and FRAMEWORKS[framework].scripted:
        return None
    problem = _replaced() or unlockable(stack) if stack else f"it is no package of {python}"
    if problem:
        raise StackError(problem)
    return Lock(
        framework=framework,
        python=found.python,
        platform=found.platform,
        date=measured.collected.date,
        flags=variables.of_stack(os.environ, os.path.expanduser("~")),
        packages=packages_of(stack, python),
    )
