"""Find losses over several sessions: a loss fails each session until it is repaired or accepted.

`replay_sessions` judges earlier sessions one after the other, so that the stored sessions alone
determine which losses are present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from busbw.model.case import Case, dataclass_from
from busbw.stats.launches import sum_of_squares_about_mean

from .decision import decide_speed_change
from .noise import SessionNoise
from .policy import (
    LAST_MEDIAN_SESSION_COUNT,
    MEDIAN_TO_MEAN_VARIANCE_RATIO,
    SESSIONS_IN_NOISE_REPORT,
    RuleThresholds,
)
from .rule import SessionLimits, compute_limits
from .series import (
    NO_LAUNCHES,
    NO_LOSS,
    CaseTimes,
    LogTimeSummary,
    ReplayedHistory,
    Series,
    SeriesLoss,
    WindowLoss,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LatestSession:
    """The session that is judged, as the latest session of a series.

    The series is that of a case, or of the shared part of a framework.

    Attributes:
        launches: The summary of the launches of the case without the shared part, or of the shared
            part.
        residual: The log ratio of the median of `launches` to the level.
        residual_stddev: The standard deviation of `residual` while the code is unchanged.
        noise: How much sessions of this series vary, estimated from launches and from all cases.
            The earlier sessions of this series are not yet included.
        loss_floor: The least log ratio that counts as a loss over several sessions.
        is_slower: Whether this session alone shows a loss.
        can_begin_loss: Whether this session alone can begin a loss of this series. False if not
            `is_slower`. Also False for a case that is slower only by the part of its log ratio that
            it shares with other cases.
        is_shared_part: Whether the series is the shared part of a framework, not a case.

    """

    launches: LogTimeSummary
    residual: float
    residual_stddev: float
    noise: SessionNoise
    loss_floor: float
    is_slower: bool
    can_begin_loss: bool
    is_shared_part: bool = False

    @property
    def log_level(self) -> float:
        """The level of the series, in log time."""
        return self.launches.log_median - self.residual


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment(SessionLimits):
    """The assessment of a session: its limits, and how the session differs from earlier sessions.

    A subject is the owner of a series of sessions: a case, or the name of a framework. The series
    of a framework has the shared part of the framework: the median log ratio of its cases.

    Attributes:
        history: The sessions before this session, until `append_judged_session` adds this session.
        directions: For each case, 1 if this session alone shows that the case is slower, -1 if
            faster, 0 if neither. None if the case seems slower and confirming launches are missing.
        latest_session_by_subject: This session as the newest entry in the series of each subject:
            the launches, and their distance from the level.
        latest_losses: The present loss of each subject, which this session alone or several
            sessions show; its `loss` is 0 without a loss.
        slower_frameworks: The names of the frameworks whose cases together are slower, in this
            session or over several sessions.
        recent_noisy_session_count: How many of the last ten sessions, this session included, were
            noisy.

    """

    history: ReplayedHistory
    directions: Mapping[Case, int | None]
    latest_session_by_subject: Mapping[Case | str, LatestSession]
    latest_losses: Mapping[Case | str, SeriesLoss]
    slower_frameworks: frozenset[str]
    recent_noisy_session_count: int


def assess_session(
    history: ReplayedHistory, session_limits: SessionLimits, times_today: Mapping[Case, CaseTimes]
) -> Assessment:
    """Judge a session by the earlier sessions in `history`, and return the assessment.

    `times_today` has the launches of the session by case. `session_limits` are the limits that
    `compute_limits` returned for these launches. `history` stays unchanged.
    """
    thresholds, is_noisy = history.rule, session_limits.is_noisy
    directions = {
        case: decide_speed_change(
            times_today[case], limit, thresholds, limit.slower_above_log_ratio
        ).direction
        for case, limit in session_limits.limits.items()
    }
    latest_session_by_subject = _find_latest_sessions(
        history, session_limits, times_today, directions
    )
    latest_losses = {
        subject: _loss_after_session(history.series[subject], latest_session, thresholds, is_noisy)
        for subject, latest_session in latest_session_by_subject.items()
    }
    slower = {
        name
        for name in session_limits.shared_parts
        if latest_session_by_subject[name].is_slower or latest_losses[name].loss_session_count
    }
    return dataclass_from(
        Assessment,
        session_limits,
        history=history,
        directions=directions,
        latest_session_by_subject=latest_session_by_subject,
        latest_losses=latest_losses,
        slower_frameworks=frozenset(slower),
        recent_noisy_session_count=sum(
            [*history.noisy_flags[1 - SESSIONS_IN_NOISE_REPORT :], is_noisy]
        ),
    )


def _find_latest_sessions(
    history: ReplayedHistory,
    session_limits: SessionLimits,
    times_today: Mapping[Case, CaseTimes],
    directions: Mapping[Case, int | None],
) -> dict[Case | str, LatestSession]:
    """Return, for each case and each shared part, the judged session as the latest of the series.

    A key of the result is a case, or the name of the framework of a shared part. `directions` says
    for each case whether the case is slower (see Assessment). The other arguments are those of
    `assess_session`.
    """
    latest_session_by_subject: dict[Case | str, LatestSession] = {}
    for name, shared_part in session_limits.shared_parts.items():
        log_median = shared_part.expected_log_ratio + shared_part.shift_log_ratio
        latest_session_by_subject[name] = LatestSession(
            launches=replace(NO_LAUNCHES, log_median=log_median, log_fastest=log_median),
            residual=shared_part.shift_log_ratio,
            residual_stddev=shared_part.stddev,
            noise=shared_part.noise,
            loss_floor=math.log1p(history.rule.min_session_loss),
            is_slower=shared_part.is_slower,
            can_begin_loss=shared_part.is_slower,
            is_shared_part=True,
        )
    for case, limit in session_limits.limits.items():
        is_slower = directions[case] == 1
        level = session_limits.shared_parts[case.framework].expected_log_ratio
        shift = (
            level + limit.common_shift
            if case.framework in history.frameworks_with_shared_part
            else 0.0
        )
        latest_session_by_subject[case] = dataclass_from(
            LatestSession,
            limit,
            launches=times_today[case].all_launches.without_shift(shift),
            loss_floor=history.loss_floor(case),
            is_slower=is_slower,
            can_begin_loss=is_slower and limit.residual > limit.residual_limit,
        )
    return latest_session_by_subject


def _loss_after_session(
    series: Series, latest_session: LatestSession, thresholds: RuleThresholds, is_noisy: bool
) -> SeriesLoss:
    """Return the loss of a series after the session that is judged.

    An earlier loss continues until `_has_loss_ended`. A new loss begins if several sessions
    together show the loss, or if the judged session alone does. `is_noisy` says whether the judged
    session is noisy.
    """
    count, before = len(series.launches), series.latest_loss
    loss, began, gradual = before.loss, before.start_position, before.is_gradual
    start, ended_count = before.min_window_start, 0
    if (
        loss
        and not latest_session.is_slower
        and _has_loss_ended(series, latest_session, thresholds)
    ):
        ended_count, loss, start = count - began, 0.0, count
    # A noisy session shows no loss over several sessions, and later windows begin after it.
    window = None if is_noisy else _find_window_loss(series, latest_session, start, thresholds)
    if window is not None:
        began = began if loss and began < window.start_position else window.start_position
        loss, gradual = window.loss, not latest_session.is_slower and (not loss or gradual)
    elif not loss and latest_session.can_begin_loss:
        loss, began, gradual = latest_session.residual, count, False
    is_lasting = loss > 0 and began < count
    values = [*series.log_medians[began:], latest_session.launches.log_median]
    mean = fmean(values) - latest_session.log_level if is_lasting else 0.0
    return SeriesLoss(
        loss=loss,
        start_position=began,
        is_gradual=gradual,
        mean_loss=mean if window is None else window.loss,
        loss_session_count=count + 1 - began if is_lasting else 0,
        first_loss_session_number=series.session_numbers[began] if is_lasting else 0,
        ended_loss_session_count=ended_count,
        min_window_start=count + 1 if is_noisy else start,
        window=window,
    )


def _has_loss_ended(
    series: Series, latest_session: LatestSession, thresholds: RuleThresholds
) -> bool:
    """Return whether the session that is judged shows that the loss of a series has ended.

    The loss has ended if the session is more than `thresholds.recovery_sigmas` standard deviations
    below half of the loss, or if the median of the last sessions is below half of the loss.
    """
    half = series.latest_loss.loss / 2
    last = (
        median(
            [
                *series.log_medians[1 - LAST_MEDIAN_SESSION_COUNT :],
                latest_session.launches.log_median,
            ]
        )
        - latest_session.log_level
    )
    return (
        latest_session.residual + thresholds.recovery_sigmas * latest_session.residual_stddev < half
        or last < half
    )


def _find_window_loss(
    series: Series, latest_session: LatestSession, min_start: int, thresholds: RuleThresholds
) -> WindowLoss | None:
    """Find a loss that several of the last sessions show together, the judged session included.

    A window is a number of last sessions, whose mean is compared with the level before the window.
    Each length in `thresholds.window_lengths` is tried. A window begins at the position `min_start`
    or later.

    Returns:
        The loss; None if no window shows a loss. The size of the loss is that of the shortest
        window that shows a loss, and its positions are those of the longest such window.

    """
    launches = [*series.launches, latest_session.launches]
    values, fastest = [x.log_median for x in launches], [x.log_fastest for x in launches]
    count, loss, widest, threshold = len(values), 0.0, 0, 0.0
    for sessions in thresholds.window_lengths:
        begin = count - sessions
        expected = series.expected_time(thresholds, begin) if begin >= max(1, min_start) else None
        if expected is None or expected.session_count < 2:
            continue
        mean = fmean(values[begin:]) - expected.log_level
        mean = min(mean, fmean(fastest[begin:]) - expected.log_fastest)
        share = (
            max(1 / sessions, thresholds.min_window_to_session_variance)
            + 1 / expected.session_count
        )
        sigmas = (
            thresholds.window_sigmas
            + thresholds.window_sigmas_over_sessions / expected.session_count
        )
        sigmas = thresholds.shared_window_sigmas if latest_session.is_shared_part else sigmas
        limit = sigmas * math.sqrt(share) * latest_session.noise.stddev_with_sessions(expected)
        middle = min(
            median(values[begin:]), median(values[-LAST_MEDIAN_SESSION_COUNT:]), values[-1]
        )
        if mean > max(latest_session.loss_floor, limit) and middle - expected.log_level > mean / 2:
            loss, widest, threshold = loss or mean, begin, expected.log_level
    if not widest:
        return None
    threshold += loss / 2
    began = count - 1
    while began > widest and values[began - 1] > threshold:
        began -= 1
    return WindowLoss(
        loss=loss,
        start_position=began,
        first_excluded_position=widest,
        max_counted_log_median=threshold,
    )


def deviation_of_accepted_session(
    series: Series, latest_session: LatestSession, thresholds: RuleThresholds
) -> float:
    """Return the log ratio of the accepted session to later sessions, or 0 if it may be chance.

    The accepted session is the first session of the series. The log ratio is positive if that
    session was slower than the median of all later sessions, and negative if faster. The result is
    also 0 if one of the first two later sessions shows less than half of the difference. Then the
    level changed later, and the accepted session was not unusual.
    """
    if not series.counted_positions or len(series.launches) < 2:
        return 0.0
    accepted, *since = [*series.log_medians, latest_session.launches.log_median]
    odd = accepted - median(since)
    stddev = latest_session.noise.stddev(sum_of_squares_about_mean(since), len(since) - 1)
    sigmas = (
        thresholds.shared_sigmas
        if latest_session.is_shared_part
        else thresholds.unusual_accepted_sigmas
    )
    limit = sigmas * stddev * math.sqrt(1 + MEDIAN_TO_MEAN_VARIANCE_RATIO / len(since))
    sign = math.copysign(1.0, odd)
    begins = all(sign * (accepted - value) > abs(odd) / 2 for value in since[:2])
    return odd if abs(odd) > max(latest_session.loss_floor, limit) and begins else 0.0


def replay_sessions(
    sessions: Iterable[Mapping[Case, CaseTimes]], history: ReplayedHistory
) -> ReplayedHistory:
    """Judge `sessions` in their order, append each of them to `history`, and return `history`."""
    for times in sessions:
        limits = compute_limits(history, times)
        append_judged_session(history, times, assess_session(history, limits, times))
    return history


def append_judged_session(
    history: ReplayedHistory, times_today: Mapping[Case, CaseTimes], assessment: Assessment
) -> None:
    """Append a judged session to `history`.

    Some launches of the session are stored, but not used for later levels:

    - launches of a case that became slower or faster, or that has a loss over several sessions
    - launches of all cases of a framework that is slower as a whole
    - all launches of a noisy session
    - all launches of a session with widened limits (`assessment.widening` above 1), if `history`
      already has `RuleThresholds.min_session_count_for_known_noise` sessions

    Args:
        history: The earlier sessions, to which the session is added.
        times_today: The launches of the session, by case.
        assessment: The assessment of the session.

    """
    directions = assessment.directions
    latest_losses = assessment.latest_losses
    number = history.session_count
    changed = [case for case in directions if directions[case] != 0 or latest_losses[case].window]
    is_unused_for_levels = (
        assessment.widening > 1 and number >= history.rule.min_session_count_for_known_noise
    ) or assessment.is_noisy
    is_calm = len(changed) <= 2 and not is_unused_for_levels and not assessment.slower_frameworks
    shifts = {
        name: assessment.latest_session_by_subject[name].launches.log_median
        for name in assessment.shared_parts
    }
    for case, times in times_today.items():
        series = history.series.setdefault(case, Series())
        latest_session = assessment.latest_session_by_subject.get(case)
        if latest_session is not None:
            is_bad = is_unused_for_levels or case.framework in assessment.slower_frameworks
            is_counted = directions[case] == 0 and not is_bad and not latest_losses[case].loss
            expected = assessment.limits[case].expected_time
            prior_stddev = latest_session.noise.stddev() * expected.prediction_stddev_factor(
                times.all_launches
            )
            deviation_sigmas = abs(latest_session.residual) / prior_stddev if is_calm else 0.0
            series.append_session(
                number,
                latest_session.launches,
                latest_losses[case],
                is_counted=is_counted,
                deviation_sigmas=deviation_sigmas,
            )
        else:
            is_pooled = case.framework in history.frameworks_with_shared_part
            shift = shifts.get(case.framework, 0.0) if is_pooled else 0.0
            series.append_session(
                number, times.all_launches.without_shift(shift), series.latest_loss, is_counted=True
            )
    for name in dict.fromkeys(case.framework for case in times_today):
        _append_shared_part(history, name, assessment, is_unused_for_levels)
    history.noisy_flags.append(assessment.is_noisy)


def _append_shared_part(
    history: ReplayedHistory, framework: str, assessment: Assessment, is_unused_for_levels: bool
) -> None:
    """Append a framework's shared part in the judged session to the series of the framework.

    `is_unused_for_levels` says whether the session is too noisy to be used for later levels.
    """
    series = history.series.setdefault(framework, Series())
    is_counted, launches = framework in history.frameworks_with_shared_part, NO_LAUNCHES
    latest_session = assessment.latest_session_by_subject.get(framework)
    if latest_session is not None:
        is_counted &= not (is_unused_for_levels or framework in assessment.slower_frameworks)
        launches = latest_session.launches
    latest_loss = assessment.latest_losses.get(framework, NO_LOSS)
    series.append_session(history.session_count, launches, latest_loss, is_counted=is_counted)
