"""Reduce-scatter: rank p gets the sum of all ranks' blocks p."""

from __future__ import annotations

from collections.abc import Sequence

from .base import DTYPES, MOST_ROUNDS, PERIOD, AbstractCollective, Blocks, Draw, Reduced, T


class ReduceScatter(AbstractCollective):
    """In: S bytes, n blocks. Out: S/n bytes, one block."""

    name = "reduce_scatter"
    hlo = "reduce-scatter"
    placements = ("out_of_place",)
    reduce_ops = ("sum",)
    bus_factor_text = "(n-1)/n"
    order = 2
    passes_all_links = True

    def bus_factor(self, ranks: int) -> float:
        """(n-1)/n: n-1 of the n blocks of S must leave each rank to be summed elsewhere.

        Over n links of bandwidth B that takes t = (n-1)/n * S/B at best. Source: NVIDIA
        nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def input_blocks(self, ranks: int) -> int:
        return ranks

    def exact_rounds(self, draw: Draw, placement: str) -> int:
        """Return all rounds if one sum of up to 2n times a power of two is exact, else 0."""
        return MOST_ROUNDS if 2 * draw.ranks <= 2 ** DTYPES[draw.dtype].bits else 0

    def start(self, draw: Draw, position: int) -> Blocks:
        """Return powers of two that tell the block, once or twice, by turns from rank to rank."""
        return tuple(
            tuple(
                weight * (1 + (position + index) % 2)
                for index, weight in enumerate(_weights(draw, block))
            )
            for block in range(draw.ranks)
        )

    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        return [reduced([blocks[position] for blocks in inputs])]

    def after(self, draw: Draw, position: int, rounds: int) -> Blocks:
        """Return the weights of the rank's block, as often as all ranks together have them."""
        counts = [
            sum(1 + (rank + index) % 2 for rank in range(draw.ranks)) for index in range(PERIOD)
        ]
        return (tuple(w * count for w, count in zip(_weights(draw, position), counts)),)


def _weights(draw: Draw, block: int) -> tuple[float, ...]:
    """Return one period of a block: eight powers of two, in an order by which 32 blocks differ.

    It begins with another power in each of eight blocks, and continues in steps of 1, 3, 5 or 7.
    """
    least = max(DTYPES[draw.dtype].least_exponent, -PERIOD)
    first, step = block + draw.number, 2 * (block // PERIOD) + 1
    return tuple(2.0 ** (least + (step * index + first) % PERIOD) for index in range(PERIOD))
