"""The figures and the table of a machine's history: ratios as colours, and cases that changed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from busbw.history.failing import measured_outcome
from busbw.history.levels import CaseHistory, LevelChange, MachineHistory
from busbw.history.lines import Line
from busbw.model.field_types import moment_text
from busbw.model.words import Outcome, payload_text, plural, ratio_text, seconds_text
from busbw.report.table import Column, Table, TextLine
from busbw.report.table import Row as TableRow

from .figures import Curves, HeatMap, Row

# A case's first sessions, which the later ones are compared with.
_FIRST = 20
MOST_CASES = 12
_MOST_SESSIONS = 400
# Ends of bins, of which the first is taken whose middle bin holds the usual noise.
_EDGES = ((0.03, 0.06, 0.12, 0.25), (0.06, 0.12, 0.25, 0.5), (0.12, 0.25, 0.5, 1.0))
_WIDEST = (0.25, 0.5, 1.0, 2.0)
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LOST = (Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def heat_map(machine: MachineHistory) -> HeatMap:
    """Return the times of all cases over those of their first sessions."""
    moments = sorted({line.session: line.began for line in machine.lines}.values())
    moments = moments[-_MOST_SESSIONS:]
    spreads = [case.spread for case in machine.cases if case.spread is not None]
    spread = statistics.median(spreads) if spreads else 0.0
    edges = next((edges for edges in _EDGES if math.log1p(edges[0]) >= 2 * spread), _WIDEST)
    # As far below 1 as above.
    ends = [*(1 / (1 + edge) for edge in reversed(edges)), *(1 + edge for edge in edges)]
    between = [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(ends)]
    names = [f"below {ends[0]:.2f}", *between, f"above {ends[-1]:.2f}"]
    bins = dict(zip(names, [*ends, math.inf], strict=True))
    span = f"{moments[0]:%Y-%m-%d} to {moments[-1]:%Y-%m-%d}, {plural(len(moments), 'session')}"
    return HeatMap(
        title=f"{machine.folder}: time over that of the first {_FIRST} sessions",
        subtitle=f"{span}. A row is a case, a column a session: the median of its launches over "
        f"the median of the case's first {_FIRST} sessions.",
        rows=[row for case in _ordered(machine.cases) for row in _cells(case, moments, bins)],
        headings={
            "series": "cases",
            "row": "payload",
            "x": "from",
            "x2": "to",
            "y": "ratio",
            "word": "outcome",
        },
        bins=list(bins),
    )


def _ordered(cases: Sequence[CaseHistory]) -> list[CaseHistory]:
    return sorted(cases, key=lambda case: (_group(case), case.case.payload_bytes))


def _group(case: CaseHistory) -> str:
    series = f", {case.series.text}" if case.series.stack else ""
    return f"{case.case.family_name}{series}"


def _cells(
    case: CaseHistory, moments: Sequence[datetime], bins: Mapping[str, float]
) -> Iterator[Row]:
    """Yield a row for neighboring sessions that are alike, and none where nothing was measured.

    `bins` are the upper ends of the ranges of ratios by their names, the lowest first.
    """
    times_s = case.times_s
    first_s = statistics.median([*times_s.values()][:_FIRST] or [1.0])
    places = {moment: number for number, moment in enumerate(moments)}
    cells: dict[int, tuple[str, float | None]] = {}
    for session, line in case.sessions.items():
        number, outcome = places.get(line.began), measured_outcome(line)
        if number is not None and outcome in _LOST:
            cells[number] = outcome.value, None
        elif number is not None and session in times_s:
            cell = times_s[session] / first_s
            cells[number] = next(name for name, end in bins.items() if cell < end), cell
    # The last session is as wide as most others.
    gaps = sorted(after - before for before, after in itertools.pairwise(moments))
    columns = [*moments, moments[-1] + (gaps[len(gaps) // 2] if gaps else timedelta(days=1))]
    label = payload_text(case.case.payload_bytes)
    # Neighbors of one bin have numbers as far apart as their places.
    alike = itertools.groupby(
        enumerate(sorted(cells)), key=lambda pair: (cells[pair[1]][0], pair[1] - pair[0])
    )
    for (name, _), run in alike:
        numbers = [number for _, number in run]
        ratios = [ratio for number in numbers if (ratio := cells[number][1]) is not None]
        yield {
            "series": _group(case),
            "row": label,
            "x": moment_text(columns[numbers[0]]),
            "x2": moment_text(columns[numbers[-1] + 1]),
            "y": statistics.median(ratios) if ratios else None,
            "bin": name,
            "word": None if ratios else name,
        }


def _changes(machine: MachineHistory, case: CaseHistory) -> list[LevelChange]:
    """Return the changes of a case with those that all cases share, oldest first."""
    changes = [*case.changes, *machine.shared.get(case.series, ())]
    return sorted(changes, key=lambda change: change.began)


def changed_cases(machine: MachineHistory) -> list[CaseHistory]:
    """Return the cases without a newest time, then those that changed, by how much."""

    def size(case: CaseHistory) -> float:
        newest = list(case.sessions.values())[-1:]
        is_lost = any(measured_outcome(line) in _LOST for line in newest)
        sizes = [abs(change.log_ratio) for change in _changes(machine, case)]
        return math.inf if is_lost else max(sizes, default=0.0)

    return sorted(filter(size, machine.cases), key=size, reverse=True)


def case_history(machine: MachineHistory, case: CaseHistory) -> Curves:
    """Return the launches of one case with its levels. Raises ValueError without a session."""
    lines = [line for line in case.sessions.values() if measured_outcome(line)]
    if not lines:
        raise ValueError(f"{case.case.name}: there is no session")
    times = [time_us for line in lines for time_us in line.times_us]
    newest_s = times[-1] * 1e-6 if times else 0.0
    unit = next((unit for unit, size in _UNITS.items() if newest_s >= size), "us")
    changes = _changes(machine, case)
    span = f"{lines[0].began:%Y-%m-%d} to {lines[-1].began:%Y-%m-%d}"
    level = f" · newest level {seconds_text(case.level_s)}" if case.level_s else ""
    return Curves(
        title=f"{_group(case)}, {payload_text(case.case.payload_bytes)}: time by session",
        subtitle=f"{machine.folder} · {span}, {plural(len(lines), 'session')}{level}. Band: from "
        "the fastest to the slowest launch; dashed: the level.",
        rows=[
            _session_row(case, before, line, changes, _UNITS[unit])
            for before, line in itertools.pairwise([None, *lines])
            if line is not None
        ],
        headings={
            "x": "session",
            "y": f"time ({unit})",
            "reference": "level",
            "low": "fastest",
            "high": "slowest",
            "word": "change or outcome",
        },
        is_log=bool(times) and max(times) > 4 * min(times),
    )


def _session_row(
    case: CaseHistory,
    before: Line | None,
    line: Line,
    changes: Sequence[LevelChange],
    unit_s: float,
) -> Row:
    outcome, time_s = measured_outcome(line), line.time_s
    texts = [
        f"{change.text}: {', '.join(change.changes) or 'nothing that is known changed'}"
        for change in changes
        if before is not None and before.began < change.began <= line.began
    ]
    texts += [outcome.value] if outcome in _LOST else []
    times_s = [time_us * 1e-6 / unit_s for time_us in line.times_us]
    # The level at that time is the newest level without the changes that came later.
    later = math.fsum(change.log_ratio for change in changes if change.began > line.began)
    return {
        "series": case.case.name,
        "x": moment_text(line.began),
        "y": time_s and time_s / unit_s,
        "reference": case.level_s and case.level_s / math.exp(later) / unit_s,
        "low": min(times_s, default=None),
        "high": max(times_s, default=None),
        "word": "; ".join(texts) or None,
    }


_COLUMNS = (
    Column("case", "case", left_aligned=True),
    Column("sessions", "sessions"),
    Column("level_s", "level", text=seconds_text),
    Column("spread", "spread", unit="%", text=lambda share: f"{100 * share:.2g}"),
    Column("newest_s", "newest", text=seconds_text),
    Column("ratio", "vs first", text=ratio_text),
    Column("outcome", "outcome", left_aligned=True),
)


def cases_table(machine: MachineHistory) -> Table:
    """Return a row for each case, with its changes below it."""
    return Table(
        title=TextLine("All cases"),
        columns=_COLUMNS,
        rows=tuple(map(_case_row, _ordered(machine.cases))),
        notes=(f"vs first: the newest time over the median of the first {_FIRST} sessions",),
        missing="-",
    )


def _case_row(case: CaseHistory) -> TableRow:
    times_s = list(case.times_s.values())
    outcomes = [outcome for line in case.sessions.values() if (outcome := measured_outcome(line))]
    values = {
        "case": f"{case.case.name}, {case.series.text}" if case.series.stack else case.case.name,
        "sessions": len(times_s),
        "level_s": case.level_s,
        "spread": case.spread,
        "newest_s": times_s[-1] if times_s else None,
        "ratio": times_s[-1] / statistics.median(times_s[:_FIRST]) if times_s else None,
        "outcome": outcomes[-1].value if outcomes else None,
    }
    return TableRow(values, notes=tuple(TextLine(change.sentence) for change in case.changes))
