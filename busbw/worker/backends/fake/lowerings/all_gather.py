"""All-gather in the fake compiler's HLO."""

from __future__ import annotations

from busbw.model import Case

from . import groups


def lower(case: Case, result: str) -> str:
    """Along the only dimension."""
    return f"{result} all-gather(%own), {groups(case)}, dimensions={{0}}"
