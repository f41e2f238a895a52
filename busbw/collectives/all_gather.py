"""All-gather: every rank gets the blocks of all ranks, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, ReduceBlocks, T


class AllGather(AbstractCollective):
    """The all-gather: a rank's input is a block of S/n bytes, its output is n blocks (S bytes)."""

    name = "all_gather"
    hlo_name = "all-gather"
    placements = ("out_of_place",)
    uses_all_links = True

    def output_block_count(self, ranks: int) -> int:
        return ranks

    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [blocks[0] for blocks in input_blocks_by_position]
