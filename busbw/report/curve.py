"""Latency and bandwidth of each group of payloads, before and now, as a table.

Takes figures that were fitted elsewhere; fits nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from busbw.model import rate_text, seconds_text

from .table import Column, Table, TextLine, rows_of

_TITLE = "latency + payload / bandwidth, fitted to all payloads:"
_COLUMNS = (Column("group", fits=True, left=True), Column("curve", left=True, gap=2))


class CurveFigures(Protocol):
    """What is shown of a curve t(S) = latency + S / bandwidth; the judge's curves have it."""

    @property
    def latency_s(self) -> float:
        """The time of an empty payload, in seconds."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Payload bytes per second of what is beyond the latency."""

    @property
    def rms_log_error(self) -> float:
        """The relative error of the fit, about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveGroup:
    """A framework's collective by one strategy: its curve now, and the baseline's if any."""

    name: str
    now: CurveFigures
    before: CurveFigures | None = None


def curve_tables(groups: Sequence[CurveGroup]) -> list[Table]:
    """A row for each group; no groups are no table."""
    rows = rows_of({"group": group.name, "curve": _figures(group)} for group in groups)
    return [Table(title=TextLine(_TITLE), columns=_COLUMNS, rows=rows, indent=4)] if rows else []


def _figures(group: CurveGroup) -> str:
    latency = seconds_text(group.now.latency_s, digits=3)
    bandwidth = rate_text(group.now.bandwidth_bytes_per_s)
    if group.before is not None:
        latency = f"{seconds_text(group.before.latency_s, digits=3)} -> {latency}"
        bandwidth = f"{rate_text(group.before.bandwidth_bytes_per_s)} -> {bandwidth}"
    error = f"fit error {100 * group.now.rms_log_error:.0f} %"
    return f"latency {latency}, bandwidth {bandwidth} ({error})"
