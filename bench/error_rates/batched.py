"""The rule of docs/verdict.md for many devices at once, written apart from `busbw.judge`.

Devices are the first axis of arrays, cases or frameworks the second. `agreement` compares the rule
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
    clipped_mean,
    launch_squares,
    masked_median,
    masked_quantile,
    median_of_chi_squared,
    sum_of_neighbours,
)
from .devices import Devices
from .series import Latest, Series

_MANY_CASES = 42


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """The verdicts of one session: by device and case, by device and framework, and by device.

    `red` cases are REGRESSED, `window` ones by several sessions, and `confirmed` ones were measured
    again. `odd` is by how much the accepted session was slower than those since, `shared_odd` by
    how much in all cases; 0 for not clearly.
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
        return np.asarray(self.red.any(1) | self.slower.any(1) | self.noisy)


class Judge:
    """Devices whose sessions are judged one after the other; the first is `accepted`."""

    def __init__(self, rule: Rule, devices: Devices, accepted: Array, sessions: int) -> None:
        self.rule, self.frameworks, self.sizes = rule, devices.frameworks, devices.noise.sizes
        self.lengths = np.array([cases.stop - cases.start for cases in self.frameworks])
        self.together = self.lengths >= rule.min_shared_cases
        self.base = np.median(accepted, -1)
        shared = len(self.base), len(self.frameworks)
        floor = np.maximum(devices.floor, np.full(self.base.shape, np.log1p(rule.min_case_loss)))
        factors = rule.window_sigmas, rule.window_sigmas_over_sessions
        self.cases = Series(self.base.shape, sessions, rule, floor, factors)
        slower = np.full(shared, np.log1p(rule.min_session_loss))
        self.shared = Series(shared, sessions, rule, slower, (rule.shared_window_sigmas, 0.0))
        self.extremes: list[Array] = []
        # The number of sessions that were not noisy, by device.
        self.quiet = np.ones(shared[0], int)
        times = accepted - self.base[..., None]
        middle, fastest, zero = np.median(times, -1), times.min(-1), np.zeros(shared)
        self.cases.append((middle, fastest, middle**2, *launch_squares(times)), middle < np.inf)
        self.shared.append((zero, zero, zero), self.together & np.ones(shared, bool))

    def session(self, times: Array) -> Outcomes:
        """Judge log times by device, case and launch; the last three launches confirm."""
        rule, times = self.rule, times - self.base[..., None]
        first, every = times[..., :-3], np.log(np.median(np.exp(times), -1))
        middle, fresh = np.median(first, -1), np.median(times[..., -3:], -1)
        again, noise = np.zeros(middle.shape, bool), None
        pairs = list(zip(launch_squares(first), launch_squares(times)))
        while True:
            squares = [np.where(again, all_of_it, part) for part, all_of_it in pairs]
            value = np.where(again, every, middle)
            look = self._look(value, squares, noise, first)
            noise = look.noise
            suspected = middle - look.shift > _nearly(look, rule.suspicion_share)
            if not (suspected & ~again).any():
                break
            again |= suspected
        fastest = np.where(again, times.min(-1), first.min(-1))
        slower = suspected & (fresh - look.shift > _nearly(look, rule.suspicion_share))
        slower &= look.off > look.limit
        by_fastest = fastest - look.fastest - look.shift + look.level
        slower &= by_fastest > _nearly(look, rule.fastest_share)
        look.slower, look.again = slower, again
        look.improved = ~slower & (look.off < look.faster)
        return self._decide(
            look, *self._latest(look, value - look.part, fastest - look.part), squares
        )

    # What launches and sessions say of the noise.

    def _noise(self, squares: Array, freedom: Array) -> SimpleNamespace:
        rule, cases = self.rule, self.cases
        level, fastest, mean = cases.level(cases.n)
        by_session = cases.squares(cases.n, mean)
        launches = cases.recent(3, cases.n) + squares
        weights = cases.recent(4, cases.n) + freedom
        least = rule.min_deviation**2
        launch = clipped_mean(
            np.maximum(launches / weights, least), weights, rule.max_variance_ratio
        )
        residuals = np.maximum(cases.n_recent - 1, 0)
        most = np.minimum(launches / weights, rule.max_variance_ratio * launch[:, None]) * weights
        around = [
            sum_of_neighbours(sums, self.sizes, rule.neighbour_sizes) for sums in (most, weights)
        ]
        total = weights + rule.neighbour_weight * around[1]
        share = np.minimum(1.0, rule.max_launch_freedom / total)
        scaled = share * (launches + rule.neighbour_weight * around[0])
        squares = rule.pooled_freedom * launch[:, None] + scaled
        freedom = rule.pooled_freedom + share * total
        session = self._session_variance(by_session, residuals, launch, squares / freedom)
        squares = squares * (session / launch)[:, None]
        variance = (squares + by_session) / (freedom + residuals)
        once_more = 1 + 1 / cases.n_recent
        return SimpleNamespace(
            level=level,
            fastest=fastest,
            squares=squares,
            freedom=freedom,
            variance=variance,
            deviation=np.sqrt(variance * once_more),
            unit=np.sqrt(squares / freedom * once_more),
            session=session,
            factor=self._factor(residuals.sum(1))[:, None],
        )

    def _session_variance(
        self, squares: Array, residuals: Array, launch: Array, by_launches: Array
    ) -> Array:
        """Return the variance between sessions, of all cases of a device together.

        A variance is odd compared with the variance that a case's launches lead to expect.
        """
        rule, variance = self.rule, squares / np.maximum(residuals, 1)
        ratio = variance / by_launches / median_of_chi_squared(residuals)
        most = rule.max_variance_ratio * masked_median(ratio, residuals > 0)[:, None]
        pooled = np.minimum(variance, most * by_launches) * residuals
        prior = np.where(self.quiet <= rule.prior_sessions, rule.prior_deviation**2, 0.0)
        total = rule.prior_freedom * np.maximum(
            prior, rule.min_launch_variance_share * launch
        ) + pooled.sum(1)
        return np.asarray(total / (rule.prior_freedom + residuals.sum(1)))

    @property
    def _normal_factor(self) -> Array:
        return np.asarray(self.rule.case_sigmas + self.rule.case_sigmas_over_sessions / self.quiet)

    def _factor(self, residuals: Array) -> Array:
        """Return the limit in standard deviations; it is larger where earlier tails were heavy."""
        rule, factor = self.rule, self._normal_factor
        if not self.extremes:
            return factor
        farthest = np.stack(self.extremes[-rule.level_sessions :]).max(0)
        third = np.sort(farthest, axis=1)[:, -min(3, farthest.shape[1])]
        heavy = (third > rule.heavy_tail_sigmas) & (residuals >= rule.min_tail_residuals)
        return np.where(heavy, np.maximum(factor, rule.heavy_tail_factor * third), factor)

    # One look at the launches of this session.

    def _look(
        self,
        value: Array,
        squares: Sequence[Array],
        noise: tuple[Array, Array] | None,
        first: Array,
    ) -> SimpleNamespace:
        look = self._noise(*squares)
        parts = [self._share(look, value, number) for number in range(len(self.frameworks))]
        look.shared, look.shared_deviation, look.prior_shared, look.shared_level = (
            np.stack(values, 1) for values in zip(*parts)
        )
        level, common = self._by_case(look.shared_level), self._by_case(look.shared)
        together = self._by_case(self.together[None])
        look.shift = look.level + level
        look.off = value - look.shift
        look.common = np.where(together, common, 0.0)
        look.part = np.where(together, level + common, 0.0)
        look.residual = look.off - look.common
        limit = np.maximum(self.cases.floor, look.factor * look.deviation)
        look.noise = self._noisier(look, limit, first) if noise is None else noise
        self._limits(look, look.noise[1][:, None])
        return look

    def _share(self, look: SimpleNamespace, value: Array, number: int) -> tuple[Array, ...]:
        """Return what a framework's cases share, its deviation, prior variance and level."""
        rule, cases, count = self.rule, self.frameworks[number], self.lengths[number]
        prior = np.full(len(value), rule.prior_shared_deviation**2)
        if self.together[number]:
            levels, _, mean = self.shared.level(self.shared.n)
            level, n = levels[:, number], self.shared.n_recent[:, number]
            prior += 4 * look.session / count
            squares = (
                rule.prior_shared_freedom * prior
                + self.shared.squares(self.shared.n, mean)[:, number]
            )
            variance = squares / (rule.prior_shared_freedom + n - 1)
        else:
            level, n = np.zeros(len(value)), np.full(len(value), self.cases.count)
            variance = prior + np.pi / 2 * look.session / count
        deviation = np.sqrt(variance * (1 + 1 / n))
        off = value[:, cases] - look.level[:, cases] - level[:, None]
        whole = np.hypot(look.deviation[:, cases], deviation[:, None])
        limit = np.maximum(self.cases.floor[:, cases], self._normal_factor[:, None] * whole)
        inside = np.abs(off) <= limit
        enough = inside.sum(1, keepdims=True) >= rule.min_shared_cases
        shared = masked_median(off, np.where(enough, inside, True))
        return shared, deviation, prior, level

    def _noisier(self, look: SimpleNamespace, limit: Array, first: Array) -> tuple[Array, Array]:
        """Return whether the session is noisy, and by how much limits are wider."""
        rule, (devices, count) = self.rule, limit.shape
        if count < rule.min_cases_for_noise:
            return np.zeros(devices, bool), np.ones(devices)
        relative = np.abs(look.residual) * look.factor / limit
        ratio = masked_quantile(relative, np.abs(look.residual) <= limit, 0.7) / 1.036
        chance = np.sqrt(max(1.0, _MANY_CASES / count))
        least = np.where(self.quiet == 1, rule.first_noisy_ratio, rule.noisy_ratio)
        # The noise of earlier sessions is uncertain, too, if there are few of these.
        usual = np.sqrt(1 + np.where(self.quiet == 1, 0.0, 0.5 / np.maximum(1, self.quiet - 1)))
        earlier = self.cases.recent(3, self.cases.n), self.cases.recent(4, self.cases.n)
        before, after = (
            clipped_mean(
                np.maximum(squares / freedom, rule.min_deviation**2),
                freedom,
                rule.max_variance_ratio,
            )
            for squares, freedom in (earlier, launch_squares(first))
        )
        launches = np.sqrt(after / before) > rule.noisy_ratio
        wide = ratio > 1 + (rule.widening_ratio - 1) * chance * usual
        noisy = wide & ((ratio > 1 + (least - 1) * chance) | launches)
        return noisy, np.where(wide, rule.widening_factor * ratio, 1.0)

    def _limits(self, look: SimpleNamespace, wide: Array) -> None:
        rule, floor = self.rule, self.cases.floor
        alone = np.maximum(floor, look.factor * wide * look.deviation)
        shared = self._by_case(look.shared_deviation)
        whole = np.maximum(floor, look.factor * np.hypot(wide * look.deviation, shared))
        whole = np.where(self._by_case(self.together[None]), whole, np.inf)
        part = np.maximum(0.0, look.common)
        look.alone, look.limit = alone, np.minimum(part + alone, whole)
        look.faster = -np.minimum(np.maximum(0.0, -look.common) + alone, whole)
        more = np.stack([look.variance[:, cases].mean(1) for cases in self.frameworks], 1)
        more *= 4 * (wide**2 - 1) * (1 + 1 / self.cases.count)
        more /= self.lengths[None]
        limit = rule.shared_sigmas * np.sqrt(look.shared_deviation**2 + more)
        look.shared_limit = np.maximum(self.shared.floor, limit)

    def _by_case(self, values: Array) -> Array:
        """Return the value of each case's framework."""
        return np.repeat(values, self.lengths, axis=1)

    # What several sessions say.

    def _latest(self, look: SimpleNamespace, value: Array, fastest: Array) -> tuple[Latest, Latest]:
        """Return what this session says of cases, and of what frameworks share."""
        shared = np.where(self.together, look.shared_level + look.shared, look.shared)
        case = Latest(
            value=value,
            fastest=fastest,
            level=look.level,
            off=look.residual,
            deviation=look.deviation,
            squares=look.squares,
            freedom=look.freedom,
            begins=look.slower & (look.residual > look.alone),
        )
        return case, Latest(
            value=shared,
            fastest=shared,
            level=look.shared_level,
            off=look.shared,
            deviation=look.shared_deviation,
            squares=self.rule.prior_shared_freedom * look.prior_shared,
            freedom=np.full(shared.shape, self.rule.prior_shared_freedom),
            begins=look.shared > look.shared_limit,
        )

    def _decide(
        self,
        look: SimpleNamespace,
        latest: Latest,
        shared: Latest,
        squares: Sequence[Array],
    ) -> Outcomes:
        rule, (noisy, widened) = self.rule, look.noise
        self.cases.release(latest, ~look.slower)
        self.shared.release(shared, ~shared.begins)
        window = self.cases.window(latest, ~noisy[:, None])
        shared_window = self.shared.window(shared, self.together & ~noisy[:, None])
        self.cases.hold(window, latest)
        self.shared.hold(shared_window, shared)
        red, shared_red = (
            look.slower | (self.cases.loss > 0),
            shared.begins | (self.shared.loss > 0),
        )
        bad = noisy | ((widened > 1) & (self.cases.count >= rule.noise_sessions))
        changed = look.slower | (window.loss > 0) | look.improved
        few = (changed.sum(1) <= 2) & ~bad & ~shared_red.any(1)
        bad = shared_red | bad[:, None]
        counts = ~(red | look.improved | self._by_case(bad))
        self.cases.append((latest.value, latest.fastest, latest.value**2, *squares), counts)
        self.shared.append((shared.value, shared.value, shared.value**2), ~bad & self.together)
        self.quiet = self.quiet + ~noisy
        self.cases.start[noisy] = self.shared.start[noisy] = self.cases.count
        self.cases.discount(window)
        self.shared.discount(shared_window)
        self.extremes.append(np.where(few[:, None], np.abs(look.residual) / look.unit, 0.0))
        return Outcomes(
            red=red,
            window=window.loss > 0,
            improved=look.improved,
            confirmed=look.again,
            limit=look.limit,
            odd=self.cases.odd(latest, rule.odd_sigmas),
            slower=shared_red,
            shared_odd=self.shared.odd(shared, rule.shared_sigmas) * self.together,
            noisy=noisy,
        )


def _nearly(look: SimpleNamespace, share: float) -> Array:
    """Return a share of the way to the limit, beyond the part that a case shares with others."""
    least = np.maximum(0.0, look.common) + share * look.alone
    return np.asarray(np.minimum(look.limit, np.maximum(share * look.limit, least)))
