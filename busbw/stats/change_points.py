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

# A value that is farther than this from both neighbours, in standard deviations, is a spike.
_SPIKE_SIGMAS = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanChange:
    """A step in the mean of a series of values.

    Attributes:
        position: The index of the first value with the new mean.
        size: The new mean minus the old mean, in the unit of the values.
        value_count: The number of values with the new mean, up to the next step or the end.

    """

    position: int
    size: float
    value_count: int

    def size_at(self, position: int) -> float:
        """Return `size` if the value at index `position` comes after the step, else 0."""
        return self.size if position >= self.position else 0.0


def find_mean_changes(values: Sequence[float], variance: Variance) -> tuple[MeanChange, ...]:
    """Find the steps in the mean of a series of values; return the steps by ascending position.

    The method is binary segmentation. The series is split where the means before and after differ
    by the most standard errors, if chance does not explain the difference. Both parts are then
    split in the same way (A. J. Scott and M. Knott, "A cluster analysis method for grouping means
    in the analysis of variance", 1974). The values are assumed to be independent and normal about
    the mean, with `variance`. Before the search, each spike (a single value far from both
    neighbours) is replaced by the nearer neighbour, because a spike is no step.
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
        MeanChange(position=begin, size=level - before, value_count=count)
        for (_, _, before), (begin, count, level) in itertools.pairwise(levels)
    )


def _replace_spikes(values: Sequence[float], min_distance: float) -> list[float]:
    """Return the values, with each spike replaced by its nearer neighbour.

    A spike is a single value that is greater than both of its neighbours, or less than both, and
    differs from each neighbour by more than `min_distance`. The first value is compared with the
    two values after it, and the last value with the two values before it.
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
    """Return the positions at which new levels begin, in ascending order.

    Only the values from `begin_position` up to, but without, `end_position` are searched. `sums`
    are the cumulative sums of all values, beginning with 0. A position counts if its score (see
    `_best_split`) is at least `threshold`.
    """
    split, score = _best_split(sums, begin_position, end_position)
    if not split or score < threshold:
        return []
    before = _find_splits(sums, begin_position, split, threshold)
    return [*before, split, *_find_splits(sums, split, end_position, threshold)]


def _best_split(sums: Sequence[float], begin_position: int, end_position: int) -> tuple[int, float]:
    """Return the position at which a split makes the two means differ most, and the score.

    The score is the difference of the means, scaled so that the score has the same standard
    deviation as a single value. The first value after a split must be at least as near to the mean
    after the split as to the mean before the split. The position and the score are 0 if no split is
    possible. The arguments are those of `_find_splits`.
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
