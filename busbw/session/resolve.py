"""Resolve the CaseSpecs of a session on its Machine to a MeasuredSession without measurements.

The MeasuredSession has the cases to measure, the stored times to compare them with, and the
verdicts of the skipped cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from busbw import extensions, grid
from busbw.baselines.document import BaselineError
from busbw.baselines.store import check_writable, find_baseline, find_published_bandwidth
from busbw.driver.executor import Executor
from busbw.grid import Target
from busbw.history.files import HistoryError
from busbw.model.case import CaseSpec, GridError
from busbw.model.launch import Plan
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.storage import OutputError

from .command_line import how_to_install
from .files import shipped_folder
from .levels import read_levels
from .machine import add_reference_probes, make_environment
from .option import UsageError, usage_error
from .options import LockedStack, Options
from .state import CollectedSession, Machine, MeasuredSession, TimedJob

# Two stacks need two processes for each launch, so a few more samples cost little in comparison.
_PLAN_OF_PAIRS = Plan(samples=40, budget_s=1.5)


def resolve_cases(
    collected_session: CollectedSession,
    machine: Machine,
    specs: tuple[CaseSpec, ...],
    executor: Executor,
    write_line: Callable[[str], None],
) -> MeasuredSession:
    """Return the cases to measure as a MeasuredSession without measurements.

    Args:
        collected_session: The session so far, with its options.
        machine: The machine to measure on.
        specs: The selected cases.
        executor: Starts the workers that probe the reference stack.
        write_line: Receives a line before a reference stack is built, which takes long.

    Raises:
        UsageError: A CaseSpec is not possible on the machine. Or a file of baselines or of the
            history is damaged or cannot be written. Or the reference stack cannot be built, or
            would measure other cases.
        HostError: A worker of the reference stack does not answer.

    """
    skipped_verdicts, jobs = _resolve_specs(collected_session.options, machine.target, specs)
    options, keys = collected_session.options, [job.key for job in jobs.values()]
    levels = {}
    if options.is_paired:
        frameworks = tuple(dict.fromkeys(spec.framework for spec in jobs))
        stacks = (
            _build_locked_stacks(options, machine.target, frameworks, write_line)
            if options.compares_with_locked_stack
            else {}
        )
        options = replace(options, stacks=stacks)
        if jobs:
            machine = add_reference_probes(options, machine, frameworks, executor)
            _check_same_cases(options, machine, jobs)
    else:
        # Files are read before anything is measured, so that a damaged file is found early.
        with usage_error(BaselineError, HistoryError, OutputError, OSError):
            jobs = {spec: _add_stored_times(options, job) for spec, job in jobs.items()}
            if options.writes_baselines:
                cases = [(job.key, job.case) for job in jobs.values()]
                check_writable(options.baselines, cases)
            levels = read_levels(collected_session, keys, machine.target.device)
    widest = max(keys, key=lambda key: key.ranks, default=None)
    return MeasuredSession(
        collected_session=replace(collected_session, options=options),
        machine=machine,
        specs=specs,
        jobs=jobs,
        skipped_verdicts=skipped_verdicts,
        environment=make_environment(options, machine, widest),
        plan=_make_plan(options),
        levels=levels,
    )


def _make_plan(options: Options) -> Plan:
    return replace(
        _PLAN_OF_PAIRS if options.is_paired else Plan(),
        launches=options.launches or Plan().launches,
        timeout_s=options.case_timeout,
        seed=int.from_bytes(os.urandom(4), "big"),
        memory_limit_bytes=options.memory_limit,
    )


def _resolve_specs(
    options: Options, target: Target, specs: tuple[CaseSpec, ...]
) -> tuple[dict[CaseSpec, Verdict], dict[CaseSpec, TimedJob]]:
    """Return the SKIPPED verdicts of CaseSpecs whose framework cannot be used, and the other jobs.

    Raises UsageError if a CaseSpec is not possible on the devices of `target`.
    """
    skipped_verdicts, jobs = {}, {}
    for spec in specs:
        name = spec.framework
        reason = target.unreached.get(name, "")
        if name in options.absent_frameworks:
            reason = f"not installed here; {how_to_install(name)}"
        if reason:
            text = f"{name}: {reason}"
            skipped_verdicts[spec] = Verdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=text
            )
        else:
            with usage_error(GridError):
                jobs[spec] = TimedJob(*grid.resolve_case(spec, target))
    return skipped_verdicts, jobs


def _build_locked_stacks(
    options: Options, target: Target, frameworks: tuple[str, ...], write_line: Callable[[str], None]
) -> Mapping[str, LockedStack]:
    """Return the locked stack of each of `frameworks`, after building the stacks that are missing.

    Raises UsageError if a stack cannot be built, or if the extension that builds stacks is missing.
    """
    with usage_error(ValueError, where="--against=baseline: "):
        for build in extensions.load_functions("build_references"):
            stacks: Mapping[str, LockedStack] = build(options, target, frameworks, write_line)
            return stacks
        raise ValueError("expected the extension for stacks, which is not installed")


def _check_same_cases(
    options: Options, machine: Machine, jobs: Mapping[CaseSpec, TimedJob]
) -> None:
    """Raise UsageError if the reference stack would measure different cases than `jobs`."""
    frameworks = [probe.framework for probe in machine.references]
    with usage_error(GridError, where="the reference: "):
        target = grid.choose_target(
            device=machine.target.device,
            ranks=options.ranks,
            probes=machine.references,
            named_frameworks=frameworks,
        )
        references = {spec: TimedJob(*grid.resolve_case(spec, target)) for spec in jobs}
    for spec, job in jobs.items():
        if references[spec] != job:
            raise UsageError(f"--against: expected {job.text}, got {references[spec].text}")


def _add_stored_times(options: Options, job: TimedJob) -> TimedJob:
    """Return `job` with the baseline of its case and with a published figure, if there are any."""
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
