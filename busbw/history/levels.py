"""Lines over time: what each case took from session to session, its levels, and how sessions ended.

Pure: lines in, values out. A session that was made slower on purpose says nothing of a level, and
neither does a side of two stacks in turn of which none is locked.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from busbw.model.case import Case, converted
from busbw.model.stored import Session, merged
from busbw.model.words import Outcome, plural
from busbw.stats.change_points import Change, find_changes
from busbw.stats.variance import Variance, moderated, successive_variance

from .files import Acknowledged
from .lines import Line, Series, earlier

# Fewer cases do not show what they share.
_LEAST_CASES = 6

# What most cases of a session have in common is what this many of them do.
_MOST = 2 / 3

# No time is known better than to a thousandth.
_LEAST_VARIANCE = 1e-6

# What the other cases say of the noise of one counts as this many sessions of its own.
_OTHERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChange:
    """A level that changed with the session that `began` then, by `log_ratio` in log time.

    `changes` are what changed there, such as ``jaxlib 0.10.1 -> 0.10.2``; `sessions` is how many
    the new level has. `reason` says why somebody accepts it, empty where nobody has.
    """

    began: datetime
    log_ratio: float
    sessions: int
    changes: tuple[str, ...]
    reason: str

    @property
    def ratio(self) -> float:
        return math.exp(self.log_ratio)

    @property
    def text(self) -> str:
        """Return a text such as ``+8.1 % since 2026-03-04``."""
        return f"{_percent(self.ratio)} since {self.began:%Y-%m-%d}"

    @property
    def sentence(self) -> str:
        return f"{self.text} ({plural(self.sessions, 'session')}); {self.cause}"

    @property
    def cause(self) -> str:
        """What changed there, and why somebody accepts it."""
        there = ", ".join(self.changes) or "nothing that is known"
        accepted = f"; accepted: {self.reason}" if self.reason else ""
        return f"changed there: {there}{accepted}"


def _percent(ratio: float) -> str:
    """A ratio as a signed change: two digits after the point below 1 %, one below 10 %."""
    percent = 100 * (ratio - 1)
    decimals = 2 if abs(percent) < 0.995 else 1 if abs(percent) < 9.95 else 0
    return f"{percent:+.{decimals}f} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """One case in one series: the time of each session in seconds, oldest first, by its name.

    The time of a session is the median over its launches, which `sessions` have all, failed ones
    too, but none that was slower on purpose. `level_s` is the newest level, `spread` the relative
    standard deviation of a session about it, less what all cases share; None without a time, and
    the spread of a single one. `outcomes` counts the verdicts, of sessions without a time too;
    `baseline_date` is what the newest session was compared with.
    """

    case: Case
    series: Series
    outcomes: Mapping[Outcome, int]
    baseline_date: str
    sessions: Mapping[str, Line]
    level_s: float | None = None
    spread: float | None = None
    changes: tuple[LevelChange, ...] = ()

    @property
    def times_s(self) -> Mapping[str, float]:
        found = ((name, line.time_s) for name, line in self.sessions.items())
        return {name: time_s for name, time_s in found if time_s is not None}

    @property
    def newest_s(self) -> float | None:
        return tuple(self.times_s.values())[-1] if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHistory:
    """All cases of one machine, its lines, and the first line of each session by its name.

    `shared` are changes of what all cases of a series have in common, `merged` what the sessions of
    a series measured, with those near each other as one.
    """

    folder: str
    lines: Sequence[Line]
    cases: tuple[CaseHistory, ...]
    sessions: Mapping[str, Line]
    shared: Mapping[Series, tuple[LevelChange, ...]]
    merged: Mapping[Series, tuple[Session, ...]]

    @property
    def outcomes(self) -> Mapping[str, int]:
        return Counter(line.session_outcome.value for line in self.sessions.values())

    @property
    def baseline_age_days(self) -> int | None:
        """From the oldest baseline in use to the newest session; None where there is none."""
        dates = [date.fromisoformat(one.baseline_date) for one in self.cases if one.baseline_date]
        if not dates:
            return None
        newest = max(line.began for line in self.sessions.values())
        return (newest.date() - min(dates)).days


def machine_history(
    folder: str,
    lines: Sequence[Line],
    *,
    apart: timedelta = timedelta(0),
    known: Sequence[Acknowledged] = (),
) -> MachineHistory:
    """The history of one machine from its lines, oldest first.

    Sessions less than `apart` from each other count as one; `known` are changes that somebody
    accepts.
    """
    by_series: dict[Series, dict[Case, list[Line]]] = {}
    first: dict[str, Line] = {}
    for line in lines:
        by_case = by_series.setdefault(Series.of(line), {})
        by_case.setdefault(line.case, []).append(line)
        # A reference was measured in a session of another series.
        if not line.is_reference:
            first.setdefault(line.session, line)
    sessions = {series: merged(earlier(lines, series), apart) for series in by_series}
    levels = {series: _levels(those) for series, those in sessions.items()}
    of_all = [one for one in known if one.case == "*"]
    return MachineHistory(
        folder=folder,
        lines=lines,
        cases=tuple(
            _case_history(
                its,
                levels[series][0].get(case),
                sessions[series],
                [one for one in known if one.is_of(case.name, folder)],
            )
            for series, by_case in by_series.items()
            for case, its in by_case.items()
        ),
        sessions=first,
        shared={
            series: _changes(series.framework, shared, sessions[series], of_all)
            for series, (_, shared) in levels.items()
            if sessions[series]
        },
        merged=sessions,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Level:
    """A case's own changes, by positions in all sessions, its newest level, and its noise."""

    changes: tuple[Change, ...]
    level_s: float
    spread: float | None


# Log times by position in the sessions.
_Logs = Mapping[int, float]


def _levels(sessions: Sequence[Session]) -> tuple[Mapping[Case, _Level], tuple[Change, ...]]:
    """The levels of the cases of a series, and the changes that most of them share.

    Log time = level + what most cases share + the case's own part; levels change.

    What they share is the median over cases. It changes where most cases changed with it; what
    only some do, a third of the sizes, is theirs.
    """
    logs: dict[Case, dict[int, float]] = {}
    for at, session in enumerate(sessions):
        for case, times_s in session.times_s.items():
            logs.setdefault(case, {})[at] = math.log(statistics.median(times_s))
    middle = {case: statistics.median(one.values()) for case, one in logs.items()}
    median = {}
    for at in range(len(sessions)):
        off = [one[at] - middle[case] for case, one in logs.items() if at in one]
        if len(off) >= _LEAST_CASES:
            median[at] = statistics.median(off)
    found = _found(median, _variance(median))
    around = {at: one - math.fsum(c.size_at(at) for c in found) for at, one in median.items()}
    center = statistics.fmean(around.values()) if around else 0.0
    edges = [0, *(one.position for one in found), len(sessions)]
    shared = tuple(
        one
        for one, first, last in zip(found, edges, edges[2:])
        if _is_shared(one, first, last, logs.values())
    )
    own = {
        case: {
            at: one - math.fsum(c.size_at(at) for c in shared) - around.get(at, center) + center
            for at, one in those.items()
        }
        for case, those in logs.items()
    }
    return _cases(own, shared), shared


def _variance(values: _Logs) -> Variance | None:
    """From one session to the next, whatever the level does."""
    if len(values) < 2:
        return None
    found = successive_variance(list(values.values()))
    return Variance(value=max(found.value, _LEAST_VARIANCE), freedom=found.freedom)


def _found(values: _Logs, variance: Variance | None) -> tuple[Change, ...]:
    at = list(values)
    changes = find_changes(list(values.values()), variance) if variance else ()
    return tuple(replace(one, position=at[one.position]) for one in changes)


def _is_shared(change: Change, first: int, last: int, logs: Iterable[_Logs]) -> bool:
    """Whether most cases changed with it, by nearly as much, from session `first` to `last`.

    A change from the first session on has nothing before it: the rest is flat if it is shared.
    """
    agree = []
    for one in logs:
        there = {at: value for at, value in one.items() if first <= at < last}
        rest = [value - change.size_at(at) for at, value in there.items()]
        if there and change.size_at(max(there)) != change.size_at(min(there)):
            agree.append(statistics.pvariance(rest) < statistics.pvariance(there.values()))
    return sum(agree) >= _MOST * len(agree) > 0


def _cases(own: Mapping[Case, _Logs], shared: Sequence[Change]) -> dict[Case, _Level]:
    """The levels of cases by what is their own; the noise of each is known from the others, too."""
    variances = {case: _variance(one) for case, one in own.items()}
    known = [one.value for one in variances.values() if one is not None]
    usual = statistics.median(known) if len(known) >= _LEAST_CASES else None
    levels = {}
    for case, one in own.items():
        variance = variances[case]
        if variance is not None and usual is not None:
            variance = moderated(variance, Variance(value=usual, freedom=_OTHERS))
        changes = _found(one, variance)
        last = max(one)
        flat = [value - math.fsum(c.size_at(at) for c in changes) for at, value in one.items()]
        level = statistics.fmean(flat) + math.fsum(c.size_at(last) for c in (*changes, *shared))
        spread = math.sqrt(variance.value) if variance is not None else None
        levels[case] = _Level(changes=changes, level_s=math.exp(level), spread=spread)
    return levels


def _case_history(
    lines: Sequence[Line],
    level: _Level | None,
    sessions: Sequence[Session],
    known: Sequence[Acknowledged],
) -> CaseHistory:
    case, found = lines[-1].case, level.changes if level is not None else ()
    return converted(
        CaseHistory,
        level,
        case=case,
        series=Series.of(lines[-1]),
        outcomes=Counter(line.outcome for line in lines),
        baseline_date=lines[-1].baseline_date,
        sessions={line.session: line for line in lines if line.is_ordinary},
        changes=_changes(case.framework, found, sessions, known),
    )


def _changes(
    framework: str,
    found: Sequence[Change],
    sessions: Sequence[Session],
    known: Sequence[Acknowledged],
) -> tuple[LevelChange, ...]:
    """With the session that each began with, and what changed there."""

    def described(one: Change) -> LevelChange:
        first, before = sessions[one.position], sessions[max(0, one.position - 1)]
        return LevelChange(
            began=first.began,
            log_ratio=one.size,
            sessions=one.count,
            changes=first.changes_since(before, framework),
            reason=next((k.reason for k in known if k.explains(first.began)), ""),
        )

    return tuple(map(described, found))
