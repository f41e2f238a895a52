"""Where the mean of a series changes: in steps, or in a steady rise, which is one change."""

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

# Where a stretch begins, and its values there and at its end.
_Stretch = tuple[int, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The mean changes by `size` with the value `at`, or steadily from there `until` another.

    `count` values have it, up to the next change.
    """

    at: int
    until: int
    size: float
    count: int

    def by(self, position: int) -> float:
        """How much of it the value at `position` has."""
        if position < self.at or position >= self.until:
            return self.size if position >= self.until else 0.0
        return self.size * (position - self.at) / (self.until - self.at)


def changes_of(values: Sequence[float], variance: Variance) -> tuple[Change, ...]:
    """The changes of the mean of `values`, in order; `variance` is that about the mean.

    By binary segmentation (A. J. Scott and M. Knott, "A cluster analysis method for grouping
    means in the analysis of variance", 1974): a stretch is split where the means before and after
    differ most, in standard errors, if that is more than chance does; and so are its parts. Of
    several steps in a row in one direction, a constant and then a line may be the better fit. A
    single value far from both of its neighbours is no level and is brought to the nearer one.
    """
    threshold = t_quantile(_FALSE_CHANGES, variance.freedom) * math.sqrt(variance.value)
    values = _without_spikes(values, _SPIKE * math.sqrt(variance.value))
    found = []
    sums = [0.0, *itertools.accumulate(values)]
    edges = sorted({0, *_splits(sums, 0, len(values), threshold), len(values)})
    stretches = _with_rises(values, edges, threshold**2 / 2)
    ends = [begin for begin, _, _ in stretches[1:]] + [len(values)]
    last = None
    for (begin, first, to), end in zip(stretches, ends):
        if last is not None and first != last:
            found.append(Change(at=begin, until=begin, size=first - last, count=end - begin))
        if to != first:
            found.append(Change(at=begin, until=end - 1, size=to - first, count=end - begin))
        last = to
    return tuple(found)


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


def _with_rises(values: Sequence[float], edges: Sequence[int], worth: float) -> list[_Stretch]:
    """The levels between `edges`, of which those of a steady rise or fall are one stretch.

    Each step more than the two that a line has in its place must be `worth` squares of errors.
    """
    parts = [values[begin:end] for begin, end in itertools.pairwise(edges)]
    means = [statistics.fmean(part) for part in parts]
    found: list[_Stretch] = []
    at = 0
    while at < len(parts):
        last = at + 1
        while last < len(parts) and (means[last] > means[last - 1]) == (means[at + 1] > means[at]):
            last += 1
        whole = values[edges[at] : edges[last]]
        begin, first, to, rest = _rise(whole) if last - at > 2 else (0, 0.0, 0.0, math.inf)
        steps = sum(statistics.pvariance(part) * len(part) for part in parts[at:last])
        if rest < steps + worth * (last - at - 2):
            found += [(edges[at], first, first)] if begin else []
            found.append((edges[at] + begin, first, to))
            at = last
        else:
            found.append((edges[at], means[at], means[at]))
            at += 1
    return found


def _rise(values: Sequence[float]) -> tuple[int, float, float, float]:
    """A constant, then a line: where that begins, its first and last value, the squares left."""
    mean, best = statistics.fmean(values), (0, 0.0, 0.0, math.inf)
    for begin in range(len(values) - _LEAST):
        steps = [max(0, at - begin) for at in range(len(values))]
        middle = statistics.fmean(steps)
        slope = math.fsum((x - middle) * y for x, y in zip(steps, values))
        slope /= math.fsum((x - middle) ** 2 for x in steps)
        first = mean - slope * middle
        rest = math.fsum((y - first - slope * x) ** 2 for x, y in zip(steps, values))
        if rest < best[3]:
            best = begin, first, first + slope * steps[-1], rest
    return best
