"""The signature of a sum: a hash of what inexact numbers add up to, and in which orders they would.

Numbers that are added in another order give other bits. Of a ring every part of the buffer begins
at another rank; the others add each element in the same order. Numpy only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from busbw.model import limits
from busbw.model.limits import ANY_ORDER, RING, UNKNOWN_ORDER

# All that a signature can name, the first as the least bit of its mask.
NAMES = limits.ORDERS

Array = np.ndarray[Any, np.dtype[Any]]
Sum = Callable[[Sequence[Array]], Array]

# Stretches that are looked at for each rank, and the most of them and of elements in each.
_STRETCHES, _MOST_STRETCHES, _LENGTH = 8, 256, 64


def _in_turn(first: int, way: int) -> Sum:
    """From the rank `first` on, each after the other."""

    def added(blocks: Sequence[Array]) -> Array:
        count = len(blocks)
        return reduce(np.add, [blocks[(first + way * at) % count] for at in range(count)])

    return added


def _doubled(blocks: Sequence[Array]) -> Array:
    """Neighbours first, as recursive doubling and a binomial tree do."""
    while len(blocks) > 1:
        pairs = [one + other for one, other in zip(blocks[::2], blocks[1::2])]
        blocks = [*pairs, *blocks[len(pairs) * 2 :]]
    return blocks[0]


def _halved(blocks: Sequence[Array]) -> Array:
    """Those half of all apart first, as recursive halving does."""
    while len(blocks) > 1:
        half = len(blocks) // 2
        pairs = [one + other for one, other in zip(blocks[:half], blocks[half : 2 * half])]
        blocks = [*pairs, *blocks[2 * half :]]
    return blocks[0]


def _tree(blocks: Sequence[Array], root: int = 0) -> Array:
    """A rank adds what its two children send to its own; those of i are 2i + 1 and 2i + 2."""
    below = [child for child in (2 * root + 1, 2 * root + 2) if child < len(blocks)]
    return reduce(np.add, [blocks[root], *(_tree(blocks, child) for child in below)])


# In all elements alike.
ORDERS: dict[str, Sum] = dict(zip(NAMES, (_in_turn(0, 1), _doubled, _halved, _tree)))


def inexact(shape: tuple[int, ...], seed: tuple[int, ...], dtype: Any) -> Array:
    """From 1 to 2, with all bits of a fraction; the same on every machine."""
    words = np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(zlib.crc32(repr(seed).encode()))
    # The end of splitmix64 (Steele, Lea and Flood, 2014).
    words *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    words ^= words >> np.uint64(31)
    fractions = (words >> np.uint64(11)).astype(np.float64) / 2.0**53
    found: Array = (1 + fractions).reshape(shape).astype(dtype)
    return found


def signature(inputs: Sequence[Array], got: Any, rounds: int) -> tuple[int, int]:
    """A hash of stretches of `got`, and which of `NAMES` fit, the first as the least bit.

    `got` is what one rank has after `rounds` rounds, the sum of all `inputs` each time; of these
    there is one period of a block.
    """
    stretches = list(_stretches(got, len(inputs)))
    found = zlib.crc32(b"".join(part.tobytes() for _, part in stretches))
    fits = [name for name, order in ORDERS.items() if all(_fits(inputs, order, rounds, stretches))]
    if _is_ring(inputs, rounds, stretches):
        fits.append(RING)
    return found, sum(1 << NAMES.index(name) for name in fits)


def text_of(found: int, mask: int) -> str:
    """Such as ``5e1c09af recursive doubling or binary tree``."""
    names = [name for at, name in enumerate(NAMES) if mask >> at & 1]
    words = ANY_ORDER if set(ORDERS) <= set(names) else " or ".join(names)
    return f"{found:08x} {words or UNKNOWN_ORDER}"


_Stretches = Sequence[tuple[int, Array]]


def _stretches(got: Any, ranks: int) -> Iterator[tuple[int, Array]]:
    """In the middle of equal parts."""
    count = int(got.shape[0])
    parts = min(_STRETCHES * ranks, max(ranks, _MOST_STRETCHES // ranks * ranks), count)
    each = count // parts
    length = min(_LENGTH, max(1, each // 2))
    for part in range(parts):
        begin = part * each + (each - length) // 2
        yield begin, np.ascontiguousarray(got[begin : begin + length])


def _fits(inputs: Sequence[Array], order: Sum, rounds: int, stretches: _Stretches) -> Array:
    """Which elements of the stretches are what `order` gives."""
    period = order(inputs)
    for _ in range(rounds - 1):
        period = order([period] * len(inputs))
    found = [
        period[(begin + np.arange(len(part))) % len(period)] == part for begin, part in stretches
    ]
    return np.concatenate(found)


def _is_ring(inputs: Sequence[Array], rounds: int, stretches: _Stretches) -> bool:
    """Whether every element has some rank to begin at, one way round, and not all the same."""
    for way in (1, -1):
        orders = (_in_turn(first, way) for first in range(len(inputs)))
        rows = np.stack([_fits(inputs, order, rounds, stretches) for order in orders])
        if rows.any(axis=0).all() and not rows.all(axis=1).any():
            return True
    return False
