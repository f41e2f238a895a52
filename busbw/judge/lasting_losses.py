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

from .expected_times import CaseNoise, Series
from .policy import Rule
from .rule import CaseTimes, History, Limit, SessionLimits, Shared, decide, limits

# As many last sessions must be slower in the middle: a single outlier is no loss that lasts.
_LAST = 3

# As many sessions are looked at for how often they were noisy.
_RECENT = 10

# The variance of a median of many values, in variances of their mean.
_OF_MEDIAN = math.pi / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Lasting:
    """A loss that several sessions show: `log_ratio` is its mean over the last `sessions`.

    `began` is the number of the first of these. `is_gradual`: no single session showed it.
    """

    log_ratio: float
    sessions: int
    began: int
    is_gradual: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What several sessions, the present one included, say of a case or of what cases share.

    `lasting` is a loss that several sessions show, or that is not repaired; `repaired` the number
    of sessions of a loss that is over. The rest is what the next session starts from: `loss` is
    held, and values above `threshold` from position `discounted` on count no more.
    """

    lasting: Lasting | None = None
    repaired: int = 0
    loss: float = 0.0
    began: int = 0
    is_gradual: bool = False
    window_start: int = 0
    discounted: int = 0
    threshold: float = math.inf

    @property
    def discounts(self) -> bool:
        return self.threshold < math.inf


UNREMARKABLE = State()


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
    values |= {name: _shared_value(one, rule) for name, one in session_limits.shared.items()}
    states = {c: _state(history.cases[c], values[c], rule, is_noisy) for c in directions}
    shared = {
        name: _state(history.shared.get(name, Series()), values[name], rule, is_noisy)
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
        unit=limit.noise.deviation * math.sqrt(1 + 1 / limit.expected.sessions),
        noise=limit.noise,
        floor=history.floor(case),
        factor=history.rule.factor_window,
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
        odd_factor=rule.factor_shared,
        is_slower=shared.off > shared.limit,
        begins_loss=shared.off > shared.limit,
    )


def _state(series: Series, latest: Value, rule: Rule, is_noisy: bool) -> State:
    """Assess a series with this session's value: first whether a loss is over, then windows."""
    count = len(series.values)
    loss, began, gradual = series.loss, series.loss_began, series.loss_is_gradual
    start, repaired = series.window_start, 0
    level = latest.value - latest.residual
    if loss and not latest.is_slower and _is_over(series, latest, level, loss, rule):
        repaired, loss, start = count - began, 0.0, count
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
        window_start=start,
        discounted=window.start if window else 0,
        threshold=window.threshold if window else math.inf,
    )


def _is_over(series: Series, latest: Value, level: float, loss: float, rule: Rule) -> bool:
    """Return whether this session excludes half of the loss, or the last sessions are below it."""
    last = median([*series.values[1 - _LAST :], latest.value]) - level
    return latest.residual + rule.released * latest.deviation < loss / 2 or last < loss / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """A loss that the last sessions show: values above `threshold` from `start` on have it."""

    loss: float
    began: int
    start: int
    threshold: float


def _window(series: Series, latest: Value, start: int, rule: Rule) -> _Window | None:
    """Return the loss of the shortest window that shows one; None if none does."""
    count, longest = len(series.values) + 1, max(rule.windows)
    values = [*series.values[1 - longest :], latest.value]
    fastest = [*series.fastest[1 - longest :], latest.fastest]
    found: list[tuple[int, float, float]] = []
    for sessions in rule.windows:
        begin = count - sessions
        expected = series.expected(rule, begin) if begin >= max(1, start) else None
        if expected is None or expected.sessions < 2:
            continue
        level = expected.level
        loss = fmean(values[-sessions:]) - level
        loss = min(loss, fmean(fastest[-sessions:]) - expected.fastest)
        share = max(1 / sessions, rule.window_freedom) + 1 / expected.sessions
        limit = latest.factor * math.sqrt(share) * latest.noise.with_sessions(expected)
        middle = min(median(values[-sessions:]), median(values[-_LAST:]), latest.value) - level
        if loss > max(latest.floor, limit) and middle > loss / 2:
            found.append((begin, loss, level))
    if not found:
        return None
    loss, (widest, _, level) = found[0][1], found[-1]
    threshold = level + loss / 2
    last = 1
    while last < count - widest and values[-last - 1] > threshold:
        last += 1
    return _Window(loss=loss, began=count - last, start=widest, threshold=threshold)


def accepted_deviation(series: Series, latest: Value) -> float:
    """Return by how much the accepted session was slower than all since; 0 for not clearly.

    Below 0 it was faster. The first two sessions since must show it, too: a later change says
    nothing about the accepted session.
    """
    if not series.counted or len(series.values) < 2:
        return 0.0
    accepted, *since = [*series.values, latest.value]
    odd = accepted - median(since)
    deviation = latest.noise.with_squares(squares_of(since), len(since) - 1)
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
    changed = [
        c for c in judged.directions if judged.directions[c] != 0 or judged.states[c].discounts
    ]
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
            _append(series, history.sessions, latest, state, counts=counts)
        else:
            shared = judged.values.get(case.framework)
            shift = shared.value if shared and case.framework in history.together else 0.0
            fastest = times.every.fastest - shift
            series.extremes.append(0.0)
            series.append(history.sessions, times.every.median - shift, fastest, counts=True)
    for name in dict.fromkeys(case.framework for case in today):
        series, counts = history.shared.setdefault(name, Series()), name in history.together
        if name in judged.shared:
            counts = counts and not is_wide and name not in judged.slower
            state = judged.shared[name]
            _append(series, history.sessions, judged.values[name], state, counts=counts)
        else:
            series.append(history.sessions, 0.0, 0.0, counts=counts)
    history.noisy.append(judged.is_noisy)


def _append(series: Series, number: int, latest: Value, state: State, *, counts: bool) -> None:
    series.append(number, latest.value, latest.fastest, counts=counts)
    series.loss, series.loss_began = state.loss, state.began
    series.loss_is_gradual, series.window_start = state.is_gradual, state.window_start
    if state.discounts:
        series.discount(state.discounted, state.threshold)
