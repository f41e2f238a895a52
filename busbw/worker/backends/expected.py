"""Data whose sums are exact: what every rank starts with, and what it must hold in the end.

numpy only. The values repeat after `period` elements; a back end tiles them. Every rank starts
with other data, so that nothing can be simplified away and no rank can be left out unseen:
element i is w(i) everywhere, but 0 on rank i mod n and 2 w(i) on the next rank. The sum over n
ranks is n w(i), and n^k w(i) after k rounds, so a skipped round shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

WEIGHTS = (1, 2, 4, 2)


@dataclass(frozen=True)
class Exact:
    """What a dtype holds exactly: significant bits, and the exponents of its powers of two."""

    bits: int
    least_exponent: int
    greatest_exponent: int


EXACT = {
    "float32": Exact(bits=24, least_exponent=-126, greatest_exponent=127),
    "bfloat16": Exact(bits=8, least_exponent=-126, greatest_exponent=127),
    "float16": Exact(bits=11, least_exponent=-14, greatest_exponent=15),
    "int32": Exact(bits=31, least_exponent=0, greatest_exponent=30),
}


def most_rounds(dtype: str, ranks: int) -> int:
    """How many chained sums over `ranks` ranks stay exact in `dtype`.

    The exponent grows by log2(n) a round. If n is no power of two, n^k must also fit into the
    significant bits. 0: not even one round is exact.
    """
    exact = EXACT[dtype]
    room = exact.greatest_exponent - exact.least_exponent - int(math.log2(max(WEIGHTS)))
    rounds = int(room / math.log2(ranks))
    if ranks > 2**exact.bits:
        return 0
    if ranks & (ranks - 1):
        rounds = min(rounds, int(exact.bits / math.log2(ranks)))
    return rounds


def period(ranks: int) -> int:
    """After how many elements the data repeat."""
    return ranks * len(WEIGHTS)


def _weights(ranks: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.repeat(np.array(WEIGHTS, dtype=np.float64), ranks)


def start(dtype: str, ranks: int, rank: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One period of rank `rank`'s starting values; float64, exact in `dtype`. Shape (period,)."""
    place = np.arange(period(ranks)) % ranks
    own = 1.0 + (place == (rank - 1) % ranks) - (place == rank)
    scaled: np.ndarray[Any, np.dtype[np.float64]] = (
        own * _weights(ranks) * 2.0 ** EXACT[dtype].least_exponent
    )
    return scaled


def after(dtype: str, ranks: int, rounds: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One period of what every rank holds after `rounds` sums. Shape (period,), float64."""
    scale = float(ranks) ** rounds * 2.0 ** EXACT[dtype].least_exponent
    scaled: np.ndarray[Any, np.dtype[np.float64]] = _weights(ranks) * scale
    return scaled
