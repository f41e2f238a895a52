"""The machine: what the reference stack takes tonight, held against its own earlier nights.

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
    nights: Sequence[EarlierSession],
    today: EarlierSession,
    policy: Policy,
    groups: int,
) -> Answer:
    """The answer from the reference's earlier `nights`, of one of `groups` frameworks.

    Slower is what all cases together lost beyond the limit of a session, and a level that rose over
    the nights. Nothing is slower without an earlier night.
    """
    earlier = merged(nights, policy.session_apart)
    if not earlier:
        return Answer(text=f"{framework}: not told yet: this reference has no earlier night here")
    levels = _levels(earlier, policy)
    shift = shared_shift(today.times_s, levels, policy)
    drifted = [replace(one, than="at first") for one in drifts(levels, today, policy)]
    text = f"{framework}: {_together(shift, len(earlier), policy, groups)}"
    return Answer(
        text="; ".join(filter(None, (text, drift_text(drifted)))),
        is_slower=bool(drifted) or _is_beyond(shift, policy, groups),
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


def _is_beyond(shift: SharedShift, policy: Policy, groups: int) -> bool:
    return shift.log_ratio is not None and shift.log_ratio > limit_of_all(shift, policy, groups)


def _together(shift: SharedShift, nights: int, policy: Policy, groups: int) -> str:
    """What all cases of the reference took, and from what on that would be slower."""
    if shift.log_ratio is None:
        return f"not told from fewer than {policy.expected.least_cases} cases"
    limit = math.exp(limit_of_all(shift, policy, groups))
    return (
        f"the reference takes {math.exp(shift.log_ratio):.3f} x the time of its "
        f"{plural(nights, 'earlier night')} (limit {limit:.3f} x)"
    )


def all_answers(answers: Sequence[Answer]) -> Answer | None:
    """One for the session, of the frameworks' own; None without any."""
    if not answers:
        return None
    return Answer(
        text="; ".join(one.text for one in answers),
        is_slower=any(one.is_slower for one in answers),
    )
