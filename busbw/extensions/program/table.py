"""A table of a program's collectives, with the bytes that a step moves below it."""

from __future__ import annotations

from busbw.collectives import COLLECTIVES
from busbw.model.words import bytes_text, payload_text, plural
from busbw.report.table import Column, Table, rows_of

from .worker_values import CollectiveUse, CollectiveUses

_COLUMNS = (
    Column("kind", "collective", left_aligned=True, is_fitted_to_cells=True),
    Column("dtype", "dtype", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("payload_bytes", "payload", text=payload_text, is_fitted_to_cells=True),
    Column("where", "over", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("times", "runs", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("traffic_bytes", "traffic", text=bytes_text, is_fitted_to_cells=True),
    Column("started", "start to end", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("source", "source", left_aligned=True, gap=2),
)


def collectives_table(uses: CollectiveUses) -> Table:
    """Return a table with a row for each collective, and a note on the bytes that a step moves."""
    return Table(
        columns=_COLUMNS,
        rows=rows_of(
            {
                "kind": use.kind.replace("_", "-"),
                "dtype": use.dtype,
                "payload_bytes": use.payload_bytes,
                "where": _groups_text(use),
                "times": use.times_text,
                "traffic_bytes": traffic_bytes(use),
                "started": f"asynchronous, {plural(use.hidden_by, 'operation')} between"
                if use.is_asynchronous
                else "synchronous",
                "source": use.source or None,
            }
            for use in uses
        ),
        notes=(_traffic_note(uses),),
        indent=4,
    )


def traffic_bytes(use: CollectiveUse) -> int | None:
    """Return the bytes that each rank sends in a step if the collective runs as a ring.

    They are payload x busbw factor x runs per step. Returns None if busbw does not support the
    collective, if its groups are unknown, or if its number of runs per step depends on data.
    """
    if use.ranks == 1:
        return 0
    collective = COLLECTIVES.get(use.kind)
    if collective is None or use.per_iteration or not use.ranks:
        return None
    return round(use.payload_bytes * collective.bus_factor(use.ranks) * use.times)


def _groups_text(use: CollectiveUse) -> str:
    if use.axes:
        return f"{use.axes} ({use.ranks})"
    return f"groups of {use.ranks}" if use.ranks else "unknown groups"


def _traffic_note(uses: CollectiveUses) -> str:
    """Return a sentence with the bytes that a step moves, in all collectives together."""
    traffics = [traffic for traffic in map(traffic_bytes, uses) if traffic is not None]
    counted = [use for use in uses if not use.per_iteration]
    payloads = sum(use.payload_bytes * use.times for use in counted if use.ranks != 1)
    most = "at most " if any(use.at_most and use.ranks != 1 for use in counted) else ""
    return (
        f"a step: {most}{bytes_text(payloads)} of payloads, {bytes_text(sum(traffics))} over each "
        "rank's link in rings"
        + ("; without the collectives per iteration" if len(counted) < len(uses) else "")
    )
