"""The signature of a sum: a hash of its result, and the orders of summation that give this result.

The sums of the summands are rounded, so that another order of summation gives other bits. In a ring
the sum of each part of the buffer begins at another rank. In the other orders all elements are
added up alike. This module needs only numpy.
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

# Adds up the blocks of all ranks in a certain order.
SumInOrder = Callable[[Sequence[Array]], Array]

# Only stretches of the result are compared: their number for each rank, their largest number in
# all, and the largest number of elements in a stretch.
_STRETCHES_PER_RANK, _MAX_STRETCHES, _STRETCH_LENGTH = 8, 256, 64


def _rank_by_rank_order(first: int, direction: int) -> SumInOrder:
    """Return a function that adds up the blocks of all ranks, rank after rank.

    The sum begins with the block of rank `first`, and goes on to higher ranks if `direction` is 1,
    or to lower ranks if `direction` is -1.
    """

    def add(blocks: Sequence[Array]) -> Array:
        count = len(blocks)
        return reduce(np.add, [blocks[(first + direction * i) % count] for i in range(count)])

    return add


def _add_neighbors_first(blocks: Sequence[Array]) -> Array:
    """Return the sum of the blocks of all ranks, neighboring ranks first.

    Recursive doubling and a binomial tree add up in this order.
    """
    while len(blocks) > 1:
        pairs = [left + right for left, right in zip(blocks[::2], blocks[1::2])]
        blocks = [*pairs, *blocks[len(pairs) * 2 :]]
    return blocks[0]


def _add_halves_first(blocks: Sequence[Array]) -> Array:
    """Return the sum of the blocks of all ranks, the first half plus the second half first.

    Recursive halving adds up in this order.
    """
    while len(blocks) > 1:
        half = len(blocks) // 2
        pairs = [left + right for left, right in zip(blocks[:half], blocks[half : 2 * half])]
        blocks = [*pairs, *blocks[2 * half :]]
    return blocks[0]


def _add_in_binary_tree(blocks: Sequence[Array], root: int = 0) -> Array:
    """Return the sum of the blocks of `root` and of all ranks below `root` in a binary tree.

    The children of rank i are the ranks 2i + 1 and 2i + 2. The tree is added up from the leaves to
    the root.
    """
    children = [child for child in (2 * root + 1, 2 * root + 2) if child < len(blocks)]
    return reduce(
        np.add, [blocks[root], *(_add_in_binary_tree(blocks, child) for child in children)]
    )


# The functions that add up in each order, for all orders that are the same in all elements.
SUMS_BY_ORDER: dict[str, SumInOrder] = dict(
    zip(
        ORDERS,
        (_rank_by_rank_order(0, 1), _add_neighbors_first, _add_halves_first, _add_in_binary_tree),
    )
)


class SummationSignatureReader:
    """The inputs of a sum's first call, and the signature that is read from the call's result.

    The sums of the inputs are rounded, so that the result shows the order of summation.
    """

    def __init__(self, values: ExactValues) -> None:
        self._values = values

    @staticmethod
    def applies_to(case: Case) -> bool:
        """Return whether `case` is a sum of floating-point numbers."""
        return case.reduce_op == "sum" and DTYPES[case.dtype].least_exponent < 0

    def start(self, rank: int) -> Array:
        """Return the inputs of `rank` for the first call, of the shape (blocks, period)."""
        shape = self._values.starting_values(rank, 0).shape
        return inexact_numbers(shape, self._values.group_and_position(rank), self._values.dtype)

    def read(self, rank: int, result: Any, iterations: int, all_gather: AllGather) -> str:
        """Return the signature of the first call's result, the same on all processes.

        Each process finds the hash and the orders of its own rank's result. The hashes are combined
        into a single hash, and only the orders that all processes find are kept.

        Args:
            rank: The first rank of this process.
            result: The result of the rank, a flat array.
            iterations: The number of iterations of the call.
            all_gather: Exchanges numbers with the other processes.

        """
        chain_length = self._values.applied_iterations(iterations)
        hash_and_mask = find_hash_and_orders(self._summands(rank), result, chain_length)
        hashes, masks = zip(*all_gather([*map(float, hash_and_mask)]))
        words = [*map(int, hashes)]
        digest = words[0] if len(words) == 1 else zlib.crc32(repr(words).encode())
        return signature_text(digest, reduce(and_, map(int, masks)))

    def _summands(self, rank: int) -> list[Array]:
        """Return the input blocks that the collective adds up for the result of `rank`."""
        case, collective = self._values.case, self._values.collective
        group, position = self._values.group_and_position(rank)
        inputs = [[*self.start(other)] for other in case.rank_groups[group]]
        summands: list[Array] = []

        def keep(blocks: Sequence[Array]) -> Array:
            """Add `blocks` to the summands, and return any array of the right shape."""
            summands.extend(blocks)
            return blocks[0]

        # The collective calls `keep` only with blocks that are added up for this rank.
        collective.result_blocks(inputs, position, keep)
        return summands


def inexact_numbers(shape: tuple[int, ...], seed: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of random numbers from 1 to 2, whose sums are rounded.

    The numbers depend only on `shape`, `seed` and `dtype`, and not on the machine.
    """
    # numpy never changes the numbers that RandomState returns for a seed.
    random = np.random.RandomState(zlib.crc32(repr(seed).encode()))
    numbers: Array = (1 + random.random_sample(shape)).astype(dtype)
    return numbers


def find_hash_and_orders(
    inputs: Sequence[Array], result: Any, chain_length: int
) -> tuple[int, int]:
    """Return a hash of a result, and a bit mask of the orders of summation that give this result.

    Only some stretches of the result are read, each a few consecutive elements. If the order
    `ORDERS[i]` gives the bits of all stretches, bit i of the mask is set.

    Args:
        inputs: A period of the block of each rank, which is repeated to fill the buffer.
        result: The result of a rank, a flat array.
        chain_length: The number of chained sums. The first sum adds up the inputs. In each further
            sum, the input of every rank is the result of the previous sum.

    """
    stretches = list(_yield_stretches(result, len(inputs)))
    digest = zlib.crc32(b"".join(part.tobytes() for _, part in stretches))
    matching_orders = [
        name
        for name, order in SUMS_BY_ORDER.items()
        if all(_matches_order(inputs, order, chain_length, stretches))
    ]
    if _is_ring(inputs, chain_length, stretches):
        matching_orders.append(RING)
    return digest, sum(1 << ORDERS.index(name) for name in matching_orders)


def signature_text(digest: int, mask: int) -> str:
    """Return a signature such as ``5e1c09af recursive doubling or binary tree``.

    `digest` is the hash of the result. If bit i of `mask` is set, the order `ORDERS[i]` gives the
    result.
    """
    names = [name for bit, name in enumerate(ORDERS) if mask >> bit & 1]
    words = ANY_ORDER if set(SUMS_BY_ORDER) <= set(names) else " or ".join(names)
    return f"{digest:08x} {words or UNKNOWN_ORDER}"


_Stretches = Sequence[tuple[int, Array]]


def _yield_stretches(result: Any, ranks: int) -> Iterator[tuple[int, Array]]:
    """Yield each stretch of a result, after the index of the stretch's first element.

    The result is divided into equal parts, whose number depends on the number of `ranks`. The
    stretch of a part is the few consecutive elements in its middle.
    """
    element_count = int(result.shape[0])
    max_parts = max(ranks, _MAX_STRETCHES // ranks * ranks)
    part_count = min(_STRETCHES_PER_RANK * ranks, max_parts, element_count)
    part_length = element_count // part_count
    length = min(_STRETCH_LENGTH, max(1, part_length // 2))
    for part in range(part_count):
        begin = part * part_length + (part_length - length) // 2
        yield begin, np.ascontiguousarray(result[begin : begin + length])


def _matches_order(
    inputs: Sequence[Array], order: SumInOrder, chain_length: int, stretches: _Stretches
) -> Array:
    """Return for each element of the stretches whether the order `order` gives the element.

    The result is a flat array of bool. The parameters are as in `find_hash_and_orders`.
    """
    period = order(inputs)
    for _ in range(chain_length - 1):
        period = order([period] * len(inputs))
    return np.concatenate(
        [period[(begin + np.arange(len(part))) % len(period)] == part for begin, part in stretches]
    )


def _is_ring(inputs: Sequence[Array], chain_length: int, stretches: _Stretches) -> bool:
    """Return whether a result was added up in a ring, in which parts begin at different ranks.

    For each element, the sum that begins at some rank must give the element, and no single rank may
    give all elements. The parameters are as in `find_hash_and_orders`.
    """
    for direction in (1, -1):
        orders = (_rank_by_rank_order(first, direction) for first in range(len(inputs)))
        rows = np.stack(
            [_matches_order(inputs, order, chain_length, stretches) for order in orders]
        )
        if rows.any(axis=0).all() and not rows.all(axis=1).any():
            return True
    return False
