"""The summation-order signature: a hash of a sum of inexact values, and the orders that give it.

Numbers that are added up in another order give other bits. In a ring each part of the buffer begins
at another rank. In the other algorithms all elements are added up in the same order. Numpy only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.worker.backends.base import AllGather
from busbw.worker.backends.values import Array, ExactValues

from .worker_orders import ANY_ORDER, ORDERS, RING, UNKNOWN_ORDER

Sum = Callable[[Sequence[Array]], Array]

# Stretches of the result that are compared: how many for each rank, how many at most, and of how
# many elements at most.
_STRETCHES_PER_RANK, _MAX_STRETCHES, _STRETCH_LENGTH = 8, 256, 64


def _rank_by_rank(first: int, direction: int) -> Sum:
    """Return a sum that begins at rank `first` and adds rank after rank in a direction."""

    def add(blocks: Sequence[Array]) -> Array:
        count = len(blocks)
        return reduce(np.add, [blocks[(first + direction * i) % count] for i in range(count)])

    return add


def _double(blocks: Sequence[Array]) -> Array:
    """Add neighbours first, as recursive doubling and a binomial tree do."""
    while len(blocks) > 1:
        pairs = [left + right for left, right in zip(blocks[::2], blocks[1::2])]
        blocks = [*pairs, *blocks[len(pairs) * 2 :]]
    return blocks[0]


def _halve(blocks: Sequence[Array]) -> Array:
    """Add ranks first that are half of all ranks apart, as recursive halving does."""
    while len(blocks) > 1:
        half = len(blocks) // 2
        pairs = [left + right for left, right in zip(blocks[:half], blocks[half : 2 * half])]
        blocks = [*pairs, *blocks[2 * half :]]
    return blocks[0]


def _add_tree(blocks: Sequence[Array], root: int = 0) -> Array:
    """Add the sums of two children at each rank; the children of rank i are 2i + 1 and 2i + 2."""
    children = [child for child in (2 * root + 1, 2 * root + 2) if child < len(blocks)]
    return reduce(np.add, [blocks[root], *(_add_tree(blocks, child) for child in children)])


# The sums in the orders that are the same in all elements.
SUMS: dict[str, Sum] = dict(zip(ORDERS, (_rank_by_rank(0, 1), _double, _halve, _add_tree)))


class SignedSum:
    """The first call of a sum of inexact numbers, whose result has a signature."""

    def __init__(self, values: ExactValues) -> None:
        self._values = values

    @staticmethod
    def applies_to(case: Case) -> bool:
        return case.reduce_op == "sum" and DTYPES[case.dtype].least_exponent < 0

    def start(self, rank: int) -> Array:
        shape = self._values.starting_values(rank, 0).shape
        return inexact(shape, self._values.group_and_position(rank), self._values.dtype)

    def read(self, rank: int, result: Any, iterations: int, all_gather: AllGather) -> str:
        """Return the signature of the results of the first rank of each process."""
        rounds = self._values.chained_iterations(iterations)
        row = signature(self._summands(rank), result, rounds)
        hashes, masks = zip(*all_gather([*map(float, row)]))
        words = [*map(int, hashes)]
        digest = words[0] if len(words) == 1 else zlib.crc32(repr(words).encode())
        return text_of(digest, reduce(and_, map(int, masks)))

    def _summands(self, rank: int) -> list[Array]:
        """Return the blocks that are added up for a rank."""
        case, collective = self._values.case, self._values.collective
        group, position = self._values.group_and_position(rank)
        inputs = [[*self.start(other)] for other in case.rank_groups[group]]
        summands: list[Array] = []

        def keep(blocks: Sequence[Array]) -> Array:
            summands.extend(blocks)
            return blocks[0]

        # The collective calls `keep` only with blocks that are added up for this rank.
        collective.result(inputs, position, keep)
        return summands


def inexact(shape: tuple[int, ...], seed: tuple[int, ...], dtype: Any) -> Array:
    """Return numbers from 1 to 2 that use all bits of a fraction, the same on every machine."""
    words = np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(zlib.crc32(repr(seed).encode()))
    # The final mixing of splitmix64 (Steele, Lea and Flood, 2014).
    words *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    words ^= words >> np.uint64(31)
    fractions = (words >> np.uint64(11)).astype(np.float64) / 2.0**53
    numbers: Array = (1 + fractions).reshape(shape).astype(dtype)
    return numbers


def signature(inputs: Sequence[Array], result: Any, rounds: int) -> tuple[int, int]:
    """Return a hash of stretches of `result`, and a mask of the orders in `ORDERS` that fit.

    Args:
        inputs: one period of a block of each rank.
        result: what one rank has after `rounds` rounds, each of which adds up all inputs.
        rounds: how many rounds were chained.

    """
    stretches = list(_stretches(result, len(inputs)))
    digest = zlib.crc32(b"".join(part.tobytes() for _, part in stretches))
    fits = [name for name, order in SUMS.items() if all(_fits(inputs, order, rounds, stretches))]
    if _is_ring(inputs, rounds, stretches):
        fits.append(RING)
    return digest, sum(1 << ORDERS.index(name) for name in fits)


def text_of(digest: int, mask: int) -> str:
    """Return a text such as ``5e1c09af recursive doubling or binary tree``."""
    names = [name for bit, name in enumerate(ORDERS) if mask >> bit & 1]
    words = ANY_ORDER if set(SUMS) <= set(names) else " or ".join(names)
    return f"{digest:08x} {words or UNKNOWN_ORDER}"


_Stretches = Sequence[tuple[int, Array]]


def _stretches(result: Any, ranks: int) -> Iterator[tuple[int, Array]]:
    """Yield the middle of each of some equal parts, and the index of its first element."""
    count = int(result.shape[0])
    most = max(ranks, _MAX_STRETCHES // ranks * ranks)
    parts = min(_STRETCHES_PER_RANK * ranks, most, count)
    size = count // parts
    length = min(_STRETCH_LENGTH, max(1, size // 2))
    for part in range(parts):
        begin = part * size + (size - length) // 2
        yield begin, np.ascontiguousarray(result[begin : begin + length])


def _fits(inputs: Sequence[Array], order: Sum, rounds: int, stretches: _Stretches) -> Array:
    """Return for each element of the stretches whether it is the sum in that order."""
    period = order(inputs)
    for _ in range(rounds - 1):
        period = order([period] * len(inputs))
    return np.concatenate(
        [period[(begin + np.arange(len(part))) % len(period)] == part for begin, part in stretches]
    )


def _is_ring(inputs: Sequence[Array], rounds: int, stretches: _Stretches) -> bool:
    """Return whether each element fits a ring from some rank, and no rank fits all elements."""
    for direction in (1, -1):
        orders = (_rank_by_rank(first, direction) for first in range(len(inputs)))
        rows = np.stack([_fits(inputs, order, rounds, stretches) for order in orders])
        if rows.any(axis=0).all() and not rows.all(axis=1).any():
            return True
    return False
