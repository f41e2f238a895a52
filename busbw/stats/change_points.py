"""The positions at which the mean of a series changes in a step."""

from __future__ import annotations

import itertools
import math
import statistics
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
    """A change of the mean by `size` at `position`; the new level has `count` values."""

    position: int
    size: float
    count: int

    def size_at(self, position: int) -> float:
        """Return the part of the change that the value at `position` has: all or nothing."""
        return self.size if position >= self.position else 0.0


def find_changes(values: Sequence[float], variance: Variance) -> tuple[Change, ...]:
    """Find the changes of the mean of `values`, in order, by binary segmentation.

    A stretch is split where the means before and after differ most, in standard errors, if that is
    more than chance does; and so are its parts (A. J. Scott and M. Knott, "A cluster analysis
    method for grouping means in the analysis of variance", 1974). The values are assumed to be
    independent and normal about the mean, with the `variance`. A single value far from both of its
    neighbours is no level: it is replaced by the nearer neighbour.
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
        Change(position=begin, size=level - before, count=count)
        for (_, _, before), (begin, count, level) in itertools.pairwise(levels)
    )


def _without_spikes(values: Sequence[float], far: float) -> list[float]:
    """Replace single values that are `far` beyond both neighbours by the nearer neighbour.

    The neighbours of an end are the two values next to it.
    """
    smooth = []
    for position, value in enumerate(values):
        first = max(0, min(position - 1, len(values) - 3))
        middle = statistics.median(values[first : first + 3])
        smooth.append(middle if abs(value - middle) > far else value)
    return smooth


def _splits(sums: Sequence[float], begin: int, end: int, threshold: float) -> list[int]:
    split, score = _best_split(sums, begin, end)
    if not split or score < threshold:
        return []
    before = _splits(sums, begin, split, threshold)
    return [*before, split, *_splits(sums, split, end, threshold)]


def _best_split(sums: Sequence[float], begin: int, end: int) -> tuple[int, float]:
    """Return the split at which the means of both parts differ most, and the difference.

    The difference is multiplied by the root of half the harmonic mean of the sizes of both parts,
    so that it has the standard deviation of the values. The split is 0 if there is none. A new
    level begins with a value that is nearer to the mean after the split than to the mean before.
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
