"""The steps of a session with locked stacks: build stacks, judge the machine, lock stacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from busbw import storage
from busbw.driver.bundle import worker_hash
from busbw.grid import MeasuredDevices
from busbw.history.files import HistoryError, SeriesKey, comparable_sessions, read_folder
from busbw.judge.levels import EarlierSessions, find_losses, losses_text
from busbw.judge.policy import Policy
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import StoredSession, merge_sessions, setup_changes
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import SessionOutcome, plural, shorten_list
from busbw.report.session import stack_flags_or_none
from busbw.session.judge import present_session_by_key
from busbw.session.machine import interpreter_of_framework, key_of_all_devices
from busbw.session.option import as_usage_error, cache_folder
from busbw.session.options import LockedStack, Options
from busbw.session.state import JudgedSession, MeasuredSession

from .reference import build_stack, lock_stack
from .uv import StackError


def build_references(
    options: Options,
    target: MeasuredDevices,
    frameworks: Sequence[str],
    report: Callable[[str], None],
) -> dict[str, LockedStack]:
    """Build the locked stacks that are not built yet; return the locked stack of each framework.

    Args:
        options: The options of the session.
        target: The devices. The locks are in the folder of the baselines of these devices.
        frameworks: The names of the frameworks.
        report: A function that is called with a sentence for each stack.

    Returns:
        The locked stacks, by framework.

    Raises:
        StackError: A stack has no lock or cannot be built.

    """
    cache, stacks = cache_folder(), {}
    for framework in frameworks:
        folder = options.baselines / key_of_all_devices(target, framework).folder
        with storage.reraise_as(StackError, StackError, where=f"{framework}: "):
            stacks[framework] = build_stack(
                folder, framework, interpreter_of_framework(options, framework), cache, report
            )
    return stacks


def lock_references(measured_session: MeasuredSession, frameworks: Sequence[str]) -> list[str]:
    """Lock the present stacks of `frameworks`, and return notes for the user.

    An existing lock is replaced only after --update-baselines=all. Raises OSError if a lock cannot
    be written.
    """
    options, target = measured_session.options, measured_session.machine.target
    notes = [
        lock_stack(
            options.baselines / key_of_all_devices(target, framework).folder,
            framework,
            interpreter_of_framework(options, framework),
            measured_session.date,
            replaces_lock=options.update_baselines == "all",
        )
        for framework in frameworks
    ]
    return [note for note in notes if note]


def add_reference_judgements(judged_session: JudgedSession) -> SessionVerdict:
    """Return the session's verdict, with the judgement on the machine and the stack added.

    The machine is judged by the locked stacks: if a locked stack is slower than in earlier
    sessions, the machine is slower, and the outcome MACHINE_SHIFT is added. The verdict is
    unchanged if the session measured no locked stack. Raises UsageError if the history cannot be
    read.
    """
    measured_session = judged_session.observations
    session_verdict = judged_session.session_verdict
    if not isinstance(measured_session, MeasuredSession) or not measured_session.options.stacks:
        return session_verdict
    sessions = present_session_by_key(measured_session, measured_session.references)
    with as_usage_error(HistoryError):
        references = [
            (framework, _earlier_sessions(measured_session, key, framework), session)
            for key, session in sessions.items()
            for framework in dict.fromkeys(case.framework for case in session.records)
        ]
    if not references:
        return session_verdict
    machine = judge_machine(references, measured_session.policy)
    stack_text = ""
    if SessionOutcome.NO_VERDICT not in session_verdict.outcomes:
        stack_text = stack_judgement_text(
            judged_session.verdicts.values(), _stack_change_texts(measured_session)
        )
    if machine.is_slower:
        session_verdict = session_verdict.with_failure(SessionOutcome.MACHINE_SHIFT, machine.text)
    texts = filter(None, (session_verdict.text, stack_text, f"the machine: {machine.text}"))
    return replace(session_verdict, text="; ".join(texts))


def _earlier_sessions(
    measured_session: MeasuredSession, key: EnvironmentKey, framework: str
) -> Sequence[StoredSession]:
    """Return the earlier sessions of a framework's locked stack; none without a history.

    Sessions that other code of workers measured are left out. `key` identifies the machine and the
    devices.
    """
    root = measured_session.options.history
    if root is None:
        return ()
    lines = [line for line in read_folder(root / key.folder) if line.worker == worker_hash()]
    digest = measured_session.options.stacks[framework].digest
    return comparable_sessions(
        lines, SeriesKey(framework=framework, stack=digest, is_reference=True)
    )


def _stack_change_texts(measured_session: MeasuredSession) -> tuple[str, ...]:
    """Return texts on the versions and flags in which the candidates differ from locked stacks."""
    environment = measured_session.environment
    flags = stack_flags_or_none(environment.flags)
    texts = dict[str, None]()
    for probe in measured_session.machine.references:
        setup = {**environment.versions.get(probe.framework, probe.versions), **flags}
        reference_setup = {**probe.versions, **stack_flags_or_none(probe.flags)}
        texts |= dict.fromkeys(setup_changes(reference_setup, setup))
    return tuple(texts)


# The text on the stack names at most this many failed cases.
_MAX_NAMED_CASES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineJudgement:
    """The answer to the question whether a machine is slower than in earlier sessions.

    Attributes:
        text: A sentence for the user. If `is_slower` is None, the sentence has the reason.
        is_slower: Whether the machine is slower; None if the times cannot be compared.

    """

    text: str
    is_slower: bool | None


def stack_judgement_text(verdicts: Collection[Verdict], stack_changes: Sequence[str]) -> str:
    """Return a text on the failed cases, such as cases that are slower with the present stack.

    Args:
        verdicts: The verdicts on all cases.
        stack_changes: Texts on the versions and flags in which the present stack differs from the
            locked stack.

    """
    failed = sorted((v for v in verdicts if v.failed), key=lambda v: v.ratio or 0.0, reverse=True)
    texts = [
        f"{v.outcome.value} {v.name}" + (f" {v.ratio:.3f} x the expected time" if v.ratio else "")
        for v in failed
    ]
    lost = "; ".join(shorten_list(texts, _MAX_NAMED_CASES, "case")) or "nothing slower"
    return f"the stack ({', '.join(stack_changes) or 'the same versions'}): {lost}"


def judge_machine(
    references: Sequence[tuple[str, Sequence[StoredSession], StoredSession]], policy: Policy
) -> MachineJudgement:
    """Judge by locked stacks whether a machine is slower than in earlier sessions.

    The machine is slower if at least one locked stack is slower. The machine is not slower if each
    locked stack is known not to be slower. Otherwise the answer is unknown.

    Args:
        references: For each locked stack that was measured: its framework, its earlier sessions,
            and the present session.
        policy: The thresholds of the judging rules.

    """
    answers = [_judge_reference(*reference, policy) for reference in references]
    slower = {answer.is_slower for answer in answers}
    return MachineJudgement(
        text="; ".join(answer.text for answer in answers),
        is_slower=True if True in slower else None if None in slower else False,
    )


def _judge_reference(
    framework: str,
    earlier_sessions: Sequence[StoredSession],
    present_session: StoredSession,
    policy: Policy,
) -> MachineJudgement:
    """Judge by a single locked stack whether a machine is slower than in earlier sessions.

    Args:
        framework: The framework of the locked stack.
        earlier_sessions: The earlier sessions of the locked stack.
        present_session: The times of all locked stacks in the present session.
        policy: The thresholds of the judging rules.

    Returns:
        The judgement. The machine is slower if the cases of the locked stack together are slower,
        or if a case has been slower over several sessions. The answer is unknown without an earlier
        session, or with too few cases.

    """
    earlier = merge_sessions(earlier_sessions, policy.session_merge_time)
    if not earlier:
        text = f"unknown, this reference has no earlier session in --history ({framework})"
        return MachineJudgement(text=text, is_slower=None)
    cases = frozenset(case for session in earlier for case in session.records)
    assessment = EarlierSessions(sessions=earlier, cases=cases).assess_session(
        present_session.times_s, policy
    )
    lost = find_losses(earlier, present_session, assessment)
    shared, least = assessment.shared_parts.get(framework), policy.rule.min_shared_case_count
    if shared is None or len(assessment.limits) < least:
        text, is_slower = f"unknown from fewer than {least} cases", None
    else:
        is_slower = framework in assessment.slower_frameworks
        times, limit = math.exp(shared.shift_log_ratio), math.exp(shared.max_shift_log_ratio)
        earlier_text = plural(len(earlier), "earlier session")
        text = (
            f"the reference takes {times:.3f} x the time of its {earlier_text}, limit {limit:.3f} x"
        )
    texts = filter(None, (f"{text} ({framework})", losses_text(lost)))
    return MachineJudgement(text="; ".join(texts), is_slower=True if lost else is_slower)
