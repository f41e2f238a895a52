"""Which sessions today is compared with, and what several sessions together lost.

A baseline says what was accepted; the history says what has been usual since.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from busbw.model.case import Case
from busbw.model.stored import Baseline, Record, Session, merged
from busbw.model.verdict import Answer
from busbw.model.words import change_text, cut_short, plural

from .expected_times import Lasting, Launches, Series
from .lasting_losses import Assessment, accepted_deviation, assess, replay
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
        today = {case: CaseTimes.of(times_s, rule, launches) for case, times_s in measured.items()}
        return assess(history, limits(history, today), today)

    def _history(
        self, measured: Sequence[Case], policy: Policy, ticks_s: Mapping[Case, float]
    ) -> History:
        key = (frozenset(measured), *sorted((c.name, tick) for c, tick in ticks_s.items()))
        if key not in self.replayed:
            sessions = [
                {case: _times(records, policy.rule) for case, records in session.records.items()}
                for session in self.sessions
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
    cases = dict.fromkeys(case for session in sessions for case in session)
    counts = Counter(case.framework for case in cases if case in measured)
    together = {name for name, count in counts.items() if count >= policy.rule.least_cases}
    floors: dict[Case, float] = {}
    replayed = [
        {case: times for case, times in session.items() if case.framework in counts}
        for session in sessions
    ]
    for case, times in (pair for session in replayed for pair in session.items()):
        tick_s = _TICKS * (ticks_s or {}).get(case, 0.0)
        least_s = max(policy.least_difference_of(case.clock), tick_s)
        floors.setdefault(case, math.log1p(least_s / math.exp(times.every.median)))
    history = History(rule=policy.rule, together=frozenset(together), floors=floors)
    return replay(filter(None, replayed), history)


def _times(records: Sequence[Record], rule: Rule) -> CaseTimes:
    """Return the launches of one case; they differ within each of the sessions that were joined."""
    whole = CaseTimes.of([time_s for record in records for time_s in record.times_s], rule)
    parts = [Launches.of(record.times_s) for record in records]
    squares = math.fsum(part.squares for part in parts)
    freedom = sum(part.freedom for part in parts)
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
        return [baseline for baseline in self.baselines if baseline.sessions]

    def sessions(self, apart: timedelta) -> tuple[Session, ...]:
        """Return the accepted sessions and later ones, from an acknowledged change of a case on.

        A change counts only for cases that were measured since.
        """
        accepted, since = _accepted(self.timed), self.since
        begins = {baseline.case: baseline.sessions[0].began for baseline in self.timed}
        stored = {times for session in accepted for times in session.times_s.items()}
        later = _with(
            self.history,
            lambda session, case: (
                case in begins
                and session.began >= begins[case]
                and (case, session.times_of(case)) not in stored
            ),
        )
        whole = merged([*accepted, *later], apart)
        changed = {
            case
            for session in whole
            for case in session.records
            if case in since and session.began >= since[case]
        }
        return tuple(_with(whole, lambda session, c: c not in changed or session.began >= since[c]))


def levels_of(known: Mapping[str, Known], policy: Policy) -> Levels | None:
    """Return the levels of one machine, of what is `known` by framework; None without any time."""
    apart = policy.session_apart
    sessions = [session for stored in known.values() for session in stored.sessions(apart)]
    cases = frozenset(baseline.case for stored in known.values() for baseline in stored.timed)
    return Levels(sessions=merged(sessions, apart), cases=cases) if cases else None


def _accepted(timed: Sequence[Baseline]) -> list[Session]:
    """Return the sessions of baselines; records of one moment are of one session."""
    sessions: dict[tuple[datetime, str], dict[Case, tuple[Record, ...]]] = {}
    for baseline in timed:
        for record in baseline.sessions:
            records = sessions.setdefault((record.began, record.commit), {})
            # Two sessions of a case may begin within a second: moments have no fractions.
            records[baseline.case] = (*records.get(baseline.case, ()), record)
    return [Session(began=began, records=records) for (began, _), records in sessions.items()]


def _with(sessions: Sequence[Session], counts: Callable[[Session, Case], bool]) -> list[Session]:
    """Return the sessions with the cases that count; without the sessions that have none."""
    chosen = (
        replace(
            session,
            records={
                case: times for case, times in session.records.items() if counts(session, case)
            },
        )
        for session in sessions
    )
    return [session for session in chosen if session.records]


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
        name = f"{self.case.name} is" if self.case else f"all cases of {self.framework} are"
        loss = change_text(math.expm1(self.log_ratio))
        return (
            f"{name} {loss} slower than {self.compared_with} over the last "
            f"{plural(self.sessions, 'session')}, since {self.began:%Y-%m-%d}; "
            f"what changed then: {', '.join(self.changes) or 'nothing that is known'}"
        )


def losses(sessions: Sequence[Session], today: Session, judged: Assessment) -> tuple[Loss, ...]:
    """Return the losses of several sessions: those of whole frameworks first, then the largest."""
    states: list[tuple[str, Case | None, Lasting | None]] = [
        (name, None, state.lasting) for name, state in judged.shared.items()
    ]
    states += [(case.framework, case, state.lasting) for case, state in judged.states.items()]
    lost = [_loss(name, case, last, [*sessions, today]) for name, case, last in states if last]
    # Losses of whole frameworks stay in their order.
    return tuple(sorted(lost, key=lambda loss: -loss.log_ratio if loss.case else -math.inf))


def losses_text(lost: Sequence[Loss]) -> str:
    return "; ".join(cut_short([loss.text for loss in lost], _MOST_NAMED, "case"))


def _loss(framework: str, case: Case | None, lasting: Lasting, sessions: Sequence[Session]) -> Loss:
    measured = [
        session for session in sessions if any(c.framework == framework for c in session.records)
    ]
    first = sessions[lasting.began]
    before = measured[max(0, measured.index(first) - 1)] if first in measured else first
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
    repaired = {f"all cases of {name}": state.repaired for name, state in judged.shared.items()}
    repaired |= {case.name: state.repaired for case, state in judged.states.items()}
    names = [name for name, sessions in repaired.items() if sessions]
    if not names:
        return ""
    level = "their level" if len(names) > 1 else "its level"
    sessions = plural(max(repaired.values()), "session")
    return (
        f"repaired: back at {level} after {sessions}: "
        f"{', '.join(cut_short(names, _MOST_NAMED, 'case'))}"
    )


def odd_sessions(judged: Assessment) -> dict[Case | str, float]:
    """Return by how much the accepted session was slower than all since, where it clearly was.

    By framework for what its cases share, and by case; below 0 where it was faster.
    """
    series: dict[Any, Series] = {**judged.history.shared, **judged.history.cases}
    names: list[Case | str] = [*judged.shared, *judged.states]
    deviations = {
        name: accepted_deviation(series[name], judged.values[name])
        for name in names
        if name in series
    }
    return {name: odd for name, odd in deviations.items() if odd}


def odd_text(judged: Assessment) -> str:
    """Say where the accepted session was unlike all sessions since; empty without any."""
    since = max((len(series.values) for series in judged.history.cases.values()), default=0)
    texts = [
        f"the accepted session was {change_text(math.expm1(abs(odd)))} "
        f"{'slower' if odd > 0 else 'faster'} than the {since} since, in "
        f"{f'all cases of {name}' if isinstance(name, str) else name.name}"
        for name, odd in odd_sessions(judged).items()
    ]
    more = "accept again with --update-baselines"
    return "; ".join([*cut_short(texts, _MOST_NAMED, "case"), more]) if texts else ""


def machine_answer(
    framework: str, sessions: Sequence[Session] | None, today: Session, policy: Policy
) -> Answer:
    """Return whether a machine is slower, from the earlier `sessions` of a reference.

    The reference is slower if all its cases together are, now or over several sessions. The answer
    is unknown without an earlier session, without a history (`sessions` is None), and with
    too few cases to compare them together unless one of them became slower.
    """
    earlier = merged(sessions or (), policy.session_apart)
    if not earlier:
        no_session = ", this reference has no earlier session here"
        reason = " without --history" if sessions is None else no_session
        return Answer(text=f"unknown{reason} ({framework})", is_slower=None)
    cases = frozenset(case for session in earlier for case in session.records)
    judged = Levels(sessions=earlier, cases=cases).assess(today.times_s, policy)
    lost = [replace(loss, compared_with="at first") for loss in losses(earlier, today, judged)]
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
    texts = filter(None, (f"{text} ({framework})", losses_text(lost)))
    return Answer(text="; ".join(texts), is_slower=True if lost else is_slower)


def all_answers(answers: Sequence[Answer]) -> Answer | None:
    """Join the answers of all frameworks to one for the session; None without any.

    The answer is slower if one framework is slower, and not slower if that is known for each.
    """
    if not answers:
        return None
    slower = {answer.is_slower for answer in answers}
    return Answer(
        text="; ".join(answer.text for answer in answers),
        is_slower=True if True in slower else None if None in slower else False,
    )
