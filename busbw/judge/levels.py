"""Which sessions today is compared with: those of the baselines, and those since.

A baseline pins what must not be lost; the history says what has been usual since it was accepted.
Decides which sessions count; what they amount to is `rule`'s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.stored import Baseline, EarlierSession, merged
from busbw.model.words import plural

from . import rule
from .policy import Policy

# What differs from one session to the next though nothing changed.
_PASSING = {"load", "clock MHz"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """What is known of the cases of one machine.

    `sessions` are those that count, oldest first, with what sessions minutes apart measured in one.
    `highest` is the log time that a case's level is never above: its pinned one and the budget.
    """

    sessions: tuple[EarlierSession, ...]
    highest: Mapping[Case, float]

    def tonight(self, today_s: Mapping[Case, Sequence[float]], policy: Policy) -> rule.Tonight:
        """The limits of the launches `today_s`, seconds by case."""
        today = {c: rule.Launches.of(one) for c, one in today_s.items() if c in self.highest}
        past = rule.learn([_night(one) for one in self.sessions], today, policy.rule)
        found = rule.limits(past, today, policy.rule)
        limits = {case: _at_most(one, self.highest[case]) for case, one in found.limits.items()}
        return replace(found, limits=limits)


# As many earlier sessions say what a limit of the user's own would have cost.
_RECENT = 20


def cost_of_limit(levels: Sequence[Levels], tonight: Sequence[rule.Tonight], ratio: float) -> str:
    """In how many of the last sessions in which nothing changed a case was above `ratio`.

    By the levels of `tonight`, each of one of the machines' `levels`.
    """
    found = [
        any(
            math.log(statistics.median(times_s)) - limits[case].usual.level > math.log(ratio)
            for case, times_s in session.times_s.items()
            if case in limits
        )
        for machine, limits in zip(levels, (one.limits for one in tonight))
        for session in machine.sessions[1:][-_RECENT:]
        if not session.regressed
    ]
    text = f"--fail-above={100 * (ratio - 1):g}%"
    if not found:
        return f"{text}: what it costs is unknown, without an earlier session since the first"
    return (
        f"{text}: of the last {plural(len(found), 'session')} without a change {sum(found)} had a "
        "case above it"
    )


def _night(session: EarlierSession) -> rule.Night:
    return rule.Night(
        launches={case: _launches(session, case) for case in session.times_s},
        called={
            **dict.fromkeys(session.improved & session.times_s.keys(), -1),
            **dict.fromkeys(session.regressed & session.times_s.keys(), 1),
        },
    )


def _launches(session: EarlierSession, case: Case) -> rule.Launches:
    """What it measured of `case`; launches differ within each of the sessions that were joined."""
    whole = rule.Launches.of(session.times_s[case])
    parts = [rule.Launches.of(one.times_s[case]) for one in session.parts if case in one.times_s]
    squares, freedom = (math.fsum(one.squares for one in parts), sum(one.freedom for one in parts))
    return replace(whole, squares=squares, freedom=freedom) if parts else whole


def _at_most(limit: rule.Limit, highest: float) -> rule.Limit:
    """With a level that is not above the pinned one."""
    above = limit.usual.level - highest
    if above <= 0:
        return limit
    usual = replace(limit.usual, level=highest, fastest=limit.usual.fastest - above)
    return replace(limit, usual=usual)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is stored of the cases of one framework on one machine.

    `since` is, by case, the day of a change that was acknowledged: what was before does not count.
    """

    baselines: Sequence[Baseline]
    history: Sequence[EarlierSession] = ()
    since: Mapping[Case, datetime] = field(default_factory=dict)

    @property
    def timed(self) -> list[Baseline]:
        """The baselines that have times."""
        return [one for one in self.baselines if one.sessions]

    def sessions(self, apart: timedelta) -> tuple[EarlierSession, ...]:
        """Those that count: of the baselines, and of the history since they were accepted."""
        accepted = _accepted(self.timed)
        begins = {one.case: one.sessions[0].began for one in self.timed}
        later = _later(self.history, begins, accepted)
        return _after(merged([*accepted, *later], apart), self.since)


def levels_of(known: Mapping[str, Known], policy: Policy) -> Levels | None:
    """The levels of one machine, of what is `known` by framework; None without any time."""
    timed = [one for one in known.values() if one.timed]
    if not timed:
        return None
    sessions = [session for one in timed for session in one.sessions(policy.session_apart)]
    return Levels(
        sessions=merged(sessions, policy.session_apart),
        highest={
            baseline.case: math.log(baseline.pinned_s) + math.log1p(policy.budget)
            for one in timed
            for baseline in one.timed
            if baseline.pinned_s is not None
        },
    )


def _accepted(timed: Sequence[Baseline]) -> list[EarlierSession]:
    """The sessions of the baselines: what was measured at one moment is of one session."""
    found: dict[tuple[datetime, str], dict[Case, tuple[float, ...]]] = {}
    surroundings: dict[tuple[datetime, str], Mapping[str, str]] = {}
    for baseline in timed:
        for one in baseline.sessions:
            key = (one.began, one.commit)
            times_s = found.setdefault(key, {})
            # Sessions of one day, of which no more is known, are minutes apart.
            times_s[baseline.case] = times_s.get(baseline.case, ()) + one.times_s
            lasting = {name: one.surroundings[name] for name in one.surroundings.keys() - _PASSING}
            surroundings.setdefault(key, {**one.versions, **lasting})
    return [
        EarlierSession(began=key[0], times_s=times_s, surroundings=surroundings[key])
        for key, times_s in found.items()
    ]


def _later(
    history: Sequence[EarlierSession],
    begins: Mapping[Case, datetime],
    accepted: Sequence[EarlierSession],
) -> list[EarlierSession]:
    """Those of the history from the acceptance of each case on that the baseline does not have."""
    known = {item for one in accepted for item in one.times_s.items()}
    return _with(
        history,
        lambda one, case: (
            case in begins and one.began >= begins[case] and (case, one.times_s[case]) not in known
        ),
    )


def _with(
    sessions: Sequence[EarlierSession], wanted: Callable[[EarlierSession, Case], bool]
) -> list[EarlierSession]:
    """With the cases that are `wanted` of a session, and without sessions that have none."""
    found = []
    for one in sessions:
        times_s = {case: times_s for case, times_s in one.times_s.items() if wanted(one, case)}
        if times_s:
            found.append(replace(one, times_s=times_s))
    return found


def _after(
    sessions: Sequence[EarlierSession], since: Mapping[Case, datetime]
) -> tuple[EarlierSession, ...]:
    """Without what cases took before an acknowledged change, once they were measured since."""
    measured = {
        case
        for case, moment in since.items()
        if any(case in one.times_s and one.began >= moment for one in sessions)
    }
    return tuple(_with(sessions, lambda one, c: c not in measured or one.began >= since[c]))
