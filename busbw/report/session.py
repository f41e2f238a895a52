"""All tables of a session, in the order in which they are read: measured, interrupted, written."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw import metrics
from busbw.model import (
    Baseline,
    Case,
    Measurement,
    Spec,
    Summary,
    Verdict,
    payload_text,
    seconds_text,
)

from .curve import CurveGroup, curve_tables
from .strategies import strategy_tables
from .table import Column, Table, TextLine, attributes, rows_of
from .training import step_tables
from .verdicts import verdict_tables

_MEASURED = (
    Column("case", width=48, left=True),
    Column("median_s", text=seconds_text, width=10),
    Column("algbw_gb_per_s", text="algbw {:.4g} GB/s,".format, gap=2),
    Column("busbw_gb_per_s", text="busbw {:.4g} GB/s".format),
    Column("launches", text="({} launches)".format, gap=2),
)
_CHANGES = (
    Column("case", width=16, left=True),
    Column("before", left=True),
    Column("after", text="-> {}".format, left=True),
)


def session_tables(
    verdicts: Sequence[Verdict],
    measured: Mapping[Spec, Measurement],
    curves: Sequence[CurveGroup] = (),
) -> list[Table]:
    """The verdicts, then training of each kind, then curves; what was not measured has no table."""
    return [
        *verdict_tables(verdicts),
        *step_tables(verdicts, measured),
        *strategy_tables(verdicts, measured),
        *curve_tables(curves),
    ]


def measured_table(found: Sequence[tuple[Case, Summary]], launches: int) -> Table:
    """What an interrupted session had measured by then; nothing of it is judged."""
    return Table(
        columns=_MEASURED,
        rows=rows_of(
            {
                "case": case.name,
                "launches": f"{len(now.times_s)} of {launches}",
                **attributes(now, "median_s", "algbw_gb_per_s", "busbw_gb_per_s"),
            }
            for case, now in found
        ),
        notes=() if found else ("nothing was measured before the interrupt",),
    )


def change_tables(
    changes: Sequence[tuple[str, Case, Baseline | None, Baseline | None]],
) -> list[Table]:
    """A table for each file; None: there was none, or there is none any more."""
    return [
        Table(
            title=TextLine(f"baselines written: {path}"),
            columns=_CHANGES,
            rows=rows_of(_values(case, before, after) for _, case, before, after in group),
            indent=4,
        )
        for path, group in itertools.groupby(changes, key=lambda change: change[0])
    ]


def _values(case: Case, before: Baseline | None, after: Baseline | None) -> dict[str, object]:
    return {
        "case": f"{case.dtype} {payload_text(case.payload_bytes)}",
        "before": _baseline_text(case, before),
        "after": _baseline_text(case, after),
    }


def _baseline_text(case: Case, baseline: Baseline | None) -> str:
    if baseline is None:
        return "none"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    bare = case.workload.is_bare
    rate = f"{metrics.busbw_gb_per_s(case, level_s):.4g} GB/s busbw, " if bare else ""
    counts = f"{len(baseline.times_s)} launches of {len(baseline.sessions)} sessions"
    pin = f"pinned {seconds_text(pinned_s)}"
    return f"{seconds_text(level_s)} ({rate}{counts}, {pin})"
