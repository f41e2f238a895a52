"""Read the levels of machines from baselines and history, and assess today's launches by them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from busbw.baselines.document import BaselineError, BaselineFile
from busbw.baselines.files import baseline_path
from busbw.baselines.store import frameworks_on_machine, read_framework_files
from busbw.driver.bundle import worker_hash
from busbw.history import agreement
from busbw.history.files import (
    ACKNOWLEDGED_FILE,
    AcknowledgedChange,
    HistoryError,
    read_acknowledged,
)
from busbw.history.files import read_machine as read_history
from busbw.history.lines import Line, Series, comparable_sessions
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import Levels, StoredTimes, build_levels
from busbw.judge.policy import POLICIES
from busbw.model.case import Case, Spec
from busbw.model.field_types import moment_text
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record, Session, round_us, setup_changes
from busbw.model.words import Device
from busbw.stats.launches import clock_tick_s, launch_time_s
from busbw.storage import reraise_as

from .state import Collected, Measured, TimedJob


def read_levels(
    collected: Collected, keys: Iterable[EnvironmentKey], device: Device
) -> dict[EnvironmentKey, Levels]:
    """Return the Levels of each machine in `keys` that has baselines, by the policy of `device`.

    Raises BaselineError, HistoryError or OSError if files of baselines or of the history cannot be
    read, contradict each other, or have a date in the future.
    """
    levels = {}
    for key in dict.fromkeys(keys):
        built = build_levels(_read_stored_times(collected, key), POLICIES[device])
        if built is not None:
            levels[key] = built
    return levels


def _read_stored_times(collected: Collected, key: EnvironmentKey) -> dict[str, StoredTimes]:
    """Read the baselines and the history of the machine `key`, and return them by framework.

    The history is read from the year of the oldest baseline on.
    """
    options = collected.options
    files = {
        name: read_framework_files(options.baselines, key, name)
        for name in sorted(frameworks_on_machine(options.baselines, key))
    }
    stored = {
        name: [baseline for file in files[name] for baseline in file.baselines] for name in files
    }
    begins = [baseline.records[0].began for several in stored.values() for baseline in several]
    lines: tuple[Line, ...] = ()
    if options.history is not None:
        lines = read_history(options.history, key, min([collected.began, *begins]).year)
    known_changes = read_acknowledged(options.baselines)
    _check_agreement(
        collected, key, [file for name in files for file in files[name]], lines, known_changes
    )
    return {
        name: StoredTimes(
            baselines=[baseline for baseline in several if not baseline.is_out_of_memory],
            history=comparable_sessions(lines, Series(framework=name)),
            acknowledged_changes=_acknowledged_moments(several, known_changes, str(key.folder)),
            failed_cases=frozenset(line.case for line in lines if line.failure),
        )
        for name, several in stored.items()
    }


def _check_agreement(
    collected: Collected,
    key: EnvironmentKey,
    files: Sequence[BaselineFile],
    lines: Sequence[Line],
    known_changes: Sequence[AcknowledgedChange],
) -> None:
    """Check that the baselines and the history of a machine agree with each other and the clock.

    Args:
        collected: The session, whose beginning is the present moment.
        key: The machine.
        files: The files of its baselines.
        lines: The lines of its history, oldest first.
        known_changes: The changes that the user acknowledged.

    Raises:
        BaselineError: A baseline contradicts its lines in the history, or has a date in the future.
        HistoryError: The history or an acknowledged change has a date in the future.

    """
    options, began, error = collected.options, collected.began, agreement.DisagreementError
    stored = [(file, baseline) for file in files for baseline in file.baselines]
    moments = {record.moment for _, baseline in stored for record in baseline.records}
    accepted = [line for line in lines if line.moment in moments]
    for file, baseline in stored:
        newest = max(baseline.records, key=lambda record: record.began)
        path = baseline_path(options.baselines, key, baseline.case)
        with reraise_as(BaselineError, error, where=f"{path}: "):
            agreement.check_moment(baseline.case, newest, began)
            updates = [update.date for update in file.history]
            for date in updates:
                agreement.check_date("the update", date, began)
            agreement.check_date("the pinned time", baseline.pinned_date or "", began)
            if options.history is not None:
                agreement.check_stored_times(baseline, accepted)
                agreement.check_pinned_time(baseline, updates)
    with reraise_as(HistoryError, error, where=f"{options.baselines}/{ACKNOWLEDGED_FILE}: "):
        for change in known_changes:
            agreement.check_date("the change", change.since, began)
    with reraise_as(HistoryError, error, where=f"{options.history}/{key.folder}: "):
        for line in lines[-1:]:
            agreement.check_moment(line.case, line, began)


def _acknowledged_moments(
    baselines: Sequence[Baseline], known_changes: Sequence[AcknowledgedChange], folder: str
) -> dict[Case, datetime]:
    """Return the beginning of the newest acknowledged change of each case that has a change.

    `folder` is the folder of the machine, which a change may name.
    """
    since: dict[Case, datetime] = {}
    for change in sorted(known_changes, key=lambda change: change.since):
        cases = [b.case for b in baselines if change.matches(b.case.name, folder)]
        since |= dict.fromkeys(cases, change.began)
    return since


def assess_machines(measured: Measured) -> dict[EnvironmentKey, Assessment]:
    """Return an Assessment of today's launches for each machine that has levels."""
    times_s: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    for job, measurement in jobs_without_failures(measured, measured.measurements):
        if job.key in measured.levels:
            launches_s = tuple(launch_time_s(run) for run in measurement.runs)
            times_s.setdefault(job.key, {})[job.case] = launches_s
    ticks_s, launches = _find_ticks_s(measured), measured.plan.launches
    return {
        key: measured.levels[key].assess_session(
            today, measured.policy, planned_launches=launches, ticks_s=ticks_s
        )
        for key, today in times_s.items()
    }


def _find_ticks_s(measured: Measured) -> dict[Case, float]:
    """Return the tick of the clock in seconds, for each case whose samples show that it ticks.

    Only the planned launches count, not the launches that confirm a suspicion.
    """
    ticks_s = {}
    for job, measurement in jobs_without_failures(measured, measured.measurements):
        runs = measurement.runs[: measured.plan.launches]
        tick = clock_tick_s([sample for run in runs for sample in run.samples_s])
        if tick:
            ticks_s[job.case] = tick
    return ticks_s


def jobs_without_failures(
    measured: Measured, measurements: Mapping[Spec, Measurement]
) -> Iterator[tuple[TimedJob, Measurement]]:
    """Yield each job that has launches and no failed launch, with its Measurement.

    `measurements` are those of the candidate or of the reference stack.
    """
    for spec, job in measured.jobs.items():
        measurement = measurements[spec]
        if measurement.runs and not measurement.failures:
            yield job, measurement


def record_of(
    measured: Measured, measurement: Measurement, flags: Mapping[str, str] | None = None
) -> Record:
    """Return the Record of the launches of a case, to store in a baseline or the history.

    `flags` are the environment variables of a locked stack; None means the surroundings of this
    session.
    """
    environment, runs = measured.environment, measurement.runs
    return Record(
        moment=moment_text(measured.collected.began),
        commit=environment.commit,
        times_us=tuple(round_us(1e6 * launch_time_s(run)) for run in runs),
        versions=runs[0].versions if runs else {},
        surroundings=surroundings_of(measured) if flags is None else flags,
        host=platform.node(),
        worker=worker_hash(),
        extra=_common_values([run.extra for run in runs]),
    )


def _common_values(launches: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the extra values that are equal in all launches, by name."""
    first = launches[0] if launches else {}
    return {
        name: value
        for name, value in first.items()
        if all(launch.get(name) == value for launch in launches)
    }


def surroundings_of(measured: Measured) -> dict[str, str]:
    """Return the flags, the load and the clock frequency of the machine, as texts by name.

    They may explain why another session has another level.
    """
    environment = measured.environment
    surroundings = dict(environment.flags)
    if environment.load is not None:
        surroundings["load"] = f"{environment.load:.2f}"
    if environment.clock_mhz is not None:
        surroundings["clock MHz"] = f"{environment.clock_mhz:.0f}"
    return surroundings


def sessions_of_today(measured: Measured) -> dict[EnvironmentKey, Session]:
    """Return a stored Session with today's records for each machine that has levels."""
    records: dict[EnvironmentKey, dict[Case, Record]] = {}
    for job, measurement in jobs_without_failures(measured, measured.measurements):
        if job.key in measured.levels:
            records.setdefault(job.key, {})[job.case] = record_of(measured, measurement)
    return {key: Session.from_records(by_case) for key, by_case in records.items()}


def changes_since_baselines(measured: Measured) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the frameworks whose versions or surroundings differ from their newest baseline.

    Each comes with the date of the newest baseline, and with texts of the differences such as
    ``jax 0.10.1 -> 0.10.2``. `measured` needs no measurements yet.
    """
    newest: dict[str, Record] = {}
    for job in measured.jobs.values():
        for record in job.stored.baseline.sessions[-1:] if job.stored.baseline else ():
            before = newest.setdefault(job.case.framework, record)
            newest[job.case.framework] = max(before, record, key=lambda record: record.began)
    for framework, record in newest.items():
        versions = measured.environment.versions.get(framework, {})
        now = replace(record, versions=versions, surroundings=surroundings_of(measured))
        differences = setup_changes(record.lasting_setup, now.lasting_setup)
        if differences:
            yield framework, record.date, differences
