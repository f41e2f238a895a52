"""The charts of a machine's history: a heat map of ratios, and changed cases."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from busbw.history.files import HistoryLine
from busbw.history.levels import CaseHistory, LevelChange, MachineHistory
from busbw.history.texts import measured_outcome
from busbw.model.field_types import moment_text
from busbw.model.words import Outcome, payload_text, plural, seconds_text

from .charts import ChartRow, CurveChart, HeatMap

# Each session of a case is compared with the case's first sessions, which are this many.
_FIRST_SESSION_COUNT = 20
MAX_CASE_CHARTS = 12
_MAX_SESSIONS = 400
# Edges of the ranges of ratios, as differences from 1. A heat map uses the first edges whose middle
# range holds the usual noise, or else the last edges.
_RATIO_EDGES = (
    *((0.03, 0.06, 0.12, 0.25), (0.06, 0.12, 0.25, 0.5), (0.12, 0.25, 0.5, 1.0)),
    (0.25, 0.5, 1.0, 2.0),
)
_UNTIMED_OUTCOMES = (Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def heat_map(machine: MachineHistory) -> HeatMap:
    """Return a heat map of a machine, with a line for each case and a cell for each session.

    Only the newest 400 sessions are shown. The color of a cell shows the time in the session
    divided by the median time of the case's first 20 sessions.
    """
    began_by_session = {line.session: line.began for line in machine.lines}
    moments = sorted(began_by_session.values())[-_MAX_SESSIONS:]
    spreads = [case.relative_stddev for case in machine.cases if case.relative_stddev is not None]
    spread = statistics.median(spreads) if spreads else 0.0
    edges = next(
        (edges for edges in _RATIO_EDGES if math.log1p(edges[0]) >= 2 * spread), _RATIO_EDGES[-1]
    )
    # A case that is twice as fast gets as strong a color as a case that is twice as slow.
    ends = [*(1 / (1 + edge) for edge in reversed(edges)), *(1 + edge for edge in edges)]
    between = [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(ends)]
    names = [f"below {ends[0]:.2f}", *between, f"above {ends[-1]:.2f}"]
    bins = dict(zip(names, [*ends, math.inf], strict=True))
    span = f"{moments[0]:%Y-%m-%d} to {moments[-1]:%Y-%m-%d}, {plural(len(moments), 'session')}"
    return HeatMap(
        title=f"{machine.folder}: time over that of the first {_FIRST_SESSION_COUNT} sessions",
        subtitle=f"{span}. A row is a case, a column a session: the median of its launches over "
        f"the median of the case's first {_FIRST_SESSION_COUNT} sessions.",
        y_title="ratio",
        rows=[
            row
            for case in sorted(
                machine.cases, key=lambda case: (_family_title(case), case.case.payload_bytes)
            )
            for row in _merged_heat_map_cells(case, moments, bins)
        ],
        bins=list(bins),
    )


def _family_title(case: CaseHistory) -> str:
    """Return the name of a case's family, such as ``jax all_reduce (psum), bfloat16``.

    If the series of the case is interleaved with a reference, the title also has the series.
    """
    family = case.case.family_name
    return f"{family}, {case.series.text}" if case.series.stack else family


def _merged_heat_map_cells(
    case: CaseHistory, session_starts: Sequence[datetime], upper_ratio_by_bin: Mapping[str, float]
) -> Iterator[ChartRow]:
    """Yield the cells of a case in the heat map, as rows of a HeatMap.

    A ratio is the time in a session divided by the median time of the case's first 20 sessions.
    Successive sessions whose ratios are in the same range share a cell. Successive sessions with
    the same outcome and without a time share a cell, too. A session that did not measure the case
    has no cell.

    Args:
        case: The history of the case.
        session_starts: When each shown session of the machine began, oldest first.
        upper_ratio_by_bin: Maps the name of each range of ratios to its upper end, the lowest range
            first.

    """
    times_s = case.times_s
    first_s = statistics.median([*times_s.values()][:_FIRST_SESSION_COUNT] or [1.0])
    places = {moment: number for number, moment in enumerate(session_starts)}
    cells: dict[int, tuple[str, float | None]] = {}
    for session, line in case.lines_by_session.items():
        number = places.get(line.began)
        outcome = measured_outcome(line)
        if number is not None and outcome in _UNTIMED_OUTCOMES:
            cells[number] = outcome.value, None
        elif number is not None and session in times_s:
            ratio = times_s[session] / first_s
            cells[number] = (
                next(name for name, end in upper_ratio_by_bin.items() if ratio < end),
                ratio,
            )
    # A cell ends where the next session begins. After the last session the median gap is used.
    gaps = [after - before for before, after in itertools.pairwise(session_starts)]
    last_end = session_starts[-1] + statistics.median_high(gaps or [timedelta(days=1)])
    edges = [*session_starts, last_end]
    label = payload_text(case.case.payload_bytes)
    # As long as sessions of a bin are neighbors, position and session number grow alike.
    neighbors = itertools.groupby(
        enumerate(sorted(cells)), key=lambda pair: (cells[pair[1]][0], pair[1] - pair[0])
    )
    for (name, _), pairs in neighbors:
        numbers = [number for _, number in pairs]
        ratios = [ratio for _, ratio in map(cells.__getitem__, numbers) if ratio is not None]
        yield {
            "series": _family_title(case),
            "row": label,
            "x": moment_text(edges[numbers[0]]),
            "x2": moment_text(edges[numbers[-1] + 1]),
            "y": statistics.median(ratios) if ratios else None,
            "bin": name,
            "remark": None if ratios else name,
        }


def _level_changes(machine: MachineHistory, case: CaseHistory) -> list[LevelChange]:
    """Return the changes of a case's level, oldest first.

    The list includes the changes that most cases of the case's series have in common.
    """
    shared = machine.shared_changes.get(case.series, ())
    return sorted([*case.changes, *shared], key=lambda change: change.began)


def measured_cases(machine: MachineHistory) -> list[CaseHistory]:
    """Return the cases of a machine that at least one session measured or failed to measure."""
    return [
        case
        for case in machine.cases
        if any(measured_outcome(line) for line in case.lines_by_session.values())
    ]


def untimed_or_changed_cases(machine: MachineHistory) -> list[CaseHistory]:
    """Return the failed cases, then the cases whose level changed, the largest change first.

    A case failed if its outcome in its newest session is FAILED or OUT_OF_MEMORY. Cases that
    neither failed nor changed are left out.
    """

    def largest_change(case: CaseHistory) -> float:
        newest = list(case.lines_by_session.values())[-1:]
        is_untimed = any(measured_outcome(line) in _UNTIMED_OUTCOMES for line in newest)
        sizes = [abs(change.log_ratio) for change in _level_changes(machine, case)]
        return math.inf if is_untimed else max(sizes, default=0.0)

    return sorted(filter(largest_change, measured_cases(machine)), key=largest_change, reverse=True)


def case_history_chart(machine: MachineHistory, case: CaseHistory) -> CurveChart:
    """Return a chart of a case's time in each session, with its level and the changes of level.

    The case must be one of the `measured_cases` of the machine.
    """
    lines = [line for line in case.lines_by_session.values() if measured_outcome(line)]
    changes = _level_changes(machine, case)
    span = f"{lines[0].began:%Y-%m-%d} to {lines[-1].began:%Y-%m-%d}"
    level = f" · newest level {seconds_text(case.level_s)}" if case.level_s else ""
    return CurveChart(
        title=f"{_family_title(case)}, {payload_text(case.case.payload_bytes)}: time by session",
        subtitle=f"{machine.folder} · {span}, {plural(len(lines), 'session')}{level}. Band: from "
        "the fastest to the slowest launch; dashed: the level.",
        y_title="time (us)",
        rows=[
            _session_row(case, previous_line, line, changes)
            for previous_line, line in itertools.pairwise([None, *lines])
            if line is not None
        ],
        is_over_sessions=True,
    )


def _session_row(
    case: CaseHistory,
    previous_line: HistoryLine | None,
    line: HistoryLine,
    changes: Sequence[LevelChange],
) -> ChartRow:
    """Return the row for a session in the chart of a case, with times in microseconds.

    Args:
        case: The history of the case.
        previous_line: What the history has about the case in the previous session; None for the
            first session.
        line: What the history has about the case in this session.
        changes: All changes of the case's level.

    """
    outcome = measured_outcome(line)
    texts = [
        f"{change.text}: {', '.join(change.stack_changes) or 'nothing that is known changed'}"
        for change in changes
        if previous_line is not None and previous_line.began < change.began <= line.began
    ]
    texts += [outcome.value] if outcome in _UNTIMED_OUTCOMES else []
    # The level at the time of this session is the newest level without all later changes.
    later = math.fsum(change.log_ratio for change in changes if change.began > line.began)
    return {
        "series": case.case.name,
        "x": moment_text(line.began),
        "y": statistics.median(line.times_us) if line.times_us else None,
        "reference": case.level_s and case.level_s / math.exp(later) * 1e6,
        "low": min(line.times_us, default=None),
        "high": max(line.times_us, default=None),
        "remark": "; ".join(texts) or None,
    }
