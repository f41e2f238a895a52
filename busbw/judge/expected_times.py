"""What earlier sessions say about each case: its expected time, its noise, and a loss that stays.

Sessions are replayed in their order by `rule.replay`, so the history alone decides. Times are
natural logarithms of seconds; every number is in `policy`, and docs/verdict.md explains the rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import TypeVar

from busbw.model.case import Case
from busbw.stats.variance import squares_of

from .policy import Rule

_Sized = TypeVar("_Sized")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launches:
    """Launches of one case in one session: median, fastest, and the squares about their mean."""

    median: float
    fastest: float
    squares: float
    freedom: int

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Launches:
        """Summarize at least one launch, given in seconds."""
        logs = [math.log(time_s) for time_s in times_s]
        middle, squares = math.log(median(times_s)), squares_of(logs)
        return cls(median=middle, fastest=min(logs), squares=squares, freedom=len(logs) - 1)


_NO_LAUNCHES = Launches(median=0.0, fastest=0.0, squares=0.0, freedom=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """A level with the number of sessions behind it and the squares of these about their mean."""

    level: float
    fastest: float
    sessions: int
    squares: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Lasting:
    """A loss that several sessions show: `log_ratio` is its mean over the last `sessions`.

    `began` is the number of the first of these. `is_gradual`: no single session showed the loss.
    """

    log_ratio: float
    sessions: int
    began: int
    is_gradual: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A loss that the last sessions show, which began at position `began` of the series.

    Values above `threshold` from position `start` on have the loss, and make no level.
    """

    loss: float
    began: int
    start: int
    threshold: float


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What several sessions, the last included, say of a case or of what cases share.

    `lasting` is a loss that several sessions show, or that is not repaired; `repaired` the number
    of sessions of a loss that is over. `loss` is what nobody has accepted, 0 for none, since the
    position `began`; windows reach back to `window_start` at most, and `window` is what they show.
    """

    lasting: Lasting | None = None
    repaired: int = 0
    loss: float = 0.0
    began: int = 0
    is_gradual: bool = False
    window_start: int = 0
    window: Window | None = None


UNREMARKABLE = State()


@dataclass(kw_only=True, slots=True)
class Series:
    """One value per session: of a case, or of what all cases of a framework share.

    `numbers` are the sessions, `counted` the positions that make the level. `squares` and `freedom`
    are those of the launches of a case, `extremes` deviations in units of their standard deviation.
    `state` is that after the last session.
    """

    numbers: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    fastest: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    freedom: list[int] = field(default_factory=list)
    extremes: list[float] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    state: State = UNREMARKABLE

    def append(
        self, number: int, value: float, fastest: float, state: State, *, counts: bool
    ) -> None:
        """Append the session `number`, after which the series has `state`."""
        if counts:
            self.counted.append(len(self.values))
        self.numbers.append(number)
        self.values.append(value)
        self.fastest.append(fastest)
        self.state = state
        if state.window is not None:
            self._discount(state.window)

    def expected(self, rule: Rule, end: int | None = None) -> ExpectedTime | None:
        """Return the level of the counted sessions before position `end`; None without any.

        It is the mean of the last ones, and never far above that of the first ones.
        """
        last = len(self.counted) if end is None else bisect_left(self.counted, end)
        recent = self.counted[max(0, last - rule.level_sessions) : last]
        if not recent:
            return None
        values = [self.values[position] for position in recent]
        mean = fmean(values)
        begin = self.counted[: min(last, rule.anchor_sessions)]
        level = min(mean, fmean(self.values[position] for position in begin) + rule.anchor_margin)
        fastest = fmean(self.fastest[position] for position in recent) + level - mean
        squares = math.fsum((value - mean) ** 2 for value in values)
        return ExpectedTime(level=level, fastest=fastest, sessions=len(recent), squares=squares)

    def launch_squares(self, rule: Rule) -> tuple[float, int]:
        """Return the sum of squares of the launches of the level's sessions, and their freedom."""
        recent = self.counted[-rule.level_sessions :]
        squares = math.fsum(self.squares[position] for position in recent)
        return squares, sum(self.freedom[position] for position in recent)

    def _discount(self, window: Window) -> None:
        """Let no session count that has the loss of `window`."""
        self.counted = [
            position
            for position in self.counted
            if position < window.start or self.values[position] <= window.threshold
        ]


def _median_of_chi_squared(freedom: float) -> float:
    """Return the median of chi-squared over its degrees of freedom (Wilson and Hilferty, 1931)."""
    return (1 - 2 / (9 * max(1.0, freedom))) ** 3


def clipped_mean(
    variances: Sequence[tuple[float, float]], rule: Rule, units: Sequence[float] | None = None
) -> float:
    """Return the mean of (variance, freedom) pairs; an odd one counts as a few medians at most.

    A variance is odd relative to the one in `units`, which says what is expected of it.
    """
    if not variances:
        return 0.0
    whole = list(zip(variances, units or [1.0] * len(variances)))
    ratios = (
        variance / unit / _median_of_chi_squared(freedom) for (variance, freedom), unit in whole
    )
    most = rule.clipped * median(ratios)
    total = sum(freedom for _, freedom in variances)
    return math.fsum(min(v, most * unit) * freedom for (v, freedom), unit in whole) / max(1, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNoise:
    """What launches and other cases say about the variance of a session of one case.

    `squares` with `freedom`, without the sessions of the case itself.
    """

    squares: float
    freedom: float

    def deviation(self, squares: float = 0.0, freedom: int = 0) -> float:
        """Return the standard deviation, with the squares of sessions about their mean."""
        return math.sqrt((self.squares + squares) / (self.freedom + freedom))

    def with_sessions(self, expected: ExpectedTime) -> float:
        """Return the standard deviation that includes the case's own sessions."""
        return self.deviation(expected.squares, expected.sessions - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """The noise of all cases: `session` is the variance of a session of a typical case.

    `residuals` is the freedom of all sessions together.
    """

    cases: Mapping[Case, CaseNoise]
    session: float
    residuals: int


def estimate_noise(
    series: Mapping[Case, Series],
    expected: Mapping[Case, ExpectedTime],
    today: Mapping[Case, Launches],
    sessions: int,
    rule: Rule,
) -> Noise:
    """Estimate the noise from earlier sessions and the launches of all cases, today's included.

    A case whose launches are noisier than those of other cases has noisier sessions, too; sizes
    next to the case tell the same, with less weight. `sessions` is the number of earlier sessions.
    """
    launches: dict[Case, tuple[float, float]] = {}
    for case, before in series.items():
        squares, freedom = before.launch_squares(rule)
        fresh = today.get(case, _NO_LAUNCHES)
        launches[case] = squares + fresh.squares, freedom + fresh.freedom
    launch = launch_variance(launches.values(), rule)
    by_launches = _noise_by_launches(launches, launch, rule)
    repeated = {case: level for case, level in expected.items() if level.sessions > 1}
    residuals = sum(level.sessions - 1 for level in repeated.values())
    variances = [
        (level.squares / (level.sessions - 1), level.sessions - 1) for level in repeated.values()
    ]
    units = [by_launches[case].deviation() ** 2 for case in repeated]
    prior = rule.prior**2 if sessions <= rule.prior_sessions else 0.0
    session = rule.prior_freedom * max(prior, rule.launch_share * launch)
    session += residuals * clipped_mean(variances, rule, units)
    session /= rule.prior_freedom + residuals
    cases = {
        case: replace(noise, squares=noise.squares * session / launch)
        for case, noise in by_launches.items()
    }
    return Noise(cases=cases, session=session, residuals=residuals)


def launch_variance(launches: Iterable[tuple[float, float]], rule: Rule) -> float:
    """Return the variance of a launch of a typical case, from (squares, freedom) of each case."""
    least = rule.least_deviation**2
    variances = [
        (max(least, squares / max(1, freedom)), max(1, freedom)) for squares, freedom in launches
    ]
    return max(least, clipped_mean(variances, rule))


def _noise_by_launches(
    launches: Mapping[Case, tuple[float, float]], launch: float, rule: Rule
) -> dict[Case, CaseNoise]:
    """Return the noise of the launches of each case, the typical variance `launch` included."""
    noises = {}
    for family in families(launches):
        for position, case in enumerate(family):
            squares, freedom = launches[case]
            for near in family[max(0, position - rule.near_sizes) : position + rule.near_sizes + 1]:
                if near != case:
                    most = rule.clipped * launch * launches[near][1]
                    squares += rule.near_weight * min(launches[near][0], most)
                    freedom += rule.near_weight * launches[near][1]
            share = min(1.0, rule.launch_freedom / freedom) if freedom else 0.0
            noises[case] = CaseNoise(
                squares=rule.own_freedom * launch + share * squares,
                freedom=rule.own_freedom + share * freedom,
            )
    return noises


def nearest(member: _Sized, family: Sequence[_Sized]) -> list[_Sized]:
    """Return the two others nearest to `member` in `family`, which is in order of size."""
    position = family.index(member)
    others = [other for other in range(len(family)) if other != position]
    others.sort(key=lambda other: abs(other - position))
    return [family[other] for other in others[:2]]


def families(cases: Iterable[Case]) -> list[list[Case]]:
    """Group `cases` that differ in nothing but their payload, each group in order of payload."""
    kinds: dict[object, list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.key.family, case.protocol), []).append(case)
    return [sorted(family, key=lambda case: case.payload_bytes) for family in kinds.values()]
