"""Find losses over several sessions: a loss stays red until it is repaired or accepted.

`replay_sessions` judges earlier sessions one after the other, so that the stored sessions alone
determine which losses are present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from busbw.model.case import Case, convert_to
from busbw.stats.variance import sum_of_squares_about_mean

from .decision import decide_direction
from .noise import SessionNoise
from .policy import MEDIAN_VARIANCE_RATIO, NOISE_REPORT_SESSIONS, SESSIONS_OF_LAST_MEDIAN, Rule
from .rule import SessionLimits, compute_limits
from .series import (
    NO_LAUNCHES,
    NO_LOSS,
    CaseTimes,
    History,
    LaunchSummary,
    LossState,
    Series,
    Window,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LatestLaunches:
    """The launches of a series in the session that is judged, compared with the level.

    Attributes:
        launches: The summary of the launches.
        residual: The log ratio of the median of `launches` to the level.
        stddev: The standard deviation of `residual` while the code is unchanged.
        noise: How much the series varies between sessions, without its earlier sessions.
        loss_floor: The least log ratio that counts as a loss over several sessions.
        is_slower: Whether this session alone shows a loss.
        begins_loss: Whether that loss is in the series itself, and not only in the part that it
            shares with other cases.
        is_shared_part: Whether the series is the shared part of a framework, not a case.

    """

    launches: LaunchSummary
    residual: float
    stddev: float
    noise: SessionNoise
    loss_floor: float
    is_slower: bool
    begins_loss: bool
    is_shared_part: bool = False

    @property
    def log_level(self) -> float:
        """The level of the series, in log time."""
        return self.launches.log_median - self.residual


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment(SessionLimits):
    """A session that was judged by the earlier sessions.

    A subject is a case or the name of a framework, which stands for its shared part.

    Attributes:
        history: The earlier sessions.
        directions: For each case, 1 if this session alone shows that the case is slower, -1 if
            faster, 0 if neither. None if launches that would confirm it are missing.
        latest_launches: The launches of each subject in this session.
        loss_states: The losses of each subject after this session.
        slower_frameworks: The frameworks whose cases together are slower.
        recent_noisy_session_count: How many of the last ten sessions, this session included, were
            noisy.

    """

    history: History
    directions: Mapping[Case, int | None]
    latest_launches: Mapping[Case | str, LatestLaunches]
    loss_states: Mapping[Case | str, LossState]
    slower_frameworks: frozenset[str]
    recent_noisy_session_count: int


def assess_session(
    history: History, session_limits: SessionLimits, times_today: Mapping[Case, CaseTimes]
) -> Assessment:
    """Judge a session by the earlier sessions in `history`, which stays unchanged.

    `session_limits` are the limits that `compute_limits` returned for `times_today`.
    """
    rule, is_noisy, directions = history.rule, session_limits.is_noisy, dict[Case, int | None]()
    latest_launches: dict[Case | str, LatestLaunches] = {}
    for name, shared in session_limits.shared_parts.items():
        median_now, is_slower = shared.log_level + shared.shift, shared.shift > shared.limit
        latest_launches[name] = LatestLaunches(
            launches=replace(NO_LAUNCHES, log_median=median_now, log_fastest=median_now),
            residual=shared.shift,
            stddev=shared.stddev,
            noise=shared.noise,
            loss_floor=math.log1p(rule.min_session_loss),
            is_slower=is_slower,
            begins_loss=is_slower,
            is_shared_part=True,
        )
    for case, limit in session_limits.limits.items():
        directions[case] = decide_direction(
            times_today[case], limit, rule, limit.slower_above
        ).direction
        level, is_slower = (
            session_limits.shared_parts[case.framework].log_level,
            directions[case] == 1,
        )
        shift = level + limit.common_shift if case.framework in history.pooled_frameworks else 0.0
        latest_launches[case] = convert_to(
            LatestLaunches,
            limit,
            launches=times_today[case].all_launches.without_shift(shift),
            loss_floor=history.loss_floor(case),
            is_slower=is_slower,
            begins_loss=is_slower and limit.residual > limit.residual_limit,
        )
    loss_states = {
        subject: _next_loss_state(history.find_series(subject) or Series(), latest, rule, is_noisy)
        for subject, latest in latest_launches.items()
    }
    slower = {
        name
        for name in session_limits.shared_parts
        if latest_launches[name].is_slower or loss_states[name].lost_session_count
    }
    return convert_to(
        Assessment,
        session_limits,
        history=history,
        directions=directions,
        latest_launches=latest_launches,
        loss_states=loss_states,
        slower_frameworks=frozenset(slower),
        recent_noisy_session_count=sum(
            [*history.noisy_flags[1 - NOISE_REPORT_SESSIONS :], is_noisy]
        ),
    )


def _next_loss_state(
    series: Series, latest: LatestLaunches, rule: Rule, is_noisy: bool
) -> LossState:
    """Return the losses of a series after the session that is judged.

    The previous loss ends if the session shows that it is over. A loss begins if several sessions
    together show it, or this session alone. `is_noisy` says whether this session is noisy.
    """
    count, before = len(series.launches), series.loss_state
    loss, began, gradual = before.loss, before.start_position, before.is_gradual
    start, repaired = before.min_window_start, 0
    if loss and not latest.is_slower and _is_loss_over(series, latest, rule):
        repaired, loss, start = count - began, 0.0, count
    # A noisy session shows no loss over several sessions, and later windows begin after it.
    window = None if is_noisy else _find_window(series, latest, start, rule)
    if window is not None:
        began = began if loss and began < window.start_position else window.start_position
        loss, gradual = window.loss, not latest.is_slower and (not loss or gradual)
    elif not loss and latest.begins_loss:
        loss, began, gradual = latest.residual, count, False
    is_lasting = loss > 0 and began < count
    values = [*series.log_medians[began:], latest.launches.log_median]
    mean = fmean(values) - latest.log_level if is_lasting else 0.0
    return LossState(
        loss=loss,
        start_position=began,
        is_gradual=gradual,
        mean_loss=mean if window is None else window.loss,
        lost_session_count=count + 1 - began if is_lasting else 0,
        first_lost_session_number=series.session_numbers[began] if is_lasting else 0,
        repaired_session_count=repaired,
        min_window_start=count + 1 if is_noisy else start,
        window=window,
    )


def _is_loss_over(series: Series, latest: LatestLaunches, rule: Rule) -> bool:
    """Return whether the loss of a series is over.

    It is over if the session that is judged is more than `rule.recovery_sigmas` standard deviations
    below half of the loss. It is also over if the median of the last sessions is below half.
    """
    half = series.loss_state.loss / 2
    last = (
        median([*series.log_medians[1 - SESSIONS_OF_LAST_MEDIAN :], latest.launches.log_median])
        - latest.log_level
    )
    return latest.residual + rule.recovery_sigmas * latest.stddev < half or last < half


def _find_window(
    series: Series, latest: LatestLaunches, min_start: int, rule: Rule
) -> Window | None:
    """Find a loss that several of the last sessions show together, the judged session included.

    A window is a number of last sessions, whose mean is compared with the level before them. Each
    length in `rule.window_lengths` is tried, and no window begins before `min_start`.

    Returns:
        The size of the loss from the shortest window that shows a loss, and the positions from the
        longest. None if no window shows a loss.

    """
    launches = [*series.launches, latest.launches]
    values, fastest = [x.log_median for x in launches], [x.log_fastest for x in launches]
    count, loss, widest, threshold = len(values), 0.0, 0, 0.0
    for sessions in rule.window_lengths:
        begin = count - sessions
        expected = series.expected_time(rule, begin) if begin >= max(1, min_start) else None
        if expected is None or expected.session_count < 2:
            continue
        mean = fmean(values[begin:]) - expected.log_level
        mean = min(mean, fmean(fastest[begin:]) - expected.log_fastest)
        share = max(1 / sessions, rule.min_window_to_session_variance) + 1 / expected.session_count
        sigmas = rule.window_sigmas + rule.window_sigmas_over_sessions / expected.session_count
        sigmas = rule.shared_window_sigmas if latest.is_shared_part else sigmas
        limit = sigmas * math.sqrt(share) * latest.noise.stddev_with_sessions(expected)
        middle = min(median(values[begin:]), median(values[-SESSIONS_OF_LAST_MEDIAN:]), values[-1])
        if mean > max(latest.loss_floor, limit) and middle - expected.log_level > mean / 2:
            loss, widest, threshold = loss or mean, begin, expected.log_level
    if not widest:
        return None
    threshold += loss / 2
    began = count - 1
    while began > widest and values[began - 1] > threshold:
        began -= 1
    return Window(
        loss=loss,
        start_position=began,
        first_excluded_position=widest,
        max_counted_log_median=threshold,
    )


def accepted_session_deviation(series: Series, latest: LatestLaunches, rule: Rule) -> float:
    """Return the log ratio of the accepted session to later sessions if the difference is clear.

    The accepted session is the first session of the series. The log ratio is positive if that
    session was slower, negative if it was faster, and 0 if the difference is not clear. Each of the
    first two later sessions must show the difference, too. Otherwise the level changed later, and
    the accepted session was not odd.
    """
    if not series.counted_positions or len(series.launches) < 2:
        return 0.0
    accepted, *since = [*series.log_medians, latest.launches.log_median]
    odd = accepted - median(since)
    stddev = latest.noise.stddev(sum_of_squares_about_mean(since), len(since) - 1)
    sigmas = rule.shared_sigmas if latest.is_shared_part else rule.odd_accepted_sigmas
    limit = sigmas * stddev * math.sqrt(1 + MEDIAN_VARIANCE_RATIO / len(since))
    sign = math.copysign(1.0, odd)
    begins = all(sign * (accepted - value) > abs(odd) / 2 for value in since[:2])
    return odd if abs(odd) > max(latest.loss_floor, limit) and begins else 0.0


def replay_sessions(sessions: Iterable[Mapping[Case, CaseTimes]], history: History) -> History:
    """Judge `sessions` in their order, append each of them to `history`, and return `history`."""
    for times in sessions:
        limits = compute_limits(history, times)
        append_session(history, times, assess_session(history, limits, times))
    return history


def append_session(
    history: History, times_today: Mapping[Case, CaseTimes], assessment: Assessment
) -> None:
    """Append a judged session to `history`.

    Later levels do not count the session for a case that became slower or faster, and not for the
    cases of a framework that is slower as a whole. They do not count a noisy session at all, and
    not a session with wider limits once the noise is known.

    Args:
        history: The earlier sessions.
        times_today: The launches of the session, by case.
        assessment: The assessment of the session.

    """
    directions, loss_states, number = (
        assessment.directions,
        assessment.loss_states,
        history.session_count,
    )
    changed = [case for case in directions if directions[case] != 0 or loss_states[case].window]
    is_wide = (
        assessment.widening > 1 and number >= history.rule.known_noise_session_count
    ) or assessment.is_noisy
    is_calm = len(changed) <= 2 and not is_wide and not assessment.slower_frameworks
    shifts = {
        name: assessment.latest_launches[name].launches.log_median
        for name in assessment.shared_parts
    }
    for case, times in times_today.items():
        series, latest = (
            history.case_series.setdefault(case, Series()),
            assessment.latest_launches.get(case),
        )
        if latest is not None:
            is_bad = is_wide or case.framework in assessment.slower_frameworks
            is_counted = directions[case] == 0 and not is_bad and not loss_states[case].loss
            expected = assessment.limits[case].expected
            prior_stddev = latest.noise.stddev() * expected.prediction_factor(times.all_launches)
            extreme = abs(latest.residual) / prior_stddev if is_calm else 0.0
            series.append_session(
                number,
                latest.launches,
                loss_states[case],
                is_counted=is_counted,
                deviation_sigmas=extreme,
            )
        else:
            is_pooled = case.framework in history.pooled_frameworks
            shift = shifts.get(case.framework, 0.0) if is_pooled else 0.0
            series.append_session(
                number, times.all_launches.without_shift(shift), series.loss_state, is_counted=True
            )
    for name in dict.fromkeys(case.framework for case in times_today):
        series, latest = (
            history.framework_series.setdefault(name, Series()),
            assessment.latest_launches.get(name),
        )
        is_bad = latest is not None and (is_wide or name in assessment.slower_frameworks)
        is_counted = name in history.pooled_frameworks and not is_bad
        launches = NO_LAUNCHES if latest is None else latest.launches
        series.append_session(
            number, launches, loss_states.get(name, NO_LOSS), is_counted=is_counted
        )
    history.noisy_flags.append(assessment.is_noisy)
