"""Times from recordings, as a table and as a document.

The table has a row for each payload and a column for each slice, as the published one for TPU v2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import metrics, wire
from busbw.collectives import COLLECTIVES
from busbw.model.words import payload_text, seconds_text
from busbw.traces.iterations import Iteration

from .renderers import rendered
from .table import Column, Table, TextLine, attributes, rows_of

TRACE_SCHEMA = 2
RATES = ("algbw", "busbw")


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Quantiles over iterations, in seconds."""

    median_s: float
    min_s: float
    p25_s: float
    p90_s: float
    mean_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceCell:
    """One payload on one slice: the slowest rank of each iteration, and each device by itself.

    `ranks` are those of one group, `all_ranks` of all groups, None if unknown. `recorded` has, for
    each device, how many collectives it recorded, and their seconds in all.
    """

    collective: str
    payload_bytes: int
    slice: str
    ranks: int
    all_ranks: int | None
    recorded: Mapping[str, tuple[int, float]]
    slowest: Times
    devices: Mapping[str, Times]
    iterations: Sequence[Iteration]
    folders: Sequence[str]

    def gb_per_s(self, rate: str) -> float:
        """Algbw or busbw in GB/s, of the median."""
        algbw = metrics.algbw_gb_per_s(self.payload_bytes, self.slowest.median_s)
        factor = metrics.bus_factor_of(self.collective, self.ranks) if rate == "busbw" else 1.0
        return algbw * factor


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """Collectives of one session whose kind is unknown; seconds over all devices."""

    folder: str
    count: int
    total_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What could not be read, and why."""

    path: str
    text: str


def trace_lines(cells: Sequence[TraceCell], *, rate: str, missing: str = "") -> list[str]:
    lines: list[str] = []
    for collective in dict.fromkeys(cell.collective for cell in cells):
        of_kind = [cell for cell in cells if cell.collective == collective]
        lines += ["", *rendered("markdown", _table(of_kind, rate, missing))]
    return lines[1:]


def _table(cells: Sequence[TraceCell], rate: str, missing: str) -> Table:
    collective = cells[0].collective
    slices = sorted({cell.slice for cell in cells}, key=_natural)
    found = {(cell.payload_bytes, cell.slice): cell.gb_per_s(rate) for cell in cells}
    payloads = sorted({cell.payload_bytes for cell in cells})
    rates = [Column(f"{one} GB/s", one, unit="GB/s", text="{:.4g}".format) for one in slices]
    return Table(
        title=TextLine(f"{collective}, {_meaning(rate, collective)}"),
        columns=(Column("payload_bytes", "payload", text=payload_text), *rates),
        rows=rows_of(
            {"payload_bytes": size, **{f"{one} GB/s": found.get((size, one)) for one in slices}}
            for size in payloads
        ),
        notes=tuple(_note(name, cells) for name in slices),
        missing=missing,
    )


def _meaning(rate: str, collective: str) -> str:
    factor = COLLECTIVES[collective].bus_factor_text if rate == "busbw" else ""
    formula = f"payload / time x {factor}" if factor else "payload / time"
    return f"{rate} = {formula}, GB = 10^9 bytes; the median over iterations of the slowest rank"


def _natural(text: str) -> list[tuple[int, str]]:
    """v2-8 before v2-32."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]


def _note(name: str, cells: Sequence[TraceCell]) -> str:
    column = [cell for cell in cells if cell.slice == name]
    devices = _range([len(cell.devices) for cell in column], "device")
    ranks = _range([cell.ranks for cell in column], "rank")
    counted = _range([len(cell.iterations) for cell in column], "iteration")
    times = _times_text([cell.slowest.median_s for cell in column])
    recorded = _span([count for cell in column for count, _ in cell.recorded.values()])
    in_all = _times_text([max(all_s for _, all_s in cell.recorded.values()) for cell in column])
    return (
        f"{name}: {counted}, warm-up left out, on {devices} ({ranks}); {times}; "
        f"{recorded} recorded on each, {in_all} in all"
    )


def _times_text(times_s: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(seconds_text(end(times_s)) for end in (min, max)))


def _range(counts: Sequence[int], unit: str) -> str:
    return f"{_span(counts)} {unit}{'' if max(counts) == 1 else 's'}"


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def trace_document(
    cells: Sequence[TraceCell],
    *,
    files: Sequence[str],
    problems: Sequence[Problem],
    warnings: Sequence[str],
    unknown: Sequence[Unknown],
) -> dict[str, object]:
    return {
        "schema_version": TRACE_SCHEMA,
        "cells": [_cell(cell) for cell in cells],
        "files": list(files),
        "problems": [wire.to_json(one) for one in problems],
        "warnings": list(warnings),
        "unknown": [wire.to_json(one) for one in unknown],
    }


def _cell(cell: TraceCell) -> dict[str, object]:
    return {
        "collective": cell.collective,
        "payload": payload_text(cell.payload_bytes),
        **attributes(cell, "payload_bytes", "slice", "ranks", "all_ranks"),
        "recorded": {
            rank: {"count": count, "total_s": total_s}
            for rank, (count, total_s) in cell.recorded.items()
        },
        **{f"{rate}_gb_per_s": cell.gb_per_s(rate) for rate in RATES},
        "slowest_rank": wire.to_json(cell.slowest),
        "devices": {name: wire.to_json(times) for name, times in cell.devices.items()},
        "iterations": [
            {
                **attributes(one, "call", "index", "slowest_s", "fastest_s", "mean_s"),
                "durations_s": dict(one.durations_s),
            }
            for one in cell.iterations
        ],
        "folders": list(cell.folders),
    }
