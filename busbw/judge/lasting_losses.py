"""Losses over several sessions: what stays slower fails until it is repaired or accepted.

`replay` judges earlier sessions one after the other, so that the history alone says which losses
are present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from busbw.model.case import Case, converted
from busbw.stats.variance import squares_of

from .decision import decide
from .expected_times import CaseNoise, Series, State, Window
from .policy import LAST_SESSIONS, MEDIAN_VARIANCE, RECENT_SESSIONS, Rule
from .rule import CaseTimes, History, Limit, SessionLimits, Shared, compute_limits


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionValue:
    """The value of a series in this session, in log time, and by which limits it is judged.

    `residual` is its distance from the level, with the standard deviation `stddev`. `noise` is
    what is known of the noise besides the series, and `prior_stddev` the standard deviation by that
    alone. `is_slower` is the decision on this session, and `begins_loss` says whether the loss is
    one of the series and not only of what it shares. The limit of windows is `floor` at least.
    """

    value: float
    fastest: float
    residual: float
    stddev: float
    prior_stddev: float
    noise: CaseNoise
    floor: float
    window_sigmas: float
    window_sigmas_over_sessions: float
    odd_sigmas: float
    is_slower: bool
    begins_loss: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment(SessionLimits):
    """A session judged with the sessions before it, which `history` has.

    `directions` are the decisions on the cases by this session alone. `values` and `states` are
    those of the frameworks' shared parts, by framework, and then those of cases. `slower` are the
    frameworks whose cases together are slower; `noisy_sessions` is how many of the last ten
    sessions were noisy.
    """

    history: History
    directions: Mapping[Case, int | None]
    values: Mapping[Case | str, SessionValue]
    states: Mapping[Case | str, State]
    slower: frozenset[str]
    noisy_sessions: int


def assess(
    history: History, session_limits: SessionLimits, today: Mapping[Case, CaseTimes]
) -> Assessment:
    """Judge the session `today`, whose limits are `session_limits`, with the sessions before it."""
    rule, is_noisy, directions = history.rule, session_limits.is_noisy, dict[Case, int | None]()
    values: dict[Case | str, SessionValue] = {
        name: _shared_value(shared, rule) for name, shared in session_limits.shared.items()
    }
    for case, limit in session_limits.limits.items():
        directions[case] = decide(today[case], limit, rule, limit.slower).direction
        level = session_limits.shared[case.framework].level
        shift = level + limit.common_shift if case.framework in history.pooled_frameworks else 0.0
        values[case] = _case_value(case, limit, today[case], shift, directions[case] == 1, history)
    states = {
        name: _next_state(history.find(name) or Series(), value, rule, is_noisy)
        for name, value in values.items()
    }
    slower = {
        name
        for name in session_limits.shared
        if values[name].is_slower or states[name].lost_sessions
    }
    return converted(
        Assessment,
        session_limits,
        history=history,
        directions=directions,
        values=values,
        states=states,
        slower=frozenset(slower),
        noisy_sessions=sum([*history.noisy[1 - RECENT_SESSIONS :], is_noisy]),
    )


def _case_value(
    case: Case, limit: Limit, times: CaseTimes, shift: float, is_slower: bool, history: History
) -> SessionValue:
    return SessionValue(
        value=times.together.median - shift,
        fastest=times.together.fastest - shift,
        residual=limit.residual,
        stddev=limit.stddev,
        prior_stddev=limit.noise.stddev() * math.sqrt(1 + 1 / limit.expected.sessions),
        noise=limit.noise,
        floor=history.floor(case),
        window_sigmas=history.rule.window_sigmas,
        window_sigmas_over_sessions=history.rule.window_sigmas_over_sessions,
        odd_sigmas=history.rule.odd_sigmas,
        is_slower=is_slower,
        begins_loss=is_slower and limit.residual > limit.residual_limit,
    )


def _shared_value(shared: Shared, rule: Rule) -> SessionValue:
    return SessionValue(
        value=shared.level + shared.shift,
        fastest=shared.level + shared.shift,
        residual=shared.shift,
        stddev=shared.stddev,
        prior_stddev=shared.stddev,
        noise=shared.noise,
        floor=math.log1p(rule.min_session_loss),
        window_sigmas=rule.shared_window_sigmas,
        window_sigmas_over_sessions=0.0,
        odd_sigmas=rule.shared_sigmas,
        is_slower=shared.shift > shared.limit,
        begins_loss=shared.shift > shared.limit,
    )


def _next_state(series: Series, latest: SessionValue, rule: Rule, is_noisy: bool) -> State:
    """Return the state after this session: first whether a loss is over, then windows."""
    count, before = len(series.values), series.state
    loss, began, gradual = before.loss, before.began, before.is_gradual
    start, repaired, level = before.window_start, 0, latest.value - latest.residual
    if loss and not latest.is_slower and _is_over(series, latest, rule):
        repaired, loss, start = count - began, 0.0, count
    # A noisy session shows no lasting loss, and is no part of a loss that later sessions show.
    window = None if is_noisy else _find_window(series, latest, start, rule)
    if window is not None:
        began = began if loss and began < window.began else window.began
        loss, gradual = window.loss, not latest.is_slower and (not loss or gradual)
    elif not loss and latest.begins_loss:
        loss, began, gradual = latest.residual, count, False
    is_lasting = loss > 0 and began < count
    mean = fmean([*series.values[began:], latest.value]) - level if is_lasting else 0.0
    return State(
        loss=loss,
        began=began,
        is_gradual=gradual,
        mean_loss=mean if window is None else window.loss,
        lost_sessions=count + 1 - began if is_lasting else 0,
        first_session=series.numbers[began] if is_lasting else 0,
        repaired=repaired,
        window_start=count + 1 if is_noisy else start,
        window=window,
    )


def _is_over(series: Series, latest: SessionValue, rule: Rule) -> bool:
    """Return whether this session excludes half of the loss, or the last sessions are below it."""
    half, level = series.state.loss / 2, latest.value - latest.residual
    last = median([*series.values[1 - LAST_SESSIONS :], latest.value]) - level
    return latest.residual + rule.recovery_sigmas * latest.stddev < half or last < half


def _find_window(series: Series, latest: SessionValue, start: int, rule: Rule) -> Window | None:
    """Return the loss of the shortest window that shows a loss; None if no window does.

    The longest window that shows a loss gives the level, and decides which sessions make no level.
    """
    values, fastest = [*series.values, latest.value], [*series.fastest, latest.fastest]
    count, loss, widest, threshold = len(values), 0.0, 0, 0.0
    for sessions in rule.windows:
        begin = count - sessions
        expected = series.expected(rule, begin) if begin >= max(1, start) else None
        if expected is None or expected.sessions < 2:
            continue
        mean = fmean(values[begin:]) - expected.level
        mean = min(mean, fmean(fastest[begin:]) - expected.fastest)
        share = max(1 / sessions, rule.min_window_variance_share) + 1 / expected.sessions
        sigmas = latest.window_sigmas + latest.window_sigmas_over_sessions / expected.sessions
        limit = sigmas * math.sqrt(share) * latest.noise.with_sessions(expected)
        middle = min(median(values[begin:]), median(values[-LAST_SESSIONS:]), latest.value)
        if mean > max(latest.floor, limit) and middle - expected.level > mean / 2:
            loss, widest, threshold = loss or mean, begin, expected.level
    if not widest:
        return None
    threshold += loss / 2
    began = count - 1
    while began > widest and values[began - 1] > threshold:
        began -= 1
    return Window(loss=loss, began=began, start=widest, threshold=threshold)


def accepted_deviation(series: Series, latest: SessionValue) -> float:
    """Return by how much the accepted session was slower than all since, a log ratio.

    It is negative if the session was faster, and 0 unless the difference is clear. The first two
    sessions since must show it, too: a later change says nothing about the accepted session.
    """
    if not series.counted or len(series.values) < 2:
        return 0.0
    accepted, *since = [*series.values, latest.value]
    odd = accepted - median(since)
    stddev = latest.noise.stddev(squares_of(since), len(since) - 1)
    limit = latest.odd_sigmas * stddev * math.sqrt(1 + MEDIAN_VARIANCE / len(since))
    sign = math.copysign(1.0, odd)
    begins = all(sign * (accepted - value) > abs(odd) / 2 for value in since[:2])
    return odd if abs(odd) > max(latest.floor, limit) and begins else 0.0


def replay(sessions: Iterable[Mapping[Case, CaseTimes]], history: History) -> History:
    """Judge `sessions` one after the other, each with those before it, and return `history`."""
    for today in sessions:
        record(history, today, assess(history, compute_limits(history, today), today))
    return history


def record(history: History, today: Mapping[Case, CaseTimes], judged: Assessment) -> None:
    """Append a judged session to `history`: what failed, improved or was noisy makes no level."""
    directions, states, number = judged.directions, judged.states, history.sessions
    changed = [case for case in directions if directions[case] != 0 or states[case].window]
    is_wide = judged.widening > 1 and number >= history.rule.noise_sessions
    is_wide |= judged.is_noisy
    is_calm = len(changed) <= 2 and not is_wide and not judged.slower
    for case, times in today.items():
        series, latest = history.cases.setdefault(case, Series()), judged.values.get(case)
        series.squares.append(times.together.squares)
        series.freedom.append(times.together.freedom)
        if latest is not None:
            is_bad = is_wide or case.framework in judged.slower
            counts = directions[case] == 0 and not is_bad and not states[case].loss
            extreme = abs(latest.residual) / latest.prior_stddev if is_calm else 0.0
            series.append(number, latest.value, latest.fastest, states[case], counts=counts)
        else:
            is_pooled, extreme = case.framework in history.pooled_frameworks, 0.0
            shared = judged.values.get(case.framework) if is_pooled else None
            shift = shared.value if shared is not None else 0.0
            value, fastest = times.together.median - shift, times.together.fastest - shift
            series.append(number, value, fastest, series.state, counts=True)
        series.extremes.append(extreme)
    for name in dict.fromkeys(case.framework for case in today):
        series, latest = history.shared.setdefault(name, Series()), judged.values.get(name)
        is_bad = latest is not None and (is_wide or name in judged.slower)
        counts = name in history.pooled_frameworks and not is_bad
        value = 0.0 if latest is None else latest.value
        series.append(number, value, value, states.get(name, State()), counts=counts)
    history.noisy.append(judged.is_noisy)
