"""Read the signature of a sum: a hash of its result, and the orders that give this result.

The summands are chosen so that their sums are rounded. Then another order of summation gives other
bits. In a ring the sum of each part of the buffer begins at another rank. In every other order all
elements are added up in the same order of ranks. This module needs only numpy.
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
from busbw.worker.backends.values import Array, CaseValues

# Adds up the blocks of all ranks in a certain order.
SumInOrder = Callable[[Sequence[Array]], Array]

# Only stretches of the result are compared: their number for each rank, their largest number in
# all, and the largest number of elements in a stretch.
_STRETCHES_PER_RANK = 8
_MAX_STRETCHES = 256
_STRETCH_LENGTH = 64


def _add_in_pairs(blocks: Sequence[Array], *, are_neighbors: bool) -> Array:
    """Return the sum of `blocks`, a block of each rank, added up in pairs in several passes.

    Each pass adds up pairs, so that half as many blocks are left. With `are_neighbors` the blocks
    of a pair are neighbors, as in recursive doubling and in a binomial tree. Otherwise one is of
    the first half and the other of the second half of the blocks, as in recursive halving. A last
    block without a partner waits for the next pass.
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
    """Return the sum of the blocks of the rank `root` and of all ranks below it in a binary tree.

    `blocks` has a block of each rank. The children of rank i are the ranks 2i + 1 and 2i + 2. The
    tree is added up from the leaves to the root.
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
    "recursive doubling": partial(_add_in_pairs, are_neighbors=True),
    "recursive halving": partial(_add_in_pairs, are_neighbors=False),
    "binary tree": _add_in_binary_tree,
}
# The orders of summation that a signature names; an order's index is its bit in a mask.
ORDERS = (*SUMS_BY_ORDER, "ring")


@dataclass
class SummationOrderReader:
    """A reader of the signature of a sum from the result of the first call of its program.

    The reader also makes the inputs of this call. The sums of the inputs are rounded, so that the
    result shows the order of summation.

    Attributes:
        values: The inputs and exact results of all later calls.

    """

    values: CaseValues

    @staticmethod
    def applies_to(case: Case) -> bool:
        """Return whether `case` is a sum of floating-point numbers."""
        return case.reduce_op == "sum" and DTYPES[case.dtype].least_exponent < 0

    def start(self, rank: int) -> Array:
        """Return the inputs of `rank` for the first call, an array (blocks, period).

        The array has a row for each block of the buffer: the values that the block repeats.
        """
        return numbers_with_inexact_sums(
            self.values.starting_values(rank, 0).shape,
            self.values.group_and_position(rank),
            self.values.dtype,
        )

    def read(self, rank: int, result: Any, iterations: int, all_gather: AllGather) -> str:
        """Return the signature of the sum, which is the same on all processes.

        Each process finds a hash of the result of its own rank, and the orders that give this
        result. The hashes are combined into a single hash. The signature names only the orders that
        all processes find.

        Args:
            rank: The first rank of this process.
            result: The result of the first call on this rank, a flat array.
            iterations: The number of iterations of the first call.
            all_gather: Exchanges numbers with the other processes.

        """
        group, position = self.values.group_and_position(rank)
        inputs = [[*self.start(other)] for other in self.values.case.rank_groups[group]]
        # Each block of the result is replaced by the list of blocks that are added up for it.
        (summands,) = self.values.collective.output_blocks(inputs, position, list)
        chain_length = self.values.applications_in_a_row(iterations)
        hash_and_mask = find_hash_and_order_mask(summands, result, chain_length)
        hashes, masks = zip(*all_gather([*map(float, hash_and_mask)]))
        words = [*map(int, hashes)]
        digest = words[0] if len(words) == 1 else zlib.crc32(repr(words).encode())
        return signature_text(digest, reduce(and_, map(int, masks)))


def numbers_with_inexact_sums(shape: tuple[int, ...], seed: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of random numbers from 1 to 2, whose sums have to be rounded.

    The numbers depend only on `shape`, `seed` and `dtype`, and not on the machine.
    """
    # numpy never changes the numbers that RandomState returns for a seed.
    random = np.random.RandomState(zlib.crc32(repr(seed).encode()))
    return np.asarray(1 + random.random_sample(shape)).astype(dtype)


def find_hash_and_order_mask(
    inputs: Sequence[Array], result: Any, chain_length: int
) -> tuple[int, int]:
    """Return a hash of a result, and a bit mask of the orders of summation that give the result.

    Only some stretches of the result are read. A stretch is a few consecutive elements. Bit i of
    the mask is set if the order `ORDERS[i]` gives the same bits in all stretches.

    Args:
        inputs: An array for each rank, with the few values that the block of the rank repeats.
        result: The result of a rank, a flat array.
        chain_length: The number of chained sums. The first sum adds up the inputs. In each further
            sum, the input of every rank is the result of the previous sum.

    """
    stretches = _read_stretches(result, len(inputs))
    digest = zlib.crc32(b"".join(part.tobytes() for _, part in stretches))
    is_given = [
        bool(_matches_by_element(inputs, order, chain_length, stretches).all())
        for order in SUMS_BY_ORDER.values()
    ]
    is_given.append(_is_added_in_ring(inputs, chain_length, stretches))
    return digest, sum(1 << bit for bit, is_set in enumerate(is_given) if is_set)


def signature_text(result_hash: int, order_mask: int) -> str:
    """Return a signature such as ``5e1c09af recursive doubling or binary tree``.

    `result_hash` is the hash of the result. Bit i of `order_mask` is set if the order `ORDERS[i]`
    gives the result. If all orders but a ring give the result, the signature has ``any order``. If
    no order gives the result, the signature has ``another order``.
    """
    names = [name for bit, name in enumerate(ORDERS) if order_mask >> bit & 1]
    words = "any order" if set(SUMS_BY_ORDER) <= set(names) else " or ".join(names)
    return f"{result_hash:08x} {words or 'another order'}"


# The stretches of a result, each with the index of its first element.
_Stretches = Sequence[tuple[int, Array]]


def _read_stretches(result: Any, rank_count: int) -> _Stretches:
    """Return some stretches of the flat array `result`, each with the index of its first element.

    The result is divided into equal parts, whose number depends on `rank_count`. A stretch is the
    few consecutive elements in the middle of a part.
    """
    element_count = int(result.shape[0])
    max_parts = max(rank_count, _MAX_STRETCHES // rank_count * rank_count)
    part_count = min(_STRETCHES_PER_RANK * rank_count, max_parts, element_count)
    part_length = element_count // part_count
    length = min(_STRETCH_LENGTH, max(1, part_length // 2))
    begins = range((part_length - length) // 2, part_count * part_length, part_length)
    return [(begin, np.ascontiguousarray(result[begin : begin + length])) for begin in begins]


def _matches_by_element(
    inputs: Sequence[Array], order: SumInOrder, chain_length: int, stretches: _Stretches
) -> Array:
    """Return a flat array of bool: whether the order `order` gives each element of the stretches.

    `order` is a function that adds up arrays in this order. `stretches` are the stretches of the
    result of a rank. `inputs` and `chain_length` are as in `find_hash_and_order_mask`.
    """
    period = order(inputs)
    for _ in range(chain_length - 1):
        period = order([period] * len(inputs))
    return np.concatenate(
        [period[(begin + np.arange(len(part))) % len(period)] == part for begin, part in stretches]
    )


def _is_added_in_ring(inputs: Sequence[Array], chain_length: int, stretches: _Stretches) -> bool:
    """Return whether the result with these stretches was added up in a ring.

    In a ring the sums of different parts of the buffer begin at different ranks. So each element
    must be the sum that begins at some rank, and no rank may give all elements. `inputs` and
    `chain_length` are as in `find_hash_and_order_mask`.
    """
    for ring in (inputs, inputs[::-1]):
        rotations = ([*ring[first:], *ring[:first]] for first in range(len(ring)))
        rows = np.stack(
            [
                _matches_by_element(blocks, _add_in_turn, chain_length, stretches)
                for blocks in rotations
            ]
        )
        if rows.any(axis=0).all() and not rows.all(axis=1).any():
            return True
    return False
