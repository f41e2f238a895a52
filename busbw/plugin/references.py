"""What each case is compared with: the levels of its machine, and what today's cases share.

Levels are of one framework on one machine: its cases have a stack and a night in common. Reads
baselines and history; which sessions count, and the sums, are the judge's.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from busbw.baselines.store import all_at, frameworks_at
from busbw.driver.bundle import worker_hash
from busbw.history.files import Acknowledged, acknowledged, read
from busbw.history.lines import Line, Series, earlier
from busbw.judge.case import StoredReference
from busbw.judge.levels import Known, Levels, levels_of, machine_answer
from busbw.judge.policy import POLICIES
from busbw.judge.rule import Tonight
from busbw.model import variables
from busbw.model.case import Case, Spec
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import HOST, OWN_CODE, Baseline, EarlierSession, changes
from busbw.model.verdict import Answer
from busbw.model.words import Device
from busbw.stats.launches import launch_time_s

from .session import LevelKey, Measured, TimedJob
from .settings import Settings


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
        lines = read(settings.history, key, min(begins).year).lines
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
    found: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    for (key, _), times_s in _times_s(measured, measured.measurements).items():
        if key in measured.resolved.levels:
            found.setdefault(key, {}).update(times_s)
    return found


def _times_s(
    measured: Measured, measurements: Mapping[Spec, Measurement]
) -> dict[LevelKey, dict[Case, tuple[float, ...]]]:
    """The launches of `measurements` in seconds, of cases of which none failed."""
    found: dict[LevelKey, dict[Case, tuple[float, ...]]] = {}
    for spec, job in measured.resolved.jobs.items():
        one = measurements[spec]
        if one.runs and not one.failures:
            times_s = tuple(launch_time_s(run) for run in one.runs)
            found.setdefault(level_key(job), {})[job.case] = times_s
    return found


def level_key(job: TimedJob) -> LevelKey:
    return job.key, job.case.framework


def reference_of(job: TimedJob, limits: Mapping[EnvironmentKey, Tonight]) -> StoredReference | None:
    """What `job` is compared with; None without a baseline."""
    baseline = job.stored.baseline
    if baseline is None:
        return None
    if baseline.oom or job.key not in limits:
        return StoredReference(baseline=baseline)
    found = limits[job.key]
    return StoredReference(baseline=baseline, limit=found.limits.get(job.case), launch=found.launch)


def today(measured: Measured) -> dict[EnvironmentKey, EarlierSession]:
    """Today's session, as later ones will see it."""
    environment = measured.resolved.environment
    versions = {name: text for one in environment.versions.values() for name, text in one.items()}
    surroundings = {
        **versions,
        **environment.flags,
        HOST: platform.node(),
        OWN_CODE: worker_hash(),
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
            series = Series(framework=framework, stack=locks[framework].digest, is_reference=True)
            folder = settings.history
            found[key, framework] = None if folder is None else _own_nights(folder, key, series)
    return found


def _own_nights(folder: Path, key: EnvironmentKey, series: Series) -> Sequence[EarlierSession]:
    """Those measured by our code of today: a change of it is none of the machine."""
    lines = read(folder, key).lines
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
    found = _times_s(measured, measured.references) if resolved.nights else {}
    policy = POLICIES[resolved.machine.target.device]
    return tuple(
        machine_answer(
            key[1],
            resolved.nights[key],
            EarlierSession(
                began=resolved.collected.began,
                times_s=times_s,
                surroundings={HOST: platform.node(), OWN_CODE: worker_hash()},
            ),
            policy,
        )
        for key, times_s in found.items()
    )
