"""Judge whether a machine became slower, by locked stacks that were measured again on it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from busbw.judge.levels import Levels, find_losses, losses_text
from busbw.judge.policy import Policy
from busbw.model.stored import Session, merge_sessions
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import SessionOutcome, plural, shorten_list

# A locked stack that was measured: its framework, its earlier sessions (None without a history),
# and its measurements in the present session.
MeasuredReference: TypeAlias = tuple[str, Sequence[Session] | None, Session]


# The text on the stack names at most this many failed cases.
_MAX_NAMED_CASES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineJudgement:
    """The answer to the question whether a machine is slower than in earlier sessions.

    `text` is a sentence for the user. `is_slower` is None if nothing could be compared; `text` is
    then the reason.
    """

    text: str
    is_slower: bool | None


def add_machine_judgement(
    session: SessionVerdict, machine: MachineJudgement, stack: str
) -> SessionVerdict:
    """Add the judgement on the machine, and the text `stack` on the stack, to a session's verdict.

    The outcome MACHINE_SHIFT is added if the machine is slower. `stack` is the text of
    `stack_judgement_text`, or empty if the session has no verdict.
    """
    if machine.is_slower:
        session = session.with_failure(SessionOutcome.MACHINE_SHIFT, machine.text)
    texts = filter(None, (session.text, stack, f"the machine: {machine.text}"))
    return replace(session, text="; ".join(texts))


def stack_judgement_text(verdicts: Collection[Verdict], stack_changes: Sequence[str]) -> str:
    """Return a text on the cases in which the present stack is slower than the locked stack.

    Args:
        verdicts: The verdicts on the cases.
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


def judge_machine(references: Sequence[MeasuredReference], policy: Policy) -> MachineJudgement:
    """Judge by all `references` whether a machine is slower than in earlier sessions.

    The machine is slower if at least one reference is slower. It is not slower if each reference is
    known not to be slower. Otherwise the answer is unknown.
    """
    answers = [_judge_reference(*reference, policy) for reference in references]
    slower = {answer.is_slower for answer in answers}
    return MachineJudgement(
        text="; ".join(answer.text for answer in answers),
        is_slower=True if True in slower else None if None in slower else False,
    )


def _judge_reference(
    framework: str,
    earlier_sessions: Sequence[Session] | None,
    present_session: Session,
    policy: Policy,
) -> MachineJudgement:
    """Judge by a single reference whether a machine is slower than in earlier sessions.

    Args:
        framework: The framework of the reference.
        earlier_sessions: The earlier sessions of the reference; None without a history.
        present_session: The measurements of the reference in the present session.
        policy: The thresholds of the judge.

    Returns:
        The machine is slower if the cases of the reference together are slower, or if a case has
        been slower over several sessions. The answer is unknown without an earlier session, or
        with too few cases to compare them together.

    """
    earlier = merge_sessions(earlier_sessions or (), policy.session_merge_time)
    if not earlier:
        no_session = ", this reference has no earlier session here"
        reason = " without --history" if earlier_sessions is None else no_session
        return MachineJudgement(text=f"unknown{reason} ({framework})", is_slower=None)
    cases = frozenset(case for session in earlier for case in session.records)
    judged = Levels(sessions=earlier, cases=cases).assess_session(present_session.times_s, policy)
    lost = find_losses(earlier, present_session, judged)
    shared, least = judged.shared_parts.get(framework), policy.rule.min_shared_case_count
    if shared is None or len(judged.limits) < least:
        text, is_slower = f"unknown from fewer than {least} cases", None
    else:
        is_slower = framework in judged.slower_frameworks
        times, limit = math.exp(shared.shift_log_ratio), math.exp(shared.limit_log_ratio)
        earlier_text = plural(len(earlier), "earlier session")
        text = (
            f"the reference takes {times:.3f} x the time of its {earlier_text}, limit {limit:.3f} x"
        )
    texts = filter(None, (f"{text} ({framework})", losses_text(lost)))
    return MachineJudgement(text="; ".join(texts), is_slower=True if lost else is_slower)
