"""The signature of a sum: a hash of its result, and the orders of summation that give this result.

The sums of the summands are rounded, so that another order of summation gives other bits. In a ring
the sum of each part of the buffer begins at another rank. In the other orders all elements are
added up alike. This module needs only numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Any

import numpy as np

from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.worker.backends.base import AllGather
from busbw.worker.backends.values import Array, ExactValues

# Adds up the blocks of all ranks in a certain order.
SumInOrder = Callable[[Sequence[Array]], Array]

# Only stretches of the result are compared: their number for each rank, their largest number in
# all, and the largest number of elements in a stretch.
_STRETCHES_PER_RANK = 8
_MAX_STRETCHES = 256
_STRETCH_LENGTH = 64


def _add_pairs(blocks: Sequence[Array], *, are_neighbors: bool) -> Array:
    """Return the sum of the blocks of all ranks, which are added up in pairs, again and again.

    With `are_neighbors` a pair has neighboring ranks, as in recursive doubling and in a binomial
    tree. Otherwise a pair has a rank of the first half and a rank of the second half, as in
    recursive halving. A last block without a partner waits for the next pass.
    """
    while len(blocks) > 1:
        half = len(blocks) // 2
        if are_neighbors:
            pairs = zip(blocks[::2], blocks[1::2])
        else:
            pairs = zip(blocks, blocks[half : 2 * half])
        blocks = [*(left + right for left, right in pairs), *blocks[2 * half :]]
    return blocks[0]


def _add_in_binary_tree(blocks: Sequence[Array], root: int = 0) -> Array:
    """Return the sum of the blocks of `root` and of all ranks below `root` in a binary tree.

    The children of rank i are the ranks 2i + 1 and 2i + 2. The tree is added up from the leaves to
    the root.
    """
    total = blocks[root]
    for child in (2 * root + 1, 2 * root + 2):
        if child < len(blocks):
            total = total + _add_in_binary_tree(blocks, child)
    return total


_add_in_turn: SumInOrder = partial(reduce, np.add)

# The functions that add up in each order, for all orders that are the same in all elements.
SUMS_BY_ORDER: Mapping[str, SumInOrder] = {
    "ranks in turn": _add_in_turn,
    "recursive doubling": partial(_add_pairs, are_neighbors=True),
    "recursive halving": partial(_add_pairs, are_neighbors=False),
    "binary tree": _add_in_binary_tree,
}
# The orders of summation that a signature names; an order's index is its bit in a mask.
ORDERS = (*SUMS_BY_ORDER, "ring")


@dataclass
class SummationOrderReader:
    """The inputs of a sum's first call, and the signature that is read from the call's result.

    The sums of the inputs are rounded, so that the result shows the order of summation.

    Attributes:
        values: Makes the inputs and exact results of the calls after the first call.

    """

    values: ExactValues

    @staticmethod
    def applies_to(case: Case) -> bool:
        """Return whether `case` is a sum of floating-point numbers."""
        return case.reduce_op == "sum" and DTYPES[case.dtype].least_exponent < 0

    def start(self, rank: int) -> Array:
        """Return the inputs of `rank` for the first call, of the shape (blocks, period)."""
        return inexact_numbers(
            self.values.starting_values(rank, 0).shape,
            self.values.group_and_position(rank),
            self.values.dtype,
        )

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
        group, position = self.values.group_and_position(rank)
        inputs = [[*self.start(other)] for other in self.values.case.rank_groups[group]]
        # Each block of the result is replaced by the list of blocks that are added up for it.
        (summands,) = self.values.collective.result_blocks(inputs, position, list)
        chain_length = self.values.applied_iterations(iterations)
        hash_and_mask = find_hash_and_orders(summands, result, chain_length)
        hashes, masks = zip(*all_gather([*map(float, hash_and_mask)]))
        words = [*map(int, hashes)]
        digest = words[0] if len(words) == 1 else zlib.crc32(repr(words).encode())
        return signature_text(digest, reduce(and_, map(int, masks)))


def inexact_numbers(shape: tuple[int, ...], seed: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of random numbers from 1 to 2, whose sums are rounded.

    The numbers depend only on `shape`, `seed` and `dtype`, and not on the machine.
    """
    # numpy never changes the numbers that RandomState returns for a seed.
    random = np.random.RandomState(zlib.crc32(repr(seed).encode()))
    return np.asarray(1 + random.random_sample(shape)).astype(dtype)


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
    stretches = _read_stretches(result, len(inputs))
    digest = zlib.crc32(b"".join(part.tobytes() for _, part in stretches))
    is_given = [
        bool(_matches_order(inputs, order, chain_length, stretches).all())
        for order in SUMS_BY_ORDER.values()
    ]
    is_given.append(_is_ring(inputs, chain_length, stretches))
    return digest, sum(1 << bit for bit, is_set in enumerate(is_given) if is_set)


def signature_text(digest: int, mask: int) -> str:
    """Return a signature such as ``5e1c09af recursive doubling or binary tree``.

    `digest` is the hash of the result. If bit i of `mask` is set, the order `ORDERS[i]` gives the
    result. If all orders but a ring give the result, the order is ``any order``.
    """
    names = [name for bit, name in enumerate(ORDERS) if mask >> bit & 1]
    words = "any order" if set(SUMS_BY_ORDER) <= set(names) else " or ".join(names)
    return f"{digest:08x} {words or 'another order'}"


_Stretches = Sequence[tuple[int, Array]]


def _read_stretches(result: Any, ranks: int) -> _Stretches:
    """Return each stretch of a result, after the index of the stretch's first element.

    The result is divided into equal parts, whose number depends on the number of `ranks`. The
    stretch of a part is the few consecutive elements in its middle.
    """
    element_count = int(result.shape[0])
    max_parts = max(ranks, _MAX_STRETCHES // ranks * ranks)
    part_count = min(_STRETCHES_PER_RANK * ranks, max_parts, element_count)
    part_length = element_count // part_count
    length = min(_STRETCH_LENGTH, max(1, part_length // 2))
    begins = range((part_length - length) // 2, part_count * part_length, part_length)
    return [(begin, np.ascontiguousarray(result[begin : begin + length])) for begin in begins]


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
    for ring in (inputs, inputs[::-1]):
        rotations = ([*ring[first:], *ring[:first]] for first in range(len(ring)))
        rows = np.stack(
            [_matches_order(blocks, _add_in_turn, chain_length, stretches) for blocks in rotations]
        )
        if rows.any(axis=0).all() and not rows.all(axis=1).any():
            return True
    return False
