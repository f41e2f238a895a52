"""Permute: every rank sends its buffer to the next rank, and the last rank to the first.

Permute is never chained in place: n iterations over n ranks would return the input, as a program
that does nothing would.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, ReduceBlocks, T


class Permute(AbstractCollective):
    """The permute: a rank's input is S bytes, and its output is the input of the previous rank."""

    name = "permute"
    hlo_name = "collective-permute"
    placements = ("out_of_place",)

    def bus_factor(self, ranks: int) -> float:
        """Return 1: the S bytes of a rank cross a single link, whose speed is therefore S/t.

        Source: NVIDIA nccl-tests, doc/PERFORMANCE.md (send and receive).
        """
        return 1.0

    def source_target_pairs(self, ranks: int) -> tuple[tuple[int, int], ...]:
        return tuple((position, (position + 1) % ranks) for position in range(ranks))

    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [input_blocks_by_position[(position - 1) % len(input_blocks_by_position)][0]]
