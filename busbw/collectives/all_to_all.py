"""All-to-all: rank p gets block p of every rank, as if a matrix of blocks were transposed.

It is never chained in place, because two iterations would return the input, as a program that does
nothing would.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, ReduceBlocks, T


class AllToAll(AbstractCollective):
    """The all-to-all: a rank's input has a block for each rank, its output a block from each rank.

    Input and output are n blocks (S bytes). XLA cuts and joins the blocks, and on TPUs transposes
    their layout. These copies are counted, and are part of the measured time.
    """

    name = "all_to_all"
    hlo_name = "all-to-all"
    placements = ("out_of_place",)
    is_copy_free = False
    sort_order = 3

    def bus_factor(self, ranks: int) -> float:
        """Return (n-1)/n for n `ranks`, because n-1 of n blocks of S bytes leave each rank.

        Over n links of bandwidth B that takes at least t = (n-1)/n * S/B. Source: NVIDIA
        nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def input_blocks(self, ranks: int) -> int:
        return ranks

    def output_blocks(self, ranks: int) -> int:
        return ranks

    def result_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [blocks[position] for blocks in input_blocks_by_position]
