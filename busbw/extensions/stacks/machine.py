"""Whether a machine became slower, by the times of a locked stack that it measured again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from busbw.judge.levels import Levels, find_losses, losses_text
from busbw.judge.policy import Policy
from busbw.model.stored import Session, merge_sessions
from busbw.model.verdict import Answer
from busbw.model.words import plural

# The framework of a locked reference, its earlier sessions (None without a history), and today's.
Reference: TypeAlias = tuple[str, Sequence[Session] | None, Session]


def judge_machine(references: Sequence[Reference], policy: Policy) -> Answer:
    """Return whether a machine is slower by all of its references.

    It is slower if it is by one of them, and not slower if that is known by each.
    """
    answers = [_judge_reference(*reference, policy) for reference in references]
    slower = {answer.is_slower for answer in answers}
    return Answer(
        text="; ".join(answer.text for answer in answers),
        is_slower=True if True in slower else None if None in slower else False,
    )


def _judge_reference(
    framework: str, sessions: Sequence[Session] | None, today: Session, policy: Policy
) -> Answer:
    """Return whether a machine is slower, from the earlier `sessions` of a reference.

    The reference is slower if all its cases together are, now or over several sessions. The answer
    is unknown without an earlier session, without a history (`sessions` is None), and with
    too few cases to compare them together unless one of them became slower.
    """
    earlier = merge_sessions(sessions or (), policy.session_apart)
    if not earlier:
        no_session = ", this reference has no earlier session here"
        reason = " without --history" if sessions is None else no_session
        return Answer(text=f"unknown{reason} ({framework})", is_slower=None)
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
    return Answer(text="; ".join(texts), is_slower=True if lost else is_slower)
