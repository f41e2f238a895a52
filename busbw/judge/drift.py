"""A level that is not what was accepted any more: over the sessions since, with the night it began.

Each night may lose too little to be seen; the sessions together show it. And the machine: two
stacks measured in turn say nothing of what slows both, but the reference does not change: where it
is slower than it was, the machine is. Takes levels, judges no single session and no stack.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from busbw.model.case import Case
from busbw.model.stored import EarlierSession, merged
from busbw.model.verdict import Answer
from busbw.model.words import change_text, plural
from busbw.stats.variance import squares_of

from . import rule
from .levels import Levels
from .policy import Policy

# More cases than these are counted.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A level that lies `log_ratio` above the accepted one, since the session that `began` then.

    `case` is None for what all cases of a framework share. `changes` are what changed with that
    session, such as ``jaxlib 0.10.1 -> 0.10.2``. `than` says what the first level is. `is_over`:
    tonight it is back at that.
    """

    framework: str
    case: Case | None
    log_ratio: float
    began: datetime
    sessions: int
    changes: tuple[str, ...]
    than: str = "accepted"
    is_over: bool = False

    @property
    def text(self) -> str:
        """What is slower, by how much, since when, and what changed then."""
        name = f"all cases of {self.framework}" if self.case is None else self.case.name
        verb = "are" if self.case is None else "is"
        loss = change_text(math.expm1(self.log_ratio))
        if self.is_over:
            return f"{name} {verb} back, after being {loss} slower since {self.began:%Y-%m-%d}"
        text = (
            f"{name} {verb} {loss} slower than {self.than} since {self.began:%Y-%m-%d}, "
            f"{plural(self.sessions, 'session')} ago"
        )
        return f"{text}; what changed there: {', '.join(self.changes) or 'nothing that is known'}"


def drifts(
    sessions: Sequence[EarlierSession], today: EarlierSession, tonight: rule.Tonight
) -> tuple[Drift, ...]:
    """What has drifted over `sessions` and `today`; the shared part first."""
    several = [*sessions, today]
    shared = [
        _drift(name, None, one.rise, {**one.before, len(sessions): one.tonight}, several)
        for name, one in tonight.shared.items()
        if one.rise
    ]
    cases = [
        _drift(case.framework, case, one.rise, {**one.usual.own, len(sessions): one.own}, several)
        for case, one in tonight.limits.items()
        if one.rise
    ]
    cases.sort(key=lambda one: one.log_ratio, reverse=True)
    return (*shared, *cases)


def drift_text(found: Sequence[Drift]) -> str:
    """The first of them in full, and how many more."""
    more = len(found) - _MOST_NAMED
    texts = [one.text for one in found[:_MOST_NAMED]]
    return "; ".join([*texts, *([f"and {plural(more, 'case')} more"] if more > 0 else [])])


def _drift(
    framework: str,
    case: Case | None,
    rise: float,
    series: Mapping[int, float],
    sessions: Sequence[EarlierSession],
) -> Drift:
    """A step, from its first session on, or a rise since the first session, if that fits better."""
    at, values = list(series), list(series.values())
    begin = min(range(1, len(values)), key=lambda split: _rest_of_step(values, split))
    slope = rise / (len(values) - 1)
    line = squares_of([value - slope * number for number, value in enumerate(values)])
    if line < _rest_of_step(values, begin):
        begin = 1
    else:
        rise = statistics.fmean(values[begin:]) - statistics.fmean(values[:begin])
    now, before = sessions[at[begin]], sessions[at[begin] - 1]
    return Drift(
        framework=framework,
        case=case,
        log_ratio=rise,
        began=now.began,
        sessions=len(values) - begin,
        changes=now.changes_since(before),
        is_over=values[-1] - statistics.fmean(values[:begin]) < rise / 2,
    )


def _rest_of_step(values: Sequence[float], split: int) -> float:
    return squares_of(values[:split]) + squares_of(values[split:])


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
    risen = drifts(earlier, today, tonight)
    drifted = [replace(one, than="at first") for one in risen if not one.is_over]
    shared, least = tonight.shared.get(framework), policy.rule.least_cases
    if shared is None or len(tonight.limits) < least:
        text, is_slower = f"unknown from fewer than {least} cases", None
    else:
        is_slower = shared.is_slower
        times, limit = math.exp(shared.off), math.exp(shared.limit)
        earlier_text = plural(len(earlier), "earlier night")
        text = (
            f"the reference takes {times:.3f} x the time of its {earlier_text}, limit {limit:.3f} x"
        )
    texts = filter(None, (f"{text} ({framework})", drift_text(drifted)))
    return Answer(text="; ".join(texts), is_slower=True if drifted else is_slower)


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
