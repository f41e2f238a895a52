"""Means, medians and sums over the cases of many devices; devices are the first axis of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def launch_squares(times: Array) -> tuple[Array, Array]:
    """Return the sum of squared deviations of launches from their mean, and its degrees of freedom.

    Launches are the last axis of `times`, which are log times.
    """
    squares = ((times - times.mean(-1, keepdims=True)) ** 2).sum(-1)
    return squares, np.full(squares.shape, times.shape[-1] - 1.0)


def median_of_chi_squared(freedom: Array) -> Array:
    """Return an approximate median of chi-squared divided by its degrees of freedom, `freedom`."""
    return np.asarray((1 - 2 / (9 * np.maximum(freedom, 1))) ** 3)


def clipped_mean(variances: Array, freedom: Array, max_ratio: float) -> Array:
    """Return the mean variance of each device, weighted by degrees of freedom.

    A variance counts as at most `max_ratio` times the median of its device's variances.
    """
    ratios = variances / median_of_chi_squared(freedom)
    median = masked_median(ratios, freedom > 0)[:, None]
    weighted = np.minimum(variances, max_ratio * median) * freedom
    return np.asarray(weighted.sum(1) / np.maximum(freedom.sum(1), 1))


def masked_median(values: Array, mask: Array) -> Array:
    """Return the median of each device's values over the cases that `mask` selects.

    It is infinite if `mask` selects no case.
    """
    return masked_quantile(values, mask, 0.5, default=np.inf)


def masked_quantile(values: Array, mask: Array, fraction: float, default: float = 0.0) -> Array:
    """Return a quantile of each device's values over the cases that `mask` selects.

    `fraction` selects the quantile: 0.5 is the median. The result is `default` if `mask` selects no
    case.
    """
    ordered = np.sort(np.where(mask, values, np.inf), axis=1)
    count = np.broadcast_to(mask, values.shape).sum(1)
    position = fraction * np.maximum(count - 1, 0)
    below = position.astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    low = np.take_along_axis(ordered, below[:, None], 1)[:, 0]
    high = np.take_along_axis(ordered, above[:, None], 1)[:, 0]
    with np.errstate(invalid="ignore"):
        quantile = low + (high - low) * (position - below)
    return np.where(count > 0, quantile, default)


def sum_of_neighbours(values: Array, family_size: int, max_distance: int) -> Array:
    """Return, for each case, the sum of the values of its neighbouring payloads.

    Neighbours are up to `max_distance` payloads on either side in a family of `family_size` cases.
    """
    grouped = values.reshape(len(values), -1, family_size)
    total = np.zeros_like(grouped)
    for distance in range(1, min(max_distance, family_size - 1) + 1):
        total[..., distance:] += grouped[..., :-distance]
        total[..., :-distance] += grouped[..., distance:]
    return total.reshape(values.shape)
