"""Losses over several sessions: what stays slower fails until it is repaired or accepted.

`replay` judges earlier sessions one after the other, so that the history alone says what is held.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.variance import squares_of

from .expected_times import CaseNoise, Lasting, Series, State, Window
from .policy import Rule
from .rule import CaseTimes, History, Limit, SessionLimits, Shared, decide, limits

# As many last sessions must be slower in the middle: a single outlier is no loss that lasts.
_LAST = 3

# As many sessions are looked at for how often they were noisy.
_RECENT = 10

# The variance of a median of many values, in variances of their mean.
_OF_MEDIAN = math.pi / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """The present value of a series: `residual` is its distance from the level.

    `deviation` is the standard deviation of that; `noise` is what is known of the noise besides the
    series itself, and `unit` the deviation by that alone. `is_slower` is what one session says,
    and `begins_loss` whether it is a loss of the series. Windows have the limit `factor`, at least
    `floor`.
    """

    value: float
    fastest: float
    residual: float
    deviation: float
    unit: float
    noise: CaseNoise
    floor: float
    factor: float
    factor_of_one: float
    odd_factor: float
    is_slower: bool
    begins_loss: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment:
    """A session judged with those before it: the direction of each case by itself, and its state.

    `history` are the sessions before it. `slower` are the frameworks whose cases together are
    slower; `noisy_sessions` is how many of the last ten sessions were noisy.
    """

    history: History
    directions: Mapping[Case, int | None]
    values: Mapping[Case | str, Value]
    states: Mapping[Case, State]
    shared: Mapping[str, State]
    slower: frozenset[str]
    session_limits: SessionLimits = field(default_factory=SessionLimits)
    noisy_sessions: int = 0

    @property
    def limits(self) -> Mapping[Case, Limit]:
        return self.session_limits.limits

    @property
    def is_noisy(self) -> bool:
        return self.session_limits.noisier > 1


def assess(
    history: History, session_limits: SessionLimits, today: Mapping[Case, CaseTimes]
) -> Assessment:
    """Judge the session `today`, whose limits are `session_limits`, with the sessions before it."""
    rule, is_noisy = history.rule, session_limits.noisier > 1
    directions, values = dict[Case, int | None](), dict[Case | str, Value]()
    for case, limit in session_limits.limits.items():
        decision = decide(today[case], limit, rule, limit.slower)
        directions[case] = decision.direction
        level = session_limits.shared[case.framework].level
        shift = level + limit.common_shift if case.framework in history.together else 0.0
        values[case] = _value(case, limit, today[case], shift, directions[case] == 1, history)
    values |= {name: _shared_value(part, rule) for name, part in session_limits.shared.items()}
    states = {c: _next_state(history.cases[c], values[c], rule, is_noisy) for c in directions}
    shared = {
        name: _next_state(history.shared.get(name, Series()), values[name], rule, is_noisy)
        for name in session_limits.shared
    }
    slower = {name for name in shared if values[name].is_slower or shared[name].lasting}
    return Assessment(
        history=history,
        directions=directions,
        values=values,
        states=states,
        shared=shared,
        slower=frozenset(slower),
        session_limits=session_limits,
        noisy_sessions=sum([*history.noisy[1 - _RECENT :], is_noisy]),
    )


def _value(
    case: Case, limit: Limit, times: CaseTimes, shift: float, is_slower: bool, history: History
) -> Value:
    return Value(
        value=times.every.median - shift,
        fastest=times.every.fastest - shift,
        residual=limit.residual,
        deviation=limit.deviation,
        unit=limit.noise.deviation() * math.sqrt(1 + 1 / limit.expected.sessions),
        noise=limit.noise,
        floor=history.floor(case),
        factor=history.rule.factor_window,
        factor_of_one=history.rule.factor_window_of_one,
        odd_factor=history.rule.odd,
        is_slower=is_slower,
        begins_loss=is_slower and limit.residual > limit.residual_limit,
    )


def _shared_value(shared: Shared, rule: Rule) -> Value:
    return Value(
        value=shared.level + shared.off,
        fastest=shared.level + shared.off,
        residual=shared.off,
        deviation=shared.deviation,
        unit=shared.deviation,
        noise=shared.noise,
        floor=math.log1p(rule.slower),
        factor=rule.factor_shared_window,
        factor_of_one=0.0,
        odd_factor=rule.factor_shared,
        is_slower=shared.off > shared.limit,
        begins_loss=shared.off > shared.limit,
    )


def _next_state(series: Series, latest: Value, rule: Rule, is_noisy: bool) -> State:
    """Assess a series with this session's value: first whether a loss is over, then windows."""
    count, before = len(series.values), series.state
    loss, began, gradual = before.loss, before.began, before.is_gradual
    start, repaired, level = before.window_start, 0, latest.value - latest.residual
    if loss and not latest.is_slower and _is_over(series, latest, rule):
        repaired, loss, start = count - began, 0.0, count
    # A noisy session shows no lasting loss, and is no part of a loss that later sessions show.
    window = None if is_noisy else _window(series, latest, start, rule)
    if window is not None:
        began = began if loss and began < window.began else window.began
        loss, gradual = window.loss, not latest.is_slower and (not loss or gradual)
    elif not loss and latest.begins_loss:
        loss, began, gradual = latest.residual, count, False
    lasting = None
    if loss and began < count:
        mean = fmean([*series.values[began:], latest.value]) - level
        lasting = Lasting(
            log_ratio=mean if window is None else window.loss,
            sessions=count + 1 - began,
            began=series.numbers[began],
            is_gradual=gradual,
        )
    return State(
        lasting=lasting,
        repaired=repaired,
        loss=loss,
        began=began,
        is_gradual=gradual,
        window_start=count + 1 if is_noisy else start,
        window=window,
    )


def _is_over(series: Series, latest: Value, rule: Rule) -> bool:
    """Return whether this session excludes half of the loss, or the last sessions are below it."""
    half, level = series.state.loss / 2, latest.value - latest.residual
    last = median([*series.values[1 - _LAST :], latest.value]) - level
    return latest.residual + rule.released * latest.deviation < half or last < half


def _window(series: Series, latest: Value, start: int, rule: Rule) -> Window | None:
    """Return the loss of the shortest window that shows a loss; None if no window does.

    The longest window that shows one has the level, and says which sessions make no level.
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
        share = max(1 / sessions, rule.window_freedom) + 1 / expected.sessions
        factor = latest.factor + latest.factor_of_one / expected.sessions
        limit = factor * math.sqrt(share) * latest.noise.with_sessions(expected)
        middle = min(median(values[begin:]), median(values[-_LAST:]), latest.value)
        if mean > max(latest.floor, limit) and middle - expected.level > mean / 2:
            loss, widest, threshold = loss or mean, begin, expected.level
    if not widest:
        return None
    threshold += loss / 2
    began = count - 1
    while began > widest and values[began - 1] > threshold:
        began -= 1
    return Window(loss=loss, began=began, start=widest, threshold=threshold)


def accepted_deviation(series: Series, latest: Value) -> float:
    """Return by how much the accepted session was slower than all since; 0 for not clearly.

    Below 0 it was faster. The first two sessions since must show it, too: a later change says
    nothing about the accepted session.
    """
    if not series.counted or len(series.values) < 2:
        return 0.0
    accepted, *since = [*series.values, latest.value]
    odd = accepted - median(since)
    deviation = latest.noise.deviation(squares_of(since), len(since) - 1)
    limit = latest.odd_factor * deviation * math.sqrt(1 + _OF_MEDIAN / len(since))
    sign = math.copysign(1.0, odd)
    begins = all(sign * (accepted - value) > abs(odd) / 2 for value in since[:2])
    return odd if abs(odd) > max(latest.floor, limit) and begins else 0.0


def replay(sessions: Iterable[Mapping[Case, CaseTimes]], history: History) -> History:
    """Judge `sessions` one after the other, each with those before it, and return `history`."""
    for today in sessions:
        record(history, today, assess(history, limits(history, today), today))
    return history


def record(history: History, today: Mapping[Case, CaseTimes], judged: Assessment) -> None:
    """Append a judged session: what failed, improved or was noisy makes no level."""
    changed = [c for c in judged.directions if judged.directions[c] != 0 or judged.states[c].window]
    learnt = history.sessions >= history.rule.noise_sessions
    is_wide = judged.is_noisy or (judged.session_limits.widened > 1 and learnt)
    is_calm = len(changed) <= 2 and not is_wide and not judged.slower
    for case, times in today.items():
        series = history.cases.setdefault(case, Series())
        series.squares.append(times.every.squares)
        series.freedom.append(times.every.freedom)
        if case in judged.states:
            state, latest = judged.states[case], judged.values[case]
            bad = is_wide or case.framework in judged.slower
            counts = judged.directions[case] == 0 and not bad and not state.loss
            series.extremes.append(abs(latest.residual) / latest.unit if is_calm else 0.0)
            series.append(history.sessions, latest.value, latest.fastest, state, counts=counts)
        else:
            shared = judged.values.get(case.framework)
            shift = shared.value if shared and case.framework in history.together else 0.0
            series.extremes.append(0.0)
            value, fastest = times.every.median - shift, times.every.fastest - shift
            series.append(history.sessions, value, fastest, series.state, counts=True)
    for name in dict.fromkeys(case.framework for case in today):
        series, state = history.shared.setdefault(name, Series()), judged.shared.get(name, State())
        value = judged.values[name].value if name in judged.shared else 0.0
        bad = name in judged.shared and (is_wide or name in judged.slower)
        counts = name in history.together and not bad
        series.append(history.sessions, value, value, state, counts=counts)
    history.noisy.append(judged.is_noisy)
