"""Where the mean of a series changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

# A value is far beyond its neighbours from this many standard deviations on.
_SPIKE = 3.0


def change_points(
    values: Sequence[float], deviation: float, *, threshold: float, least: int
) -> tuple[int, ...]:
    """Where the mean of `values` changes: the positions at which a new level begins, in order.

    By binary segmentation (A. J. Scott and M. Knott, "A cluster analysis method for grouping
    means in the analysis of variance", 1974): a stretch is split where the means before and after
    differ most, in standard errors of `deviation`, if that is `threshold` of them at least; and so
    are its parts. A level has `least` values at least. A single value far from both of its
    neighbours is no level and is brought to the nearer one.
    """
    sums = [0.0, *itertools.accumulate(_without_spikes(values, _SPIKE * deviation))]
    found: list[int] = []
    stretches = [(0, len(values))]
    while stretches:
        begin, end = stretches.pop()
        split, score = _best_split(sums, begin, end, least)
        if split and score >= threshold * deviation:
            found.append(split)
            stretches += [(begin, split), (split, end)]
    return tuple(sorted(found))


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


def _best_split(sums: Sequence[float], begin: int, end: int, least: int) -> tuple[int, float]:
    """Where the means of both parts differ most, times the root of half their harmonic size.

    A new level begins with a value of its own: one that is nearer to the mean before belongs there.
    """
    best, most = 0, 0.0
    for split in range(begin + least, end - least + 1):
        first, second = split - begin, end - split
        before = (sums[split] - sums[begin]) / first
        after = (sums[end] - sums[split]) / second
        score = abs(after - before) * math.sqrt(first * second / (first + second))
        value = sums[split + 1] - sums[split]
        if score > most and abs(value - after) <= abs(value - before):
            best, most = split, score
    return best, most
