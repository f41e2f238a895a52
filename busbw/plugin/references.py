"""What each case is compared with: the levels of its machine, and what today's cases share.

Levels are of one framework on one machine: its cases have a stack and a night in common. Reads
baselines and history; which sessions count, and the sums, are the judge's.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from busbw import baselines, driver, history, judge, stats
from busbw.judge import Levels, SharedShift, StoredReference
from busbw.model import (
    HOST,
    OWN_CODE,
    Answer,
    Baseline,
    Case,
    Device,
    EarlierSession,
    EnvironmentKey,
    Measurement,
    Spec,
    changes,
    variables,
)

from .session import LevelKey, Measured, TimedJob
from .settings import Settings


def levels_at(
    settings: Settings, keys: Iterable[EnvironmentKey], device: Device
) -> dict[LevelKey, Levels]:
    """The levels of every framework with baselines on `keys`, whatever is measured today.

    Raises BaselineError, HistoryError and OSError for files that cannot be read.
    """
    found = {}
    for key in dict.fromkeys(keys):
        known = _known(settings, key)
        levels = judge.levels_of(known, judge.POLICIES[device])
        found.update({(key, framework): one for framework, one in levels.items()})
    return found


def _known(settings: Settings, key: EnvironmentKey) -> dict[str, judge.Known]:
    """Baselines by framework, and the history from the year of the oldest on."""
    stored = {
        name: baselines.all_at(settings.baselines, key, name)
        for name in sorted(baselines.frameworks_at(settings.baselines, key))
    }
    begins = [one.sessions[0].began for those in stored.values() for one in those if one.sessions]
    lines: tuple[history.Line, ...] = ()
    if settings.history is not None and begins:
        lines = history.read(settings.history, key, min(begins).year).lines
    accepted = history.acknowledged(settings.baselines)
    return {
        name: judge.Known(
            baselines=those,
            history=history.earlier(lines, history.Series(framework=name)),
            since=_since(those, accepted, str(key.folder)),
        )
        for name, those in stored.items()
    }


def _since(
    stored: Sequence[Baseline], accepted: Sequence[history.Acknowledged], folder: str
) -> dict[Case, datetime]:
    """By case, the newest change that somebody acknowledged."""
    found: dict[Case, datetime] = {}
    for one in sorted(accepted, key=lambda change: change.since):
        found.update({b.case: one.began for b in stored if one.is_of(b.case.name, folder)})
    return found


def shifts_of(measured: Measured) -> dict[LevelKey, SharedShift]:
    """What the measured cases of each framework and machine share today."""
    policy = judge.POLICIES[measured.resolved.machine.target.device]
    return {
        key: judge.shared_shift(times_s, measured.resolved.levels[key], policy)
        for key, times_s in times_of(measured).items()
    }


def times_of(measured: Measured) -> dict[LevelKey, dict[Case, tuple[float, ...]]]:
    """Today's launches in seconds, of cases whose framework has levels here."""
    found = _times_s(measured, measured.measurements)
    return {key: one for key, one in found.items() if key in measured.resolved.levels}


def _times_s(
    measured: Measured, measurements: Mapping[Spec, Measurement]
) -> dict[LevelKey, dict[Case, tuple[float, ...]]]:
    """The launches of `measurements` in seconds, of cases of which none failed."""
    found: dict[LevelKey, dict[Case, tuple[float, ...]]] = {}
    for spec, job in measured.resolved.jobs.items():
        one = measurements[spec]
        if one.runs and not one.failures:
            times_s = tuple(stats.launch_time_s(run) for run in one.runs)
            found.setdefault(level_key(job), {})[job.case] = times_s
    return found


def level_key(job: TimedJob) -> LevelKey:
    """Where the levels of `job` are found."""
    return job.key, job.case.framework


def reference_of(
    job: TimedJob, levels: Mapping[LevelKey, Levels], shifts: Mapping[LevelKey, SharedShift]
) -> StoredReference | None:
    """What `job` is compared with; None without a baseline."""
    baseline, key = job.stored.baseline, level_key(job)
    if baseline is None:
        return None
    return StoredReference(
        baseline=baseline,
        level=levels[key].level(job.case) if key in levels and not baseline.oom else None,
        shift=shifts.get(key),
        cases=sum(one.cases for one in levels.values()),
    )


def today(measured: Measured) -> dict[LevelKey, EarlierSession]:
    """Today's session, as later ones will see it."""
    environment = measured.resolved.environment
    versions = {name: text for one in environment.versions.values() for name, text in one.items()}
    surroundings = {
        **versions,
        **environment.flags,
        HOST: platform.node(),
        OWN_CODE: driver.worker_hash(),
    }
    return {
        key: EarlierSession(
            began=measured.resolved.collected.began, times_s=times_s, surroundings=surroundings
        )
        for key, times_s in times_of(measured).items()
    }


def nights_of(
    settings: Settings, jobs: Iterable[TimedJob]
) -> dict[LevelKey, Sequence[EarlierSession] | None]:
    """What the locked reference stacks took in earlier nights where `jobs` are measured.

    None without a history, which could tell.

    Raises HistoryError for a history that cannot be read.
    """
    locks = settings.against.locks if settings.against is not None else {}
    found: dict[LevelKey, Sequence[EarlierSession] | None] = {}
    for key, framework in dict.fromkeys(map(level_key, jobs)):
        if framework in locks:
            series = history.Series(
                framework=framework, stack=locks[framework].digest, is_reference=True
            )
            folder = settings.history
            found[key, framework] = None if folder is None else _own_nights(folder, key, series)
    return found


def _own_nights(
    folder: Path, key: EnvironmentKey, series: history.Series
) -> Sequence[EarlierSession]:
    """Those measured by our code of today: a change of it is none of the machine."""
    lines = history.read(folder, key).lines
    own = (line for line in lines if line.worker == driver.worker_hash())
    return history.earlier(own, series)


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
    """Every option of a stack, ``none`` where it is not set."""
    return {name: flags.get(name, "none") for name in sorted(variables.STACK)}


def machine_answers(measured: Measured) -> tuple[Answer, ...]:
    """What the locked reference stacks say of the machine; nothing without them."""
    resolved = measured.resolved
    found = _times_s(measured, measured.references) if resolved.nights else {}
    policy = judge.POLICIES[resolved.machine.target.device]
    return tuple(
        judge.machine_answer(
            key[1],
            resolved.nights[key],
            EarlierSession(
                began=resolved.collected.began,
                times_s=times_s,
                surroundings={HOST: platform.node(), OWN_CODE: driver.worker_hash()},
            ),
            policy,
            len(found),
        )
        for key, times_s in found.items()
    )
