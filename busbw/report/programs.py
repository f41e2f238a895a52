"""The collectives of a program as a table: a row for each that differs, the largest first."""

from __future__ import annotations

from busbw.collectives import COLLECTIVES
from busbw.model.program import Use, Uses
from busbw.model.words import bytes_text, payload_text, plural

from .table import Column, Table, rows_of

_COLUMNS = (
    Column("kind", "collective", left_aligned=True, fits=True),
    Column("dtype", "dtype", left_aligned=True, fits=True, gap=2),
    Column("payload_bytes", "payload", text=payload_text, fits=True),
    Column("where", "over", left_aligned=True, fits=True, gap=2),
    Column("times", "runs", left_aligned=True, fits=True, gap=2),
    Column("traffic_bytes", "traffic", text=bytes_text, fits=True),
    Column("started", "start to end", left_aligned=True, fits=True, gap=2),
    Column("source", "source", left_aligned=True, gap=2),
)


def program_table(uses: Uses) -> Table:
    rows = rows_of(
        {
            "kind": one.kind.replace("_", "-"),
            "dtype": one.dtype,
            "payload_bytes": one.payload_bytes,
            "where": _over(one),
            "times": one.times_text(one.times),
            "traffic_bytes": traffic_bytes(one),
            "started": _started(one),
            "source": one.source or None,
        }
        for one in uses
    )
    return Table(columns=_COLUMNS, rows=rows, notes=_notes(uses), indent=4)


def traffic_bytes(use: Use) -> int | None:
    """Return what a ring sends over each rank's link in a step: payload x busbw factor x runs.

    Return None for a collective that has no factor or unknown groups, and for one of which nobody
    knows how often it runs.
    """
    if use.ranks == 1:
        return 0
    one = COLLECTIVES.get(use.kind)
    if one is None or use.per_iteration or not use.ranks:
        return None
    return round(use.payload_bytes * one.bus_factor(use.ranks) * use.times)


def _over(use: Use) -> str:
    if use.axes:
        return f"{use.axes} ({use.ranks})"
    return f"groups of {use.ranks}" if use.ranks else "unknown groups"


def _started(use: Use) -> str:
    if not use.asynchronous:
        return "synchronous"
    return f"asynchronous, {plural(use.hidden_by, 'operation')} between"


def _notes(uses: Uses) -> tuple[str, ...]:
    known = [one for one in map(traffic_bytes, uses) if one is not None]
    counted = [one for one in uses if not one.per_iteration and one.ranks != 1]
    moved = sum(one.payload_bytes * one.times for one in counted)
    most = "at most " if any(one.at_most for one in counted) else ""
    step = (
        f"a step: {most}{bytes_text(moved)} of payloads, {bytes_text(sum(known))} over each "
        "rank's link in rings"
    )
    alone = sum(use.ranks == 1 for use in uses)
    return step, *([f"groups of one rank move nothing: {plural(alone, 'row')}"] if alone else [])
