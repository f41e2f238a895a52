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
    """The launches of one case in one session, in log time.

    `squares` is the sum of their squares about their mean, with `freedom` degrees of freedom.
    """

    median: float
    fastest: float
    squares: float
    freedom: int

    @classmethod
    def summarize(cls, times_s: Sequence[float]) -> Launches:
        """Summarize one launch or more, in seconds."""
        logs = [math.log(time_s) for time_s in times_s]
        middle, squares = math.log(median(times_s)), squares_of(logs)
        return cls(median=middle, fastest=min(logs), squares=squares, freedom=len(logs) - 1)

    def shifted(self, shift: float) -> Launches:
        """Return the launches less `shift`, which they share with other cases."""
        return replace(self, median=self.median - shift, fastest=self.fastest - shift)


NO_LAUNCHES = Launches(median=0.0, fastest=0.0, squares=0.0, freedom=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedTime:
    """The time that a case is expected to take, in log time: its `level`.

    `fastest` is the level of the fastest launches. The level is that of so many `sessions`, whose
    squares about their mean have the sum `squares`.
    """

    level: float
    fastest: float
    sessions: int
    squares: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A loss that the last sessions show together, a log ratio.

    It began at position `began` of the series. Sessions from position `start` on have the loss if
    their values exceed `threshold`, and then make no level.
    """

    loss: float
    began: int
    start: int
    threshold: float


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The losses of a series up to and including its last session.

    `loss` is the present loss that was not accepted, a log ratio, 0 for none. It began at position
    `began`, and `is_gradual` if no single session showed it. If an earlier session had it, too,
    `mean_loss` is its mean over the last `lost_sessions`, the first of which has the number
    `first_session`; `lost_sessions` is 0 otherwise. `repaired` is the number of sessions of a loss
    that ended with this session. `window` is the loss that the last sessions show together; windows
    reach back to position `window_start` at most.
    """

    loss: float = 0.0
    began: int = 0
    is_gradual: bool = False
    mean_loss: float = 0.0
    lost_sessions: int = 0
    first_session: int = 0
    repaired: int = 0
    window_start: int = 0
    window: Window | None = None


UNREMARKABLE = State()


@dataclass(kw_only=True, slots=True)
class Series:
    """The launches of each session of a case, or what all cases of a framework share.

    The launches of a case are those less what all cases share. `numbers` are the numbers of the
    sessions, `extremes` the residuals in standard deviations, and `counted` the positions that make
    the level. `state` is the state after the last session.
    """

    numbers: list[int] = field(default_factory=list)
    launches: list[Launches] = field(default_factory=list)
    extremes: list[float] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    state: State = UNREMARKABLE

    @property
    def values(self) -> list[float]:
        """The medians of the sessions."""
        return [launches.median for launches in self.launches]

    def append(
        self, number: int, launches: Launches, state: State, *, counts: bool, extreme: float = 0.0
    ) -> None:
        """Append the session `number`, after which the series has `state`.

        Only a session that `counts` makes the level, and none that has the loss of a window.
        """
        if counts:
            self.counted.append(len(self.launches))
        self.numbers.append(number)
        self.launches.append(launches)
        self.extremes.append(extreme)
        self.state = state
        if (window := state.window) is not None:
            self.counted = [
                position
                for position in self.counted
                if position < window.start or self.launches[position].median <= window.threshold
            ]

    def expected(self, rule: Rule, end: int | None = None) -> ExpectedTime | None:
        """Return the expected time by the counted sessions before position `end`.

        The level is the mean of the last counted sessions, limited to a little more than the mean
        of the first ones. None without a counted session.
        """
        last = len(self.counted) if end is None else bisect_left(self.counted, end)
        recent = self.counted[max(0, last - rule.level_sessions) : last]
        if not recent:
            return None
        values = [self.launches[position].median for position in recent]
        mean = fmean(values)
        begin = self.counted[: min(last, rule.anchor_sessions)]
        first = fmean(self.launches[position].median for position in begin)
        level = min(mean, first + rule.anchor_margin)
        fastest = fmean(self.launches[position].fastest for position in recent) + level - mean
        squares = math.fsum((value - mean) ** 2 for value in values)
        return ExpectedTime(level=level, fastest=fastest, sessions=len(recent), squares=squares)

    def launch_squares(self, rule: Rule) -> tuple[float, int]:
        """Return the sum of squares of the launches of the level's sessions, and their freedom."""
        recent = [self.launches[position] for position in self.counted[-rule.level_sessions :]]
        squares = math.fsum(launches.squares for launches in recent)
        return squares, sum(launches.freedom for launches in recent)


def clipped_mean(
    variances: Sequence[tuple[float, float]], rule: Rule, units: Sequence[float] | None = None
) -> float:
    """Return the mean of variances, weighted by their degrees of freedom.

    A variance counts as at most `rule.max_variance_ratio` medians of all variances, each over the
    median of chi-squared.

    Args:
        variances: Pairs of a variance and its degrees of freedom; without any the mean is 0.
        rule: The numbers of the rule.
        units: The expected variances, to which the variances are relative; 1 if None.

    """
    if not variances:
        return 0.0
    whole = list(zip(variances, units or [1.0] * len(variances)))
    # The median of chi-squared over its degrees of freedom is from Wilson and Hilferty (1931).
    ratios = (
        variance / unit / (1 - 2 / (9 * max(1.0, freedom))) ** 3
        for (variance, freedom), unit in whole
    )
    most = rule.max_variance_ratio * median(ratios)
    total = sum(freedom for _, freedom in variances)
    return math.fsum(min(v, most * unit) * freedom for (v, freedom), unit in whole) / max(1, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNoise:
    """The variance of a session of one case, as far as launches and other cases show it.

    A sum of squares with its degrees of freedom, without the sessions of the case itself.
    """

    squares: float
    freedom: float

    def stddev(self, squares: float = 0.0, freedom: int = 0) -> float:
        """Return the standard deviation, with `squares` of `freedom` in addition."""
        return math.sqrt((self.squares + squares) / (self.freedom + freedom))

    def with_sessions(self, expected: ExpectedTime) -> float:
        """Return the standard deviation by these squares and those of the case's sessions."""
        return self.stddev(expected.squares, expected.sessions - 1)


def estimate_noise(
    series: Mapping[Case, Series],
    expected: Mapping[Case, ExpectedTime],
    today: Mapping[Case, Launches],
    sessions: int,
    rule: Rule,
) -> tuple[dict[Case, CaseNoise], float]:
    """Estimate how much sessions of unchanged code differ, by case.

    A case whose launches are noisier than those of other cases has noisier sessions, too; sizes
    next to the case tell the same, with less weight. The variances are assumed to be in proportion
    to those of launches, and are pooled like those of a normal distribution.

    Args:
        series: The earlier sessions of each case.
        expected: The expected time of each case.
        today: The launches of today's session, which say how launches differ.
        sessions: The number of earlier sessions that were not noisy.
        rule: The numbers of the rule.

    Returns:
        The noise by case, and the variance of a session of a typical case.

    """
    launches: dict[Case, tuple[float, float]] = {}
    for case, before in series.items():
        squares, freedom = before.launch_squares(rule)
        fresh = today.get(case, NO_LAUNCHES)
        launches[case] = squares + fresh.squares, freedom + fresh.freedom
    launch = launch_variance(launches.values(), rule)
    by_launches = _noise_by_launches(launches, launch, rule)
    repeated = {case: level for case, level in expected.items() if level.sessions > 1}
    residuals = sum(level.sessions - 1 for level in repeated.values())
    variances = [
        (level.squares / (level.sessions - 1), level.sessions - 1) for level in repeated.values()
    ]
    units = [by_launches[case].stddev() ** 2 for case in repeated]
    prior = rule.prior_deviation**2 if sessions <= rule.prior_sessions else 0.0
    session = rule.prior_freedom * max(prior, rule.min_launch_variance_share * launch)
    session += residuals * clipped_mean(variances, rule, units)
    session /= rule.prior_freedom + residuals
    noises = {
        case: replace(noise, squares=noise.squares * session / launch)
        for case, noise in by_launches.items()
    }
    return noises, session


def launch_variance(launches: Iterable[tuple[float, float]], rule: Rule) -> float:
    """Return the variance of a launch of a typical case, from (squares, freedom) of each case."""
    least = rule.min_deviation**2
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
            for near in family[
                max(0, position - rule.neighbour_sizes) : position + rule.neighbour_sizes + 1
            ]:
                if near != case:
                    most = rule.max_variance_ratio * launch * launches[near][1]
                    squares += rule.neighbour_weight * min(launches[near][0], most)
                    freedom += rule.neighbour_weight * launches[near][1]
            share = min(1.0, rule.max_launch_freedom / freedom) if freedom else 0.0
            noises[case] = CaseNoise(
                squares=rule.pooled_freedom * launch + share * squares,
                freedom=rule.pooled_freedom + share * freedom,
            )
    return noises


def nearest(member: _Sized, family: Sequence[_Sized]) -> list[_Sized]:
    """Return the two members of `family`, which is in order of size, nearest to `member`."""
    position = family.index(member)
    positions = sorted(range(len(family)), key=lambda other: abs(other - position))
    return [family[other] for other in positions[1:3]]


def families(cases: Iterable[Case]) -> list[list[Case]]:
    """Group `cases` that differ in nothing but their payload, each group in order of payload."""
    kinds: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.family, []).append(case)
    return [sorted(family, key=lambda case: case.payload_bytes) for family in kinds.values()]
