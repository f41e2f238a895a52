"""A table with all that a table can have, and tables as the lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, seconds_text
from busbw.report.conclusion import verdict_tables
from busbw.report.table import RENDERERS, Column, Row, Table, TextLine

RED = {"red": True}
TABLE = Table(
    title=TextLine("a group", {"bold": True}),
    columns=(
        Column("payload_bytes", "payload", text=payload_text, width=8),
        Column("median_s", "median", text=seconds_text, width=7),
        Column("busbw_gb_per_s", "busbw", unit="GB/s", text="{:.4g}".format, width=6),
        Column("outcome", "outcome", left_aligned=True, gap=2),
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
    """Return all lines of the tables with their markup."""
    return [line for table in tables for line in RENDERERS["text"](table)]


def verdict_lines(verdicts: Sequence[Verdict], *, verbose: bool = False) -> list[TextLine]:
    """Return the tables of verdicts as lines."""
    return marked(verdict_tables(verdicts, verbose=verbose))
