"""What earlier sessions say about each case: its expected time, its noise, and a loss that stays.

Sessions are replayed in their order by `rule.replay`, so the history alone decides. Times are
natural logarithms of seconds; every number is in `policy`, and docs/verdict.md explains the rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TypeVar

from busbw.model.case import Case
from busbw.stats.launches import quantile
from busbw.stats.variance import squares_of

from .policy import Rule

_Sized = TypeVar("_Sized")

# A normal deviation is larger than this with a probability of 30 %.
_LARGEST_30_PERCENT = 1.036


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """A level with the number of sessions behind it and the squares of these about their mean."""

    level: float
    fastest: float
    sessions: int
    squares: float

    @property
    def freedom(self) -> int:
        return self.sessions - 1


@dataclass(kw_only=True, slots=True)
class Series:
    """One value per session: of a case, or of what all cases of a framework share.

    `numbers` are the sessions, `counted` the positions that make the level. `loss` is the loss that
    nobody has accepted, 0 for none, and `loss_began` its first position; windows reach back to
    `window_start` at most. `extremes` are deviations in units of their standard deviation.
    """

    numbers: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    fastest: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    freedom: list[int] = field(default_factory=list)
    extremes: list[float] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    loss: float = 0.0
    loss_began: int = 0
    loss_is_gradual: bool = False
    window_start: int = 0

    def append(self, number: int, value: float, fastest: float, *, counts: bool) -> None:
        if counts:
            self.counted.append(len(self.values))
        self.numbers.append(number)
        self.values.append(value)
        self.fastest.append(fastest)

    def expected(self, rule: Rule, end: int | None = None) -> ExpectedTime | None:
        """Return the level of the counted sessions before position `end`; None without any.

        It is the mean of the last ones, and never far above that of the first ones.
        """
        last = len(self.counted) if end is None else bisect_left(self.counted, end)
        recent = self.counted[max(0, last - rule.level_sessions) : last]
        if not recent:
            return None
        values = [self.values[at] for at in recent]
        mean = fmean(values)
        first = fmean(self.values[at] for at in self.counted[: min(last, rule.anchor_sessions)])
        level = min(mean, first + rule.anchor_margin)
        fastest = fmean(self.fastest[at] for at in recent) + level - mean
        squares = math.fsum((value - mean) ** 2 for value in values)
        return ExpectedTime(level=level, fastest=fastest, sessions=len(recent), squares=squares)

    def launch_squares(self, rule: Rule) -> tuple[float, int]:
        """Return the sum of squares of the launches of the level's sessions, and their freedom."""
        recent = self.counted[-rule.level_sessions :]
        return math.fsum(self.squares[at] for at in recent), sum(self.freedom[at] for at in recent)

    def discount(self, beginning: int, threshold: float) -> None:
        """Let no session from `beginning` on count that is above `threshold`."""
        kept = (at for at in self.counted if at < beginning or self.values[at] <= threshold)
        self.counted = list(kept)


def _median_of_chi_squared(freedom: float) -> float:
    """Return the median of chi-squared over its degrees of freedom (Wilson and Hilferty, 1931)."""
    return (1 - 2 / (9 * max(1.0, freedom))) ** 3


def clipped_mean(variances: Sequence[tuple[float, float]], rule: Rule) -> float:
    """Return the mean of (variance, freedom) pairs; an odd one counts as a few medians at most."""
    if not variances:
        return 0.0
    most = rule.clipped * median(one / _median_of_chi_squared(f) for one, f in variances)
    total = sum(freedom for _, freedom in variances)
    return math.fsum(min(one, most) * freedom for one, freedom in variances) / max(1, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNoise:
    """What launches and other cases say about the variance of a session of one case.

    `squares` with `freedom`, without the sessions of the case itself.
    """

    squares: float
    freedom: float

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.freedom)

    def with_sessions(self, expected: ExpectedTime) -> float:
        """Return the standard deviation that includes the case's own sessions."""
        return self.with_squares(expected.squares, expected.freedom)

    def with_squares(self, squares: float, freedom: int) -> float:
        return math.sqrt((self.squares + squares) / (self.freedom + freedom))


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """The noise of all cases: `session` is the variance of a session of a typical case.

    `residuals` is the freedom of all sessions together.
    """

    cases: Mapping[Case, CaseNoise]
    session: float
    residuals: int


def noise_of(
    series: Mapping[Case, Series],
    expected: Mapping[Case, ExpectedTime],
    today: Mapping[Case, Launches],
    sessions: int,
    rule: Rule,
) -> Noise:
    """Estimate the noise from earlier sessions and the launches of all, today's included.

    A case whose launches are noisier than those of other cases has noisier sessions, too; sizes
    next to it tell the same, with less weight.
    """
    launches: dict[Case, tuple[float, float]] = {}
    for case, one in series.items():
        before = one.launch_squares(rule)
        now = (today[case].squares, today[case].freedom) if case in today else (0.0, 0)
        launches[case] = before[0] + now[0], before[1] + now[1]
    least = rule.least_deviation**2
    known = [(max(least, square / max(1, f)), max(1, f)) for square, f in launches.values()]
    launch = max(least, clipped_mean(known, rule))
    own = [(one.squares / one.freedom, one.freedom) for one in expected.values() if one.freedom]
    residuals = sum(freedom for _, freedom in own)
    prior = rule.prior**2 if sessions <= rule.prior_sessions else 0.0
    weight = rule.prior_freedom
    session = weight * max(prior, rule.launch_share * launch) + residuals * clipped_mean(own, rule)
    session /= weight + residuals
    cases = {}
    for alike in families(series):
        for at, case in enumerate(alike):
            squares, freedom = map(float, launches[case])
            around = alike[max(0, at - rule.near_sizes) : at + rule.near_sizes + 1]
            for near, f in (launches[other] for other in around if other != case):
                squares += rule.near_weight * min(near, rule.clipped * launch * f)
                freedom += rule.near_weight * f
            share = min(1.0, rule.launch_freedom / freedom) if freedom else 0.0
            cases[case] = CaseNoise(
                squares=rule.own_freedom * session + share * squares * session / launch,
                freedom=rule.own_freedom + share * freedom,
            )
    return Noise(cases=cases, session=session, residuals=residuals)


def noise_ratio(deviations: Iterable[float], cases: int, rule: Rule) -> float:
    """Return how many times as much as usual the cases inside their limits deviate.

    `deviations` are those of the cases, in standard deviations. Few `cases` tell nothing.
    """
    found = list(deviations)
    if cases < rule.least_cases_of_noise or not found:
        return 0.0
    return quantile(found, 0.7) / _LARGEST_30_PERCENT


def nearest(one: _Sized, alike: Sequence[_Sized]) -> list[_Sized]:
    """Return the two others nearest to `one` in `alike`, which is in order of size."""
    at = alike.index(one)
    others = [other for other in range(len(alike)) if other != at]
    return [alike[other] for other in sorted(others, key=lambda other: abs(other - at))[:2]]


def families(cases: Iterable[Case]) -> list[list[Case]]:
    """Group `cases` that differ in nothing but their payload, each group in order of payload."""
    kinds: dict[object, list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.key.family, case.protocol), []).append(case)
    return [sorted(one, key=lambda case: case.payload_bytes) for one in kinds.values()]
