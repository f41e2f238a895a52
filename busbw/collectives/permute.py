"""Permute: every rank sends its buffer to the next one, the last to the first.

Not in place: n rounds would give back what was put in, as doing nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, Reduced, T


class Permute(AbstractCollective):
    """In and out: S bytes, the buffer of the rank before."""

    name = "permute"
    hlo = "collective-permute"
    placements = ("out_of_place",)
    bus_factor_text = ""
    order = 4

    def bus_factor(self, ranks: int) -> float:
        """1: S bytes leave each rank over one link and S arrive, so S/t is the link's speed.

        Source: NVIDIA nccl-tests, doc/PERFORMANCE.md (send and receive).
        """
        return 1.0

    def pairs(self, ranks: int) -> tuple[tuple[int, int], ...]:
        return tuple((position, (position + 1) % ranks) for position in range(ranks))

    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        return [inputs[(position - 1) % len(inputs)][0]]
