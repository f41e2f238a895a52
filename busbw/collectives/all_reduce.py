"""All-reduce: every rank gets the sum (or maximum, or minimum) of the buffers of all ranks.

A rank's element i is a weight w(i), which is the same on every rank, times a factor. For the sum of
n ranks the factor is 0 on rank i mod n, 2 on the next rank and 1 on all other ranks, so that the
sum is n w(i). For maximum and minimum the factors are 4, 1 and 2 on these ranks. If any rank is
left out, some elements of the result are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .base import DTYPES, MAX_ITERATIONS, AbstractCollective, Blocks, Draw, ReduceBlocks, T

WEIGHTS = (1.0, 2.0, 4.0, 2.0)


class AllReduce(AbstractCollective):
    """The all-reduce: a rank's input is S bytes; its output is S bytes, the same on every rank."""

    name = "all_reduce"
    hlo_name = "all-reduce"
    placements = ("in_place", "out_of_place")
    is_copy_free_on_accelerators = True
    is_in_place_on_gpus = True
    reduce_ops = ("sum", "max", "min")
    uses_all_links = True
    can_add_in_switch = True

    def bus_factor(self, ranks: int) -> float:
        """Return 2(n-1)/n for n `ranks`.

        To be summed, n-1 of n parts of a rank's S bytes must leave the rank, and n-1 of n parts of
        the sums must come back. Over n links of bandwidth B that takes at least
        t = 2(n-1)/n * S/B with any algorithm. So S/t * 2(n-1)/n can be compared with B. Source:
        NVIDIA nccl-tests, doc/PERFORMANCE.md.
        """
        return 2 * (ranks - 1) / ranks

    def max_exact_iterations(self, draw: Draw, placement: str) -> int:
        """Return the largest number of chained iterations whose values the dtype holds exactly.

        The exponent of a sum grows by log2(n) in each iteration, and must stay in the range of the
        dtype. If n is not a power of two, n^k after k iterations must also fit into the significant
        bits of the dtype.
        """
        if draw.reduce_op != "sum":
            return MAX_ITERATIONS
        dtype, ranks = DTYPES[draw.dtype], draw.ranks
        if ranks > 2**dtype.significant_bits:
            return 0
        exponents = dtype.greatest_exponent - dtype.least_exponent - int(math.log2(max(WEIGHTS)))
        iterations = int(exponents / math.log2(ranks))
        if ranks & (ranks - 1):
            iterations = min(iterations, int(dtype.significant_bits / math.log2(ranks)))
        return iterations if placement == "in_place" or iterations == 0 else MAX_ITERATIONS

    def starting_blocks(self, draw: Draw, position: int) -> Blocks:
        """Return the input of the rank at `position`: a single block, with a period of 4n values.

        n is the number of ranks.
        """
        own_factor, next_factor, other_factor = (
            (0.0, 2.0, 1.0) if draw.reduce_op == "sum" else (4.0, 1.0, 2.0)
        )
        values = []
        for index, weight in enumerate(_element_weights_of_period(draw)):
            position_of_weight = index % draw.ranks
            factor = own_factor if position_of_weight == position else other_factor
            factor = next_factor if position_of_weight == (position - 1) % draw.ranks else factor
            values.append(weight * factor)
        return (tuple(values),)

    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        return [reduce_blocks([blocks[0] for blocks in input_blocks_by_position])]

    def exact_blocks_after(self, draw: Draw, position: int, iterations: int) -> Blocks:
        """Return the output of a rank after k = `iterations` chained iterations: a single block.

        All ranks have the same output, so `position` is not used. Element i of the block is
        n^k w(i) for the sum, 4 w(i) for max, and w(i) for min, where n is the number of ranks, and
        w(i) is the weight of element i in the draw.
        """
        constant_factors = {"max": 4.0, "min": 1.0}
        factor = constant_factors.get(draw.reduce_op) or float(draw.ranks) ** iterations
        return (tuple(weight * factor for weight in _element_weights_of_period(draw)),)


def _element_weights_of_period(draw: Draw) -> list[float]:
    """Return the weights w(i) of a period: each of the four WEIGHTS n times, for n ranks.

    Each draw begins with another weight. The weights of sums are multiples of the smallest power of
    two, so that the sums of many chained iterations stay in the range of the dtype.
    """
    scale = 2.0 ** DTYPES[draw.dtype].least_exponent if draw.reduce_op == "sum" else 1.0
    first = draw.number % len(WEIGHTS)
    rotated = WEIGHTS[first:] + WEIGHTS[:first]
    return [weight * scale for weight in rotated for _ in range(draw.ranks)]
