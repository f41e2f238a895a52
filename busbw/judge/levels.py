"""Which sessions today is compared with, and what several sessions together lost.

A baseline says what was accepted; the history says what has been usual since.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.stored import Baseline, Record, Session, merged
from busbw.model.verdict import Answer
from busbw.model.words import change_text, cut_short, plural

from .expected_times import Launches
from .lasting_losses import Assessment, Lasting, accepted_deviation, assess, replay
from .policy import Policy, Rule
from .rule import CaseTimes, History, limits

# A clock that ticks gives values that are a tick apart, or a little more.
_TICKS = 1.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """The sessions of one machine that later ones are compared with, oldest first.

    Sessions minutes apart are one. `cases` are those with accepted times. `replayed` keeps the
    replayed histories, which several looks at one session share.
    """

    sessions: tuple[Session, ...]
    cases: frozenset[Case]
    replayed: dict[object, History] = field(default_factory=dict, compare=False, repr=False)

    def assess(
        self,
        today_s: Mapping[Case, Sequence[float]],
        policy: Policy,
        *,
        launches: int | None = None,
        ticks_s: Mapping[Case, float] | None = None,
    ) -> Assessment:
        """Judge the launches `today_s` in seconds, of which the first `launches` were planned.

        `ticks_s` are the steps of the clock, by case, where it has steps.
        """
        measured = {case: times_s for case, times_s in today_s.items() if case in self.cases}
        history = self._history(list(measured), policy, ticks_s or {})
        rule = policy.rule
        today = {case: CaseTimes.of(one, rule, launches) for case, one in measured.items()}
        return assess(history, limits(history, today), today)

    def _history(
        self, measured: Sequence[Case], policy: Policy, ticks_s: Mapping[Case, float]
    ) -> History:
        key = (frozenset(measured), *sorted((c.name, tick) for c, tick in ticks_s.items()))
        if key not in self.replayed:
            sessions = [
                {case: _times(own, policy.rule) for case, own in one.records.items()}
                for one in self.sessions
            ]
            self.replayed[key] = history_of(sessions, policy, measured=measured, ticks_s=ticks_s)
        return self.replayed[key]


def history_of(
    sessions: Sequence[Mapping[Case, CaseTimes]],
    policy: Policy,
    *,
    measured: Collection[Case],
    ticks_s: Mapping[Case, float] | None = None,
) -> History:
    """Replay `sessions`, oldest first, for the frameworks whose cases are `measured` now.

    `ticks_s` are the steps of the clock in seconds, by case, where it has steps.
    """
    known = dict.fromkeys(case for one in sessions for case in one)
    counts = Counter(case.framework for case in known if case in measured)
    together = {name for name, one in counts.items() if one >= policy.rule.least_cases}
    floors: dict[Case, float] = {}
    replayed = [{c: one for c, one in each.items() if c.framework in counts} for each in sessions]
    for case, times in (item for one in replayed for item in one.items()):
        tick_s = _TICKS * (ticks_s or {}).get(case, 0.0)
        least_s = max(policy.least_difference_of(case.clock), tick_s)
        floors.setdefault(case, math.log1p(least_s / math.exp(times.every.median)))
    history = History(rule=policy.rule, together=frozenset(together), floors=floors)
    return replay(filter(None, replayed), history)


def _times(records: Sequence[Record], rule: Rule) -> CaseTimes:
    """Return the launches of one case; they differ within each of the sessions that were joined."""
    whole = CaseTimes.of([time_s for one in records for time_s in one.times_s], rule)
    parts = [Launches.of(one.times_s) for one in records]
    squares, freedom = math.fsum(one.squares for one in parts), sum(one.freedom for one in parts)
    return replace(whole, every=replace(whole.every, squares=squares, freedom=freedom))


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
        cases=frozenset(baseline.case for one in timed for baseline in one.timed),
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
class Loss:
    """A loss of several sessions, of a case or of all cases of a framework (`case` is None).

    It is `log_ratio` over the last `sessions`, the first of which `began` then; `changes` are what
    changed with that session, such as ``jaxlib 0.10.1 -> 0.10.2``. `is_gradual`: no few sessions
    show it. `compared_with` says what the level is.
    """

    framework: str
    case: Case | None
    log_ratio: float
    began: datetime
    sessions: int
    changes: tuple[str, ...]
    is_gradual: bool = False
    compared_with: str = "expected"

    @property
    def text(self) -> str:
        """Such as ``all cases of jax are 3.4 % slower than expected over the last 5 sessions``."""
        name = f"all cases of {self.framework} are"
        if self.case is not None:
            name = f"{self.case.name} is"
        loss = change_text(math.expm1(self.log_ratio))
        return (
            f"{name} {loss} slower than {self.compared_with} over the last "
            f"{plural(self.sessions, 'session')}, since {self.began:%Y-%m-%d}; "
            f"what changed then: {', '.join(self.changes) or 'nothing that is known'}"
        )


def losses(sessions: Sequence[Session], today: Session, judged: Assessment) -> tuple[Loss, ...]:
    """Return the losses of several sessions: those of whole frameworks first, then the largest."""
    several = [*sessions, today]
    shared = [
        _loss(name, None, state.lasting, several)
        for name, state in judged.shared.items()
        if state.lasting
    ]
    cases = [
        _loss(case.framework, case, state.lasting, several)
        for case, state in judged.states.items()
        if state.lasting
    ]
    return (*shared, *sorted(cases, key=lambda one: one.log_ratio, reverse=True))


def losses_text(found: Sequence[Loss]) -> str:
    return "; ".join(cut_short([one.text for one in found], _MOST_NAMED, "case"))


def _loss(framework: str, case: Case | None, lasting: Lasting, sessions: Sequence[Session]) -> Loss:
    there = [one for one in sessions if any(c.framework == framework for c in one.records)]
    first = sessions[lasting.began]
    before = there[max(0, there.index(first) - 1)] if first in there else first
    return Loss(
        framework=framework,
        case=case,
        log_ratio=lasting.log_ratio,
        began=first.began,
        sessions=lasting.sessions,
        changes=first.changes_since(before, framework),
        is_gradual=lasting.is_gradual,
    )


def repaired_text(judged: Assessment) -> str:
    """Say which losses are over; empty without any."""
    names = [f"all cases of {name}" for name, one in judged.shared.items() if one.repaired]
    names += [case.name for case, one in judged.states.items() if one.repaired]
    counts = [one.repaired for one in (*judged.shared.values(), *judged.states.values())]
    if not names:
        return ""
    level = "their level" if len(names) > 1 else "its level"
    sessions = plural(max(counts), "session")
    named = ", ".join(cut_short(names, _MOST_NAMED, "case"))
    return f"repaired: back at {level} after {sessions}: {named}"


def odd_sessions(judged: Assessment) -> dict[Case | str, float]:
    """Return by how much the accepted session was slower than all since, where it clearly was.

    By framework for what its cases share, and by case; below 0 where it was faster.
    """
    history = judged.history
    found: dict[Case | str, float] = {
        name: accepted_deviation(history.shared[name], judged.values[name])
        for name in judged.shared
        if name in history.shared
    }
    for case in judged.states:
        found[case] = accepted_deviation(history.cases[case], judged.values[case])
    return {name: odd for name, odd in found.items() if odd}


def odd_text(judged: Assessment) -> str:
    """Say where the accepted session was unlike all sessions since; empty without any."""
    since = max((len(one.values) for one in judged.history.cases.values()), default=0)
    found = [
        f"the accepted session was {change_text(math.expm1(abs(odd)))} "
        f"{'slower' if odd > 0 else 'faster'} than the {since} since, in "
        f"{f'all cases of {name}' if isinstance(name, str) else name.name}"
        for name, odd in odd_sessions(judged).items()
    ]
    more = "accept again with --update-baselines"
    return "; ".join([*cut_short(found, _MOST_NAMED, "case"), more]) if found else ""


def machine_answer(
    framework: str, nights: Sequence[Session] | None, today: Session, policy: Policy
) -> Answer:
    """Return the answer from the reference's earlier sessions, `nights`.

    The reference is slower if all its cases together are, now or over several sessions. The answer
    is unknown without an earlier session, without a history (`nights` is None), and with
    too few cases to compare them together unless one of them became slower.
    """
    earlier = merged(nights or (), policy.session_apart)
    if not earlier:
        why = (
            " without --history"
            if nights is None
            else ", this reference has no earlier session here"
        )
        return Answer(text=f"unknown{why} ({framework})", is_slower=None)
    cases = frozenset(case for one in earlier for case in one.records)
    judged = Levels(sessions=earlier, cases=cases).assess(today.times_s, policy)
    found = [replace(one, compared_with="at first") for one in losses(earlier, today, judged)]
    shared, least = judged.session_limits.shared.get(framework), policy.rule.least_cases
    if shared is None or len(judged.limits) < least:
        text, is_slower = f"unknown from fewer than {least} cases", None
    else:
        is_slower = framework in judged.slower
        times, limit = math.exp(shared.off), math.exp(shared.limit)
        earlier_text = plural(len(earlier), "earlier session")
        text = (
            f"the reference takes {times:.3f} x the time of its {earlier_text}, limit {limit:.3f} x"
        )
    texts = filter(None, (f"{text} ({framework})", losses_text(found)))
    return Answer(text="; ".join(texts), is_slower=True if found else is_slower)


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
