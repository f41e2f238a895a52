"""Training steps beside the collectives in them: how much of a step is its all-reduce.

Takes what was measured in one session and puts it side by side; predicts and judges nothing.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model import Case, CaseKey, Measurement, Spec, Verdict, payload_text, seconds_text
from busbw.workloads import Collective, DenseStep

from .table import Column, Table, TextLine, explained, percent_text, rows_of

_COLUMNS = (
    Column("payload_bytes", "gradient", text=payload_text, width=8),
    Column("step_s", "step", text=seconds_text, width=10),
    Column("alone_s", "alone", text=seconds_text, width=10),
    Column("alone_share", "of step", unit="%", text=percent_text, width=10),
    Column("last_s", "last", text=seconds_text, width=10),
    Column("first_s", "first", text=seconds_text, width=10),
    Column("hidden_share", "hidden", unit="%", text=percent_text, width=10),
)

_EXPLAINED = (
    "alone: the all-reduce by itself. last, first: inside of the step, by the profiler, on the",
    "rank that came to it last, and on the one that came first and waits for the others.",
    "hidden: how much of it the rank computed meanwhile; empty where the recording does not tell",
)


def step_tables(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[Table]:
    """A table for each kind of step, with a row for each payload; without steps none."""
    alone_s = {
        one.case.key: one.now.median_s
        for one in verdicts
        if one.case is not None and one.now is not None and one.case.workload.is_bare
    }
    steps = [
        (one.case, one.now.median_s, measured.get(one.spec))
        for one in verdicts
        if one.case is not None and one.now is not None and isinstance(one.case.workload, DenseStep)
    ]
    tables = []
    for kind, alike in itertools.groupby(steps, key=lambda step: step[0].group_name):
        group = list(alike)
        rows = rows_of(
            _values(case, step_s, alone_s.get(_alone(case)), measurement)
            for case, step_s, measurement in group
        )
        title = TextLine(f"{kind}, {group[0][0].ranks} ranks:")
        tables.append(Table(title=title, columns=_COLUMNS, rows=rows))
    return explained(tables, _EXPLAINED)


def _alone(case: Case) -> CaseKey:
    """The key of the collective that the step holds, by itself."""
    return replace(case.key, workload=Collective.around(case.workload))


def _inside(measurement: Measurement | None) -> tuple[float | None, float | None]:
    """Medians over launches of the all-reduce on the rank that came last, and on the first."""
    runs = [run.over_ranks_s for run in measurement.runs if run.over_ranks_s] if measurement else []
    if not runs:
        return None, None
    # Nobody waits on the rank that comes last: its all-reduce is the shortest.
    last, first = ([run[name] for run in runs] for name in ("fastest", "slowest"))
    return statistics.median(last), statistics.median(first)


def _hidden_share(measurement: Measurement | None) -> float | None:
    """The median over launches of the share that computing hid, of those that know it."""
    runs = measurement.runs if measurement else ()
    shares = [run.hidden_share for run in runs if run.hidden_share is not None]
    return statistics.median(shares) if shares else None


def _values(
    case: Case, step_s: float, alone_s: float | None, measurement: Measurement | None
) -> dict[str, object]:
    last_s, first_s = _inside(measurement)
    return {
        "payload_bytes": case.payload_bytes,
        "step_s": step_s,
        "alone_s": alone_s,
        "alone_share": None if alone_s is None else alone_s / step_s,
        "last_s": last_s,
        "first_s": first_s,
        "hidden_share": _hidden_share(measurement),
    }
