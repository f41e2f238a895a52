"""Intervals for shares: Wilson's and the exact ones of counts, a bootstrap over sessions.

Numbers in, numbers out; the standard library has neither. Knows nothing of rules.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from busbw import stats

CONFIDENCE = 0.95
RESAMPLES = 2000
_BISECTIONS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """From `lower` to `upper`, both shares."""

    lower: float
    upper: float


def wilson(found: int, among: int) -> Interval:
    """The 95 % interval of E. B. Wilson, "Probable inference", 1927: for many observations."""
    share, z = found / among, NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    whole = 1 + z * z / among
    middle = (share + z * z / (2 * among)) / whole
    half = z / whole * math.sqrt(share * (1 - share) / among + (z / (2 * among)) ** 2)
    return Interval(lower=max(0.0, middle - half), upper=min(1.0, middle + half))


def clopper_pearson(found: int, among: int) -> Interval:
    """The exact 95 % interval of a share of which `found` of `among` independent ones are seen.

    Each bound leaves 2.5 % to its side, so it never covers less than 95 %.
    """
    if not 0 <= found <= among:
        raise ValueError(f"{found} of {among} is no share")
    return Interval(lower=1 - _upper(among - found, among), upper=_upper(found, among))


def _upper(found: int, among: int) -> float:
    """The share at which `found` or fewer of `among` come with a probability of 2.5 %."""
    if found == among:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if at_most(found, among, share=middle) > (1 - CONFIDENCE) / 2:
            low = middle
        else:
            high = middle
    return high


def at_most(found: int, among: int, *, share: float) -> float:
    """The probability of `found` or fewer of `among`, each of which has probability `share`."""
    if share <= 0 or share >= 1:
        return float(share <= 0 or found >= among)
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
    """The 95 % interval of a pooled share, of (found, among) by session: sessions are drawn anew.

    Where every session is all or nothing and all agree, drawing says nothing; then each session
    counts once, in Clopper and Pearson's interval.
    """
    if not any(found for found, _ in counts):
        return clopper_pearson(0, len(counts))
    if all(found == among for found, among in counts):
        return clopper_pearson(len(counts), len(counts))
    chance = random.Random(seed)
    shares = [_pooled(chance.choices(counts, k=len(counts))) for _ in range(RESAMPLES)]
    edge = (1 - CONFIDENCE) / 2
    return Interval(lower=stats.quantile(shares, edge), upper=stats.quantile(shares, 1 - edge))


def _pooled(counts: Sequence[tuple[int, int]]) -> float:
    return sum(found for found, _ in counts) / sum(among for _, among in counts)
