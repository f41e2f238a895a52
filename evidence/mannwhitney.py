"""The Mann-Whitney U test as asv has it: exact for few samples, normal for many.

Numbers in, a p-value out; checked against SciPy in the tests.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

# asv's own border between counting and the normal approximation.
EXACT_UP_TO = 20


def two_sided_p(first: Sequence[float], second: Sequence[float]) -> float:
    """The probability of ranks as unequal as these, or more, if nothing differs."""
    product = len(first) * len(second)
    least = least_u(first, second)
    if max(len(first), len(second)) <= EXACT_UP_TO:
        return min(1.0, 2 * at_most(least, first=len(first), second=len(second)))
    deviation = math.sqrt(product * (len(first) + len(second) + 1) / 12)
    return math.erfc((product / 2 - least) / deviation / math.sqrt(2))


def least_u(first: Sequence[float], second: Sequence[float]) -> int:
    """The smaller of the two U; ties are broken so that the sides differ least."""
    ordered = sorted(second)
    above = sum(bisect_left(ordered, one) for one in first)
    above_or_tied = sum(bisect_right(ordered, one) for one in first)
    product = len(first) * len(second)
    if above <= product // 2 <= above_or_tied:
        return product // 2
    return max(min(u, product - u) for u in (above, above_or_tied))


def at_most(u: int, *, first: int, second: int) -> float:
    """The probability of a U of at most `u` among `first` and `second` samples."""
    orderings = _orderings_up_to(first, second)
    return orderings[u] / orderings[-1]


@lru_cache(maxsize=64)
def _orderings_up_to(first: int, second: int) -> tuple[int, ...]:
    """How many orderings have a U of 0, of at most 1, and so on: sums of a Gaussian binomial.

    Their number by U are the coefficients of the product of (1 - q^(second + i)) / (1 - q^i).
    """
    size = first * second + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, first + 1):
        for u in range(size - 1, second + i - 1, -1):
            counts[u] -= counts[u - second - i]
        for u in range(i, size):
            counts[u] += counts[u - i]
    return tuple(accumulate(counts))
