"""Losses over several sessions: what stays slower fails until it is repaired or accepted.

`replay` judges earlier sessions one after the other, so that the history alone says which losses
are present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from busbw.model.case import Case, converted
from busbw.stats.variance import squares_of

from .case import decide
from .expected_times import NO_LAUNCHES, UNREMARKABLE, CaseNoise, Launches, Series, State, Window
from .policy import LAST_SESSIONS, MEDIAN_VARIANCE, RECENT_SESSIONS, Rule
from .rule import CaseTimes, History, SessionLimits, compute_limits


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionValue:
    """The launches of a series in this session, and how they are judged.

    `residual` is the distance of their median from the level, with the standard deviation `stddev`.
    `noise` is what is known of the noise besides the series. `is_slower` is the decision on this
    session, and `begins_loss` says whether the loss is one of the series and not only of what it
    shares. The limit of windows is `floor` at least, and another one where the series `is_shared`
    by the cases of a framework.
    """

    launches: Launches
    residual: float
    stddev: float
    noise: CaseNoise
    floor: float
    is_slower: bool
    begins_loss: bool
    is_shared: bool = False

    @property
    def level(self) -> float:
        return self.launches.median - self.residual


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
    values: dict[Case | str, SessionValue] = {}
    for name, shared in session_limits.shared.items():
        median_now, is_slower = shared.level + shared.shift, shared.shift > shared.limit
        values[name] = SessionValue(
            launches=replace(NO_LAUNCHES, median=median_now, fastest=median_now),
            residual=shared.shift,
            stddev=shared.stddev,
            noise=shared.noise,
            floor=math.log1p(rule.min_session_loss),
            is_slower=is_slower,
            begins_loss=is_slower,
            is_shared=True,
        )
    for case, limit in session_limits.limits.items():
        directions[case] = decide(today[case], limit, rule, limit.slower).direction
        level, is_slower = session_limits.shared[case.framework].level, directions[case] == 1
        shift = level + limit.common_shift if case.framework in history.pooled_frameworks else 0.0
        values[case] = converted(
            SessionValue,
            limit,
            launches=today[case].together.shifted(shift),
            floor=history.floor(case),
            is_slower=is_slower,
            begins_loss=is_slower and limit.residual > limit.residual_limit,
        )
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


def _next_state(series: Series, latest: SessionValue, rule: Rule, is_noisy: bool) -> State:
    """Return the state after this session: first whether a loss is over, then windows."""
    count, before = len(series.launches), series.state
    loss, began, gradual = before.loss, before.began, before.is_gradual
    start, repaired = before.window_start, 0
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
    values = [*series.values[began:], latest.launches.median]
    mean = fmean(values) - latest.level if is_lasting else 0.0
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
    half = series.state.loss / 2
    last = median([*series.values[1 - LAST_SESSIONS :], latest.launches.median]) - latest.level
    return latest.residual + rule.recovery_sigmas * latest.stddev < half or last < half


def _find_window(series: Series, latest: SessionValue, start: int, rule: Rule) -> Window | None:
    """Return the loss of the shortest window that shows a loss; None if no window does.

    The longest window that shows a loss gives the level, and decides which sessions make no level.
    """
    launches = [*series.launches, latest.launches]
    values, fastest = [x.median for x in launches], [x.fastest for x in launches]
    count, loss, widest, threshold = len(values), 0.0, 0, 0.0
    for sessions in rule.windows:
        begin = count - sessions
        expected = series.expected(rule, begin) if begin >= max(1, start) else None
        if expected is None or expected.sessions < 2:
            continue
        mean = fmean(values[begin:]) - expected.level
        mean = min(mean, fmean(fastest[begin:]) - expected.fastest)
        share = max(1 / sessions, rule.min_window_variance_share) + 1 / expected.sessions
        sigmas = rule.window_sigmas + rule.window_sigmas_over_sessions / expected.sessions
        sigmas = rule.shared_window_sigmas if latest.is_shared else sigmas
        limit = sigmas * math.sqrt(share) * latest.noise.with_sessions(expected)
        middle = min(median(values[begin:]), median(values[-LAST_SESSIONS:]), values[-1])
        if mean > max(latest.floor, limit) and middle - expected.level > mean / 2:
            loss, widest, threshold = loss or mean, begin, expected.level
    if not widest:
        return None
    threshold += loss / 2
    began = count - 1
    while began > widest and values[began - 1] > threshold:
        began -= 1
    return Window(loss=loss, began=began, start=widest, threshold=threshold)


def accepted_deviation(series: Series, latest: SessionValue, rule: Rule) -> float:
    """Return by how much the accepted session was slower than all since, a log ratio.

    It is negative if the session was faster, and 0 unless the difference is clear. The first two
    sessions since must show it, too: a later change says nothing about the accepted session.
    """
    if not series.counted or len(series.launches) < 2:
        return 0.0
    accepted, *since = [*series.values, latest.launches.median]
    odd = accepted - median(since)
    stddev = latest.noise.stddev(squares_of(since), len(since) - 1)
    sigmas = rule.shared_sigmas if latest.is_shared else rule.odd_sigmas
    limit = sigmas * stddev * math.sqrt(1 + MEDIAN_VARIANCE / len(since))
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
    is_wide = (judged.widening > 1 and number >= history.rule.noise_sessions) or judged.is_noisy
    is_calm = len(changed) <= 2 and not is_wide and not judged.slower
    shifts = {name: judged.values[name].launches.median for name in judged.shared}
    for case, times in today.items():
        series, latest = history.cases.setdefault(case, Series()), judged.values.get(case)
        if latest is not None:
            is_bad = is_wide or case.framework in judged.slower
            counts = directions[case] == 0 and not is_bad and not states[case].loss
            sessions = judged.limits[case].expected.sessions
            prior_stddev = latest.noise.stddev() * math.sqrt(1 + 1 / sessions)
            extreme = abs(latest.residual) / prior_stddev if is_calm else 0.0
            series.append(number, latest.launches, states[case], counts=counts, extreme=extreme)
        else:
            is_pooled = case.framework in history.pooled_frameworks
            shift = shifts.get(case.framework, 0.0) if is_pooled else 0.0
            series.append(number, times.together.shifted(shift), series.state, counts=True)
    for name in dict.fromkeys(case.framework for case in today):
        series, latest = history.shared.setdefault(name, Series()), judged.values.get(name)
        is_bad = latest is not None and (is_wide or name in judged.slower)
        counts = name in history.pooled_frameworks and not is_bad
        launches = NO_LAUNCHES if latest is None else latest.launches
        series.append(number, launches, states.get(name, UNREMARKABLE), counts=counts)
    history.noisy.append(judged.is_noisy)
