"""Find the cases that the CaseSpecs of a session stand for on its machine, and their stored times.

The result is a MeasuredSession without measurements. The session has the cases to measure, the
stored times to compare the cases with, and the verdicts of the skipped cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from busbw import extensions, grid
from busbw.baselines.document import BaselineError
from busbw.baselines.store import (
    baseline_path,
    check_writable,
    find_baseline,
    find_published_bandwidth,
    frameworks_with_baselines,
    read_framework_files,
)
from busbw.driver.executor import Executor
from busbw.grid import MeasuredDevices
from busbw.history.files import (
    HistoryError,
    HistoryLine,
    SeriesKey,
    comparable_sessions,
    read_acknowledged_changes,
    read_machine_lines,
)
from busbw.judge.levels import EarlierSessions, StoredTimes, collect_earlier_sessions
from busbw.judge.policy import POLICIES, Policy
from busbw.model.case import CaseSpec, GridError, dataclass_from
from busbw.model.field_types import moment_text
from busbw.model.launch import MeasurementPlan
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Record
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.storage import OutputError

from .command_line import shipped_folder
from .machine import (
    add_reference_probes,
    interpreter_of_framework,
    key_of_all_devices,
    make_environment,
)
from .option import UsageError, as_usage_error, cache_folder
from .options import LockedStack, Options
from .state import CollectedSession, Machine, MeasuredSession, TimedJob

# Two stacks need two processes for each launch, so a few more samples cost little in comparison.
_PAIRED_MEASUREMENT_PLAN = MeasurementPlan(samples=40, budget_s=1.5)


def resolve_cases(
    collected_session: CollectedSession,
    machine: Machine,
    executor: Executor,
    write_line: Callable[[str], None],
) -> MeasuredSession:
    """Find the cases to measure and their stored times; return a session without measurements.

    With --against=baseline the locked reference stacks are built. With two stacks the devices and
    versions of the reference stack are probed, and no stored times are read.

    Args:
        collected_session: The session so far, with its options and the selected CaseSpecs.
        machine: The machine to measure on.
        executor: Starts the workers that probe the reference stack.
        write_line: Called with a line for the user before a reference stack is built, which can
            take minutes.

    Raises:
        UsageError: A CaseSpec is not possible on the machine. Or a file of baselines or of the
            history is damaged or cannot be written. Or the reference stack cannot be built, or
            would measure other cases.

    """
    options = collected_session.options
    levels = dict[EnvironmentKey, EarlierSessions]()
    skipped_verdicts, jobs = _resolve_specs(machine.target, collected_session.specs)
    keys = list(dict.fromkeys(job.key for job in jobs.values()))
    if options.is_paired:
        frameworks = tuple(dict.fromkeys(spec.framework for spec in jobs))
        if options.compares_with_locked_stack:
            stacks = _build_locked_stacks(options, machine.target, frameworks, write_line)
            options = replace(options, stacks=stacks)
        if jobs:
            machine = add_reference_probes(options, machine, frameworks, executor)
            _check_reference_has_same_cases(options, machine, jobs)
    else:
        # Files are read before anything is measured, so that a damaged file is found early.
        with as_usage_error(BaselineError, HistoryError, OutputError, OSError):
            jobs = {spec: _add_stored_times(options, job) for spec, job in jobs.items()}
            if options.writes_baselines:
                check_writable(options.baselines, [(job.key, job.case) for job in jobs.values()])
            levels = read_earlier_sessions(collected_session, keys, POLICIES[machine.target.device])
    widest = max(keys, key=lambda key: key.ranks, default=None)
    return dataclass_from(
        MeasuredSession,
        replace(collected_session, options=options),
        machine=machine,
        jobs=jobs,
        skipped_verdicts=skipped_verdicts,
        environment=make_environment(options, machine, widest),
        plan=replace(
            _PAIRED_MEASUREMENT_PLAN if options.is_paired else MeasurementPlan(),
            launches=options.launches or MeasurementPlan().launches,
            timeout_s=options.case_timeout,
            seed=int.from_bytes(os.urandom(4), "big"),
            memory_limit_bytes=options.memory_limit,
        ),
        levels=levels,
    )


def _resolve_specs(
    target: MeasuredDevices, specs: Sequence[CaseSpec]
) -> tuple[dict[CaseSpec, Verdict], dict[CaseSpec, TimedJob]]:
    """Return the SKIPPED verdicts and the jobs of `specs`, both by CaseSpec.

    A CaseSpec is skipped if its framework is missing or finds no devices to measure on. Each other
    CaseSpec has a job, which has no stored times yet. Raises UsageError if a CaseSpec is not
    possible on the devices of `target`.
    """
    skipped_verdicts = {}
    jobs = {}
    for spec in specs:
        if spec.framework in target.unreached:
            text = f"{spec.framework}: {target.unreached[spec.framework]}"
            skipped_verdicts[spec] = Verdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=text
            )
        else:
            with as_usage_error(GridError):
                jobs[spec] = TimedJob(*grid.resolve_case(spec, target))
    return skipped_verdicts, jobs


def _build_locked_stacks(
    options: Options,
    target: MeasuredDevices,
    frameworks: tuple[str, ...],
    write_line: Callable[[str], None],
) -> Mapping[str, LockedStack]:
    """Build the locked stacks that are not in the cache yet; return all by framework.

    `write_line` is called with a line for the user before a stack is built. Raises UsageError if a
    stack cannot be built, or if the extension that builds stacks is missing.
    """
    with as_usage_error(ValueError, where="--against=baseline: "):
        for build in extensions.load_declared_functions("build_stack"):
            return {
                framework: build(
                    options.baselines / key_of_all_devices(target, framework).folder,
                    framework,
                    interpreter_of_framework(options, framework),
                    cache_folder(),
                    write_line,
                )
                for framework in frameworks
            }
        raise ValueError("expected the extension for stacks, which is not installed")


def _check_reference_has_same_cases(
    options: Options, machine: Machine, jobs: Mapping[CaseSpec, TimedJob]
) -> None:
    """Raise UsageError if the reference stack would measure other cases than those of `jobs`.

    For example, another default strategy makes another case.
    """
    with as_usage_error(GridError, where="the reference: "):
        target = grid.choose_devices(
            device=machine.target.device,
            ranks=options.ranks,
            probes=machine.references,
            named_frameworks=[probe.framework for probe in machine.references],
        )
        for spec, job in jobs.items():
            other = TimedJob(*grid.resolve_case(spec, target))
            if other != job:
                expected, actual = (
                    f"{j.case.name} by {j.case.protocol} on {j.key.folder}" for j in (job, other)
                )
                raise UsageError(f"--against: expected {expected}, got {actual}")


def _add_stored_times(options: Options, job: TimedJob) -> TimedJob:
    """Return `job` with the baseline and the published bandwidth of its case, if there are any."""
    root, case = options.baselines, (job.key, job.case)
    roots = (root, shipped_folder("baselines"))
    figures = (find_published_bandwidth(folder, *case) for folder in roots)
    return replace(
        job,
        baseline_search=find_baseline(
            root, *case, artificial_memory_limit_bytes=options.memory_limit
        ),
        published=next(filter(None, figures), None),
    )


def read_earlier_sessions(
    collected_session: CollectedSession, keys: Sequence[EnvironmentKey], policy: Policy
) -> dict[EnvironmentKey, EarlierSessions]:
    """Read the earlier sessions of each environment key in `keys` that has baselines.

    Returns EarlierSessions, from which levels are computed, by environment key. `policy` has the
    thresholds of the judging rules. Raises BaselineError, HistoryError or OSError if files of
    baselines or of the history cannot be read, or have a session in the future.
    """
    levels = {key: _read_earlier_sessions_of_key(collected_session, key, policy) for key in keys}
    return {key: value for key, value in levels.items() if value is not None}


def _read_earlier_sessions_of_key(
    collected_session: CollectedSession, key: EnvironmentKey, policy: Policy
) -> EarlierSessions | None:
    """Read the baselines and the history of an environment key; return the EarlierSessions.

    The history is read from the year of the oldest baseline on. Returns None if there are no
    baselines with times.
    """
    options = collected_session.options
    stored = {
        name: [
            baseline
            for file in read_framework_files(options.baselines, key, name)
            for baseline in file.baselines
        ]
        for name in sorted(frameworks_with_baselines(options.baselines, key))
    }
    baselines = [baseline for several in stored.values() for baseline in several]
    begins = [collected_session.began, *(baseline.records[0].began for baseline in baselines)]
    lines: tuple[HistoryLine, ...] = ()
    if options.history is not None:
        lines = read_machine_lines(options.history / key.folder, min(begins).year)
        _check_not_in_future(collected_session, options.history / key.folder, lines[-1:])
    for baseline in baselines:
        path = baseline_path(options.baselines, key, baseline.case)
        _check_not_in_future(collected_session, path, baseline.records)
    # When the newest acknowledged change of each case began.
    acknowledged_changes = {
        baseline.case: change.began
        for change in sorted(
            read_acknowledged_changes(options.baselines), key=lambda change: change.since
        )
        for baseline in baselines
        if change.matches(baseline.case.name, str(key.folder))
    }
    stored_times = [
        StoredTimes(
            baselines=[baseline for baseline in several if not baseline.is_out_of_memory],
            history=comparable_sessions(lines, SeriesKey(framework=name)),
            acknowledged_changes=acknowledged_changes,
        )
        for name, several in stored.items()
    ]
    failed_cases = frozenset(line.case for line in lines if line.failure)
    return collect_earlier_sessions(stored_times, policy, failed_cases)


# Clocks of two machines may differ, and a machine may have the wrong time zone.
_MAX_CLOCK_DIFFERENCE = timedelta(days=1)


def _check_not_in_future(
    collected_session: CollectedSession, place: object, records: Iterable[Record]
) -> None:
    """Raise HistoryError if one of `records` began more than a day after `collected_session`.

    With such a record, today's session would seem older than the stored session, and would not
    count. `place` is the path of the file or folder with the records, for the message.
    """
    for record in records:
        if record.began > collected_session.began + _MAX_CLOCK_DIFFERENCE:
            raise HistoryError(
                f"{place}: the session of {record.moment} is in the future, since the clock of "
                f"this machine says {moment_text(collected_session.began)}: set the clock, or "
                "remove the entry"
            )
