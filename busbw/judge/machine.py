"""The machine: the times of the reference stack tonight, compared with its own earlier nights.

Two stacks measured in turn say nothing of what slows both. The reference does not change: where it
is slower than it was, the machine is. Takes the reference's sessions, judges no stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from busbw.model import Answer, EarlierSession, merged, plural

from .drift import drift_text, drifts
from .levels import Levels
from .policy import Policy
from .rule import Shared


def machine_answer(
    framework: str,
    nights: Sequence[EarlierSession] | None,
    today: EarlierSession,
    policy: Policy,
) -> Answer:
    """The answer from the reference's earlier `nights`.

    The reference is slower if all its cases together lost more than the limit of a session, or if
    a level rose over the nights. The answer is unknown without an earlier night, without a history
    (`nights` is None), and with too few cases to compare them together unless one of them rose.
    """
    if nights is None:
        return Answer(text=f"unknown without --history ({framework})", is_slower=None)
    earlier = merged(nights, policy.session_apart)
    if not earlier:
        text = f"unknown, this reference has no earlier night here ({framework})"
        return Answer(text=text, is_slower=None)
    cases = dict.fromkeys(case for one in earlier for case in one.times_s)
    levels = Levels(sessions=earlier, highest=dict.fromkeys(cases, math.inf))
    tonight = levels.tonight(today.times_s, policy)
    shared = tonight.shared.get(framework)
    few = len(tonight.limits) < policy.rule.least_cases
    risen = drifts(earlier, today, tonight)
    drifted = [replace(one, than="at first") for one in risen if not one.is_over]
    known = None if few or shared is None else shared
    text = f"{_together(known, len(earlier), policy)} ({framework})"
    return Answer(
        text="; ".join(filter(None, (text, drift_text(drifted)))),
        is_slower=True if drifted else None if known is None else known.is_slower,
    )


def _together(shared: Shared | None, nights: int, policy: Policy) -> str:
    """What all cases of the reference took, and from what on that would be slower."""
    if shared is None:
        return f"unknown from fewer than {policy.rule.least_cases} cases"
    return (
        f"the reference takes {math.exp(shared.off):.3f} x the time of its "
        f"{plural(nights, 'earlier night')}, limit {math.exp(shared.limit):.3f} x"
    )


def all_answers(answers: Sequence[Answer]) -> Answer | None:
    """One for the session, of the frameworks' own; None without any.

    Slower if one framework is slower; not slower only if that is known for each.
    """
    if not answers:
        return None
    found = {one.is_slower for one in answers}
    return Answer(
        text="; ".join(one.text for one in answers),
        is_slower=True if True in found else None if None in found else False,
    )
