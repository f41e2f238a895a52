"""Series of sessions: the launches, the expected times and the losses of each case.

A series has the sessions of a case, or of the shared part of a framework, oldest first.
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

from .policy import THREE_TO_SINGLE_LAUNCH_VARIANCE_RATIO, RuleThresholds


@dataclass(frozen=True, kw_only=True, slots=True)
class LogTimeSummary:
    """A summary of the launches of one case in one session, in natural logarithms of seconds.

    The shared part of a framework (the median log ratio of its cases) has such a summary, too: then
    `log_median` and `log_fastest` are both this log ratio, and the other attributes are 0.

    Attributes:
        log_median: The median time of the launches.
        log_fastest: The least time of the launches.
        sum_of_squares: The sum of the squared deviations of the log times from their mean. In a
            summary of merged sessions, the deviation of each launch is from the mean of its own
            session.
        degrees_of_freedom: The degrees of freedom of `sum_of_squares`; 0 for a single launch.

    """

    log_median: float
    log_fastest: float
    sum_of_squares: float
    degrees_of_freedom: int

    @classmethod
    def summarize(cls, times_s: Sequence[float]) -> LogTimeSummary:
        """Return the summary of one or more launches, whose times are in seconds."""
        logs = [math.log(time_s) for time_s in times_s]
        return cls(
            log_median=math.log(median(times_s)),
            log_fastest=min(logs),
            sum_of_squares=sum_of_squares_about_mean(logs),
            degrees_of_freedom=len(logs) - 1,
        )

    def without_shift(self, log_shift: float) -> LogTimeSummary:
        """Return the summary with the log ratio `log_shift` subtracted from both log times."""
        return replace(
            self,
            log_median=self.log_median - log_shift,
            log_fastest=self.log_fastest - log_shift,
        )


# The summary of a session in which no launch of a series was measured.
NO_LAUNCHES = LogTimeSummary(
    log_median=0.0, log_fastest=0.0, sum_of_squares=0.0, degrees_of_freedom=0
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """The time that a case is expected to take, as natural logarithms of seconds.

    For the shared part of a framework (the median log ratio of its cases), the values are log
    ratios instead.

    Attributes:
        log_level: The expected median of a session's launches.
        log_fastest: The expected time of the fastest launch of a session.
        session_count: The number of earlier sessions from which this time was computed.
        sum_of_squares: The sum of the squared deviations of these sessions' medians from their
            mean, in log time.
        single_launch_variance_factor: How many times as large the variance between sessions is if
            each session has a single launch; 1 if the earlier sessions had single launches, too.

    """

    log_level: float
    log_fastest: float
    session_count: int
    sum_of_squares: float
    single_launch_variance_factor: float = 1.0

    def prediction_stddev_factor(self, launches: LogTimeSummary) -> float:
        """Return how far a new session may be from the level, relative to the noise of sessions.

        The result is the standard deviation of the distance to the level, divided by the standard
        deviation between sessions. The result is above 1, because the level is a mean of few
        sessions. `launches` are the launches of the new session: a session with a single launch
        varies more.
        """
        variance = 1.0 if launches.degrees_of_freedom else self.single_launch_variance_factor
        return math.sqrt(variance + 1 / self.session_count)


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLoss:
    """A loss that the last sessions of a series show together: their mean exceeds the level before.

    A position is the index of a session in the series.

    Attributes:
        loss: The size of the loss as a log ratio.
        start_position: The position of the session with which the loss began.
        first_excluded_position: From this position on, slow sessions do not count for levels.
        max_counted_log_median: A session is slow if its log median exceeds this value.

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
        mean_loss: The mean loss since `start_position` as a log ratio, or `window.loss` with a
            window; 0 without both.
        loss_session_count: The number of sessions since `start_position`; 0 without a loss, or if
            only the last session shows the loss.
        first_loss_session_number: The position in the history (see ReplayedHistory) of the session
            with which the loss began; 0 if `loss_session_count` is 0.
        ended_loss_session_count: How many sessions had the loss that the last session ended; 0 if
            the last session ended no loss.
        min_window_start: The first position at which a window (a number of last sessions) may
            begin.
        window: The loss that several of the last sessions show together; None without such a loss.

    """

    loss: float = 0.0
    start_position: int = 0
    is_gradual: bool = False
    mean_loss: float = 0.0
    loss_session_count: int = 0
    first_loss_session_number: int = 0
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
        deviation_sigmas: The absolute distance of each session from the level, in standard
            deviations; 0 for a noisy session, and for a session in which more than two cases or
            a whole framework changed.
        counted_positions: The positions in `launches` of the sessions that are used to compute
            levels, in ascending order.
        latest_loss: The loss after the last session.

    """

    session_numbers: list[int] = field(default_factory=list)
    launches: list[LogTimeSummary] = field(default_factory=list)
    deviation_sigmas: list[float] = field(default_factory=list)
    counted_positions: list[int] = field(default_factory=list)
    latest_loss: SeriesLoss = NO_LOSS

    @property
    def log_medians(self) -> list[float]:
        """The median time of the launches of each session, in log time."""
        return [launches.log_median for launches in self.launches]

    def append_session(
        self,
        session_number: int,
        launches: LogTimeSummary,
        latest_loss: SeriesLoss,
        *,
        is_counted: bool,
        deviation_sigmas: float = 0.0,
    ) -> None:
        """Append a session to the series.

        If several sessions together show a loss, `latest_loss` has a window of these sessions. The
        slow sessions of the window are then no longer used to compute levels.

        Args:
            session_number: The position of the session in the history.
            launches: The summary of the session's launches.
            latest_loss: The loss of the series after the session.
            is_counted: Whether the session is used to compute levels.
            deviation_sigmas: The absolute distance of the session from the level, in standard
                deviations.

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

    def expected_time(
        self, thresholds: RuleThresholds, end_position: float = math.inf
    ) -> ExpectedTime | None:
        """Compute the expected time from the counted sessions before `end_position`.

        The level is the mean of the last `thresholds.level_session_count` counted sessions, but at
        most `thresholds.anchor_margin` above the mean of the first
        `thresholds.anchor_session_count` counted sessions. The result is None if there is no
        counted session. A counted session is used to compute levels (see Series).
        """
        # Positions are in ascending order.
        last = bisect_left(self.counted_positions, end_position)
        recent = self.counted_positions[max(0, last - thresholds.level_session_count) : last]
        if not recent:
            return None
        sessions = [self.launches[position] for position in recent]
        values = [session.log_median for session in sessions]
        begin = self.counted_positions[: min(last, thresholds.anchor_session_count)]
        first = fmean(self.launches[position].log_median for position in begin)
        level = min(fmean(values), first + thresholds.anchor_margin)
        # A single launch does not show how much faster the fastest of several launches is.
        whole = [session for session in sessions if session.degrees_of_freedom]
        variance = 1 / THREE_TO_SINGLE_LAUNCH_VARIANCE_RATIO if whole else 1.0
        whole = whole or sessions
        fastest = fmean(session.log_fastest for session in whole) + level
        fastest -= fmean(session.log_median for session in whole)
        return ExpectedTime(
            log_level=level,
            log_fastest=fastest,
            session_count=len(recent),
            sum_of_squares=sum_of_squares_about_mean(values),
            single_launch_variance_factor=variance,
        )

    def sum_launch_squares(self, thresholds: RuleThresholds) -> tuple[float, int]:
        """Sum up the squared deviations of launches from the means of their sessions, in log time.

        Only the last `thresholds.level_session_count` counted sessions are used. Returns the sum,
        and the degrees of freedom of the sum.
        """
        recent = [
            self.launches[position]
            for position in self.counted_positions[-thresholds.level_session_count :]
        ]
        squares = math.fsum(launches.sum_of_squares for launches in recent)
        return squares, sum(launches.degrees_of_freedom for launches in recent)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTimes:
    """The launches of a case in one session: the first launches, and the confirming launches.

    Attributes:
        first_launches: The summary of the launches that were measured before the case seemed
            slower, or of all launches if confirming launches are missing.
        all_launches: The summary of the first and the confirming launches together.
        confirming_log_median: The median log time of the confirming launches; None if their number
            is less than the rule requires.

    """

    first_launches: LogTimeSummary
    all_launches: LogTimeSummary
    confirming_log_median: float | None

    @classmethod
    def split(
        cls,
        times_s: Sequence[float],
        thresholds: RuleThresholds,
        planned_launch_count: int | None = None,
    ) -> CaseTimes:
        """Split the times of a case's launches, in seconds, into first and confirming launches.

        The first `planned_launch_count` times are first launches, and the others are confirming
        launches. If `planned_launch_count` is None, as for stored sessions, the last
        `thresholds.confirming_launch_count` times are confirming launches. If there are fewer
        confirming launches than that, all launches count as first launches.
        """
        count = (
            max(1, len(times_s) - thresholds.confirming_launch_count)
            if planned_launch_count is None
            else planned_launch_count
        )
        together, last = LogTimeSummary.summarize(times_s), times_s[count:]
        if len(last) < thresholds.confirming_launch_count:
            return cls(first_launches=together, all_launches=together, confirming_log_median=None)
        first = LogTimeSummary.summarize(times_s[:count])
        return cls(
            first_launches=first,
            all_launches=together,
            confirming_log_median=math.log(median(last)),
        )


@dataclass(kw_only=True, slots=True)
class ReplayedHistory:
    """The sessions that were judged so far, as a series of each case and of each framework.

    The series of a framework contains the framework's shared part in each session: how much slower
    all cases of the framework together were.

    Attributes:
        rule: The thresholds of the rule.
        frameworks_with_shared_part: The names of the frameworks with enough cases for a shared
            part.
        loss_floors: Maps each case to the least log ratio that the clock can show as a loss.
        series: Maps each case to its series, and the name of each framework to the series of its
            shared part.
        noisy_flags: Whether each session was noisy, oldest session first.

    """

    rule: RuleThresholds
    frameworks_with_shared_part: frozenset[str]
    loss_floors: Mapping[Case, float] = field(default_factory=dict)
    series: dict[Case | str, Series] = field(default_factory=dict)
    noisy_flags: list[bool] = field(default_factory=list)

    @property
    def session_count(self) -> int:
        """The number of sessions that were judged so far."""
        return len(self.noisy_flags)

    @property
    def series_by_case(self) -> dict[Case, Series]:
        """The series of each case, without the series of shared parts."""
        return {case: series for case, series in self.series.items() if isinstance(case, Case)}

    def loss_floor(self, case: Case) -> float:
        """Return the least log ratio that counts as a loss of `case`."""
        return max(math.log1p(self.rule.min_case_loss), self.loss_floors.get(case, 0.0))
