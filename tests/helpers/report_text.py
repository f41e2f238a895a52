"""A chart and a table with all that they can have, and tables as the lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, seconds_text
from busbw.page.chart import Axis, Chart, Kind, Point, Scale, mark, series
from busbw.report.renderers import RENDERERS
from busbw.report.table import Column, Row, Table, TextLine
from busbw.report.verdicts import verdict_tables

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)


def chart(**changes: Any) -> Chart:
    """Two curves, a band, rules of both directions, a point and an edge that are marked."""
    ordinary = Chart(
        title="All-reduce",
        subtitle="on four ranks",
        x=PAYLOAD,
        y=BUSBW,
        points=(
            *series("jax", [(1024, 0.5), (4096, 2.0), (16384, 6.0)], group="a"),
            *series("old", [(1024, 0.6), (4096, 2.1)], Kind.LINE, group="a"),
            *series("tf", [(1024, 0.1), (4096, 0.3)]),
            Point(kind=Kind.BAND, name="unseen", x=1024, y=0.4, y2=0.6, group="a"),
            Point(kind=Kind.BAND, name="unseen", x=4096, y=1.8, y2=2.1, group="a"),
            Point(kind=Kind.LEVEL, name="ceiling", y=12.0),
            Point(kind=Kind.MOMENT, name="new compiler", x=2048),
            mark("REGRESSED", 4096, 2.0, "jax"),
            mark("OUT_OF_MEMORY", 16384, None, "tf"),
        ),
        description="jax is faster",
    )
    return replace(ordinary, **changes)


RED = {"red": True}
TABLE = Table(
    title=TextLine("a group", {"bold": True}),
    columns=(
        Column("payload_bytes", "payload", text=payload_text, width=8),
        Column("median_s", "median", text=seconds_text, width=7),
        Column("busbw_gb_per_s", "busbw", unit="GB/s", text="{:.4g}".format, width=6),
        Column("outcome", "outcome", left=True, gap=2),
    ),
    rows=(
        Row({"payload_bytes": 4096, "median_s": 1e-3, "busbw_gb_per_s": 1.5, "outcome": "PASS"}),
        Row(
            {"payload_bytes": 2**20, "median_s": None, "busbw_gb_per_s": None, "outcome": "FAILED"},
            markup=RED,
            notes=(TextLine("a reason", RED),),
        ),
    ),
    notes=("a source",),
)


def marked(tables: Sequence[Table]) -> list[TextLine]:
    """All lines with their markup."""
    return [line for table in tables for line in RENDERERS["text"](table)]


def verdict_lines(verdicts: Sequence[Verdict], *, verbose: bool = False) -> list[TextLine]:
    """The tables of verdicts as lines."""
    return marked(verdict_tables(verdicts, verbose=verbose))
