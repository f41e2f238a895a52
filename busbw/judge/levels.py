"""Which sessions today is compared with, and which levels are not what was accepted any more.

A baseline pins what must not be lost; the history says what has been usual since it was accepted.
Each night may lose too little to be seen; the sessions together show it, and the night it began.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.stored import Baseline, Record, Session, merged
from busbw.model.verdict import Answer
from busbw.model.words import Outcome, change_text, cut_short, plural
from busbw.stats.variance import squares_of

from . import rule
from .policy import Policy
from .usual import Launches, Night, learn


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """What is known of the cases of one machine.

    `sessions` are those that count, oldest first, with what sessions minutes apart measured in one.
    `highest` is the log time that a case's level is never above: its pinned one and the budget.
    """

    sessions: tuple[Session, ...]
    highest: Mapping[Case, float]

    def tonight(self, today_s: Mapping[Case, Sequence[float]], policy: Policy) -> rule.Tonight:
        today = {c: Launches.of(one) for c, one in today_s.items() if c in self.highest}
        past = learn([_night(one) for one in self.sessions], today, policy.rule)
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
        if not session.called(Outcome.REGRESSED)
    ]
    text = f"--fail-above={100 * (ratio - 1):g}%"
    if not found:
        return f"{text}: what it costs is unknown, without an earlier session since the first"
    return (
        f"{text}: of the last {plural(len(found), 'session')} without a change {sum(found)} had a "
        "case above it"
    )


def _night(session: Session) -> Night:
    return Night(
        launches={case: _launches(own) for case, own in session.records.items()},
        called={
            **dict.fromkeys(session.called(Outcome.IMPROVED), -1),
            **dict.fromkeys(session.called(Outcome.REGRESSED), 1),
        },
    )


def _launches(records: Sequence[Record]) -> Launches:
    """Of one case; launches differ within each of the sessions that were joined."""
    whole = Launches.of([time_s for one in records for time_s in one.times_s])
    parts = [Launches.of(one.times_s) for one in records]
    squares, freedom = (math.fsum(one.squares for one in parts), sum(one.freedom for one in parts))
    return replace(whole, squares=squares, freedom=freedom)


def _at_most(limit: rule.Limit, highest: float) -> rule.Limit:
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
    history: Sequence[Session] = ()
    since: Mapping[Case, datetime] = field(default_factory=dict)

    @property
    def timed(self) -> list[Baseline]:
        return [one for one in self.baselines if one.sessions]

    def sessions(self, apart: timedelta) -> tuple[Session, ...]:
        """Those accepted and those since; without what was before an acknowledged change.

        A change counts only for cases that were measured since.
        """
        accepted, since = _accepted(self.timed), self.since
        begins = {one.case: one.sessions[0].began for one in self.timed}
        known = {item for one in accepted for item in one.times_s.items()}
        later = _with(
            self.history,
            lambda one, case: (
                case in begins
                and one.began >= begins[case]
                and (case, one.times_of(case)) not in known
            ),
        )
        whole = merged([*accepted, *later], apart)
        changed = {c for one in whole for c in one.records if c in since and one.began >= since[c]}
        return tuple(_with(whole, lambda one, c: c not in changed or one.began >= since[c]))


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


def _accepted(timed: Sequence[Baseline]) -> list[Session]:
    """The sessions of the baselines: what was measured at one moment is of one session."""
    found: dict[tuple[datetime, str], dict[Case, tuple[Record, ...]]] = {}
    for baseline in timed:
        for one in baseline.sessions:
            records = found.setdefault((one.began, one.commit), {})
            # Two sessions of a case may begin within a second: moments have no fractions.
            records[baseline.case] = (*records.get(baseline.case, ()), one)
    return [Session(began=began, records=records) for (began, _), records in found.items()]


def _with(sessions: Sequence[Session], wanted: Callable[[Session, Case], bool]) -> list[Session]:
    kept = (
        replace(one, records={case: own for case, own in one.records.items() if wanted(one, case)})
        for one in sessions
    )
    return [one for one in kept if one.records]


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


def drifts(sessions: Sequence[Session], today: Session, tonight: rule.Tonight) -> tuple[Drift, ...]:
    several, last = [*sessions, today], len(sessions)
    shared = [
        _drift(name, None, one.rise, {**one.before, last: one.tonight}, several)
        for name, one in tonight.shared.items()
        if one.rise
    ]
    cases = [
        _drift(case.framework, case, one.rise, {**one.usual.own, last: one.own}, several)
        for case, one in tonight.limits.items()
        if one.rise
    ]
    return (*shared, *sorted(cases, key=lambda one: one.log_ratio, reverse=True))


def drift_text(found: Sequence[Drift]) -> str:
    return "; ".join(cut_short([one.text for one in found], _MOST_NAMED, "case"))


def _drift(
    framework: str,
    case: Case | None,
    rise: float,
    series: Mapping[int, float],
    sessions: Sequence[Session],
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
    now, before = sessions[at[begin]], sessions[at[begin - 1]]
    return Drift(
        framework=framework,
        case=case,
        log_ratio=rise,
        began=now.began,
        sessions=len(values) - begin,
        changes=now.changes_since(before, framework),
        is_over=values[-1] - statistics.fmean(values[:begin]) < rise / 2,
    )


def _rest_of_step(values: Sequence[float], split: int) -> float:
    return squares_of(values[:split]) + squares_of(values[split:])


def machine_answer(
    framework: str, nights: Sequence[Session] | None, today: Session, policy: Policy
) -> Answer:
    """The answer from the reference's earlier `nights`.

    The reference is slower if all its cases together lost more than the limit of a session, or if
    a level rose over the nights. The answer is unknown without an earlier night, without a history
    (`nights` is None), and with too few cases to compare them together unless one of them rose.
    """
    earlier = merged(nights or (), policy.session_apart)
    if not earlier:
        why = (
            " without --history" if nights is None else ", this reference has no earlier night here"
        )
        return Answer(text=f"unknown{why} ({framework})", is_slower=None)
    cases = dict.fromkeys(case for one in earlier for case in one.records)
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
