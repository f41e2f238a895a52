"""The rule of docs/verdict.md for many devices at once, written apart from `busbw.judge`.

Devices are the first axis of numpy arrays, cases or frameworks the second. `agreement` compares it
with the product, session by session. Times are logarithms relative to the accepted session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from busbw.judge.policy import Rule

from .arrays import (
    Array,
    Prefix,
    clipped_mean,
    masked_median,
    masked_quantile,
    median_of_chi_squared,
    squares_around,
)

_MANY_CASES = 42


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """What was decided about one session: by device and case, by framework, and by device.

    `red` cases are REGRESSED, of which `window` ones by several sessions. `odd` is by how much the
    accepted session was slower than those since, `shared_odd` for all cases; 0 for not clearly.
    """

    red: Array
    window: Array
    improved: Array
    confirmed: Array
    limit: Array
    odd: Array
    slower: Array
    shared_odd: Array
    noisy: Array

    @property
    def failed(self) -> Array:
        """Return whether the exit code is 1, by device."""
        found: Array = self.red.any(1) | self.slower.any(1) | self.noisy
        return found


class Judge:
    """Devices whose sessions are judged one after the other; the first is `accepted`."""

    def __init__(
        self,
        rule: Rule,
        frameworks: Sequence[slice],
        accepted: Array,
        sessions: int,
        *,
        sizes: int,
        floor: Array | None = None,
    ) -> None:
        self.rule, self.frameworks = rule, list(frameworks)
        self.together = [one.stop - one.start >= rule.least_cases for one in frameworks]
        self.is_together = np.array(self.together)[None]
        self.sizes = sizes
        self.base = np.median(accepted, -1)
        shape = self.base.shape
        small = np.full(shape, np.log1p(rule.floor))
        self.floor = small if floor is None else np.maximum(floor, small)
        shared = shape[0], len(self.frameworks)
        self.cases = Prefix(shape, 5, sessions, rule)
        self.shared = Prefix(shared, 2, sessions, rule)
        self.loss, self.shared_loss = np.zeros(shape), np.zeros(shared)
        self.start, self.shared_start = np.zeros(shape, int), np.zeros(shared, int)
        self.extremes: list[Array] = []
        times = accepted - self.base[..., None]
        squares, freedom = _squares(times)
        zero, every = np.zeros(shared), np.ones(shape, bool)
        middle, fastest = np.median(times, -1), times.min(-1)
        self.cases.append((middle, fastest, middle**2, squares, freedom), every)
        self.shared.append((zero, zero), np.ones(shared, bool) & self.is_together)

    @property
    def count(self) -> int:
        """Return the number of sessions so far, the accepted one included."""
        return len(self.cases.values)

    def session(self, times: Array) -> Outcomes:
        """Judge log times by device, case and launch; the last three launches confirm."""
        rule, times = self.rule, times - self.base[..., None]
        first, every = times[..., :-3], np.log(np.median(np.exp(times), -1))
        middle, fresh = np.median(first, -1), np.median(times[..., -3:], -1)
        self.level, self.fastest, self.mean = self.cases.level(self.cases.n)
        again, noise = np.zeros(middle.shape, bool), None
        while True:
            squares = tuple(np.where(again, b, a) for a, b in zip(_squares(first), _squares(times)))
            now = np.where(again, every, middle)
            look = self._look(now, squares, noise, first)
            noise = look.noise
            suspected = middle - look.shift > look.nearly(rule.suspect)
            if not (suspected & ~again).any():
                break
            again |= suspected
        fastest = np.where(again, times.min(-1), first.min(-1))
        look.slower_now = suspected & (fresh - look.shift > look.nearly(rule.suspect))
        look.slower_now &= look.off > look.limit
        look.slower_now &= fastest - self.fastest - look.shift + self.level > look.nearly(
            rule.by_fastest
        )
        look.improved = ~look.slower_now & (look.off < look.faster)
        look.again = again
        return self._decide(look, now - look.part, fastest - look.part, squares)

    # What launches and sessions say of the noise.

    def _noise(self, look: SimpleNamespace, squares: Array, freedom: Array) -> None:
        rule = self.rule
        sessions = np.minimum(self.cases.n, rule.level_sessions)
        own = self.cases.squares(self.cases.n, self.mean)
        launches = self.cases.last(3, self.cases.n) + squares
        weights = self.cases.last(4, self.cases.n) + freedom
        least = rule.least_deviation**2
        typical = clipped_mean(np.maximum(launches / weights, least), weights, rule.clipped)
        launch = np.maximum(typical, least)
        residual = np.maximum(sessions - 1, 0)
        total = residual.sum(1)
        variance = own / np.maximum(residual, 1)
        centre = masked_median(variance / median_of_chi_squared(residual), residual > 0)
        pooled = np.minimum(variance, rule.clipped * centre[:, None]) * residual
        prior = rule.prior**2 if self.count <= rule.prior_sessions else 0.0
        weight = rule.prior_freedom
        session = weight * np.maximum(prior, rule.launch_share * launch) + pooled.sum(1)
        session = session / (weight + total)
        most = np.minimum(launches / weights, rule.clipped * launch[:, None]) * weights
        around = squares_around(most, weights, self.sizes, rule.near_sizes)
        known = weights + rule.near_weight * around[1]
        share = np.minimum(1.0, rule.launch_freedom / known)
        scaled = share * (launches + rule.near_weight * around[0])
        look.squares = rule.own_freedom * session[:, None] + scaled * (session / launch)[:, None]
        look.freedom = rule.own_freedom + share * known
        look.variance = (look.squares + own) / (look.freedom + residual)
        look.deviation = np.sqrt(look.variance * (1 + 1 / self.cases.n_recent))
        look.unit = np.sqrt(look.squares / look.freedom * (1 + 1 / self.cases.n_recent))
        look.session = session
        look.factor = self._factor(total)[:, None]

    def _factor(self, residuals: Array) -> Array:
        rule = self.rule
        factor = np.full(len(residuals), rule.factor + rule.factor_of_one / self.count)
        if not self.extremes:
            return factor
        farthest = np.stack(self.extremes[-rule.level_sessions :]).max(0)
        third = np.sort(farthest, axis=1)[:, -min(3, farthest.shape[1])]
        heavy = (third > rule.heavy) & (residuals >= rule.tails_from)
        return np.where(heavy, np.maximum(factor, rule.tails * third), factor)

    # One look at the launches of tonight.

    def _look(
        self,
        now: Array,
        squares: Sequence[Array],
        noise: tuple[Array, Array] | None,
        first: Array,
    ) -> SimpleNamespace:
        rule, look = self.rule, SimpleNamespace()
        self._noise(look, squares[0], squares[1])
        frameworks = (len(now), len(self.frameworks))
        look.shared, look.shared_deviation = np.zeros(frameworks), np.zeros(frameworks)
        look.prior_shared = np.full(frameworks, rule.prior_shared**2)
        look.shared_level = np.zeros(frameworks)
        for at in range(len(self.frameworks)):
            self._share(look, now, at)
        level, common = self._by_case(look.shared_level), self._by_case(look.shared)
        look.shift = self.level + level
        look.off = now - look.shift
        look.common = np.where(self._by_case(self.is_together), common, 0.0)
        look.part = np.where(self._by_case(self.is_together), level + common, 0.0)
        look.residual = look.off - look.common
        own = np.maximum(self.floor, look.factor * look.deviation)
        look.noise = self._noisier(look, own, first) if noise is None else noise
        look.noisy, widened = look.noise
        self._limits(look, widened)
        return look

    def _share(self, look: SimpleNamespace, now: Array, at: int) -> None:
        """Find what the cases of a framework share tonight."""
        rule, cases = self.rule, self.frameworks[at]
        count = cases.stop - cases.start
        if self.together[at]:
            level, mean = self.shared.level_of(self.shared.n)
            look.shared_level[:, at] = level[:, at]
            n = self.shared.n_recent[:, at]
            look.prior_shared[:, at] += 4 * look.session / count
            weight = rule.prior_shared_freedom
            squares = self.shared.squares(self.shared.n, mean, kind=1)[:, at]
            variance = (weight * look.prior_shared[:, at] + squares) / (weight + n - 1)
        else:
            n = np.full(len(now), self.count)
            variance = look.prior_shared[:, at] + np.pi / 2 * look.session / count
        deviation = np.sqrt(variance * (1 + 1 / n))
        off = now[:, cases] - self.level[:, cases] - look.shared_level[:, at, None]
        whole = np.hypot(look.deviation[:, cases], deviation[:, None])
        factor = rule.factor + rule.factor_of_one / self.count
        inside = np.abs(off) <= np.maximum(self.floor[:, cases], factor * whole)
        enough = inside.sum(1, keepdims=True) >= rule.least_cases
        look.shared[:, at] = masked_median(off, np.where(enough, inside, True))
        look.shared_deviation[:, at] = deviation

    def _noisier(self, look: SimpleNamespace, own: Array, first: Array) -> tuple[Array, Array]:
        """Return whether the session is noisy, and by how much limits are wider."""
        rule, count = self.rule, len(own)
        if own.shape[1] < rule.least_cases_of_noise:
            return np.zeros(count, bool), np.ones(count)
        inside = np.abs(look.residual) <= own
        ratio: Array = (
            masked_quantile(np.abs(look.residual) * look.factor / own, inside, 0.7) / 1.036
        )
        chance = np.sqrt(max(1.0, _MANY_CASES / own.shape[1]))
        least = rule.noisier_at_first if self.count == 1 else rule.noisier
        squares, freedom = self.cases.last(3, self.cases.n), self.cases.last(4, self.cases.n)
        tiny = rule.least_deviation**2
        before = clipped_mean(np.maximum(squares / freedom, tiny), freedom, rule.clipped)
        now, weights = _squares(first)
        now = clipped_mean(np.maximum(now / weights, tiny), weights, rule.clipped)
        launches = np.sqrt(now / np.maximum(before, tiny)) > rule.noisier
        wide = ratio > 1 + (rule.widened - 1) * chance
        noisy = wide & ((ratio > 1 + (least - 1) * chance) | launches)
        return noisy, np.where(wide, rule.widening * ratio, 1.0)

    def _limits(self, look: SimpleNamespace, widened: Array) -> None:
        rule, wide = self.rule, widened[:, None]
        own = np.maximum(self.floor, look.factor * wide * look.deviation)
        shared = self._by_case(look.shared_deviation)
        whole = look.factor * np.hypot(wide * look.deviation, shared)
        whole = np.where(self._by_case(self.is_together), np.maximum(self.floor, whole), np.inf)
        part = np.maximum(0.0, look.common)
        look.own, look.limit = own, np.minimum(part + own, whole)
        look.faster = -np.minimum(np.maximum(0.0, -look.common) + own, whole)

        def nearly(share: float) -> Array:
            least: Array = np.maximum(share * look.limit, part + share * own)
            found: Array = np.minimum(look.limit, least)
            return found

        look.nearly = nearly
        more = np.stack([look.variance[:, one].mean(1) for one in self.frameworks], 1)
        more *= 4 * (wide**2 - 1) * (1 + 1 / self.count)
        more /= np.array([one.stop - one.start for one in self.frameworks])[None]
        limit = rule.factor_shared * np.sqrt(look.shared_deviation**2 + more)
        look.shared_limit = np.maximum(np.log1p(rule.slower), limit)

    def _by_case(self, values: Array) -> Array:
        """Return the value of each case's framework."""
        counts = [one.stop - one.start for one in self.frameworks]
        found: Array = np.repeat(values, counts, axis=1)
        return found

    # What several sessions say.

    def _decide(
        self, look: SimpleNamespace, values: Array, fastest: Array, squares: Sequence[Array]
    ) -> Outcomes:
        rule, calm = self.rule, ~look.noisy[:, None]
        shared = np.where(self.is_together, look.shared_level + look.shared, look.shared)
        shared_slower = look.shared > look.shared_limit
        over = self._over(self.cases, values, look.residual, look.deviation, self.loss, self.level)
        over &= ~look.slower_now
        shared_over = (
            self._over(
                self.shared,
                shared,
                look.shared,
                look.shared_deviation,
                self.shared_loss,
                look.shared_level,
            )
            & ~shared_slower
        )
        for loss, start, is_over in (
            (self.loss, self.start, over),
            (self.shared_loss, self.shared_start, shared_over),
        ):
            start[is_over], loss[is_over] = self.count, 0.0
        window = self._windows(
            self.cases, values, fastest, look, self.start, calm, rule.factor_window, self.floor
        )
        shared_look = SimpleNamespace(
            squares=rule.prior_shared_freedom * look.prior_shared,
            freedom=np.full(shared.shape, rule.prior_shared_freedom),
        )
        shared_window = self._windows(
            self.shared,
            shared,
            None,
            shared_look,
            self.shared_start,
            calm & self.is_together,
            rule.factor_shared_window,
            np.full(shared.shape, np.log1p(rule.slower)),
        )
        begins = look.slower_now & (look.residual > look.own)
        _hold(self.loss, window, begins, look.residual)
        _hold(self.shared_loss, shared_window, shared_slower, look.shared)
        red = look.slower_now | (self.loss > 0)
        slower = shared_slower | (self.shared_loss > 0)
        changed = (look.slower_now | window.found | look.improved).sum(1)
        wide = (look.noise[1] > 1) & (self.count >= rule.noise_sessions)
        bad = slower | (look.noisy | wide)[:, None]
        few = (changed <= 2) & ~bad.any(1)
        counts = ~(red | look.improved | self._by_case(bad))
        self.cases.append((values, fastest, values**2, *squares), counts)
        self.shared.append((shared, shared**2), ~bad & self.is_together)
        self.cases.discount(window)
        self.shared.discount(shared_window)
        unusual = np.abs(look.residual) / look.unit
        self.extremes.append(np.where(few[:, None], unusual, 0.0))
        return Outcomes(
            red=red,
            window=window.found,
            improved=look.improved,
            confirmed=look.again,
            limit=look.limit,
            odd=_odd(self.cases, look, self.floor, rule.odd),
            slower=slower,
            shared_odd=_odd(self.shared, shared_look, np.log1p(rule.slower), rule.factor_shared)
            * self.is_together,
            noisy=look.noisy,
        )

    def _over(
        self, series: Prefix, now: Array, off: Array, deviation: Array, loss: Array, level: Array
    ) -> Array:
        """Return which losses are over: half of them is excluded."""
        last = np.median(np.stack([*(one[0] for one in series.values[-2:]), now]), 0) - level
        found: Array = (loss > 0) & (
            (off + self.rule.released * deviation < loss / 2) | (last < loss / 2)
        )
        return found

    def _windows(
        self,
        series: Prefix,
        now: Array,
        fastest: Array | None,
        look: SimpleNamespace,
        start: Array,
        allowed: Array,
        factor: float,
        floor: Array,
    ) -> SimpleNamespace:
        """Find losses that the last sessions show; the shortest window has the size."""
        rule = self.rule
        found, loss = np.zeros(now.shape, bool), np.zeros(now.shape)
        widest, level = np.zeros(now.shape, int), np.zeros(now.shape)
        for length in (one for one in rule.windows if self.count + 1 - one >= 1):
            begin = self.count + 1 - length
            before = series.before[begin]
            n = np.maximum(before, 1)
            middle, quick, mean = series.level(n)
            recent = np.stack([*(one[0] for one in series.values[begin:]), now])
            size = recent.mean(0) - middle
            if fastest is not None:
                quickest = np.stack([*(one[1] for one in series.values[begin:]), fastest])
                size = np.minimum(size, quickest.mean(0) - quick)
            kept = np.minimum(n, rule.level_sessions)
            own = series.squares(n, mean, kind=2 if fastest is not None else 1)
            deviation = np.sqrt((look.squares + own) / (look.freedom + kept - 1))
            share = max(1 / length, rule.window_freedom) + 1 / kept
            ok = allowed & (before >= 2) & (begin >= start)
            ok &= size > np.maximum(floor, factor * np.sqrt(share) * deviation)
            last = np.stack([*(one[0] for one in series.values[-2:]), now])
            where = np.nonzero(ok)
            whole = np.stack([one[where] for one in recent])
            newest = np.stack([one[where] for one in last])
            least = np.minimum(np.median(whole, 0), np.median(newest, 0))
            least = np.minimum(least, now[where]) - middle[where]
            ok[where] = least > size[where] / 2
            loss = np.where(ok & ~found, size, loss)
            widest, level = np.where(ok, length, widest), np.where(ok, middle, level)
            found |= ok
        return SimpleNamespace(found=found, loss=loss, widest=widest, level=level)


def _squares(times: Array) -> tuple[Array, Array]:
    """Return the squares of launches about their mean, and their degrees of freedom."""
    squares = ((times - times.mean(-1, keepdims=True)) ** 2).sum(-1)
    return squares, np.full(squares.shape, times.shape[-1] - 1.0)


def _hold(loss: Array, window: SimpleNamespace, begins: Array, off: Array) -> None:
    """Remember a loss from a window, or one that begins tonight."""
    fresh = (loss == 0) & begins & ~window.found
    loss[window.found] = window.loss[window.found]
    loss[fresh] = off[fresh]


def _odd(series: Prefix, look: SimpleNamespace, floor: Array | float, factor: float) -> Array:
    """Return by how much the accepted session was slower than all since; 0 for not clearly."""
    values = np.stack([one[0] for one in series.values])
    accepted, since = values[0], values[1:]
    if len(since) < 2:
        return np.zeros(accepted.shape)
    odd = accepted - np.median(since, 0)
    squares = ((since - since.mean(0)) ** 2).sum(0)
    deviation = np.sqrt((look.squares + squares) / (look.freedom + len(since) - 1))
    limit = np.maximum(floor, factor * deviation * np.sqrt(1 + np.pi / 2 / len(since)))
    begins = ((accepted - since[:2]) * np.sign(odd) > np.abs(odd) / 2).all(0)
    found: Array = np.where((np.abs(odd) > limit) & begins, odd, 0.0)
    return found
