"""Reduce-scatter: rank p gets the sum of the blocks p of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

from .base import (
    DTYPES,
    MAX_ITERATIONS,
    VALUES_PER_PERIOD,
    AbstractCollective,
    Blocks,
    Draw,
    ReduceBlocks,
    T,
)


class ReduceScatter(AbstractCollective):
    """The reduce-scatter: a rank's input is n blocks (S bytes), its output is a single block."""

    name = "reduce_scatter"
    hlo_name = "reduce-scatter"
    placements = ("out_of_place",)
    reduce_ops = ("sum",)
    uses_all_links = True

    def input_block_count(self, ranks: int) -> int:
        return ranks

    def max_exact_iterations(self, draw: Draw, placement: str) -> int:
        """Return MAX_ITERATIONS if the dtype holds all sums exactly, else 0.

        Each starting value is a power of two times a factor of 1 or 2. A sum over n ranks is the
        same power of two times the sum of n factors, at most 2n. So the dtype needs enough
        significant bits for 2n. Values do not grow from iteration to iteration, because every
        iteration has the same input. `placement` is not used.
        """
        return MAX_ITERATIONS if 2 * draw.ranks <= 2 ** DTYPES[draw.dtype].significant_bits else 0

    def starting_blocks(self, draw: Draw, position: int) -> Blocks:
        """Return the input of the rank at `position`: one block of values for each rank.

        Every block has the same powers of two, in an order that depends on the block and on
        `draw.number`, so that a block in a wrong place is noticed. Ranks at even positions double
        the values at odd indices of each block, and ranks at odd positions the values at even
        indices. So a sum that has a rank of one kind twice in place of a rank of the other kind is
        noticed, too.
        """
        return tuple(
            tuple(
                weight * (1 + (position + index) % 2)
                for index, weight in enumerate(_powers_of_two_of_block(draw, block))
            )
            for block in range(draw.ranks)
        )

    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [reduce_blocks([blocks[position] for blocks in input_blocks_by_position])]

    def exact_blocks_after(self, draw: Draw, position: int, iterations: int) -> Blocks:
        """Return the output of the rank at `position`: the block of the sums of all ranks.

        Each element is a power of two times the sum of the factors of all ranks. The factor of a
        rank's value is 2 if its starting value was doubled, else 1.
        """
        counts = [
            sum(1 + (rank + index) % 2 for rank in range(draw.ranks))
            for index in range(VALUES_PER_PERIOD)
        ]
        return (
            tuple(w * count for w, count in zip(_powers_of_two_of_block(draw, position), counts)),
        )


def _powers_of_two_of_block(draw: Draw, block_number: int) -> tuple[float, ...]:
    """Return the powers of two that block `block_number` repeats as starting values, all different.

    Each of 32 consecutive blocks has the eight powers in another order, so that no block can be
    mistaken for another block. Blocks 0 to 7 begin with different powers, and the exponent grows by
    1 from value to value. The exponent grows by 3 in blocks 8 to 15, by 5 in blocks 16 to 23, and
    by 7 in blocks 24 to 31.
    """
    least = max(DTYPES[draw.dtype].least_exponent, -VALUES_PER_PERIOD)
    first, step = block_number + draw.number, 2 * (block_number // VALUES_PER_PERIOD) + 1
    return tuple(
        2.0 ** (least + (step * index + first) % VALUES_PER_PERIOD)
        for index in range(VALUES_PER_PERIOD)
    )
