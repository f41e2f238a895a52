"""Permute in the fake compiler's HLO."""

from __future__ import annotations

from busbw.collectives import COLLECTIVES
from busbw.model import Case


def lower(case: Case, result: str) -> str:
    """With the ranks that send, and to whom."""
    positions = COLLECTIVES[case.collective].pairs(case.group_size)
    pairs = ",".join(f"{{{one[a]},{one[b]}}}" for one in case.groups for a, b in positions)
    return f"{result} collective-permute(%own), channel_id=1, source_target_pairs={{{pairs}}}"
