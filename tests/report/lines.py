"""Tables as the lines that a terminal shows of them."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model.verdict import Verdict
from busbw.report.renderers import RENDERERS
from busbw.report.table import Table, TextLine
from busbw.report.verdicts import verdict_tables


def marked(tables: Sequence[Table]) -> list[TextLine]:
    """All lines with their markup."""
    return [line for table in tables for line in RENDERERS["text"](table)]


def verdict_lines(verdicts: Sequence[Verdict], *, verbose: bool = False) -> list[TextLine]:
    """The tables of verdicts as lines."""
    return marked(verdict_tables(verdicts, verbose=verbose))
