"""The machine: the times of the reference stack tonight, compared with its own earlier nights.

Two stacks measured in turn say nothing of what slows both. The reference does not change: where it
is slower than it was, the machine is. Takes the reference's sessions, judges no stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from busbw import stats
from busbw.model import Answer, EarlierSession, merged, neighbours, plural

from .drift import drift_text, drifts
from .levels import Levels, log_times
from .policy import Policy
from .session import limit_of_all
from .stored import SharedShift, shared_shift


def machine_answer(
    framework: str,
    nights: Sequence[EarlierSession] | None,
    today: EarlierSession,
    policy: Policy,
    groups: int,
) -> Answer:
    """The answer from the reference's earlier `nights`, of one of `groups` frameworks.

    The reference is slower if all its cases together lost more than the limit of a session, or if
    a level rose over the nights. The answer is unknown without an earlier night, without a history
    (`nights` is None), and with too few cases to compare them together unless one of them rose.
    """
    if nights is None:
        return Answer(text=f"{framework}: unknown without --history", is_slower=None)
    earlier = merged(nights, policy.session_apart)
    if not earlier:
        text = f"{framework}: unknown: this reference has no earlier night here"
        return Answer(text=text, is_slower=None)
    levels = _levels(earlier, policy)
    shift = shared_shift(today.times_s, levels, policy)
    drifted = [replace(one, than="at first") for one in drifts(levels, today, policy)]
    text = f"{framework}: {_together(shift, len(earlier), policy, groups)}"
    return Answer(
        text="; ".join(filter(None, (text, drift_text(drifted)))),
        is_slower=True if drifted else _is_beyond(shift, policy, groups),
    )


def _levels(nights: Sequence[EarlierSession], policy: Policy) -> Levels:
    """The levels of the reference, which nothing pins."""
    cases = dict.fromkeys(case for one in nights for case in one.times_s)
    return Levels(
        sessions=tuple(nights),
        components=stats.components(
            [log_times(one.times_s) for one in nights],
            policy.expected,
            neighbours=neighbours(cases, policy.expected.neighbours),
        ),
        highest=dict.fromkeys(cases, math.inf),
        cases=len(cases),
    )


def _is_beyond(shift: SharedShift, policy: Policy, groups: int) -> bool | None:
    """Whether all cases together are slower; None for too few of them."""
    if shift.log_ratio is None:
        return None
    return shift.log_ratio > limit_of_all(shift, policy, groups)


def _together(shift: SharedShift, nights: int, policy: Policy, groups: int) -> str:
    """What all cases of the reference took, and from what on that would be slower."""
    if shift.log_ratio is None:
        return f"unknown from fewer than {policy.expected.least_cases} cases"
    limit = math.exp(limit_of_all(shift, policy, groups))
    return (
        f"the reference takes {math.exp(shift.log_ratio):.3f} x the time of its "
        f"{plural(nights, 'earlier night')} (limit {limit:.3f} x)"
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
