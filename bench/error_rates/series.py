"""Levels over the sessions of many devices, and losses that only several sessions show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.judge.policy import RuleThresholds

from .arrays import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Latest:
    """How the session that is judged compares with the level of each series, in log time.

    `value` and `fastest` are the median and the fastest time that the session appends. `off` is its
    deviation from `level`, with the standard deviation `deviation`. `squares` and `freedom` are a
    sum of squares and its degrees of freedom: the noise that is known without earlier sessions.
    `begins` says whether this session alone shows a loss in the series itself.
    """

    value: Array
    fastest: Array
    level: Array
    off: Array
    deviation: Array
    squares: Array
    freedom: Array
    begins: Array


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLoss:
    """Losses that the last `length` sessions of a series show; `loss` is 0 where there is no loss.

    `level` is the level before these sessions.
    """

    loss: Array
    length: Array
    level: Array


class Series:
    """All sessions of each case, or of the part that the cases of each framework share, by device.

    Each session is a tuple of arrays: value, fastest time, and the sum of squared deviations of
    launches with its degrees of freedom. `sums` are cumulative sums over the sessions that count:
    of value, squared value, squared deviations and degrees of freedom, and of 1, value and fastest
    time over the sessions with more than one launch. `before` has the number of counted sessions
    before each session. `loss` is the present loss of each series, 0 without a loss; windows begin
    at `start` or later.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        sessions: int,
        rule: RuleThresholds,
        floor: Array,
        factors: tuple[float, float],
    ) -> None:
        self.rule, self.floor, self.factors = rule, floor, factors
        self.sums = np.zeros((7, *shape, sessions + 3))
        self.values: list[Array] = []
        self.counts: list[Array] = []
        self.before: list[Array] = [np.zeros(shape, int)]
        self.loss, self.start = np.zeros(shape), np.zeros(shape, int)

    @property
    def count(self) -> int:
        """The number of sessions."""
        return len(self.values)

    @property
    def n(self) -> Array:
        """The number of sessions that count."""
        return self.before[-1]

    @property
    def n_recent(self) -> Array:
        """The number of counted sessions from which the level is computed."""
        return np.minimum(self.n, self.rule.level_session_count)

    def append(self, values: Sequence[Array], counts: Array) -> None:
        """Append a session; `counts` says for which series it counts."""
        self.values.append(np.stack(values))
        self.counts.append(counts.copy())
        cells = np.nonzero(counts)
        position = self.n[cells]
        for sums, value in zip(self.sums, _summed(self.values[-1])):
            sums[(*cells, position + 1)] = sums[(*cells, position)] + value[cells]
        self.before.append(self.n + counts)

    def _sum(self, kind: int, n: Array) -> Array:
        """Return the sum of the values of a `kind` over the first `n` sessions that count.

        `kind` is an index into `sums`.
        """
        return np.take_along_axis(self.sums[kind], n[..., None], -1)[..., 0]

    def recent(self, kind: int, n: Array) -> Array:
        """Return the sum of the values of a `kind` over the sessions that make up a level.

        These are the last sessions among the first `n` sessions that count.
        """
        earlier = self._sum(kind, n - np.minimum(n, self.rule.level_session_count))
        return np.asarray(self._sum(kind, n) - earlier)

    def level(self, n: Array) -> tuple[Array, Array, Array]:
        """Return the level, the level of the fastest launches, and the mean without an upper bound.

        They are computed from the first `n` sessions that count.
        """
        count = np.maximum(np.minimum(n, self.rule.level_session_count), 1)
        mean, whole = self.recent(0, n) / count, np.maximum(self.recent(4, n), 1)
        first = np.minimum(n, self.rule.anchor_session_count)
        bound = self._sum(0, first) / np.maximum(first, 1) + self.rule.anchor_margin
        level = np.minimum(mean, bound)
        return level, self.recent(6, n) / whole + level - self.recent(5, n) / whole, mean

    def squares(self, n: Array, mean: Array) -> Array:
        """Return the sum of squared deviations of the level's sessions from their `mean`."""
        count = np.minimum(n, self.rule.level_session_count)
        return np.asarray(np.maximum(0.0, self.recent(1, n) - count * mean**2))

    def _since(self, kind: int, session: int, latest: Array) -> Array:
        """Return the values of a `kind` in all sessions from `session` on, and then `latest`."""
        return np.stack([*(values[kind] for values in self.values[session:]), latest])

    def release(self, latest: Latest, allowed: Array) -> None:
        """Forget losses that are over because this session excludes half of the loss.

        `allowed` says which losses may end.
        """
        last = np.median(self._since(0, max(0, self.count - 2), latest.value), 0) - latest.level
        is_small = latest.off + self.rule.recovery_sigmas * latest.deviation < self.loss / 2
        is_over = (self.loss > 0) & (is_small | (last < self.loss / 2)) & allowed
        self.start[is_over], self.loss[is_over] = self.count, 0.0

    def window(self, latest: Latest, allowed: Array) -> WindowLoss:
        """Find losses that the last sessions show together.

        The shortest window that shows a loss gives its size, and the longest such window its
        length. `allowed` says which series may have a loss.
        """
        loss, level = np.zeros(latest.value.shape), np.zeros(latest.value.shape)
        length = np.zeros(latest.value.shape, int)
        for sessions in self.rule.window_lengths:
            if sessions <= self.count:
                is_lost, size, before = self._window(sessions, latest, allowed)
                loss = np.where(is_lost & (loss == 0), size, loss)
                length = np.where(is_lost, sessions, length)
                level = np.where(is_lost, before, level)
        return WindowLoss(loss=loss, length=length, level=level)

    def _window(self, sessions: int, latest: Latest, allowed: Array) -> tuple[Array, Array, Array]:
        """Return where the last `sessions` show a loss, its size, and the level before them."""
        begin = self.count + 1 - sessions
        n = np.maximum(self.before[begin], 1)
        level, fastest, mean = self.level(n)
        values = self._since(0, begin, latest.value)
        size = np.minimum(
            values.mean(0) - level, self._since(1, begin, latest.fastest).mean(0) - fastest
        )
        count = np.minimum(n, self.rule.level_session_count)
        squares, freedom = latest.squares + self.squares(n, mean), latest.freedom + count - 1
        share = max(1 / sessions, self.rule.min_window_to_session_variance) + 1 / count
        factor = self.factors[0] + self.factors[1] / count
        limit = factor * np.sqrt(share) * np.sqrt(squares / freedom)
        is_lost = allowed & (self.before[begin] >= 2) & (begin >= self.start)
        is_lost &= size > np.maximum(self.floor, limit)
        cells = np.nonzero(is_lost)
        last = self._since(0, max(0, self.count - 2), latest.value)
        medians = [np.median([session[cells] for session in part], 0) for part in (values, last)]
        least = np.minimum(np.minimum(*medians), latest.value[cells]) - level[cells]
        is_lost[cells] = least > size[cells] / 2
        return is_lost, size, level

    def hold(self, window: WindowLoss, latest: Latest) -> None:
        """Remember a loss of several sessions, or a loss that begins with this session."""
        in_window = window.loss > 0
        begins = (self.loss == 0) & latest.begins & ~in_window
        self.loss = np.where(in_window, window.loss, np.where(begins, latest.off, self.loss))

    def discount(self, window: WindowLoss) -> None:
        """Exclude sessions of a window from the level if they have more than half of its loss."""
        rows = np.nonzero(window.loss)
        if not len(rows[0]):
            return
        values = np.stack([[kind[rows] for kind in session] for session in self.values], -1)
        counts = np.stack([session[rows] for session in self.counts], -1)
        inside = np.arange(self.count)[None] >= self.count - window.length[rows][:, None]
        threshold = (window.level[rows] + window.loss[rows] / 2)[:, None]
        counts &= ~(inside & (values[0] > threshold))
        numbers = counts.cumsum(-1)
        row, session = np.nonzero(counts)
        for sums, value in zip(self.sums, _summed(values)):
            counted = np.zeros((len(counts), sums.shape[-1]))
            total = np.cumsum(np.where(counts, value, 0.0), -1)
            counted[row, numbers[row, session]] = total[row, session]
            sums[rows] = counted
        for session_number in range(self.count):
            self.counts[session_number][rows] = counts[:, session_number]
            self.before[session_number + 1][rows] = numbers[:, session_number]

    def odd(self, latest: Latest, factor: float) -> Array:
        """Return by how much the accepted session was slower than all later sessions, in log time.

        It is 0 if the difference is not clear: if it is below `factor` standard deviations.
        """
        values = np.stack([session[0] for session in self.values])
        accepted, since = values[0], values[1:]
        if len(since) < 2:
            return np.zeros(accepted.shape)
        odd = accepted - np.median(since, 0)
        squares = latest.squares + ((since - since.mean(0)) ** 2).sum(0)
        deviation = np.sqrt(squares / (latest.freedom + len(since) - 1))
        limit = np.maximum(self.floor, factor * deviation * np.sqrt(1 + np.pi / 2 / len(since)))
        is_first = ((accepted - since[:2]) * np.sign(odd) > np.abs(odd) / 2).all(0)
        return np.where((np.abs(odd) > limit) & is_first, odd, 0.0)


def _summed(values: Array) -> list[Array]:
    """Return the terms of the sums of a session, or of several sessions along the last axis."""
    value, fastest, squares, freedom = values
    whole = 1.0 * (freedom > 0)
    return [value, value**2, squares, freedom, whole, whole * value, whole * fastest]
