"""The data that earlier sessions give about a case: its expected time, its noise and its losses.

`lasting_losses.replay_sessions` fills this data, one session after the other, so that it depends on
the stored sessions alone. Times are natural logarithms of seconds. Every threshold is in `policy`,
and docs/verdict.md explains the rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import TypeVar

from busbw.model.case import Case
from busbw.stats.variance import sum_of_squares_about_mean

from .policy import SINGLE_LAUNCH_VARIANCE_RATIO, Rule

_Member = TypeVar("_Member")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchSummary:
    """A summary of the launches of one case in one session.

    `log_median` and `log_fastest` are natural logarithms of seconds. `sum_of_squares` is the sum of
    the squared deviations of log times from their mean, with `freedom` degrees of freedom. If
    sessions were merged, deviations are from the mean of the launch's own session.
    """

    log_median: float
    log_fastest: float
    sum_of_squares: float
    freedom: int

    @classmethod
    def summarize(cls, times_s: Sequence[float]) -> LaunchSummary:
        """Summarize the times of at least one launch, in seconds."""
        logs = [math.log(time_s) for time_s in times_s]
        middle, squares = math.log(median(times_s)), sum_of_squares_about_mean(logs)
        return cls(
            log_median=middle,
            log_fastest=min(logs),
            sum_of_squares=squares,
            freedom=len(logs) - 1,
        )

    def without_shift(self, log_shift: float) -> LaunchSummary:
        """Return the summary with `log_shift` subtracted from the median and the fastest time."""
        return replace(
            self,
            log_median=self.log_median - log_shift,
            log_fastest=self.log_fastest - log_shift,
        )


# For a session in which a series has no launches.
NO_LAUNCHES = LaunchSummary(log_median=0.0, log_fastest=0.0, sum_of_squares=0.0, freedom=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """The time that a case is expected to take, as natural logarithms of seconds.

    `log_level` is the expected median of a session's launches, and `log_fastest` the expected time
    of its fastest launch. Both come from `session_count` sessions. `sum_of_squares` is the sum of
    the squared deviations of these sessions' medians from their mean. `single_launch_variance` is
    the variance of a session of one launch, divided by the variance of these sessions.
    """

    log_level: float
    log_fastest: float
    session_count: int
    sum_of_squares: float
    single_launch_variance: float = 1.0

    def prediction_factor(self, today: LaunchSummary) -> float:
        """Return the standard deviation of `today` around the level, in standard deviations.

        The unit is the standard deviation of the sessions of the level.
        """
        variance = 1.0 if today.freedom else self.single_launch_variance
        return math.sqrt(variance + 1 / self.session_count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A loss that is found by comparing the mean of the last sessions with the level before them.

    `loss` is its size as a log ratio. Positions count the sessions of a series from 0: the loss
    began at position `began_at`. A session from position `excluded_from` on is not used to compute
    levels if its log median exceeds `excluded_above`.
    """

    loss: float
    began_at: int
    excluded_from: int
    excluded_above: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LossState:
    """The loss that a series has after its last session, and the loss that ended with it.

    `loss` is the present loss as a log ratio, 0 if there is no loss. It began with the session at
    position `began_at`. `is_gradual` is True if no single session showed the loss.

    `lost_sessions` is the number of sessions with the loss if there are at least two, else 0. Then
    `mean_loss` is its mean over these sessions as a log ratio, and `first_lost_session` is the
    number of the first of these sessions in the history.

    `repaired_sessions` is the number of sessions of a loss that ended with the last session, else
    0. `window` is the loss that several of the last sessions show together, None if they show no
    loss. No window begins before position `earliest_window_start`.
    """

    loss: float = 0.0
    began_at: int = 0
    is_gradual: bool = False
    mean_loss: float = 0.0
    lost_sessions: int = 0
    first_lost_session: int = 0
    repaired_sessions: int = 0
    earliest_window_start: int = 0
    window: Window | None = None


NO_LOSS = LossState()


@dataclass(kw_only=True, slots=True)
class Series:
    """The sessions of a case, or the sessions of the part that a framework's cases share.

    `launches` summarizes the launches of each session. For a case, the part that it shares with
    other cases is subtracted. `session_numbers` are the positions of these sessions in the history.
    `extreme_sigmas` has, for each session, its distance from the level in standard deviations; 0 if
    the session was noisy, or if more than a few cases changed. `counted_positions` are the
    positions, in `launches`, of the sessions that are used to compute levels. `loss_state` is the
    state after the last session.
    """

    session_numbers: list[int] = field(default_factory=list)
    launches: list[LaunchSummary] = field(default_factory=list)
    extreme_sigmas: list[float] = field(default_factory=list)
    counted_positions: list[int] = field(default_factory=list)
    loss_state: LossState = NO_LOSS

    @property
    def log_medians(self) -> list[float]:
        """The median log time of the launches of each session."""
        return [launches.log_median for launches in self.launches]

    def append(
        self,
        session_number: int,
        launches: LaunchSummary,
        loss_state: LossState,
        *,
        counts: bool,
        extreme_sigmas: float = 0.0,
    ) -> None:
        """Append a session.

        Args:
            session_number: The position of the session in the history.
            launches: The launches of the session.
            loss_state: The losses of the series after the session. Sessions that its window
                excludes are no longer used to compute levels.
            counts: Whether the session is used to compute levels.
            extreme_sigmas: The distance of the session from the level in standard deviations.

        """
        if counts:
            self.counted_positions.append(len(self.launches))
        self.session_numbers.append(session_number)
        self.launches.append(launches)
        self.extreme_sigmas.append(extreme_sigmas)
        self.loss_state = loss_state
        if (window := loss_state.window) is not None:
            self.counted_positions = [
                position
                for position in self.counted_positions
                if position < window.excluded_from
                or self.launches[position].log_median <= window.excluded_above
            ]

    def expected_time(self, rule: Rule, end: int | None = None) -> ExpectedTime | None:
        """Return the expected time from the counted sessions before position `end`.

        If `end` is None, all counted sessions are used. The level is the mean of the last
        `rule.level_sessions` of them, but at most `rule.anchor_margin` above the mean of the first
        `rule.anchor_sessions`. Returns None if no session counts.
        """
        last = (
            len(self.counted_positions) if end is None else bisect_left(self.counted_positions, end)
        )
        recent = self.counted_positions[max(0, last - rule.level_sessions) : last]
        if not recent:
            return None
        sessions = [self.launches[position] for position in recent]
        values = [session.log_median for session in sessions]
        mean = fmean(values)
        begin = self.counted_positions[: min(last, rule.anchor_sessions)]
        first = fmean(self.launches[position].log_median for position in begin)
        level = min(mean, first + rule.anchor_margin)
        # A single launch does not show how much faster the fastest of several launches is.
        whole = [session for session in sessions if session.freedom]
        variance, whole = 1 / SINGLE_LAUNCH_VARIANCE_RATIO if whole else 1.0, whole or sessions
        fastest = fmean(session.log_fastest for session in whole) + level
        fastest -= fmean(session.log_median for session in whole)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return ExpectedTime(
            log_level=level,
            log_fastest=fastest,
            session_count=len(recent),
            sum_of_squares=squares,
            single_launch_variance=variance,
        )

    def sum_launch_squares(self, rule: Rule) -> tuple[float, int]:
        """Sum up how launches deviate from the means of their sessions.

        Only the last `rule.level_sessions` counted sessions are used. Returns the sum of squares in
        log time, and its degrees of freedom.
        """
        recent = [
            self.launches[position] for position in self.counted_positions[-rule.level_sessions :]
        ]
        squares = math.fsum(launches.sum_of_squares for launches in recent)
        return squares, sum(launches.freedom for launches in recent)


def clipped_mean_variance(
    variances: Sequence[tuple[float, float]],
    rule: Rule,
    expected_variances: Sequence[float] | None = None,
) -> float:
    """Return the mean of variances, weighted by their degrees of freedom.

    Each variance is clipped to at most `rule.max_variance_ratio` times a typical variance, so that
    a few large variances do not decide the mean. The typical variance is the median of all
    variances, each divided by the median of chi-squared over its degrees of freedom.

    Args:
        variances: Pairs of a variance and its degrees of freedom. Without pairs the result is 0.
        rule: The thresholds of the rule.
        expected_variances: The expected value of each variance. Variances are divided by it before
            their median is taken and before they are clipped. If None, it is 1 for all.

    """
    if not variances:
        return 0.0
    whole = list(zip(variances, expected_variances or [1.0] * len(variances)))
    # The median of chi-squared over its degrees of freedom is from Wilson and Hilferty (1931).
    ratios = (
        variance / unit / (1 - 2 / (9 * max(1.0, freedom))) ** 3
        for (variance, freedom), unit in whole
    )
    most = rule.max_variance_ratio * median(ratios)
    total = sum(freedom for _, freedom in variances)
    return math.fsum(min(v, most * unit) * freedom for (v, freedom), unit in whole) / max(1, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionNoise:
    """How much the sessions of a series vary while the code is unchanged, in log time.

    The variance is `sum_of_squares` / `freedom` (degrees of freedom). It is estimated without the
    earlier sessions of the series itself, which the methods can add.
    """

    sum_of_squares: float
    freedom: float

    def stddev(self, more_squares: float = 0.0, more_freedom: int = 0) -> float:
        """Return the standard deviation of a session.

        `more_squares` is another sum of squares, with `more_freedom` degrees of freedom, that is
        pooled with this noise.
        """
        return math.sqrt((self.sum_of_squares + more_squares) / (self.freedom + more_freedom))

    def stddev_with_sessions(self, expected: ExpectedTime) -> float:
        """Return the standard deviation of a session, pooled with the sessions of `expected`."""
        return self.stddev(expected.sum_of_squares, expected.session_count - 1)


def estimate_noise(
    series_by_case: Mapping[Case, Series],
    expected_times: Mapping[Case, ExpectedTime],
    launches_today: Mapping[Case, LaunchSummary],
    quiet_sessions: int,
    rule: Rule,
) -> tuple[dict[Case, SessionNoise], float]:
    """Estimate, for each case, how much sessions vary while the code is unchanged.

    A case has noisier sessions if its own launches are noisier or, with less weight, if the
    launches of neighbouring payloads are noisier. The variance of sessions is assumed to be
    proportional to the variance of launches. Variances are pooled as for a normal distribution.

    Args:
        series_by_case: The earlier sessions of each case.
        expected_times: The expected times by case; cases without a counted session are absent.
        launches_today: The launches of today's session, which also show how launches vary.
        quiet_sessions: The number of earlier sessions that were not noisy.
        rule: The thresholds of the rule.

    Returns:
        The noise by case, and the variance between sessions of a typical case.

    """
    launches: dict[Case, tuple[float, float]] = {}
    for case, before in series_by_case.items():
        squares, freedom = before.sum_launch_squares(rule)
        fresh = launches_today.get(case, NO_LAUNCHES)
        launches[case] = squares + fresh.sum_of_squares, freedom + fresh.freedom
    launch = typical_launch_variance(launches.values(), rule)
    by_launches = _noise_of_launches(launches, launch, rule)
    repeated = {
        case: expected for case, expected in expected_times.items() if expected.session_count > 1
    }
    residuals = sum(expected.session_count - 1 for expected in repeated.values())
    variances = [
        (expected.sum_of_squares / (expected.session_count - 1), expected.session_count - 1)
        for expected in repeated.values()
    ]
    units = [by_launches[case].stddev() ** 2 for case in repeated]
    prior = rule.prior_deviation**2 if quiet_sessions <= rule.prior_sessions else 0.0
    session = rule.prior_freedom * max(prior, rule.min_launch_variance_share * launch)
    session += residuals * clipped_mean_variance(variances, rule, units)
    session /= rule.prior_freedom + residuals
    noises = {
        case: replace(noise, sum_of_squares=noise.sum_of_squares * session / launch)
        for case, noise in by_launches.items()
    }
    return noises, session


def typical_launch_variance(
    squares_and_freedom: Iterable[tuple[float, float]], rule: Rule
) -> float:
    """Return the variance between launches of a typical case, in log time.

    `squares_and_freedom` has, for each case, the sum of the squared deviations of its launches, and
    the degrees of freedom of this sum.
    """
    least = rule.min_deviation**2
    variances = [
        (max(least, squares / max(1, freedom)), max(1, freedom))
        for squares, freedom in squares_and_freedom
    ]
    return max(least, clipped_mean_variance(variances, rule))


def _noise_of_launches(
    launches: Mapping[Case, tuple[float, float]], typical_variance: float, rule: Rule
) -> dict[Case, SessionNoise]:
    """Pool the variance between launches of each case with its neighbours and a typical case.

    Args:
        launches: The sum of squared deviations of each case's launches, and its degrees of freedom.
        typical_variance: The variance between launches of a typical case.
        rule: The weights of the neighbouring payloads and of the typical case.

    """
    noises = {}
    for family in group_families(launches):
        for position, case in enumerate(family):
            squares, freedom = launches[case]
            for near in family[
                max(0, position - rule.neighbour_payloads) : position + rule.neighbour_payloads + 1
            ]:
                if near != case:
                    most = rule.max_variance_ratio * typical_variance * launches[near][1]
                    squares += rule.neighbour_weight * min(launches[near][0], most)
                    freedom += rule.neighbour_weight * launches[near][1]
            share = min(1.0, rule.max_launch_freedom / freedom) if freedom else 0.0
            noises[case] = SessionNoise(
                sum_of_squares=rule.pooled_freedom * typical_variance + share * squares,
                freedom=rule.pooled_freedom + share * freedom,
            )
    return noises


def nearest_two(member: _Member, family: Sequence[_Member]) -> list[_Member]:
    """Return the two other members of `family` that are nearest to `member` in its order.

    `family` is sorted by payload. Returns fewer members if `family` has fewer than three.
    """
    position = family.index(member)
    positions = sorted(range(len(family)), key=lambda other: abs(other - position))
    return [family[other] for other in positions[1:3]]


def group_families(cases: Iterable[Case]) -> list[list[Case]]:
    """Group cases that differ only in their payload, each group sorted by payload."""
    kinds: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.family_key, []).append(case)
    return [sorted(family, key=lambda case: case.payload_bytes) for family in kinds.values()]
