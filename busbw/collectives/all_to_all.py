"""All-to-all: rank p gets block p of every rank, as a matrix of blocks is transposed.

Not in place: two rounds would return the input, as doing nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, Reduced, T


class AllToAll(AbstractCollective):
    """In and out: S bytes, n blocks, one for and one from each rank.

    XLA cuts and joins the blocks, and on TPUs transposes their layout: these copies are counted,
    and are part of what is timed.
    """

    name = "all_to_all"
    hlo = "all-to-all"
    placements = ("out_of_place",)
    copy_free = False
    bus_factor_text = "(n-1)/n"
    order = 3

    def bus_factor(self, ranks: int) -> float:
        """(n-1)/n: all but a rank's own block of S must leave it.

        Over n links of bandwidth B that takes t = (n-1)/n * S/B at best. Source: NVIDIA
        nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def input_blocks(self, ranks: int) -> int:
        return ranks

    def output_blocks(self, ranks: int) -> int:
        return ranks

    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        return [blocks[position] for blocks in inputs]
