"""Series of sessions: the launches, the expected times and the losses of each case.

`lasting_losses.replay_sessions` appends one session after the other, so that a series depends on
the stored sessions alone. Times are natural logarithms of seconds. Every threshold is in `policy`,
and docs/verdict.md explains the rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import sum_of_squares_about_mean

from .policy import SINGLE_LAUNCH_VARIANCE_RATIO, Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchSummary:
    """A summary of the launches of one case in one session.

    `log_median` and `log_fastest` are the median and the least time of the launches, in log time.
    `sum_of_squares` is the sum of the squared deviations of log times from their mean. It has
    `degrees_of_freedom` degrees of freedom, which are 0 for a single launch. If sessions were
    merged, the deviations are from the mean of the launch's own session.
    """

    log_median: float
    log_fastest: float
    sum_of_squares: float
    degrees_of_freedom: int

    @classmethod
    def summarize(cls, times_s: Sequence[float]) -> LaunchSummary:
        """Summarize the times of at least one launch, in seconds."""
        logs = [math.log(time_s) for time_s in times_s]
        return cls(
            log_median=math.log(median(times_s)),
            log_fastest=min(logs),
            sum_of_squares=sum_of_squares_about_mean(logs),
            degrees_of_freedom=len(logs) - 1,
        )

    def without_shift(self, log_shift: float) -> LaunchSummary:
        """Return the summary with `log_shift` subtracted from the median and the fastest time.

        `log_shift` is a difference of log times, which is the logarithm of a ratio of times.
        """
        return replace(
            self,
            log_median=self.log_median - log_shift,
            log_fastest=self.log_fastest - log_shift,
        )


# The summary for a session in which nothing of a series was measured.
NO_LAUNCHES = LaunchSummary(
    log_median=0.0, log_fastest=0.0, sum_of_squares=0.0, degrees_of_freedom=0
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """The time that a case is expected to take, as natural logarithms of seconds.

    `log_level` is the expected median of a session's launches, and `log_fastest` the expected time
    of its fastest launch. Both are computed from `session_count` sessions. `sum_of_squares` is the
    sum of the squared deviations of these sessions' medians from their mean.
    `single_launch_variance_factor` is the variance between sessions of one launch, divided by the
    variance between these sessions.
    """

    log_level: float
    log_fastest: float
    session_count: int
    sum_of_squares: float
    single_launch_variance_factor: float = 1.0

    def prediction_factor(self, launches: LaunchSummary) -> float:
        """Return the standard deviation of a new session around the level, as a factor.

        The factor is relative to the standard deviation of a session around its true mean. It is
        above 1, because the level is a mean of few sessions. `launches` are the launches of the new
        session: a session with a single launch varies more.
        """
        variance = 1.0 if launches.degrees_of_freedom else self.single_launch_variance_factor
        return math.sqrt(variance + 1 / self.session_count)


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLoss:
    """A loss that the last sessions show together: their mean exceeds the level before them.

    `loss` is the size of the loss as a log ratio. Positions are the indices of the sessions in
    their series. The loss began with the session at `start_position`. A session at
    `first_excluded_position` or later does not count for levels if its log median exceeds
    `max_counted_log_median`.
    """

    loss: float
    start_position: int
    first_excluded_position: int
    max_counted_log_median: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesLoss:
    """The loss that a series has after its last session, and the loss that this session ended.

    Attributes:
        loss: The present loss as a log ratio; 0 without a loss.
        start_position: The position in the series of the session with which the loss began.
        is_gradual: Whether no single session showed the loss.
        lost_session_count: The number of sessions with the loss; 0 if only the last session has it.
        mean_loss: The mean loss of these sessions as a log ratio.
        first_lost_session_number: The position of the first of these sessions in the history.
        ended_loss_session_count: How many sessions had the loss that the last session ended; 0 if
            the last session ended no loss.
        min_window_start: The first position at which a window may begin.
        window: The loss that several of the last sessions show together; None if they show none.

    """

    loss: float = 0.0
    start_position: int = 0
    is_gradual: bool = False
    mean_loss: float = 0.0
    lost_session_count: int = 0
    first_lost_session_number: int = 0
    ended_loss_session_count: int = 0
    min_window_start: int = 0
    window: WindowLoss | None = None


NO_LOSS = SeriesLoss()


@dataclass(kw_only=True, slots=True)
class Series:
    """The sessions of a case, or of the shared part of a framework, oldest first.

    Attributes:
        session_numbers: The position of each session in the history.
        launches: The summary of the launches of each session. For a case, the shared part of the
            session is subtracted.
        deviation_sigmas: The distance of each session from the level in standard deviations. It is
            0 for a noisy session, and for a session in which more than two cases changed.
        counted_positions: The positions in `launches` of the sessions that are used to compute
            levels.
        latest_loss: The losses after the last session.

    """

    session_numbers: list[int] = field(default_factory=list)
    launches: list[LaunchSummary] = field(default_factory=list)
    deviation_sigmas: list[float] = field(default_factory=list)
    counted_positions: list[int] = field(default_factory=list)
    latest_loss: SeriesLoss = NO_LOSS

    @property
    def log_medians(self) -> list[float]:
        """The median log time of the launches of each session."""
        return [launches.log_median for launches in self.launches]

    def append_session(
        self,
        session_number: int,
        launches: LaunchSummary,
        latest_loss: SeriesLoss,
        *,
        is_counted: bool,
        deviation_sigmas: float = 0.0,
    ) -> None:
        """Append a session.

        If several sessions together show a loss, `latest_loss` has a window of these sessions. Its
        slow sessions are then not used any more to compute levels.

        Args:
            session_number: The position of the session in the history.
            launches: The summary of the session's launches.
            latest_loss: The losses of the series after the session.
            is_counted: Whether the session is used to compute levels.
            deviation_sigmas: The distance of the session from the level in standard deviations.

        """
        if is_counted:
            self.counted_positions.append(len(self.launches))
        self.session_numbers.append(session_number)
        self.launches.append(launches)
        self.deviation_sigmas.append(deviation_sigmas)
        self.latest_loss = latest_loss
        if (window := latest_loss.window) is not None:
            self.counted_positions = [
                position
                for position in self.counted_positions
                if position < window.first_excluded_position
                or self.launches[position].log_median <= window.max_counted_log_median
            ]

    def expected_time(self, rule: Rule, end_position: float = math.inf) -> ExpectedTime | None:
        """Compute the expected time from the counted sessions before `end_position`.

        The level is the mean of the last `rule.level_session_count` of these sessions. It is at
        most `rule.anchor_margin` above the mean of the first `rule.anchor_session_count` sessions.
        Returns None without a counted session.
        """
        # Positions are in ascending order.
        last = bisect_left(self.counted_positions, end_position)
        recent = self.counted_positions[max(0, last - rule.level_session_count) : last]
        if not recent:
            return None
        sessions = [self.launches[position] for position in recent]
        values = [session.log_median for session in sessions]
        mean = fmean(values)
        begin = self.counted_positions[: min(last, rule.anchor_session_count)]
        first = fmean(self.launches[position].log_median for position in begin)
        level = min(mean, first + rule.anchor_margin)
        # A single launch does not show how much faster the fastest of several launches is.
        whole = [session for session in sessions if session.degrees_of_freedom]
        variance = 1 / SINGLE_LAUNCH_VARIANCE_RATIO if whole else 1.0
        whole = whole or sessions
        fastest = fmean(session.log_fastest for session in whole) + level
        fastest -= fmean(session.log_median for session in whole)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return ExpectedTime(
            log_level=level,
            log_fastest=fastest,
            session_count=len(recent),
            sum_of_squares=squares,
            single_launch_variance_factor=variance,
        )

    def sum_launch_squares(self, rule: Rule) -> tuple[float, int]:
        """Sum up the squared deviations of launches from the means of their sessions, in log time.

        Only the last `rule.level_session_count` counted sessions are used. Returns the sum, and its
        degrees of freedom.
        """
        recent = [
            self.launches[position]
            for position in self.counted_positions[-rule.level_session_count :]
        ]
        squares = math.fsum(launches.sum_of_squares for launches in recent)
        return squares, sum(launches.degrees_of_freedom for launches in recent)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTimes:
    """The launches of a case in one session: the first launches, and those that confirm a loss.

    `first_launches` summarizes the launches that were measured before the case seemed slower.
    `confirming_log_median` is the median log time of the later launches. It is None if there are
    fewer of them than the rule requires, and `first_launches` then summarizes all launches.
    """

    first_launches: LaunchSummary
    all_launches: LaunchSummary
    confirming_log_median: float | None

    @classmethod
    def split(
        cls, times_s: Sequence[float], rule: Rule, planned_launch_count: int | None = None
    ) -> CaseTimes:
        """Split the times of a case's launches, in seconds, into first and confirming launches.

        The first `planned_launch_count` are the first launches. If `planned_launch_count` is None,
        as for stored sessions, the last `rule.confirming_launch_count` launches are confirming
        launches.
        """
        count = (
            max(1, len(times_s) - rule.confirming_launch_count)
            if planned_launch_count is None
            else planned_launch_count
        )
        together, last = LaunchSummary.summarize(times_s), times_s[count:]
        if len(last) < rule.confirming_launch_count:
            return cls(first_launches=together, all_launches=together, confirming_log_median=None)
        first = LaunchSummary.summarize(times_s[:count])
        return cls(
            first_launches=first,
            all_launches=together,
            confirming_log_median=math.log(median(last)),
        )


@dataclass(kw_only=True, slots=True)
class History:
    """The sessions that were judged so far: a series of each case and of each framework.

    The series of a framework contains the framework's shared part in each session: how much slower
    all its cases together were.

    Attributes:
        rule: The thresholds of the rule.
        pooled_frameworks: The frameworks with enough cases to compute their shared part.
        loss_floors: For each case, the least log ratio that the clock can show as a loss.
        series: The series of each case, and of the shared part of each framework by its name.
        noisy_flags: Whether each session was noisy, oldest session first.

    """

    rule: Rule
    pooled_frameworks: frozenset[str]
    loss_floors: Mapping[Case, float] = field(default_factory=dict)
    series: dict[Case | str, Series] = field(default_factory=dict)
    noisy_flags: list[bool] = field(default_factory=list)

    @property
    def session_count(self) -> int:
        return len(self.noisy_flags)

    @property
    def series_by_case(self) -> dict[Case, Series]:
        """The series of each case, without the series of shared parts."""
        return {case: series for case, series in self.series.items() if isinstance(case, Case)}

    def loss_floor(self, case: Case) -> float:
        """Return the least log ratio that counts as a loss of `case`."""
        return max(math.log1p(self.rule.min_case_loss), self.loss_floors.get(case, 0.0))
