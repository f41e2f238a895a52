"""Lines over time: the times and levels of each case, and how sessions ended.

A session that was made slower on purpose says nothing about a level, and neither do two interleaved
stacks of which none is locked.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from busbw.model.case import Case, converted
from busbw.model.stored import Session, merge_sessions
from busbw.model.words import Outcome, change_text, cut_short, plural
from busbw.stats.change_points import Change, find_changes
from busbw.stats.variance import Variance, moderate_variance, variance_from_differences

from .files import Acknowledged
from .lines import Line, Series, earlier, wrong_text

# Fewer cases do not show what they share.
_LEAST_CASES = 6

# A change is shared if this fraction of the cases changed.
_MOST = 2 / 3

# No time is known better than to a thousandth.
_LEAST_VARIANCE = 1e-6

# The noise of the other cases counts as this many sessions of a case.
_OTHERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChange:
    """A level that changed by `log_ratio` in log time with the session that began at `began`.

    `changes` are what changed in the stack, such as ``jaxlib 0.10.1 -> 0.10.2``. The new level has
    so many `sessions`. `reason` is that of the acknowledgement, empty without one.
    """

    began: datetime
    log_ratio: float
    sessions: int
    changes: tuple[str, ...]
    reason: str

    @property
    def text(self) -> str:
        """A text such as ``+8.13 % since 2026-03-04``."""
        sign = "+" if self.log_ratio > 0 else "-"
        return f"{sign}{change_text(math.expm1(self.log_ratio))} since {self.began:%Y-%m-%d}"

    @property
    def sentence(self) -> str:
        """The text, what changed in the stack, and the reason of the acknowledgement."""
        changes = ", ".join(self.changes) or "nothing that is known"
        accepted = f"; accepted: {self.reason}" if self.reason else ""
        sessions = plural(self.sessions, "session")
        return f"{self.text} ({sessions}); changed there: {changes}{accepted}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """The history of one case in one series, with its lines by the name of the session.

    `sessions` are oldest first, failed sessions included, without those that were made slower on
    purpose. `level_s` is the newest level, and `spread` the relative standard deviation of a
    session about it, less what all cases share; both are None without a time, and the spread is
    None for a single time. `outcomes` counts the verdicts, of sessions without a time, too.
    `baseline_date` is the date of the baseline that the newest session was compared with.
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
        """The median of the launches of each session in seconds, if it has a time."""
        times = ((name, line.time_s) for name, line in self.sessions.items())
        return {name: time_s for name, time_s in times if time_s is not None}

    @property
    def newest_s(self) -> float | None:
        return tuple(self.times_s.values())[-1] if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHistory:
    """The history of one machine: all cases, all lines, and the first line of each session.

    `sessions` are by the name of the session. `shared` are the changes that all cases of a series
    share.
    """

    folder: str
    lines: Sequence[Line]
    cases: tuple[CaseHistory, ...]
    sessions: Mapping[str, Line]
    shared: Mapping[Series, tuple[LevelChange, ...]]

    @property
    def outcomes(self) -> Mapping[str, int]:
        return Counter(line.session_outcome.value for line in self.sessions.values())


def machine_history(
    folder: str,
    lines: Sequence[Line],
    *,
    apart: timedelta = timedelta(0),
    acknowledged: Sequence[Acknowledged] = (),
) -> MachineHistory:
    """Return the history of one machine.

    Args:
        folder: The name of the machine.
        lines: Its lines, oldest first.
        apart: Sessions less than this apart count as one.
        acknowledged: The acknowledged changes.

    """
    by_series: dict[Series, dict[Case, list[Line]]] = {}
    first: dict[str, Line] = {}
    for line in lines:
        by_case = by_series.setdefault(Series.of_line(line), {})
        by_case.setdefault(line.case, []).append(line)
        # A reference was measured in a session of another series.
        if not line.is_reference:
            first.setdefault(line.session, line)
    sessions = {series: merge_sessions(earlier(lines, series), apart) for series in by_series}
    levels = {series: _levels(sessions[series]) for series in by_series}
    of_all = [change for change in acknowledged if change.case == "*"]
    return MachineHistory(
        folder=folder,
        lines=lines,
        cases=tuple(
            _case_history(
                case_lines,
                levels[series][0].get(case),
                sessions[series],
                [change for change in acknowledged if change.matches(case.name, folder)],
            )
            for series, by_case in by_series.items()
            for case, case_lines in by_case.items()
        ),
        sessions=first,
        shared={
            series: _level_changes(series.framework, shared, sessions[series], of_all)
            for series, (_, shared) in levels.items()
            if sessions[series]
        },
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Level:
    """The changes of a case alone by positions in all sessions, its newest level, and its noise."""

    changes: tuple[Change, ...]
    level_s: float
    spread: float | None


# Log times by position in the sessions.
_Logs = Mapping[int, float]


def _levels(sessions: Sequence[Session]) -> tuple[Mapping[Case, _Level], tuple[Change, ...]]:
    """Return the levels of the cases of a series, and the changes that most of them share.

    Log time = level + what most cases share + the residual of the case; levels change. The shared
    part is the median over cases. It changes where most cases changed with it; a change of a third
    of the sizes is a change of these.
    """
    logs: dict[Case, dict[int, float]] = {}
    for position, session in enumerate(sessions):
        for case, times_s in session.times_s.items():
            logs.setdefault(case, {})[position] = math.log(statistics.median(times_s))
    middle = {case: statistics.median(values.values()) for case, values in logs.items()}
    medians = {}
    for position in range(len(sessions)):
        shifts = [v[position] - middle[case] for case, v in logs.items() if position in v]
        if len(shifts) >= _LEAST_CASES:
            medians[position] = statistics.median(shifts)
    changes = _find_changes(medians, _variance(medians))
    # The shared part apart from its changes, in the sessions that show it.
    wander = _flatten(medians, changes)
    center = statistics.fmean(wander.values()) if wander else 0.0
    edges = [0, *(change.position for change in changes), len(sessions)]
    shared = tuple(
        change
        for change, first, last in zip(changes, edges, edges[2:])
        if _is_shared(change, first, last, logs.values())
    )
    residuals = {
        case: {
            position: value - wander.get(position, center) + center
            for position, value in _flatten(values, shared).items()
        }
        for case, values in logs.items()
    }
    return _case_levels(residuals, shared), shared


def _flatten(values: _Logs, changes: Sequence[Change]) -> dict[int, float]:
    """Return log times without `changes`."""
    return {
        position: value - math.fsum(change.size_at(position) for change in changes)
        for position, value in values.items()
    }


def _variance(values: _Logs) -> Variance | None:
    """Return the variance of a session, whatever the level does; None for a single session."""
    if len(values) < 2:
        return None
    variance = variance_from_differences(list(values.values()))
    return Variance(value=max(variance.value, _LEAST_VARIANCE), freedom=variance.freedom)


def _find_changes(values: _Logs, variance: Variance | None) -> tuple[Change, ...]:
    positions = list(values)
    changes = find_changes(list(values.values()), variance) if variance else ()
    return tuple(replace(change, position=positions[change.position]) for change in changes)


def _is_shared(change: Change, first: int, last: int, logs: Iterable[_Logs]) -> bool:
    """Return whether most cases changed with it, by nearly as much, from session `first` to `last`.

    A change from the first session on has nothing before it: then the values after it are flat if
    it is shared.
    """
    agree = []
    for log in logs:
        values = {position: value for position, value in log.items() if first <= position < last}
        if values and change.size_at(max(values)) != change.size_at(min(values)):
            flat = statistics.pvariance(_flatten(values, [change]).values())
            agree.append(flat < statistics.pvariance(values.values()))
    return sum(agree) >= _MOST * len(agree) > 0


def _case_levels(residuals: Mapping[Case, _Logs], shared: Sequence[Change]) -> dict[Case, _Level]:
    """Return the levels of cases from their residuals; other cases moderate the noise of a case."""
    variances = {case: _variance(values) for case, values in residuals.items()}
    of_all = [variance.value for variance in variances.values() if variance is not None]
    usual = statistics.median(of_all) if len(of_all) >= _LEAST_CASES else None
    levels = {}
    for case, values in residuals.items():
        variance = variances[case]
        if variance is not None and usual is not None:
            variance = moderate_variance(variance, Variance(value=usual, freedom=_OTHERS))
        changes = _find_changes(values, variance)
        last = max(values)
        level = statistics.fmean(_flatten(values, changes).values())
        level += math.fsum(change.size_at(last) for change in (*changes, *shared))
        spread = math.sqrt(variance.value) if variance is not None else None
        levels[case] = _Level(changes=changes, level_s=math.exp(level), spread=spread)
    return levels


def _case_history(
    lines: Sequence[Line],
    level: _Level | None,
    sessions: Sequence[Session],
    acknowledged: Sequence[Acknowledged],
) -> CaseHistory:
    case, changes = lines[-1].case, level.changes if level is not None else ()
    return converted(
        CaseHistory,
        level,
        case=case,
        series=Series.of_line(lines[-1]),
        outcomes=Counter(line.outcome for line in lines),
        baseline_date=lines[-1].baseline_date,
        sessions={line.session: line for line in lines if line.is_ordinary},
        changes=_level_changes(case.framework, changes, sessions, acknowledged),
    )


def _level_changes(
    framework: str,
    changes: Sequence[Change],
    sessions: Sequence[Session],
    acknowledged: Sequence[Acknowledged],
) -> tuple[LevelChange, ...]:
    """Return `changes` with the session with which each began, and what changed in the stack."""
    level_changes = []
    for change in changes:
        first, before = sessions[change.position], sessions[max(0, change.position - 1)]
        reasons = (
            acceptance.reason for acceptance in acknowledged if acceptance.explains(first.began)
        )
        level_changes.append(
            LevelChange(
                began=first.began,
                log_ratio=change.size,
                sessions=change.value_count,
                changes=first.changes_since(before, framework),
                reason=next(reasons, ""),
            )
        )
    return tuple(level_changes)


# More changes of levels are counted.
_MOST_CHANGES = 24


def change_texts(machine: MachineHistory) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what changed when, as sentences, each with the points of the list below it."""
    first, last = machine.lines[0].began, machine.lines[-1].began
    counts = ", ".join(f"{n} {outcome}" for outcome, n in Counter(machine.outcomes).most_common())
    span = f"{plural(len(machine.sessions), 'session')} from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    yield f"{machine.folder}: {span}: {counts}.", ()
    named = [(f"all cases of {series.text}", changes) for series, changes in machine.shared.items()]
    named += [(case.case.name, case.changes) for case in machine.cases]
    levels = [(part.began, f"{name}: {part.sentence}") for name, parts in named for part in parts]
    points = [text for _, text in sorted(levels, reverse=True)]
    heading = "Levels that changed, newest first:" if levels else "No level of a case changed."
    yield heading, cut_short(points, _MOST_CHANGES, "change")
    mismatches = [
        f"{case.case.name}: {text}"
        for case in machine.cases
        if (text := wrong_text(case.sessions.values()))
    ]
    if mismatches:
        yield "Wrong values:", mismatches
