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
from busbw.model.stored import Baseline, Record, Session, merge_sessions
from busbw.model.words import change_text, cut_short, plural

from .expected_times import Launches, State
from .lasting_losses import Assessment, accepted_deviation, assess, replay
from .policy import MIN_LOSS_TICKS, Policy, Rule
from .rule import CaseTimes, History, compute_limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """The sessions of one machine that later ones are compared with, oldest first.

    Sessions minutes apart are one. `cases` are the cases with accepted times. `replayed` keeps the
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
        ticks_s: Mapping[Case, float] = {},
    ) -> Assessment:
        """Judge a session by the sessions before it.

        Args:
            today_s: The times of the launches in seconds, by case; cases without an accepted time
                are left out.
            policy: The policy of the device.
            launches: How many launches were planned; more launches confirm. If None, the last ones
                confirm.
            ticks_s: The steps of the clock in seconds, of cases whose clock has steps.

        """
        measured = {case: times_s for case, times_s in today_s.items() if case in self.cases}
        key = (frozenset(measured), *sorted((case.name, tick) for case, tick in ticks_s.items()))
        if key not in self.replayed:
            sessions = [
                {case: _times(records, policy.rule) for case, records in session.records.items()}
                for session in self.sessions
            ]
            self.replayed[key] = build_history(sessions, policy, measured=measured, ticks_s=ticks_s)
        history = self.replayed[key]
        today = {
            case: CaseTimes.split(times_s, policy.rule, launches)
            for case, times_s in measured.items()
        }
        return assess(history, compute_limits(history, today), today)


def build_history(
    sessions: Sequence[Mapping[Case, CaseTimes]],
    policy: Policy,
    *,
    measured: Collection[Case],
    ticks_s: Mapping[Case, float] = {},
) -> History:
    """Replay `sessions`, oldest first, for the frameworks whose cases are `measured` now.

    `ticks_s` are the steps of the clock in seconds, of cases whose clock has steps.
    """
    cases = dict.fromkeys(case for session in sessions for case in session)
    counts = Counter(case.framework for case in cases if case in measured)
    pooled = {name for name, count in counts.items() if count >= policy.rule.min_shared_cases}
    floors: dict[Case, float] = {}
    replayed = [
        {case: times for case, times in session.items() if case.framework in counts}
        for session in sessions
    ]
    for case, times in (pair for session in replayed for pair in session.items()):
        tick_s = MIN_LOSS_TICKS * ticks_s.get(case, 0.0)
        least_s = max(policy.least_difference_of(case.clock), tick_s)
        floors.setdefault(case, math.log1p(least_s / math.exp(times.together.median)))
    history = History(rule=policy.rule, pooled_frameworks=frozenset(pooled), floors=floors)
    return replay(filter(None, replayed), history)


def _times(records: Sequence[Record], rule: Rule) -> CaseTimes:
    """Return the launches of one case; they differ within each of the sessions that were merged."""
    times = CaseTimes.split([time_s for record in records for time_s in record.times_s], rule)
    parts = [Launches.summarize(record.times_s) for record in records]
    squares = math.fsum(part.squares for part in parts)
    freedom = sum(part.freedom for part in parts)
    return replace(times, together=replace(times.together, squares=squares, freedom=freedom))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTimes:
    """The stored times of the cases of one framework on one machine.

    Each of the `baselines` has times: out of memory is nothing to compare a time with. `since` is,
    by case, when an acknowledged change began: earlier sessions do not count.
    """

    baselines: Sequence[Baseline]
    history: Sequence[Session] = ()
    since: Mapping[Case, datetime] = field(default_factory=dict)

    def sessions(self, apart: timedelta) -> tuple[Session, ...]:
        """Return the accepted sessions and later ones, from an acknowledged change of a case on.

        Sessions less than `apart` from each other are merged. A change counts only for cases that
        were measured since.
        """
        accepted, since = _accepted_sessions(self.baselines), self.since
        begins = {baseline.case: baseline.records[0].began for baseline in self.baselines}
        stored = {times for session in accepted for times in session.times_s.items()}
        later = _select(
            self.history,
            lambda session, case: (
                case in begins
                and session.began >= begins[case]
                and (case, session.times_of(case)) not in stored
            ),
        )
        sessions = merge_sessions([*accepted, *later], apart)
        changed = {
            case
            for session in sessions
            for case in session.records
            if case in since and session.began >= since[case]
        }
        return tuple(
            _select(sessions, lambda session, c: c not in changed or session.began >= since[c])
        )


def build_levels(stored: Mapping[str, StoredTimes], policy: Policy) -> Levels | None:
    """Return the levels of one machine from its stored times by framework; None without a time."""
    apart = policy.session_apart
    sessions = [session for times in stored.values() for session in times.sessions(apart)]
    cases = frozenset(baseline.case for times in stored.values() for baseline in times.baselines)
    return Levels(sessions=merge_sessions(sessions, apart), cases=cases) if cases else None


def _accepted_sessions(baselines: Sequence[Baseline]) -> list[Session]:
    """Return the sessions of baselines; records of one moment are of one session."""
    sessions: dict[tuple[datetime, str], dict[Case, tuple[Record, ...]]] = {}
    for baseline in baselines:
        for record in baseline.records:
            records = sessions.setdefault((record.began, record.commit), {})
            # Two sessions of a case may begin within a second: moments have no fractions.
            records[baseline.case] = (*records.get(baseline.case, ()), record)
    return [Session(began=began, records=records) for (began, _), records in sessions.items()]


def _select(
    sessions: Sequence[Session], is_selected: Callable[[Session, Case], bool]
) -> list[Session]:
    """Return the sessions with their selected cases; without the sessions that have none."""
    selected = (
        replace(
            session,
            records={
                case: times for case, times in session.records.items() if is_selected(session, case)
            },
        )
        for session in sessions
    )
    return [session for session in selected if session.records]


# More cases than these are counted.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A loss of several sessions, of a case or of all cases of a framework, which `name` says.

    `state` has the size of the loss and its sessions, the first of which began at `began`.
    `changes` are what changed with that session, such as ``jaxlib 0.10.1 -> 0.10.2``.
    """

    name: Case | str
    state: State
    began: datetime
    changes: tuple[str, ...]

    @property
    def text(self) -> str:
        """A text such as ``all cases of jax are 3 % slower than expected over the last ...``."""
        verb = "are" if isinstance(self.name, str) else "is"
        loss = change_text(math.expm1(self.state.mean_loss))
        return (
            f"{_name_text(self.name)} {verb} {loss} slower than expected over the last "
            f"{plural(self.state.lost_sessions, 'session')}, since {self.began:%Y-%m-%d}; "
            f"what changed then: {', '.join(self.changes) or 'nothing that is known'}"
        )


def _name_text(name: Case | str) -> str:
    return f"all cases of {name}" if isinstance(name, str) else name.name


def find_losses(
    sessions: Sequence[Session], today: Session, judged: Assessment
) -> tuple[Loss, ...]:
    """Return the losses of several sessions: those of whole frameworks first, then the largest.

    Args:
        sessions: The earlier sessions, by the numbers that `judged` has of them.
        today: The session that was judged.
        judged: The assessment of `today`.

    """
    losses, every = [], [*sessions, today]
    for name, state in judged.states.items():
        if not state.lost_sessions:
            continue
        framework = name if isinstance(name, str) else name.framework
        first = every[state.first_session]
        earlier = every[: state.first_session]
        measured = [s for s in earlier if any(c.framework == framework for c in s.records)]
        changed = first.changes_since([first, *measured][-1], framework)
        losses.append(Loss(name=name, state=state, began=first.began, changes=changed))
    # Losses of whole frameworks stay in their order.
    losses.sort(key=lambda x: -math.inf if isinstance(x.name, str) else -x.state.mean_loss)
    return tuple(losses)


def losses_text(lost: Sequence[Loss]) -> str:
    """Return the texts of the first losses, and how many more there are; empty without any."""
    return "; ".join(cut_short([loss.text for loss in lost], _MOST_NAMED, "case"))


def repaired_text(judged: Assessment) -> str:
    """Say which losses are over; empty without any."""
    sessions = {name: state.repaired for name, state in judged.states.items() if state.repaired}
    if not sessions:
        return ""
    level = "their level" if len(sessions) > 1 else "its level"
    names = cut_short(list(map(_name_text, sessions)), _MOST_NAMED, "case")
    count = plural(max(sessions.values()), "session")
    return f"repaired: back at {level} after {count}: {', '.join(names)}"


def odd_sessions(judged: Assessment) -> dict[Case | str, float]:
    """Return by how much the accepted session was slower than all since, where it clearly was.

    Log ratios by framework for the shared part, and by case; below 0 where it was faster.
    """
    deviations = {
        name: accepted_deviation(series, value, judged.history.rule)
        for name, value in judged.values.items()
        if (series := judged.history.find(name)) is not None
    }
    return {name: odd for name, odd in deviations.items() if odd}


def odd_text(judged: Assessment) -> str:
    """Say where the accepted session was unlike all sessions since; empty without any."""
    since = max((len(series.launches) for series in judged.history.cases.values()), default=0)
    texts = [
        f"the accepted session was {change_text(math.expm1(abs(odd)))} "
        f"{'slower' if odd > 0 else 'faster'} than the {since} since, in {_name_text(name)}"
        for name, odd in odd_sessions(judged).items()
    ]
    more = "accept again with --update-baselines"
    return "; ".join([*cut_short(texts, _MOST_NAMED, "case"), more]) if texts else ""
