"""All-gather: every rank gets the blocks of all ranks, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, ReduceBlocks, T


class AllGather(AbstractCollective):
    """The all-gather: a rank's input is a block of S/n bytes, its output is n blocks (S bytes)."""

    name = "all_gather"
    hlo_name = "all-gather"
    placements = ("out_of_place",)
    sort_order = 1
    uses_all_links = True

    def bus_factor(self, ranks: int) -> float:
        """Return (n-1)/n for n `ranks`, because each rank receives n-1 of the n blocks of S bytes.

        Over n links of bandwidth B that takes at least t = (n-1)/n * S/B. Source: NVIDIA
        nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def output_blocks(self, ranks: int) -> int:
        return ranks

    def result_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [blocks[0] for blocks in input_blocks_by_position]
