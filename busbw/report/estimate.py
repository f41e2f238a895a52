"""What a step should cost, as a table and a document; the figure is in `estimate_figure`.

Takes what was worked out elsewhere, works out nothing. MB is 10^6 bytes here, as the rates of links
are stated; sizes and rates of the document are bytes, and its times seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.model import plural, seconds_text

from .renderers import rendered
from .table import Column, Table, rows_of

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """One method at one placement.

    `traffic_bytes` is what the busiest rank sends, and what it takes; `server_bytes` the same of
    a parameter server; `steps` how many messages follow each other. `step_s` and what follows from
    it are None where the computing's time is not known. `wanted_bytes_per_s` is the bandwidth that
    the bottleneck needs for the wanted efficiency; None where none suffices or none was asked for.
    `to_hide_bytes_per_s` moves what a rank sends and takes in the computing's time.
    `rule_of_thumb_s` is what a rule says of the communication. `how` a curve was read.
    """

    method: str
    ranks: int
    hosts: int
    traffic_bytes: float
    communication_s: float
    bottleneck: str
    server_bytes: float | None = None
    steps: int | None = None
    step_s: float | None = None
    efficiency: float | None = None
    wanted_bytes_per_s: float | None = None
    to_hide_bytes_per_s: float | None = None
    rule_of_thumb_s: float | None = None
    how: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkUsed:
    """One level's link, one direction."""

    level: str
    name: str
    bytes_per_s: float
    latency_s: float
    full_duplex: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was estimated, for the head. `buckets` is 0 where all goes at once."""

    name: str
    payload_bytes: float
    parameters: int | None
    dtype: str
    buckets: int
    compute_s: float | None
    overlap: float
    wanted_efficiency: float | None
    links: tuple[LinkUsed, ...]
    memory_bytes_per_parameter: Mapping[str, int]
    notes: tuple[str, ...]


def estimate_document(asked: Asked, rows: Sequence[Estimated]) -> dict[str, Any]:
    """Plain dicts, lists, strings, numbers and None; the unit is in the name."""
    head = dataclasses.asdict(asked)
    return {"schema": SCHEMA, **head, "estimates": [dataclasses.asdict(row) for row in rows]}


def estimate_lines(asked: Asked, rows: Sequence[Estimated]) -> list[str]:
    """The head, a table with a line for each row, and the notes."""
    lines = [*_head(asked), "", *rendered("text", _table(rows, asked.wanted_efficiency))]
    return lines + ([""] if asked.notes else []) + [f"note: {note}" for note in asked.notes]


def _table(rows: Sequence[Estimated], wanted: float | None) -> Table:
    last = "bottleneck" if wanted is None else f"bottleneck, and what it needs for {wanted:g}"
    return Table(
        columns=(
            Column("method", "method", width=34, left=True),
            Column("hosts", "hosts", width=7),
            Column("traffic_bytes", "MB a rank", text=mb_text, width=11),
            Column("communication_s", "communication", text=seconds_text, width=13),
            Column("step_s", "step", text=seconds_text, width=10),
            Column("efficiency", "efficiency", text="{:.4f}".format, width=10),
            Column("bottleneck", last, left=True, gap=2),
        ),
        rows=rows_of(_values(row, wanted=wanted is not None) for row in rows),
    )


def mb_text(count: float) -> str:
    """Bytes in MB (10^6): two decimals, or three digits where there is less than one MB."""
    return f"{count / 1e6:.2f}" if count >= 1e6 else f"{count / 1e6:.3g}"


def _head(asked: Asked) -> list[str]:
    what = f"{asked.name}: {mb_text(asked.payload_bytes)} MB of gradients"
    if asked.parameters is not None:
        what += f", {asked.parameters} parameters in {asked.dtype}"
    if asked.buckets:
        what += f", in {plural(asked.buckets, 'bucket')}"
    lines = [what + "; MB is 10^6 bytes, a rank sends and takes as much"]
    if asked.compute_s is not None:
        shared = f", {100 * asked.overlap:g} % of it beside communication" if asked.overlap else ""
        lines.append(f"computing: {seconds_text(asked.compute_s)} a step{shared}")
    if asked.parameters is not None and asked.memory_bytes_per_parameter:
        kept = ", ".join(
            f"{name} {count} ({count * asked.parameters / 1e9:.2f} GB)"
            for name, count in asked.memory_bytes_per_parameter.items()
        )
        lines.append(f"memory, bytes a parameter for weights, gradients and state: {kept}")
    return lines + [_link_line(link) for link in asked.links]


def _link_line(link: LinkUsed) -> str:
    where = {"intra": "inside a host", "inter": "between hosts"}[link.level]
    duplex = "each direction" if link.full_duplex else "both directions together"
    return (
        f"{where}: {link.name}, {link.bytes_per_s / 1e6:.6g} MB/s {duplex}, "
        f"{seconds_text(link.latency_s)} a step"
    )


def _values(row: Estimated, *, wanted: bool) -> dict[str, object]:
    needs = ""
    if wanted:
        needs = "no bandwidth suffices"
        if row.wanted_bytes_per_s is not None:
            needs = f"{row.wanted_bytes_per_s / 1e6:.0f} MB/s"
    last = "; ".join(part for part in (row.bottleneck, row.how, needs) if part)
    return {**dataclasses.asdict(row), "bottleneck": last}
