"""All-reduce in the fake compiler's HLO."""

from __future__ import annotations

from busbw.model import Case

from . import groups


def lower(case: Case, result: str) -> str:
    """With what it adds up by."""
    return f"{result} all-reduce(%own), {groups(case)}, to_apply=%add"
