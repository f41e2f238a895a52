"""The rule of docs/verdict.md for many devices at once, written separately from `busbw.judge`.

The first axis of arrays is devices; the second axis is cases or frameworks. `agreement` compares
the rule with the product, session by session. Times are logarithms relative to the accepted
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from busbw.judge.policy import (
    AUTO_LIMIT_SHARE,
    AUTO_MIN_SESSION_COUNT,
    AUTO_RANDOM_CASE_SHARE,
    AUTO_WHOLE_SESSION_INTERVAL,
    THREE_TO_SINGLE_LAUNCH_VARIANCE_RATIO,
    RuleThresholds,
)

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
    """The verdicts on one session of many devices.

    `red` (REGRESSED), `window` (REGRESSED by several sessions) and `improved` are True or False by
    device and case, `launches` is the number of launches and `limit` the limit as a log ratio by
    device and case. `slower` is True or False by device and framework, `noisy` by device. `odd` is
    by how much the accepted session of a case was slower than all later sessions, `shared_odd` the
    same for the shared part of a framework; both are log ratios, and 0 if the difference is not
    clear.
    """

    red: Array
    window: Array
    improved: Array
    launches: Array
    limit: Array
    odd: Array
    slower: Array
    shared_odd: Array
    noisy: Array

    @property
    def failed(self) -> Array:
        """Whether the exit code is 1, by device."""
        return np.asarray(self.red.any(1) | self.slower.any(1) | self.noisy)


class Judge:
    """The rule for devices whose sessions are judged one after the other.

    The first session is `accepted`, an array of log times by device, case and launch. At most
    `sessions` sessions follow. With `automatic` one launch of a case may decide.
    """

    def __init__(
        self,
        rule: RuleThresholds,
        devices: Devices,
        accepted: Array,
        sessions: int,
        *,
        automatic: bool = False,
    ) -> None:
        self.automatic, self.random = automatic, np.random.default_rng(1)
        self.rule, self.frameworks, self.sizes = (
            rule,
            devices.frameworks,
            devices.noise.payload_count,
        )
        self.lengths = np.array([cases.stop - cases.start for cases in self.frameworks])
        self.together = self.lengths >= rule.min_shared_case_count
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
        self.cases.append((middle, fastest, *launch_squares(times)), middle < np.inf)
        self.shared.append((zero, zero, zero, zero), self.together & np.ones(shared, bool))

    def judge_session(self, times: Array) -> Outcomes:
        """Judge the next session and return its outcomes.

        `times` are log times by device, case and launch. The last three launches confirm that a
        case is slower; they count only for the cases that seem slower.
        """
        times = times - self.base[..., None]
        whole = self.whole = self._draw_whole(times.shape[:2])
        if not whole.all():
            whole = whole | self._find_undecided(self._compute_looks(times, whole, confirm=False))
        look = self._compute_looks(times, whole)
        suspicion = _partial_limit(look, self.rule.suspicion_limit_share)
        slower = look.suspected & (np.median(times[..., -3:], -1) - look.shift > suspicion)
        slower &= look.off > look.limit
        by_fastest = look.fastest_now - look.fastest - look.shift + look.level
        slower &= by_fastest > _partial_limit(look, self.rule.fastest_launch_limit_share)
        look.slower = slower
        look.improved = ~slower & (look.off < look.faster)
        return self._decide(look, *self._latest(look))

    def _draw_whole(self, shape: tuple[int, ...]) -> Array:
        """Return which cases get three launches whatever their first launch shows."""
        if self.automatic and self.cases.count % AUTO_WHOLE_SESSION_INTERVAL:
            return self.random.random(shape) < AUTO_RANDOM_CASE_SHARE
        return np.ones(shape, bool)

    def _find_undecided(self, look: SimpleNamespace) -> Array:
        """Return which cases need more launches than the one of `look`."""
        look.slower = np.zeros(look.off.shape, bool)
        latest, shared = self._latest(look)
        calm = ~look.noise[0][:, None]
        lost = (self.cases.loss > 0) | (self.cases.window(latest, calm).loss > 0)
        shared_lost = (self.shared.loss > 0) | (look.shared > AUTO_LIMIT_SHARE * look.shared_limit)
        shared_lost |= self.shared.window(shared, self.together & calm).loss > 0
        unsafe = (look.off > AUTO_LIMIT_SHARE * look.limit) | (look.off < look.faster)
        few = self.cases.n < AUTO_MIN_SESSION_COUNT
        wide = (look.noise[1] > 1)[:, None]
        return np.asarray(unsafe | lost | self._by_case(shared_lost) | few | wide)

    def _compute_looks(
        self, times: Array, whole: Array, *, confirm: bool = True
    ) -> SimpleNamespace:
        """Compute the look of one launch of each case, or of three launches if the case is `whole`.

        With `confirm`, six launches count of the cases that seem slower.
        """
        first, every = times[..., :-3], np.log(np.median(np.exp(times), -1))
        pairs, noise = list(zip(launch_squares(first), launch_squares(times))), None
        again = np.zeros(whole.shape, bool)
        while True:
            three = whole | again
            first_squares = [np.where(three, part, 0.0) for part, _ in pairs]
            squares = [np.where(again, both, part) for part, (_, both) in zip(first_squares, pairs)]
            middle = np.where(three, np.median(first, -1), times[..., 0])
            value = np.where(again, every, middle)
            look = self._compute_look(value, squares, noise, first_squares)
            noise = look.noise
            look.suspected = middle - look.shift > _partial_limit(
                look, self.rule.suspicion_limit_share
            )
            if not (confirm and (look.suspected & ~again).any()):
                break
            again |= look.suspected
        fastest = np.where(three, first.min(-1), times[..., 0])
        look.fastest_now = np.where(again, times.min(-1), fastest)
        look.value, look.squares_now = value, squares
        look.launches = np.where(again, 6, np.where(whole, 3, 1))
        return look

    # The noise, estimated from launches and sessions.

    def _estimate_noise(self, squares: Array, freedom: Array) -> SimpleNamespace:
        """Estimate the noise and the level of each case.

        `squares` are the sums of squared deviations of today's launches from their mean, with
        `freedom` degrees of freedom.
        """
        rule, cases, single = self.rule, self.cases, freedom == 0
        level, fastest, mean = cases.level(cases.n)
        by_session = cases.squares(cases.n, mean)
        launches = cases.recent(2, cases.n) + squares
        weights = cases.recent(3, cases.n) + freedom
        least = rule.min_launch_stddev**2
        launch = clipped_mean(
            np.maximum(launches / weights, least), weights, rule.max_variance_ratio
        )
        residuals = np.maximum(cases.n_recent - 1, 0)
        most = np.minimum(launches / weights, rule.max_variance_ratio * launch[:, None]) * weights
        around = [
            sum_of_neighbours(sums, self.sizes, rule.neighbour_distance) for sums in (most, weights)
        ]
        total = weights + rule.neighbour_weight * around[1]
        share = np.minimum(1.0, rule.max_launch_degrees_of_freedom / total)
        scaled = share * (launches + rule.neighbour_weight * around[0])
        squares = rule.max_pooled_degrees_of_freedom * launch[:, None] + scaled
        freedom = rule.max_pooled_degrees_of_freedom + share * total
        session = self._session_variance(by_session, residuals, launch, squares / freedom)
        squares = squares * (session / launch)[:, None]
        variance = (squares + by_session) / (freedom + residuals)
        once_more = (
            np.where(single, 1 / THREE_TO_SINGLE_LAUNCH_VARIANCE_RATIO, 1.0) + 1 / cases.n_recent
        )
        return SimpleNamespace(
            level=level,
            fastest=fastest,
            squares=squares,
            freedom=freedom,
            variance=variance,
            deviation=np.sqrt(variance * once_more),
            unit=np.sqrt(squares / freedom * once_more),
            session=session,
            factor=self._residual_limit_in_sigmas(residuals.sum(1))[:, None],
        )

    def _session_variance(
        self, squares: Array, residuals: Array, launch: Array, by_launches: Array
    ) -> Array:
        """Return the variance between sessions of a typical case, for each device.

        Args:
            squares: The sum of squared deviations of each case's sessions from their mean.
            residuals: The degrees of freedom of `squares`.
            launch: The variance between launches of a typical case.
            by_launches: The variance of each case that its launches lead to expect; variances that
                exceed it by far are clipped.

        """
        rule, variance = self.rule, squares / np.maximum(residuals, 1)
        ratio = variance / by_launches / median_of_chi_squared(residuals)
        most = rule.max_variance_ratio * masked_median(ratio, residuals > 0)[:, None]
        pooled = np.minimum(variance, most * by_launches) * residuals
        prior = np.where(self.quiet <= rule.max_prior_session_count, rule.prior_stddev**2, 0.0)
        total = rule.prior_degrees_of_freedom * np.maximum(
            prior, rule.min_session_to_launch_variance_ratio * launch
        ) + pooled.sum(1)
        return np.asarray(total / (rule.prior_degrees_of_freedom + residuals.sum(1)))

    @property
    def _normal_sigmas(self) -> Array:
        return np.asarray(self.rule.case_sigmas + self.rule.case_sigmas_over_sessions / self.quiet)

    def _residual_limit_in_sigmas(self, residuals: Array) -> Array:
        """Return the limit of cases in standard deviations, for each device.

        It is larger if the residuals of earlier sessions had heavy tails. `residuals` is the number
        of residuals that are known.
        """
        rule, factor = self.rule, self._normal_sigmas
        if not self.extremes:
            return factor
        farthest = np.stack(self.extremes[-rule.level_session_count :]).max(0)
        third = np.sort(farthest, axis=1)[:, -min(3, farthest.shape[1])]
        heavy = (third > rule.heavy_tail_sigmas) & (residuals >= rule.min_residual_count_for_tails)
        return np.where(heavy, np.maximum(factor, rule.heavy_tail_residual_factor * third), factor)

    # The limits and deviations of the launches of this session.

    def _compute_look(
        self,
        value: Array,
        squares: Sequence[Array],
        noise: tuple[Array, Array] | None,
        first: Sequence[Array],
    ) -> SimpleNamespace:
        """Compute the limits and deviations of a session from some of its launches.

        Args:
            value: The log time of each case.
            squares: The sums of squared deviations of launches, and their degrees of freedom.
            noise: The result of `_noise_and_widening` for this session; None if not yet known.
            first: The sums of squared deviations of the first launches, and their degrees of
                freedom.

        """
        look = self._estimate_noise(squares[0], squares[1])
        parts = [self._shared_part(look, value, number) for number in range(len(self.frameworks))]
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
        look.noise = self._noise_and_widening(look, limit, first) if noise is None else noise
        self._add_limits(look, look.noise[1][:, None])
        return look

    def _shared_part(self, look: SimpleNamespace, value: Array, number: int) -> tuple[Array, ...]:
        """Return the shared part of framework `number`, its deviation, prior variance and level."""
        rule, cases, count = self.rule, self.frameworks[number], self.lengths[number]
        prior = np.full(len(value), rule.prior_shared_stddev**2)
        if self.together[number]:
            levels, _, mean = self.shared.level(self.shared.n)
            level, n = levels[:, number], self.shared.n_recent[:, number]
            prior += 4 * look.session / count
            squares = (
                rule.prior_shared_degrees_of_freedom * prior
                + self.shared.squares(self.shared.n, mean)[:, number]
            )
            variance = squares / (rule.prior_shared_degrees_of_freedom + n - 1)
        else:
            level, n = np.zeros(len(value)), np.full(len(value), self.cases.count)
            variance = prior + np.pi / 2 * look.session / count
        deviation = np.sqrt(variance * (1 + 1 / n))
        off = value[:, cases] - look.level[:, cases] - level[:, None]
        whole = np.hypot(look.deviation[:, cases], deviation[:, None])
        limit = np.maximum(self.cases.floor[:, cases], self._normal_sigmas[:, None] * whole)
        inside = np.abs(off) <= limit
        enough = inside.sum(1, keepdims=True) >= rule.min_shared_case_count
        shared = masked_median(off, np.where(enough, inside, True))
        return shared, deviation, prior, level

    def _noise_and_widening(
        self, look: SimpleNamespace, limit: Array, first: Sequence[Array]
    ) -> tuple[Array, Array]:
        """Return, for each device, whether the session is noisy, and the factor of wider limits."""
        rule, (devices, count) = self.rule, limit.shape
        if count < rule.min_case_count_for_noise:
            return np.zeros(devices, bool), np.ones(devices)
        relative = np.abs(look.residual) * look.factor / limit
        ratio = masked_quantile(relative, np.abs(look.residual) <= limit, 0.7) / 1.036
        chance = np.sqrt(max(1.0, _MANY_CASES / count))
        least = np.where(self.quiet == 1, rule.first_noisy_ratio, rule.noisy_ratio)
        # The noise of earlier sessions is uncertain, too, if there are few of these sessions.
        usual = np.sqrt(1 + np.where(self.quiet == 1, 0.0, 0.5 / np.maximum(1, self.quiet - 1)))
        earlier = self.cases.recent(2, self.cases.n), self.cases.recent(3, self.cases.n)
        before, after = (
            clipped_mean(
                np.maximum(squares / np.maximum(freedom, 1), rule.min_launch_stddev**2),
                freedom,
                rule.max_variance_ratio,
            )
            for squares, freedom in (earlier, first)
        )
        launches = np.sqrt(after / before) > rule.noisy_ratio
        wide = ratio > 1 + (rule.min_noise_ratio_for_widening - 1) * chance * usual
        noisy = wide & ((ratio > 1 + (least - 1) * chance) | launches)
        return noisy, np.where(wide, rule.widening_factor * ratio, 1.0)

    def _add_limits(self, look: SimpleNamespace, wide: Array) -> None:
        """Add the limits of cases and frameworks to `look`; they are wider by the factor `wide`."""
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
        """Return, for each case, the value of its framework."""
        return np.repeat(values, self.lengths, axis=1)

    # The decisions, and losses over several sessions.

    def _latest(self, look: SimpleNamespace) -> tuple[Latest, Latest]:
        """Return how this session compares with the levels of cases, and of shared parts."""
        shared = np.where(self.together, look.shared_level + look.shared, look.shared)
        case = Latest(
            value=look.value - look.part,
            fastest=look.fastest_now - look.part,
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
            squares=self.rule.prior_shared_degrees_of_freedom * look.prior_shared,
            freedom=np.full(shared.shape, self.rule.prior_shared_degrees_of_freedom),
            begins=look.shared > look.shared_limit,
        )

    def _decide(
        self,
        look: SimpleNamespace,
        latest: Latest,
        shared: Latest,
    ) -> Outcomes:
        """Decide the session, append it to the series, and return its outcomes."""
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
        bad = noisy | ((widened > 1) & (self.cases.count >= rule.min_session_count_for_known_noise))
        changed = look.slower | (window.loss > 0) | look.improved
        few = (changed.sum(1) <= 2) & ~bad & ~shared_red.any(1)
        bad, zero = shared_red | bad[:, None], np.zeros(shared_red.shape)
        counts = ~(red | look.improved | self._by_case(bad))
        self.cases.append((latest.value, latest.fastest, *look.squares_now), counts)
        self.shared.append((shared.value, shared.value, zero, zero), ~bad & self.together)
        self.quiet = self.quiet + ~noisy
        self.cases.start[noisy] = self.shared.start[noisy] = self.cases.count
        self.cases.discount(window)
        self.shared.discount(shared_window)
        self.extremes.append(np.where(few[:, None], np.abs(look.residual) / look.unit, 0.0))
        return Outcomes(
            red=red,
            window=window.loss > 0,
            improved=look.improved,
            launches=look.launches,
            limit=look.limit,
            odd=self.cases.odd(latest, rule.unusual_accepted_sigmas),
            slower=shared_red,
            shared_odd=self.shared.odd(shared, rule.shared_sigmas) * self.together,
            noisy=noisy,
        )


def _partial_limit(look: SimpleNamespace, share: float) -> Array:
    """Return a limit that is the part `share` of the way to the full limit of each case.

    It starts from the part of the log ratio that the case shares with others.
    """
    least = np.maximum(0.0, look.common) + share * look.alone
    return np.asarray(np.minimum(look.limit, np.maximum(share * look.limit, least)))
