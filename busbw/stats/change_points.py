"""Find the positions at which the mean of a series of values changes in a step."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .launches import Variance, t_quantile

# A change does not count if chance makes it, at a given position, with a greater probability.
_FALSE_CHANGE_PROBABILITY = 3e-7

# A level has at least this many values: fewer values may be outliers.
_MIN_LEVEL_VALUES = 3

# A value that is more standard deviations than this from both neighbours is a spike.
_SPIKE_SIGMAS = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A step in the mean of a series.

    `size` is the new mean minus the old mean. The new mean begins with the value at index
    `position`, and is the mean of `value_count` values.
    """

    position: int
    size: float
    value_count: int

    def size_at(self, position: int) -> float:
        """Return `size` if the value at index `position` has the new mean, else 0."""
        return self.size if position >= self.position else 0.0


def find_changes(values: Sequence[float], variance: Variance) -> tuple[Change, ...]:
    """Find the changes of the mean of `values`, in their order, by binary segmentation.

    The series is split where the means before and after differ by the most standard errors, if
    chance does not explain the difference. Both parts are then split in the same way (A. J. Scott
    and M. Knott, "A cluster analysis method for grouping means in the analysis of variance", 1974).
    The values are assumed to be independent and normal about the mean, with `variance`. A spike is
    a single value far from both neighbours. It is replaced by the nearer neighbour before the
    search, because it is no level.
    """
    threshold = t_quantile(_FALSE_CHANGE_PROBABILITY, variance.degrees_of_freedom) * math.sqrt(
        variance.value
    )
    values = _replace_spikes(values, _SPIKE_SIGMAS * math.sqrt(variance.value))
    sums = [0.0, *itertools.accumulate(values)]
    edges = [0, *_find_splits(sums, 0, len(values), threshold), len(values)]
    levels = [
        (begin, end - begin, (sums[end] - sums[begin]) / (end - begin))
        for begin, end in itertools.pairwise(edges)
        if end > begin
    ]
    return tuple(
        Change(position=begin, size=level - before, value_count=count)
        for (_, _, before), (begin, count, level) in itertools.pairwise(levels)
    )


def _replace_spikes(values: Sequence[float], min_distance: float) -> list[float]:
    """Replace each value more than `min_distance` from both neighbours by the nearer neighbour.

    The neighbours of the first and of the last value are the two values next to it.
    """
    smooth = []
    for position, value in enumerate(values):
        first = max(0, min(position - 1, len(values) - 3))
        middle = statistics.median(values[first : first + 3])
        smooth.append(middle if abs(value - middle) > min_distance else value)
    return smooth


def _find_splits(
    sums: Sequence[float], begin_position: int, end_position: int, threshold: float
) -> list[int]:
    """Return the positions, from `begin_position` to `end_position`, where new levels begin.

    `sums` are the cumulative sums of the values. The score of a split must be at least `threshold`.
    """
    split, score = _best_split(sums, begin_position, end_position)
    if not split or score < threshold:
        return []
    before = _find_splits(sums, begin_position, split, threshold)
    return [*before, split, *_find_splits(sums, split, end_position, threshold)]


def _best_split(sums: Sequence[float], begin_position: int, end_position: int) -> tuple[int, float]:
    """Return the position at which a split makes the two means differ most, and its score.

    The score is the difference of the means, scaled so that its standard deviation is that of a
    single value. The position is 0 if no split is possible. The first value after a split must be
    nearer to the mean after the split than to the mean before the split.
    """
    best, most = 0, 0.0
    for split in range(begin_position + _MIN_LEVEL_VALUES, end_position - _MIN_LEVEL_VALUES + 1):
        first, second = split - begin_position, end_position - split
        before = (sums[split] - sums[begin_position]) / first
        after = (sums[end_position] - sums[split]) / second
        score = abs(after - before) * math.sqrt(first * second / (first + second))
        value = sums[split + 1] - sums[split]
        if score > most and abs(value - after) <= abs(value - before):
            best, most = split, score
    return best, most
