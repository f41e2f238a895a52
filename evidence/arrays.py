"""Medians, sums and levels over arrays: by device, by case or framework, by session."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.judge.policy import Rule

Array = NDArray[Any]


def median_of_chi_squared(freedom: Array) -> Array:
    """Return the median of chi-squared over its degrees of freedom, approximately."""
    found: Array = (1 - 2 / (9 * np.maximum(freedom, 1))) ** 3
    return found


def clipped_mean(variances: Array, freedom: Array, clipped: float) -> Array:
    """Return the mean over cases, by freedom; an odd variance counts as a few medians at most."""
    middle = np.median(variances / median_of_chi_squared(freedom), axis=1, keepdims=True)
    weighted = np.minimum(variances, clipped * middle) * freedom
    found: Array = weighted.sum(1) / np.maximum(freedom.sum(1), 1)
    return found


def masked_median(values: Array, mask: Array) -> Array:
    """Return the median over the second axis of the values with `mask`; infinite without any."""
    return masked_quantile(values, mask, 0.5, none=np.inf)


def masked_quantile(values: Array, mask: Array, share: float, none: float = 0.0) -> Array:
    """Return a quantile over the second axis of the values with `mask`."""
    ordered = np.sort(np.where(mask, values, np.inf), axis=1)
    count = np.broadcast_to(mask, values.shape).sum(1)
    position = share * np.maximum(count - 1, 0)
    below = position.astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    low = np.take_along_axis(ordered, below[:, None], 1)[:, 0]
    high = np.take_along_axis(ordered, above[:, None], 1)[:, 0]
    with np.errstate(invalid="ignore"):
        found: Array = low + (high - low) * (position - below)
    return np.where(count > 0, found, none)


def squares_around(squares: Array, freedom: Array, sizes: int, near: int) -> tuple[Array, Array]:
    """Return the sums over up to `near` sizes on either side, of families of `sizes` cases."""
    grouped = [one.reshape(len(one), -1, sizes) for one in (squares, freedom)]
    sums = [np.zeros_like(one) for one in grouped]
    for total, one in zip(sums, grouped):
        for distance in range(1, min(near, sizes - 1) + 1):
            total[..., distance:] += one[..., :-distance]
            total[..., :-distance] += one[..., distance:]
    return sums[0].reshape(squares.shape), sums[1].reshape(squares.shape)


class Prefix:
    """Values of all sessions, and sums over the counted ones of each series in their order.

    `n` is how many sessions count, `before` how many of those before each session.
    """

    def __init__(self, shape: tuple[int, ...], kinds: int, sessions: int, rule: Rule) -> None:
        self.rule = rule
        self.sums = np.zeros((kinds, *shape, sessions + 3))
        self.values: list[Array] = []
        self.counts: list[Array] = []
        self.before: list[Array] = [np.zeros(shape, int)]

    @property
    def n(self) -> Array:
        return self.before[-1]

    @property
    def n_recent(self) -> Array:
        return np.minimum(self.n, self.rule.level_sessions)

    def append(self, values: Sequence[Array], counts: Array) -> None:
        stacked: Array = np.stack(values)
        self.values.append(stacked)
        self.counts.append(counts.copy())
        at = np.nonzero(counts)
        position = self.n[at]
        for kind, sums in enumerate(self.sums):
            sums[(*at, position + 1)] = sums[(*at, position)] + stacked[kind][at]
        self.before.append(self.n + counts)

    def last(self, kind: int, n: Array) -> Array:
        """Return the sum over the last sessions of a level among the first `n` that count."""
        return self._sum(kind, n) - self._sum(kind, n - np.minimum(n, self.rule.level_sessions))

    def _sum(self, kind: int, n: Array) -> Array:
        found: Array = np.take_along_axis(self.sums[kind], n[..., None], -1)[..., 0]
        return found

    def level_of(self, n: Array) -> tuple[Array, Array]:
        """Return the level of the first `n` that count, and the mean without its upper bound."""
        mean = self.last(0, n) / np.maximum(np.minimum(n, self.rule.level_sessions), 1)
        first = np.minimum(n, self.rule.anchor_sessions)
        bound = self._sum(0, first) / np.maximum(first, 1) + self.rule.anchor_margin
        return np.minimum(mean, bound), mean

    def level(self, n: Array) -> tuple[Array, Array, Array]:
        """Return the level, that of the fastest launches, and the mean without its bound."""
        level, mean = self.level_of(n)
        fastest = self.last(1, n) / np.maximum(np.minimum(n, self.rule.level_sessions), 1)
        return level, fastest + level - mean, mean

    def squares(self, n: Array, mean: Array, kind: int = 2) -> Array:
        """Return the squares about the mean; `kind` has the squares of the values."""
        count = np.minimum(n, self.rule.level_sessions)
        found: Array = np.maximum(0.0, self.last(kind, n) - count * mean**2)
        return found

    def discount(self, window: SimpleNamespace) -> None:
        """Let no session of a window count that has more than half of its loss."""
        rows = np.nonzero(window.found)
        if not len(rows[0]):
            return
        sessions = len(self.values)
        values: Array = np.stack(
            [np.stack([kind[rows] for kind in one]) for one in self.values], -1
        )
        counts = np.stack([one[rows] for one in self.counts], -1)
        inside = np.arange(sessions)[None] >= sessions - window.widest[rows][:, None]
        threshold = (window.level[rows] + window.loss[rows] / 2)[:, None]
        counts &= ~(inside & (values[0] > threshold))
        numbers = counts.cumsum(-1)
        row, at = np.nonzero(counts)
        for kind, sums in enumerate(self.sums):
            fresh = np.zeros((len(counts), sums.shape[-1]))
            total = np.cumsum(np.where(counts, values[kind], 0.0), -1)
            fresh[row, numbers[row, at]] = total[row, at]
            sums[rows] = fresh
        for at_session in range(sessions):
            self.counts[at_session][rows] = counts[:, at_session]
            self.before[at_session + 1][rows] = numbers[:, at_session]
