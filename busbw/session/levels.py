"""Read the levels of machines from baselines and history, and assess today's launches by them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from busbw.baselines.document import BaselineError
from busbw.baselines.store import baseline_path, frameworks_on_machine, read_framework_files
from busbw.driver.bundle import worker_hash
from busbw.history.files import (
    AcknowledgedChange,
    HistoryError,
    Line,
    Series,
    comparable_sessions,
    read_acknowledged,
    read_folder,
)
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import Levels, StoredTimes, build_levels
from busbw.judge.policy import POLICIES, Policy
from busbw.model.case import Case, CaseSpec
from busbw.model.field_types import moment_text
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record, Session, round_us, setup_changes
from busbw.model.words import Device
from busbw.stats.launches import clock_tick_s, launch_time_s

from .state import CollectedSession, MeasuredSession, TimedJob


def read_levels(
    collected_session: CollectedSession, keys: Iterable[EnvironmentKey], device: Device
) -> dict[EnvironmentKey, Levels]:
    """Return the Levels of each machine in `keys` that has baselines, by the policy of `device`.

    Raises BaselineError, HistoryError or OSError if files of baselines or of the history cannot be
    read, or have a session in the future.
    """
    levels = {}
    for key in dict.fromkeys(keys):
        levels_of_machine = _read_levels_of_machine(collected_session, key, POLICIES[device])
        if levels_of_machine is not None:
            levels[key] = levels_of_machine
    return levels


def _read_levels_of_machine(
    collected_session: CollectedSession, key: EnvironmentKey, policy: Policy
) -> Levels | None:
    """Read the baselines and the history of the machine `key`, and return its Levels.

    The history is read from the year of the oldest baseline on. Returns None without a baseline
    that has a time.
    """
    options = collected_session.options
    stored = {
        name: [
            baseline
            for file in read_framework_files(options.baselines, key, name)
            for baseline in file.baselines
        ]
        for name in sorted(frameworks_on_machine(options.baselines, key))
    }
    baselines = [baseline for several in stored.values() for baseline in several]
    begins = [collected_session.began, *(baseline.records[0].began for baseline in baselines)]
    lines: tuple[Line, ...] = ()
    if options.history is not None:
        lines = read_folder(options.history / key.folder, min(begins).year)
    _check_moments(collected_session, key, baselines, lines)
    known_changes = read_acknowledged(options.baselines)
    stored_times = [
        StoredTimes(
            baselines=[baseline for baseline in several if not baseline.is_out_of_memory],
            history=comparable_sessions(lines, Series(framework=name)),
            acknowledged_changes=_acknowledged_moments(several, known_changes, str(key.folder)),
        )
        for name, several in stored.items()
    ]
    failed_cases = frozenset(line.case for line in lines if line.failure)
    return build_levels(stored_times, policy, failed_cases)


# Clocks of two machines may differ, and a machine may have the wrong time zone.
_MAX_CLOCK_DIFFERENCE = timedelta(days=1)


def _check_moments(
    collected_session: CollectedSession,
    key: EnvironmentKey,
    baselines: Sequence[Baseline],
    lines: Sequence[Line],
) -> None:
    """Raise an error if a stored session of a machine began after the session `collected_session`.

    All sessions until that moment would seem older than the stored session, and would not count.

    Args:
        collected_session: The session, whose beginning is the present moment.
        key: The machine.
        baselines: The baselines of the machine.
        lines: The lines of its history, oldest first.

    Raises:
        BaselineError: A session of a baseline began more than a day later.
        HistoryError: A session of the history began more than a day later.

    """
    options, latest = collected_session.options, collected_session.began + _MAX_CLOCK_DIFFERENCE
    newest_records = [
        *(
            (
                BaselineError,
                baseline_path(options.baselines, key, baseline.case),
                max(baseline.records, key=lambda record: record.began),
            )
            for baseline in baselines
        ),
        *((HistoryError, f"{options.history}/{key.folder}", line) for line in lines[-1:]),
    ]
    for error_type, place, record in newest_records:
        if record.began > latest:
            raise error_type(
                f"{place}: the session of {record.moment} is in the future, since the clock of "
                f"this machine says {moment_text(collected_session.began)}: set the clock, or "
                "remove the entry"
            )


def _acknowledged_moments(
    baselines: Sequence[Baseline], known_changes: Sequence[AcknowledgedChange], folder: str
) -> dict[Case, datetime]:
    """Return the beginning of the newest acknowledged change of each case that has a change.

    `folder` is the folder of the machine, which a change may name.
    """
    moments: dict[Case, datetime] = {}
    for change in sorted(known_changes, key=lambda change: change.since):
        cases = [b.case for b in baselines if change.matches(b.case.name, folder)]
        moments |= dict.fromkeys(cases, change.began)
    return moments


def assess_machines(measured_session: MeasuredSession) -> dict[EnvironmentKey, Assessment]:
    """Return an Assessment of today's launches for each machine that has levels."""
    times_s: dict[EnvironmentKey, dict[Case, tuple[float, ...]]] = {}
    # The tick of the clock, for each case whose samples show that the clock ticks.
    ticks_s: dict[Case, float] = {}
    launches = measured_session.plan.launches
    for job, measurement in jobs_without_failures(measured_session, measured_session.measurements):
        if job.key in measured_session.levels:
            launches_s = tuple(launch_time_s(run) for run in measurement.runs)
            times_s.setdefault(job.key, {})[job.case] = launches_s
            # Only the planned launches count, not the launches that confirm a suspicion.
            planned_runs = measurement.runs[:launches]
            tick_s = clock_tick_s([sample for run in planned_runs for sample in run.samples_s])
            if tick_s:
                ticks_s[job.case] = tick_s
    return {
        key: measured_session.levels[key].assess_session(
            today, measured_session.policy, planned_launch_count=launches, ticks_s=ticks_s
        )
        for key, today in times_s.items()
    }


def jobs_without_failures(
    measured_session: MeasuredSession, measurements: Mapping[CaseSpec, Measurement]
) -> Iterator[tuple[TimedJob, Measurement]]:
    """Yield each job that has launches and no failed launch, with its Measurement.

    `measurements` are those of the candidate or of the reference stack.
    """
    for spec, job in measured_session.jobs.items():
        measurement = measurements[spec]
        if measurement.runs and not measurement.failures:
            yield job, measurement


def record_of(
    measured_session: MeasuredSession,
    measurement: Measurement,
    flags: Mapping[str, str] | None = None,
) -> Record:
    """Return the Record of the launches of a case, to store in a baseline or the history.

    `flags` are the variables of a locked stack; None means the variables of this session.
    """
    environment, runs = measured_session.environment, measurement.runs
    return Record(
        moment=moment_text(measured_session.collected_session.began),
        commit=environment.commit,
        times_us=tuple(round_us(1e6 * launch_time_s(run)) for run in runs),
        versions=runs[0].versions if runs else {},
        surroundings=environment.flags if flags is None else flags,
        host=platform.node(),
        worker=worker_hash(),
        extra=_common_values([run.extra for run in runs]),
    )


def _common_values(launches: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Map the names of extra values to the values, for the values that all launches share."""
    first = launches[0] if launches else {}
    return {
        name: value
        for name, value in first.items()
        if all(launch.get(name) == value for launch in launches)
    }


def sessions_of_today(
    measured_session: MeasuredSession, measurements: Mapping[CaseSpec, Measurement]
) -> dict[EnvironmentKey, Session]:
    """Return a stored Session with today's records for each machine that was measured.

    `measurements` are those of the candidate or of the reference stack.
    """
    records: dict[EnvironmentKey, dict[Case, Record]] = {}
    for job, measurement in jobs_without_failures(measured_session, measurements):
        records.setdefault(job.key, {})[job.case] = record_of(measured_session, measurement)
    return {key: Session.from_records(by_case) for key, by_case in records.items()}


def changed_stack_lines(measured_session: MeasuredSession) -> Iterator[str]:
    """Yield a line for each framework whose stack differs from the stack of its newest baseline.

    `measured_session` needs no measurements yet.
    """
    environment = measured_session.environment
    records = [
        (job.case.framework, record)
        for job in measured_session.jobs.values()
        if job.baseline_search.baseline is not None
        for record in job.baseline_search.baseline.sessions[-1:]
    ]
    newest = dict(sorted(records, key=lambda pair: pair[1].began))
    for framework, record in sorted(newest.items()):
        setup = {**environment.versions.get(framework, {}), **environment.flags}
        changes = ", ".join(setup_changes(record.setup, setup))
        if changes:
            yield f"busbw {framework}: other than the baseline of {record.date}: {changes}"
