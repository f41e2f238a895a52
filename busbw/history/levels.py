"""The levels of cases over time, computed from the lines of the history.

A level is the time of a case between two changes. Two kinds of lines do not count, because their
times cannot be compared: lines of cases that were slowed down on purpose, and lines of a stack that
was interleaved with an unlocked stack.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from busbw.model.case import Case, dataclass_from
from busbw.model.stored import StoredSession, merge_sessions
from busbw.model.words import Outcome, change_text, plural
from busbw.stats.change_points import MeanChange, find_mean_changes
from busbw.stats.launches import Variance, pool_with_prior_variance, variance_from_differences

from .files import AcknowledgedChange, HistoryLine, SeriesKey, comparable_sessions

# With fewer cases, the median over cases does not show what they share.
_MIN_SHARED_CASE_COUNT = 6

# A change is shared if this fraction of the cases changed.
_SHARED_FRACTION = 2 / 3

# No time is known better than to 0.1 %, even if a few times are equal.
_MIN_VARIANCE = 1e-6

# The noise of a case is estimated from its own sessions and from the noise of other cases, which
# counts as this many sessions.
_USUAL_NOISE_DEGREES_OF_FREEDOM = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChange:
    """A change of the level of a case, or of most cases together.

    Attributes:
        began: When the first session with the new level began (UTC).
        log_ratio: The logarithm of the new level over the old level; above 0 if slower.
        session_count: The number of sessions with the new level.
        stack_changes: The changes of the stack from the session before to the first session with
            the new level, such as ``jaxlib 0.10.1 -> 0.10.2``.
        reason: The user's reason if the change is acknowledged, otherwise empty.

    """

    began: datetime
    log_ratio: float
    session_count: int
    stack_changes: tuple[str, ...]
    reason: str

    @property
    def text(self) -> str:
        """The size and date of the change, such as ``+8.13 % since 2026-03-04``."""
        sign = "+" if self.log_ratio > 0 else "-"
        return f"{sign}{change_text(math.expm1(self.log_ratio))} since {self.began:%Y-%m-%d}"

    @property
    def sentence(self) -> str:
        """The size and date of the change, the changes of the stack, and the reason, as text."""
        changes = ", ".join(self.stack_changes) or "nothing that is known"
        accepted = f"; accepted: {self.reason}" if self.reason else ""
        sessions = plural(self.session_count, "session")
        return f"{self.text} ({sessions}); changed there: {changes}{accepted}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """The history of a case in a series of sessions.

    Attributes:
        case: The case.
        series: The key of the series of sessions, whose times can be compared with each other.
        outcome_counts: The number of lines with each outcome.
        baseline_date: The date of the baseline with which the newest session was compared; empty
            without a baseline.
        lines_by_session: Maps the name of each session to the line of the case, oldest first,
            without lines whose times cannot be compared.
        level_s: The newest level in seconds; None without a time.
        relative_stddev: The standard deviation of a session around the level, divided by the level,
            without the shared part; None with fewer than two times.
        changes: The changes of the level of this case alone, without `shared_changes`.

    """

    case: Case
    series: SeriesKey
    outcome_counts: Mapping[Outcome, int]
    baseline_date: str
    lines_by_session: Mapping[str, HistoryLine]
    level_s: float | None = None
    relative_stddev: float | None = None
    changes: tuple[LevelChange, ...] = ()

    @property
    def times_s(self) -> dict[str, float]:
        """The median time of the launches in seconds, by the name of each session with times."""
        times = ((name, line.time_s) for name, line in self.lines_by_session.items())
        return {name: time_s for name, time_s in times if time_s is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHistory:
    """The history of a machine.

    Attributes:
        folder: The name of the machine: its folder below the folder of the history.
        lines: The lines of the machine, oldest first.
        cases: The history of each case in each series.
        first_lines: Maps the name of each session to its first line, which has the verdict and the
            date of the session.
        shared_changes: For each series, the changes of level that most cases share.

    """

    folder: str
    lines: Sequence[HistoryLine]
    cases: tuple[CaseHistory, ...]
    first_lines: Mapping[str, HistoryLine]
    shared_changes: Mapping[SeriesKey, tuple[LevelChange, ...]]

    @property
    def outcome_counts(self) -> Counter[str]:
        """The number of sessions with each main session outcome, such as ``{"PASS": 3}``."""
        return Counter(line.session_outcome.value for line in self.first_lines.values())


def build_machine_history(
    folder: str,
    lines: Sequence[HistoryLine],
    *,
    merge_within: timedelta = timedelta(0),
    acknowledged_changes: Sequence[AcknowledgedChange] = (),
) -> MachineHistory:
    """Build the history of one machine from the lines of its history files.

    Args:
        folder: The name of the machine: its folder below the folder of the history.
        lines: The lines of the machine, oldest first.
        merge_within: Sessions that began within this duration of each other count as one session.
        acknowledged_changes: The acknowledged changes. A change of a level that matches one of them
            gets its reason.

    """
    by_series: dict[SeriesKey, dict[Case, list[HistoryLine]]] = {}
    first: dict[str, HistoryLine] = {}
    for line in lines:
        by_case = by_series.setdefault(SeriesKey.of_line(line), {})
        by_case.setdefault(line.case, []).append(line)
        # The line of a reference is of the same session as the line that was compared with it.
        if not line.is_reference:
            first.setdefault(line.session, line)
    sessions = {
        series: merge_sessions(comparable_sessions(lines, series), merge_within)
        for series in by_series
    }
    levels = {series: _find_levels_and_shared_changes(sessions[series]) for series in by_series}
    of_all = [change for change in acknowledged_changes if change.case == "*"]
    return MachineHistory(
        folder=folder,
        lines=lines,
        cases=tuple(
            _build_case_history(
                case_lines,
                levels[series][0].get(case),
                sessions[series],
                [change for change in acknowledged_changes if change.matches(case.name, folder)],
            )
            for series, by_case in by_series.items()
            for case, case_lines in by_case.items()
        ),
        first_lines=first,
        shared_changes={
            series: _describe_changes(series.framework, shared, sessions[series], of_all)
            for series, (_, shared) in levels.items()
            if sessions[series]
        },
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _NewestLevel:
    """The newest level of a case, and the changes of the level.

    Attributes:
        changes: The changes of this case alone, as log ratios. Positions are indices of the
            sessions of the series.
        level_s: The newest level in seconds.
        relative_stddev: The standard deviation of a session around the level, divided by the level;
            None for a single session.

    """

    changes: tuple[MeanChange, ...]
    level_s: float
    relative_stddev: float | None


# Log times, or log ratios, by the position of the session in its series.
_LogTimesByPosition = Mapping[int, float]


def _find_levels_and_shared_changes(
    sessions: Sequence[StoredSession],
) -> tuple[Mapping[Case, _NewestLevel], tuple[MeanChange, ...]]:
    """Return the newest level of each case of a series, and the changes that most cases share.

    `sessions` are the sessions of the series, oldest first. A log time is the sum of three parts:
    the level of the case, the shared part of the session, and a residual. The shared part is the
    median, over the cases of a session, of the log time minus the usual log time of the case. This
    median can also jump because a few cases changed. So a jump is returned as a shared change only
    if most cases changed at that moment. Otherwise the jump belongs to the levels of single cases.
    """
    log_times: dict[Case, dict[int, float]] = {}
    for position, session in enumerate(sessions):
        for case, times_s in session.times_s.items():
            log_times.setdefault(case, {})[position] = math.log(statistics.median(times_s))
    middle = {case: statistics.median(values.values()) for case, values in log_times.items()}
    medians = {}
    for position in range(len(sessions)):
        shifts = [v[position] - middle[case] for case, v in log_times.items() if position in v]
        if len(shifts) >= _MIN_SHARED_CASE_COUNT:
            medians[position] = statistics.median(shifts)
    changes = _find_level_changes(medians, _session_variance(medians))
    # The shared part without its changes, in the sessions with enough cases to show it.
    shared_without_changes = _remove_level_changes(medians, changes)
    center = statistics.fmean(shared_without_changes.values()) if shared_without_changes else 0.0
    edges = [0, *(change.position for change in changes), len(sessions)]
    shared = tuple(
        change
        for change, first, last in zip(changes, edges, edges[2:])
        if _is_shared(change, first, last, log_times.values())
    )
    residuals = {
        case: {
            position: value - shared_without_changes.get(position, center) + center
            for position, value in _remove_level_changes(values, shared).items()
        }
        for case, values in log_times.items()
    }
    return _find_case_levels(residuals, shared), shared


def _remove_level_changes(
    log_times: _LogTimesByPosition, changes: Sequence[MeanChange]
) -> dict[int, float]:
    """Return `log_times` with all `changes` of the level subtracted.

    `log_times` and the result map the position of a session to its log time. A change is subtracted
    from the log times at its position and after it.
    """
    return {
        position: value - math.fsum(change.size_at(position) for change in changes)
        for position, value in log_times.items()
    }


def _session_variance(log_times: _LogTimesByPosition) -> Variance | None:
    """Return the variance of log times between sessions; None for fewer than two sessions.

    The variance is computed from successive differences, which changes of the level hardly enlarge.
    The result is at least _MIN_VARIANCE.
    """
    if len(log_times) < 2:
        return None
    variance = variance_from_differences(list(log_times.values()))
    return Variance(
        value=max(variance.value, _MIN_VARIANCE), degrees_of_freedom=variance.degrees_of_freedom
    )


def _find_level_changes(
    log_times: _LogTimesByPosition, variance: Variance | None
) -> tuple[MeanChange, ...]:
    """Find the changes of the level in `log_times`; return no changes if `variance` is None.

    The position of a change is the position of its session, a key of `log_times`. `variance` is the
    variance between sessions.
    """
    positions = list(log_times)
    changes = find_mean_changes(list(log_times.values()), variance) if variance else ()
    return tuple(replace(change, position=positions[change.position]) for change in changes)


def _is_shared(
    change: MeanChange,
    first_position: int,
    end_position: int,
    log_times: Iterable[_LogTimesByPosition],
) -> bool:
    """Return whether most cases have the change `change`.

    A case has the change if its log times vary less after the change is subtracted. Cases without
    sessions on both sides of the change do not count.

    Args:
        change: A change of the median over cases.
        first_position: The position of the first session to use.
        end_position: The position after the last session to use.
        log_times: The log times of each case.

    """
    agree = []
    for times in log_times:
        values = {
            position: value
            for position, value in times.items()
            if first_position <= position < end_position
        }
        if values and change.size_at(max(values)) != change.size_at(min(values)):
            flat = statistics.pvariance(_remove_level_changes(values, [change]).values())
            agree.append(flat < statistics.pvariance(values.values()))
    return sum(agree) >= _SHARED_FRACTION * len(agree) > 0


def _find_case_levels(
    residuals: Mapping[Case, _LogTimesByPosition], shared_changes: Sequence[MeanChange]
) -> dict[Case, _NewestLevel]:
    """Compute the newest level of each case, and the changes of the level of this case alone.

    The noise of a case is estimated from its own sessions and from the noise of the other cases.

    Args:
        residuals: The log times of each case, without the shared part and its changes.
        shared_changes: The changes that most cases share, which are added to the levels.

    """
    variances = {case: _session_variance(values) for case, values in residuals.items()}
    of_all = [variance.value for variance in variances.values() if variance is not None]
    usual = statistics.median(of_all) if len(of_all) >= _MIN_SHARED_CASE_COUNT else None
    levels = {}
    for case, values in residuals.items():
        variance = variances[case]
        if variance is not None and usual is not None:
            variance = pool_with_prior_variance(
                variance, Variance(value=usual, degrees_of_freedom=_USUAL_NOISE_DEGREES_OF_FREEDOM)
            )
        changes = _find_level_changes(values, variance)
        last = max(values)
        level = statistics.fmean(_remove_level_changes(values, changes).values())
        level += math.fsum(change.size_at(last) for change in (*changes, *shared_changes))
        relative_stddev = math.sqrt(variance.value) if variance is not None else None
        levels[case] = _NewestLevel(
            changes=changes, level_s=math.exp(level), relative_stddev=relative_stddev
        )
    return levels


def _build_case_history(
    lines: Sequence[HistoryLine],
    level: _NewestLevel | None,
    sessions: Sequence[StoredSession],
    acknowledged_changes: Sequence[AcknowledgedChange],
) -> CaseHistory:
    """Return the history of a case, given its lines, its level, and the sessions of its series.

    `level` is None if the case has no time that can be compared. All `acknowledged_changes` are
    changes of this case.
    """
    case, changes = lines[-1].case, level.changes if level is not None else ()
    return dataclass_from(
        CaseHistory,
        level,
        case=case,
        series=SeriesKey.of_line(lines[-1]),
        outcome_counts=Counter(line.outcome for line in lines),
        baseline_date=lines[-1].baseline_date,
        lines_by_session={line.session: line for line in lines if line.is_comparable},
        changes=_describe_changes(case.framework, changes, sessions, acknowledged_changes),
    )


def _describe_changes(
    framework: str,
    change_points: Sequence[MeanChange],
    sessions: Sequence[StoredSession],
    acknowledged_changes: Sequence[AcknowledgedChange],
) -> tuple[LevelChange, ...]:
    """Return a LevelChange for each of `change_points`, with date, size and changes of the stack.

    The position of a change point is an index of `sessions`, and its size is a log ratio.
    `acknowledged_changes` contain the user's reasons for some of the changes.
    """
    level_changes = []
    for change in change_points:
        first, before = sessions[change.position], sessions[max(0, change.position - 1)]
        reasons = (
            acceptance.reason
            for acceptance in acknowledged_changes
            if acceptance.explains(first.began)
        )
        level_changes.append(
            LevelChange(
                began=first.began,
                log_ratio=change.size,
                session_count=change.value_count,
                stack_changes=first.setup_changes_since(before, framework),
                reason=next(reasons, ""),
            )
        )
    return tuple(level_changes)
