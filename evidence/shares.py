"""Shares and their 95 % intervals: Wilson's and the exact ones, a bootstrap; and how they are said.

Numbers and text only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

from busbw.stats.launches import quantile

CONFIDENCE = 0.95
_RESAMPLES = 2000
_BISECTIONS = 60

# The bounds of a share.
Interval: TypeAlias = tuple[float, float]


def wilson(found: int, among: int) -> Interval:
    """The interval of E. B. Wilson, "Probable inference", 1927: for many observations."""
    share, z = found / among, NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    whole = 1 + z * z / among
    middle = (share + z * z / (2 * among)) / whole
    half = z / whole * math.sqrt(share * (1 - share) / among + (z / (2 * among)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def clopper_pearson(found: int, among: int) -> Interval:
    """The exact interval of `found` of `among` independent ones.

    Each bound leaves 2.5 % to its side, so it never covers less than 95 %.
    """
    return 1 - _upper(among - found, among), _upper(found, among)


def _upper(found: int, among: int) -> float:
    """The share at which `found` or fewer of `among` come with a probability of 2.5 %."""
    if found == among:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _at_most(found, among, middle) > (1 - CONFIDENCE) / 2:
            low = middle
        else:
            high = middle
    return high


def _at_most(found: int, among: int, share: float) -> float:
    return math.fsum(
        math.exp(
            math.lgamma(among + 1)
            - math.lgamma(one + 1)
            - math.lgamma(among - one + 1)
            + one * math.log(share)
            + (among - one) * math.log1p(-share)
        )
        for one in range(found + 1)
    )


def bootstrapped(counts: Sequence[tuple[int, int]], *, seed: str) -> Interval:
    """The interval of a pooled share, of (found, among) by session: sessions are drawn anew.

    Where every session is all or nothing and all agree, drawing says nothing; then each session
    counts once, in Clopper and Pearson's interval.
    """
    if not any(found for found, _ in counts):
        return clopper_pearson(0, len(counts))
    if all(found == among for found, among in counts):
        return clopper_pearson(len(counts), len(counts))
    chance = random.Random(seed)
    shares = [_pooled(chance.choices(counts, k=len(counts))) for _ in range(_RESAMPLES)]
    edge = (1 - CONFIDENCE) / 2
    return quantile(shares, edge), quantile(shares, 1 - edge)


def _pooled(counts: Sequence[tuple[int, int]]) -> float:
    return sum(found for found, _ in counts) / sum(among for _, among in counts)


def percent(share: float) -> str:
    """A share as per cent; decimals only near the ends, where they matter."""
    # A bound that is 0 may come as a rounding error.
    value = 100 * share if share > 1e-12 else 0.0
    if 0 < value < 1:
        return f"{value:.1g} %"
    decimals = 1 if 1 <= value < 10 or 90 < value < 100 else 0
    return f"{value:.{decimals}f}".replace(".0", "") + " %"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
