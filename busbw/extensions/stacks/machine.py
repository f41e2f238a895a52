"""Whether a machine or its stack became slower, by a locked stack that was measured again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from busbw.judge.levels import Levels, find_losses, losses_text
from busbw.judge.policy import Policy
from busbw.model.stored import Session, merge_sessions
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import SessionOutcome, cut_short, plural

# The framework of a locked reference, its earlier sessions (None without a history), and today's.
Reference: TypeAlias = tuple[str, Sequence[Session] | None, Session]


# As many failed cases are named in the text on the stack.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineAnswer:
    """Whether a machine is slower than it was; None if nothing could be compared, with a reason."""

    text: str
    is_slower: bool | None


def add_machine(session: SessionVerdict, machine: MachineAnswer, stack: str) -> SessionVerdict:
    """Add what the locked stacks say of a session; `stack` is empty without a verdict."""
    if machine.is_slower:
        session = session.with_outcome(SessionOutcome.MACHINE_SHIFT, machine.text)
    texts = filter(None, (session.text, stack, f"the machine: {machine.text}"))
    return replace(session, text="; ".join(texts))


def stack_text(verdicts: Collection[Verdict], slower: Sequence[str], changes: Sequence[str]) -> str:
    """Return what the stack of today lost against the locked stack.

    Args:
        verdicts: The verdicts of the cases.
        slower: The latencies and bandwidths that are slower, though no single case shows it.
        changes: How the stack of today differs from the locked stack.

    """
    failed = sorted((v for v in verdicts if v.failed), key=lambda v: v.ratio or 0.0, reverse=True)
    texts = [
        f"{v.outcome.value} {v.name}" + (f" {v.ratio:.3f} x the expected time" if v.ratio else "")
        for v in failed
    ]
    lost = "; ".join((*cut_short(texts, _MOST_NAMED, "case"), *slower)) or "nothing slower"
    return f"the stack ({', '.join(changes) or 'the same versions'}): {lost}"


def judge_machine(references: Sequence[Reference], policy: Policy) -> MachineAnswer:
    """Return whether a machine is slower by all of its references.

    It is slower if it is by one of them, and not slower if that is known by each.
    """
    answers = [_judge_reference(*reference, policy) for reference in references]
    slower = {answer.is_slower for answer in answers}
    return MachineAnswer(
        text="; ".join(answer.text for answer in answers),
        is_slower=True if True in slower else None if None in slower else False,
    )


def _judge_reference(
    framework: str, sessions: Sequence[Session] | None, today: Session, policy: Policy
) -> MachineAnswer:
    """Return whether a machine is slower, from the earlier `sessions` of a reference.

    The reference is slower if all its cases together are, now or over several sessions. The answer
    is unknown without an earlier session, without a history (`sessions` is None), and with
    too few cases to compare them together unless one of them became slower.
    """
    earlier = merge_sessions(sessions or (), policy.session_apart)
    if not earlier:
        no_session = ", this reference has no earlier session here"
        reason = " without --history" if sessions is None else no_session
        return MachineAnswer(text=f"unknown{reason} ({framework})", is_slower=None)
    cases = frozenset(case for session in earlier for case in session.records)
    judged = Levels(sessions=earlier, cases=cases).assess(today.times_s, policy)
    lost = find_losses(earlier, today, judged)
    shared, least = judged.shared.get(framework), policy.rule.min_shared_cases
    if shared is None or len(judged.limits) < least:
        text, is_slower = f"unknown from fewer than {least} cases", None
    else:
        is_slower = framework in judged.slower
        times, limit = math.exp(shared.shift), math.exp(shared.limit)
        earlier_text = plural(len(earlier), "earlier session")
        text = (
            f"the reference takes {times:.3f} x the time of its {earlier_text}, limit {limit:.3f} x"
        )
    texts = filter(None, (f"{text} ({framework})", losses_text(lost)))
    return MachineAnswer(text="; ".join(texts), is_slower=True if lost else is_slower)
