"""All-gather: every rank gets the blocks of all ranks, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from .base import AbstractCollective, Reduced, T


class AllGather(AbstractCollective):
    """In: S/n bytes, one block. Out: S bytes, n blocks in the order of the ranks."""

    name = "all_gather"
    hlo = "all-gather"
    placements = ("out_of_place",)
    bus_factor_text = "(n-1)/n"
    order = 1
    passes_all_links = True

    def bus_factor(self, ranks: int) -> float:
        """(n-1)/n: each rank has one of the n parts of S and must receive the n-1 others.

        Over n links of bandwidth B that takes t = (n-1)/n * S/B at best. Source: NVIDIA
        nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def output_blocks(self, ranks: int) -> int:
        return ranks

    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        return [blocks[0] for blocks in inputs]
