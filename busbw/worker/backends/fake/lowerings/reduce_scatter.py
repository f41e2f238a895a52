"""Reduce-scatter in the fake compiler's HLO."""

from __future__ import annotations

from busbw.model import Case

from . import groups


def lower(case: Case, result: str) -> str:
    """Along the only dimension, with what it adds up by."""
    return f"{result} reduce-scatter(%own), {groups(case)}, dimensions={{0}}, to_apply=%add"
