"""The steps of a session with locked stacks: build stacks, judge the machine, lock stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from busbw.driver.bundle import worker_hash
from busbw.grid import Target
from busbw.history.files import HistoryError, read_machine
from busbw.history.lines import Series, comparable_sessions
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Record, Session, setup_changes
from busbw.model.verdict import SessionVerdict
from busbw.model.words import SessionOutcome
from busbw.report.session import stack_flags_or_none
from busbw.session.errors import usage_error
from busbw.session.levels import jobs_without_failures, record_of
from busbw.session.machine import key_of_all_devices, python_of
from busbw.session.options import LockedStack, Options
from busbw.session.state import Judged, Measured

from .machine import MachineJudgement, add_machine_judgement, judge_machine, stack_judgement_text
from .options import stack_cache_folder
from .reference import build_stack, lock_stack
from .uv import StackError


def build_references(
    options: Options, target: Target, frameworks: Sequence[str], report: Callable[[str], None]
) -> dict[str, LockedStack]:
    """Build the locked stack of each framework unless it is built, and return the stacks.

    Args:
        options: The options of the session.
        target: The devices. The locks are in the folder of their baselines.
        frameworks: The names of the frameworks.
        report: A function that is called with a sentence for each stack.

    Returns:
        A mapping of each framework to its stack.

    Raises:
        StackError: A stack has no lock or cannot be built.

    """
    cache, stacks = stack_cache_folder(options.extra.get("stack_cache", "")), {}
    for framework in frameworks:
        folder = options.baselines / key_of_all_devices(target, framework).folder
        try:
            stacks[framework] = build_stack(
                folder, framework, python_of(options, framework), cache, report
            )
        except StackError as error:
            raise StackError(f"{framework}: {error}") from error
    return stacks


def lock_references(measured: Measured, frameworks: Sequence[str]) -> list[str]:
    """Lock the stacks of `frameworks`, whose times were accepted, and return notes for the user.

    An existing lock is replaced only after --update-baselines=all. Raises OSError if a lock cannot
    be written.
    """
    options, notes = measured.options, []
    for framework in frameworks:
        folder = options.baselines / key_of_all_devices(measured.machine.target, framework).folder
        python, date = python_of(options, framework), measured.collected.date
        replaces = options.update_baselines == "all"
        notes.append(lock_stack(folder, framework, python, date, replaces_lock=replaces))
    return [note for note in notes if note]


def session_finding(judged: Judged) -> SessionVerdict:
    """Return the verdict on a session, with the judgement on the machine and the stack added.

    The verdict is unchanged if the session measured no locked stack.
    """
    measured = judged.observations
    if not isinstance(measured, Measured) or not measured.options.stacks:
        return judged.session_verdict
    machine = _judge_machine_by_references(measured)
    if machine is None:
        return judged.session_verdict
    has_verdict = SessionOutcome.NO_VERDICT not in judged.session_verdict.outcomes
    changes = _stack_change_texts(measured)
    stack = stack_judgement_text(judged.verdicts.values(), changes) if has_verdict else ""
    return add_machine_judgement(judged.session_verdict, machine, stack)


def _judge_machine_by_references(measured: Measured) -> MachineJudgement | None:
    """Judge whether the machine is slower than in earlier sessions of the locked stacks.

    Returns None if no locked stack was measured. Raises UsageError if the history cannot be read.
    """
    records: dict[tuple[EnvironmentKey, str], dict[Case, Record]] = {}
    for job, measurement in jobs_without_failures(measured, measured.references):
        by_case = records.setdefault((job.key, job.case.framework), {})
        by_case[job.case] = record_of(measured, measurement)
    if not records:
        return None
    with usage_error(HistoryError):
        references = [
            (framework, _earlier_sessions(measured, key, framework), Session.from_records(by_case))
            for (key, framework), by_case in records.items()
        ]
    return judge_machine(references, measured.policy)


def _earlier_sessions(
    measured: Measured, key: EnvironmentKey, framework: str
) -> Sequence[Session] | None:
    """Return the earlier sessions of a framework's locked stack, from the history.

    Sessions that were measured by other code of workers are left out. `key` identifies the machine
    and the devices. Returns None without a history.
    """
    root = measured.options.history
    if root is None:
        return None
    lines = [line for line in read_machine(root, key) if line.worker == worker_hash()]
    digest = measured.options.stacks[framework].digest
    return comparable_sessions(lines, Series(framework=framework, stack=digest, is_reference=True))


def _stack_change_texts(measured: Measured) -> tuple[str, ...]:
    """Return texts on the versions and flags in which the stacks differ from the locked stacks."""
    texts: dict[str, None] = {}
    for spec, reference in measured.references.items():
        ours, theirs = measured.measurements[spec].runs, reference.runs
        if ours and theirs:
            texts |= dict.fromkeys(setup_changes(theirs[0].versions, ours[0].versions))
    flags = stack_flags_or_none(measured.environment.flags)
    for probe in measured.machine.references:
        texts |= dict.fromkeys(setup_changes(stack_flags_or_none(probe.flags), flags))
    return tuple(texts)
