"""All-reduce: every rank gets the sum (maximum, minimum) of all ranks' buffers.

Element i is a weight w(i), the same on every rank, times a factor that is not: for the sum 0 on
rank i mod n, 2 on the rank after it and 1 on the others, so that the sum is n w(i); for maximum
and minimum 4, 1 and 2. So some elements are wrong whichever rank is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .base import DTYPES, MOST_ROUNDS, AbstractCollective, Blocks, Draw, Reduced, T

WEIGHTS = (1.0, 2.0, 4.0, 2.0)


class AllReduce(AbstractCollective):
    """In: S bytes on each rank. Out: S bytes, on each rank the same."""

    name = "all_reduce"
    hlo = "all-reduce"
    placements = ("in_place", "out_of_place")
    copy_free_on_accelerators = True
    in_place_on_gpus = True
    reduce_ops = ("sum", "max", "min")
    bus_factor_text = "2(n-1)/n"
    order = 0
    passes_all_links = True
    added_in_switch = True

    def bus_factor(self, ranks: int) -> float:
        """2(n-1)/n.

        A reduction of S bytes over n ranks needs n-1 of n parts of S to leave every rank to be
        summed, and n-1 of n parts of the sums to come back; over n links of bandwidth B that
        takes t = 2(n-1)/n * S/B at best, whatever the algorithm. So S/t * 2(n-1)/n can be
        compared with B. Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.
        """
        return 2 * (ranks - 1) / ranks

    def exact_rounds(self, draw: Draw, placement: str) -> int:
        """Return how many rounds stay exact: a sum's exponent grows by log2(n) in each round.

        If n is no power of two, n^k must also fit into the bits.
        """
        if draw.reduce_op != "sum":
            return MOST_ROUNDS
        dtype, ranks = DTYPES[draw.dtype], draw.ranks
        if ranks > 2**dtype.bits:
            return 0
        room = dtype.greatest_exponent - dtype.least_exponent - int(math.log2(max(WEIGHTS)))
        rounds = int(room / math.log2(ranks))
        if ranks & (ranks - 1):
            rounds = min(rounds, int(dtype.bits / math.log2(ranks)))
        return rounds if placement == "in_place" or rounds == 0 else MOST_ROUNDS

    def start(self, draw: Draw, position: int) -> Blocks:
        """Return one block with a period of 4n."""
        at_own, at_next, other = (0.0, 2.0, 1.0) if draw.reduce_op == "sum" else (4.0, 1.0, 2.0)
        values = []
        for index, weight in enumerate(_weights(draw)):
            position_of_weight = index % draw.ranks
            factor = at_own if position_of_weight == position else other
            factor = at_next if position_of_weight == (position - 1) % draw.ranks else factor
            values.append(weight * factor)
        return (tuple(values),)

    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        return [reduced([blocks[0] for blocks in inputs])]

    def after(self, draw: Draw, position: int, rounds: int) -> Blocks:
        """Return n^k w(i) for the sum, 4 w(i) for the maximum, w(i) for the minimum."""
        unchained = {"max": 4.0, "min": 1.0}
        factor = unchained.get(draw.reduce_op) or float(draw.ranks) ** rounds
        return (tuple(weight * factor for weight in _weights(draw)),)


def _weights(draw: Draw) -> list[float]:
    """Return one period of w(i): each weight n times, beginning with another weight in each draw.

    Sums begin with the smallest power of two, so that they have far to grow.
    """
    scale = 2.0 ** DTYPES[draw.dtype].least_exponent if draw.reduce_op == "sum" else 1.0
    first = draw.number % len(WEIGHTS)
    turned = WEIGHTS[first:] + WEIGHTS[:first]
    return [weight * scale for weight in turned for _ in range(draw.ranks)]
