"""All-to-all: rank p gets block p of every rank, as if a matrix of blocks were transposed.

All-to-all is never chained in place: two iterations would return the input, as a program that does
nothing would.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, ReduceBlocks, T


class AllToAll(AbstractCollective):
    """The all-to-all: a rank's input has a block for each rank, its output a block from each rank.

    Input and output are n blocks each, together S bytes (the payload). XLA cuts and joins the
    blocks, and on TPUs transposes their layout. These copies are counted, and are part of the
    measured time.
    """

    name = "all_to_all"
    hlo_name = "all-to-all"
    placements = ("out_of_place",)
    is_copy_free_on_cpus = False

    def input_block_count(self, ranks: int) -> int:
        return ranks

    def output_block_count(self, ranks: int) -> int:
        return ranks

    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [blocks[position] for blocks in input_blocks_by_position]
