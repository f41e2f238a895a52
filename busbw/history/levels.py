"""Lines over time: what each case took from session to session, its levels, and how sessions ended.

Pure: lines in, values out. A session that was made slower on purpose says nothing of a level, and
neither does a side of two stacks in turn of which none is locked.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from busbw import stats
from busbw.model import (
    Case,
    EarlierSession,
    FailureKind,
    Outcome,
    SessionOutcome,
    merged,
    neighbours,
)
from busbw.stats import CaseLevel, Expected, Segment

from .acknowledged import Acknowledged
from .lines import Line
from .sessions import Series, earlier


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
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseSession:
    """What one session says of a case: seconds of each launch, the verdict, and what failed."""

    times_s: tuple[float, ...]
    outcome: Outcome
    failure: FailureKind | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """One case in one series: the time of each session in seconds, oldest first, by its name.

    The time of a session is the median over its launches, which `sessions` have all, failed ones
    too, but none that was slower on purpose. `level_s` is the newest level, `spread` the relative
    standard deviation of a session about it, less what all cases share; None without
    a time. `outcomes` counts the verdicts, of sessions without a time too; `baseline_date` is what
    the newest session was compared with.
    """

    case: Case
    series: Series
    times_s: Mapping[str, float]
    outcomes: Mapping[Outcome, int]
    baseline_date: str
    sessions: Mapping[str, CaseSession]
    level_s: float | None = None
    spread: float | None = None
    changes: tuple[LevelChange, ...] = ()

    @property
    def newest_s(self) -> float | None:
        """The time of the newest session that has one."""
        return tuple(self.times_s.values())[-1] if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHistory:
    """All cases of one machine, and the first line of each session by its name.

    `shared` are changes of what all cases of a series have in common, `merged` what the sessions of
    a series measured, with those near each other as one.
    """

    folder: str
    cases: tuple[CaseHistory, ...]
    sessions: Mapping[str, Line]
    shared: Mapping[Series, tuple[LevelChange, ...]]
    merged: Mapping[Series, tuple[EarlierSession, ...]]

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many sessions ended with which verdict."""
        return Counter(line.session_outcome.value for line in self.sessions.values())

    @property
    def without_verdict(self) -> int:
        """How many sessions had none."""
        return self.outcomes.get(SessionOutcome.NO_VERDICT.value, 0)

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
    expected: Expected,
    *,
    apart: timedelta = timedelta(0),
    known: Sequence[Acknowledged] = (),
) -> MachineHistory:
    """The history of one machine from its lines, oldest first.

    `expected` is what is known of such a device; sessions less than `apart` from each other count
    as one; `known` are changes that somebody accepts.
    """
    by_series: dict[Series, dict[Case, list[Line]]] = {}
    for line in lines:
        by_case = by_series.setdefault(Series.of(line), {})
        by_case.setdefault(line.case.case, []).append(line)
    sessions = {series: merged(earlier(lines, series), apart) for series in by_series}
    found = stats.components_of(
        {series: list(map(_logs, those)) for series, those in sessions.items() if those},
        expected,
        {},
        neighbours({line.case.case: None for line in lines}, expected.neighbours),
    )
    levels = {series: found[series].cases if series in found else {} for series in by_series}
    cases = (
        _case_history(case, series, its, levels[series].get(case), sessions[series], folder, known)
        for series, by_case in by_series.items()
        for case, its in by_case.items()
    )
    return MachineHistory(
        folder=folder,
        cases=tuple(cases),
        sessions=_first_lines(lines),
        shared={
            series: _changes(one.segments, sessions[series], [k for k in known if k.case == "*"])
            for series, one in found.items()
        },
        merged=sessions,
    )


def _first_lines(lines: Sequence[Line]) -> dict[str, Line]:
    """The first line of each session; the reference's own are of the sessions of tonight's."""
    found: dict[str, Line] = {}
    for line in lines:
        if not line.is_reference:
            found.setdefault(line.session, line)
    return found


def _logs(session: EarlierSession) -> dict[Case, float]:
    return {case: math.log(statistics.median(times)) for case, times in session.times_s.items()}


def _case_history(
    case: Case,
    series: Series,
    lines: Sequence[Line],
    level: CaseLevel | None,
    sessions: Sequence[EarlierSession],
    folder: str,
    known: Sequence[Acknowledged],
) -> CaseHistory:
    own = [one for one in known if one.is_of(case.name, folder)]
    return CaseHistory(
        case=case,
        series=series,
        times_s={
            line.session: 1e-6 * statistics.median(line.times_us) for line in lines if line.is_level
        },
        outcomes=Counter(line.outcome for line in lines),
        baseline_date=lines[-1].baseline_date,
        sessions={line.session: _case_session(line) for line in lines if line.is_ordinary},
        level_s=math.exp(level.level) if level is not None else None,
        spread=math.sqrt(level.own.value) if level is not None else None,
        changes=_changes(level.segments, sessions, own) if level is not None else (),
    )


def _case_session(line: Line) -> CaseSession:
    return CaseSession(
        times_s=tuple(1e-6 * time_us for time_us in line.times_us),
        outcome=line.outcome,
        failure=line.failure,
    )


def _changes(
    segments: Sequence[Segment],
    sessions: Sequence[EarlierSession],
    known: Iterable[Acknowledged],
) -> tuple[LevelChange, ...]:
    """From one segment to the next."""
    accepted = list(known)
    found = []
    for before, after in itertools.pairwise(segments):
        first = sessions[after.begin]
        found.append(
            LevelChange(
                began=first.began,
                log_ratio=after.level - before.level,
                sessions=after.count,
                changes=first.changes_since(sessions[after.begin - 1]),
                reason=next((one.reason for one in accepted if one.explains(first.began)), ""),
            )
        )
    return tuple(found)
