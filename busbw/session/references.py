"""What each case is compared with: the levels of its machine, and a stack that is locked.

Levels are of one framework on one machine: its cases have a stack and a night in common. The
reference stack is built from its lock for --against=baseline, and locked with new baselines.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from busbw import files
from busbw.baselines.store import all_at, frameworks_at
from busbw.driver.bundle import worker_hash
from busbw.frameworks import FRAMEWORKS
from busbw.grid import Target
from busbw.history.files import Acknowledged, acknowledged
from busbw.history.files import read as read_history
from busbw.history.lines import Line, Series, earlier
from busbw.judge.levels import Known, Levels, levels_of, machine_answer
from busbw.judge.policy import POLICIES
from busbw.judge.rule import Tonight
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
from busbw.stats.launches import launch_time_s
from busbw.workloads.collective import Collective

from .forms import BASELINE
from .machine import surroundings
from .option import usage_error
from .settings import Settings
from .state import Collected, LevelKey, Lockable, Measured, TimedJob


def levels_at(
    settings: Settings, keys: Iterable[EnvironmentKey], device: Device
) -> dict[EnvironmentKey, Levels]:
    """Raises BaselineError, HistoryError and OSError for files that cannot be read."""
    found = {key: levels_of(_known(settings, key), POLICIES[device]) for key in dict.fromkeys(keys)}
    return {key: one for key, one in found.items() if one is not None}


def _known(settings: Settings, key: EnvironmentKey) -> dict[str, Known]:
    """Baselines by framework, and the history from the year of the oldest on."""
    stored = {
        name: all_at(settings.baselines, key, name)
        for name in sorted(frameworks_at(settings.baselines, key))
    }
    begins = [one.sessions[0].began for those in stored.values() for one in those if one.sessions]
    lines: tuple[Line, ...] = ()
    if settings.history is not None and begins:
        lines = read_history(settings.history, key, min(begins).year).lines
    accepted = acknowledged(settings.baselines)
    return {
        name: Known(
            baselines=those,
            history=earlier(lines, Series(framework=name)),
            since=_since(those, accepted, str(key.folder)),
        )
        for name, those in stored.items()
    }


def _since(
    stored: Sequence[Baseline], accepted: Sequence[Acknowledged], folder: str
) -> dict[Case, datetime]:
    """By case, the newest change that somebody acknowledged."""
    found: dict[Case, datetime] = {}
    for one in sorted(accepted, key=lambda change: change.since):
        found.update({b.case: one.began for b in stored if one.is_of(b.case.name, folder)})
    return found


def tonight(measured: Measured) -> dict[EnvironmentKey, Tonight]:
    policy = POLICIES[measured.resolved.machine.target.device]
    return {
        key: measured.resolved.levels[key].tonight(times_s, policy)
        for key, times_s in times_of(measured).items()
    }


def times_of(measured: Measured) -> dict[EnvironmentKey, dict[Case, tuple[float, ...]]]:
    """The launches in seconds, where there are levels, of cases of which none failed."""
    found: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    for spec, job in measured.resolved.jobs.items():
        one = measured.measurements[spec]
        if job.key in measured.resolved.levels and one.runs and not one.failures:
            times_s = tuple(launch_time_s(run) for run in one.runs)
            found.setdefault(job.key, {})[job.case] = times_s
    return found


def level_key(job: TimedJob) -> LevelKey:
    return job.key, job.case.framework


def record_of(
    measured: Measured, found: Measurement, flags: Mapping[str, str] | None = None
) -> Record:
    """What was `found` tonight, with the `flags` of a locked stack if they are not tonight's."""
    environment = measured.resolved.environment
    return Record(
        at=moment_text(measured.resolved.collected.began),
        commit=environment.commit,
        times_us=tuple(rounded_us(1e6 * launch_time_s(run)) for run in found.runs),
        versions=found.runs[0].versions if found.runs else {},
        surroundings=surroundings(environment) if flags is None else flags,
        host=platform.node(),
        worker=worker_hash(),
    )


def today(measured: Measured) -> dict[EnvironmentKey, Session]:
    """Today's session, as later ones will see it."""
    found: dict[EnvironmentKey, dict[Case, Record]] = {}
    for (key, _), records in _records(measured, measured.measurements).items():
        if key in measured.resolved.levels:
            found.setdefault(key, {}).update(records)
    return {key: Session.of(records) for key, records in found.items()}


def _records(
    measured: Measured, measurements: Mapping[Spec, Measurement]
) -> dict[LevelKey, dict[Case, Record]]:
    """The records of `measurements`, of cases of which none failed; their flags are tonight's."""
    found: dict[LevelKey, dict[Case, Record]] = {}
    for spec, job in measured.resolved.jobs.items():
        one = measurements[spec]
        if one.runs and not one.failures:
            found.setdefault(level_key(job), {})[job.case] = record_of(measured, one)
    return found


def nights_of(
    settings: Settings, jobs: Iterable[TimedJob]
) -> dict[LevelKey, Sequence[Session] | None]:
    """What the locked reference stacks took in earlier nights where `jobs` are measured.

    None without a history, which could tell.

    Raises HistoryError for a history that cannot be read.
    """
    locks = settings.against.locks if settings.against is not None else {}
    found: dict[LevelKey, Sequence[Session] | None] = {}
    for key, framework in dict.fromkeys(map(level_key, jobs)):
        if framework in locks:
            series = Series(framework=framework, stack=locks[framework].digest, is_reference=True)
            folder = settings.history
            found[key, framework] = None if folder is None else _own_nights(folder, key, series)
    return found


def _own_nights(folder: Path, key: EnvironmentKey, series: Series) -> Sequence[Session]:
    """Those measured by our code of today: a change of it is none of the machine."""
    lines = read_history(folder, key).lines
    own = (line for line in lines if line.worker == worker_hash())
    return earlier(own, series)


def stack_changes(measured: Measured) -> tuple[str, ...]:
    """What the stacks of tonight have other than the locked references: versions and flags."""
    if not measured.resolved.nights:
        return ()
    found: dict[str, None] = {}
    for spec, reference in measured.references.items():
        ours, theirs = measured.measurements[spec].runs, reference.runs
        if ours and theirs:
            found.update(dict.fromkeys(changes(theirs[0].versions, ours[0].versions)))
    flags = _of_stack(measured.resolved.environment.flags)
    for probe in measured.resolved.machine.references:
        found.update(dict.fromkeys(changes(_of_stack(probe.flags), flags)))
    return tuple(found)


def _of_stack(flags: Mapping[str, str]) -> dict[str, str]:
    return {name: flags.get(name, "none") for name in sorted(variables.STACK)}


def machine_answers(measured: Measured) -> tuple[Answer, ...]:
    resolved = measured.resolved
    found = _records(measured, measured.references) if resolved.nights else {}
    policy = POLICIES[resolved.machine.target.device]
    return tuple(
        machine_answer(
            key[1],
            resolved.nights[key],
            Session.of(records),
            policy,
        )
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
            locks[framework] = lock = _lock_at(lock_path(settings, target, framework), framework)
            say(f"busbw reference: {framework} of {lock.date}, stack {lock.digest}")
            ours = settings.pythons.get(framework, sys.executable)
            pythons[framework] = built(settings.stack_cache, lock, [ours]).python
    found = replace(against, pythons=pythons, locks=locks)
    return replace(collected, settings=replace(settings, against=found))


def check_locked(settings: Settings, framework: str) -> None:
    """Which of several locks it is, only the devices say. Raises UsageError."""
    with usage_error(StackError, where=f"--against={BASELINE}: {framework}: "):
        paths = paths_below(settings.baselines, framework)
        if not paths:
            raise StackError(
                f"no stack is locked below {settings.baselines}; --update-baselines locks the one "
                "that it accepts"
            )
        ours = settings.pythons.get(framework, sys.executable)
        problems = [_problem(settings, path, framework, ours) for path in paths]
        if all(problems):
            raise StackError(problems[0])


def _problem(settings: Settings, path: Path, framework: str, ours: str) -> str:
    try:
        check_buildable(settings.stack_cache, read_lock(path, framework), [ours])
    except StackError as error:
        return str(error)
    return ""


def _lock_at(path: Path, framework: str) -> Lock:
    if not path.exists():
        raise StackError(
            f"no stack is locked: there is no {path}; "
            "--update-baselines locks the one that it accepts"
        )
    return read_lock(path, framework)


def lock_path(settings: Settings, target: Target, framework: str) -> Path:
    key = target.key(Spec(framework=framework, workload=Collective(), payload_bytes=1))
    return path_of(settings.baselines, key, framework)


def lockable(collected: Collected, frameworks: Sequence[str]) -> dict[str, Lockable]:
    """Nothing where nothing will be locked. Raises UsageError as `lockable_of` does."""
    known = collected.lockable
    found = {
        name: known[name] if name in known else lockable_of(collected.settings, name)
        for name in frameworks
    }
    return {name: one for name, one in found.items() if one is not None}


def lockable_of(settings: Settings, framework: str) -> Lockable | None:
    """The stack of `framework` that is locked if it is accepted; None where none will be.

    Before anything is measured: raises UsageError for a stack that no index could give
    again, with what to do. A scripted framework that is no package has no stack.
    """
    if not settings.update_baselines or not settings.locks_reference:
        return None
    with usage_error(StackError, where="--update-baselines: "):
        found = _lockable(settings, framework)
    return found if found.stack else None


def locked(measured: Measured, frameworks: Sequence[str]) -> tuple[str, ...]:
    """Lock the stacks of `frameworks`, whose times were accepted; notes on what is locked now.

    With times that were only added or that improved, a lock that is there stays. Raises StackError
    for what cannot be locked, and OSError.
    """
    settings, target = measured.resolved.settings, measured.resolved.machine.target
    notes, contents = [], {}
    for framework in frameworks:
        path = lock_path(settings, target, framework)
        if path.exists() and settings.update_baselines != "all":
            continue
        if framework not in measured.resolved.lockable:
            continue
        found = measured.resolved.lockable[framework]
        lock = _lock(framework, found, measured.resolved.collected.date)
        if path.exists() and read_lock(path, framework).digest == lock.digest:
            continue
        contents[path] = lock.text
        notes.append(
            f"{framework}: its stack is the reference now, "
            f"{plural(len(lock.packages), 'package')} in {path}"
        )
    files.write_all(contents)
    return tuple(notes)


def _lock(framework: str, found: Lockable, date: str) -> Lock:
    return Lock(
        framework=framework,
        python=found.installed.python,
        platform=found.installed.platform,
        date=date,
        flags=variables.of_stack(os.environ, os.path.expanduser("~")),
        packages=packages_of(found.stack, found.python),
    )


def _lockable(settings: Settings, framework: str) -> Lockable:
    """The interpreter of `framework`, and its stack. Raises StackError if it cannot be locked."""
    python = settings.pythons.get(framework, sys.executable)
    found = installed(python)
    stack = found.stack(FRAMEWORKS[framework].packages)
    if stack:
        problem = _replaced() or unlockable(stack)
    elif not FRAMEWORKS[framework].scripted:
        problem = f"it is no package of {python}; give --no-reference-lock"
    else:
        problem = ""
    if problem:
        raise StackError(f"{framework}: {problem}")
    return Lockable(python=python, installed=found, stack=stack)


def _replaced() -> str:
    """Which library is loaded in place of an installed one; empty for none."""
    named = [f"{name}={os.environ[name]}" for name in variables.REPLACES if os.environ.get(name)]
    if not named:
        return ""
    return (
        f"{named[0]} is loaded in place of what is installed; unset it, or give --no-reference-lock"
    )
