"""The positions at which the mean of a series changes in a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .variance import Variance, t_quantile

# A change that chance makes at a given position with a greater probability is none.
_FALSE_CHANGES = 3e-7

# A level has as many values at least.
_LEAST = 3

# A value is far beyond its neighbours from this many standard deviations on.
_SPIKE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The mean changes by `size` with the value `at`, and keeps the level for `count` values."""

    at: int
    size: float
    count: int

    def by(self, position: int) -> float:
        """Return the part of the change that the value at `position` has: all or nothing."""
        return self.size if position >= self.at else 0.0


def changes_of(values: Sequence[float], variance: Variance) -> tuple[Change, ...]:
    """Return the changes of the mean of `values`, in order; `variance` is that about the mean.

    By binary segmentation (A. J. Scott and M. Knott, "A cluster analysis method for grouping
    means in the analysis of variance", 1974): a stretch is split where the means before and after
    differ most, in standard errors, if that is more than chance does; and so are its parts. A
    single value far from both of its neighbours is no level and is brought to the nearer one.
    """
    threshold = t_quantile(_FALSE_CHANGES, variance.freedom) * math.sqrt(variance.value)
    values = _without_spikes(values, _SPIKE * math.sqrt(variance.value))
    sums = [0.0, *itertools.accumulate(values)]
    edges = [0, *_splits(sums, 0, len(values), threshold), len(values)]
    levels = [
        (begin, end - begin, (sums[end] - sums[begin]) / (end - begin))
        for begin, end in itertools.pairwise(edges)
        if end > begin
    ]
    return tuple(
        Change(at=at, size=level - before, count=count)
        for (_, _, before), (at, count, level) in itertools.pairwise(levels)
    )


def _without_spikes(values: Sequence[float], far: float) -> list[float]:
    """Single values that are `far` beyond both neighbours, brought to the nearer one.

    The neighbours of an end are the two values next to it.
    """
    if len(values) < 3:
        return list(values)
    found = []
    for at, value in enumerate(values):
        first = min(max(at - 1, 0), len(values) - 3)
        others = [values[one] for one in range(first, first + 3) if one != at]
        nearest = min(max(value, min(others)), max(others))
        found.append(nearest if abs(value - nearest) > far else value)
    return found


def _splits(sums: Sequence[float], begin: int, end: int, threshold: float) -> list[int]:
    split, score = _best_split(sums, begin, end)
    if not split or score < threshold:
        return []
    before = _splits(sums, begin, split, threshold)
    return [*before, split, *_splits(sums, split, end, threshold)]


def _best_split(sums: Sequence[float], begin: int, end: int) -> tuple[int, float]:
    """Where the means of both parts differ most, times the root of half their harmonic size.

    A new level begins with a value of its own: one that is nearer to the mean before belongs there.
    """
    best, most = 0, 0.0
    for split in range(begin + _LEAST, end - _LEAST + 1):
        first, second = split - begin, end - split
        before = (sums[split] - sums[begin]) / first
        after = (sums[end] - sums[split]) / second
        score = abs(after - before) * math.sqrt(first * second / (first + second))
        value = sums[split + 1] - sums[split]
        if score > most and abs(value - after) <= abs(value - before):
            best, most = split, score
    return best, most
