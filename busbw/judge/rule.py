"""Compare one session with what earlier sessions say: the rule that docs/verdict.md explains.

Numbers in, numbers out: times are natural logarithms of seconds, and every number is in `policy`.
Losses over several sessions are in `lasting_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import quantile

from .expected_times import (
    CaseNoise,
    ExpectedTime,
    Launches,
    Series,
    estimate_noise,
    families,
    launch_variance,
    nearest,
)
from .policy import Rule

# `Rule.noisier` is meant for as many cases: those of two frameworks with 21 sizes.
_MANY_CASES = 42

# A normal deviation is larger than this with a probability of 30 %.
_LARGEST_30_PERCENT = 1.036


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What the cases of a framework share in this session: `off` above its level, in log time.

    More than `limit` is slower; `deviation` is the standard deviation, and `noise` what is known of
    the noise besides earlier sessions.
    """

    level: float
    off: float
    limit: float
    deviation: float
    noise: CaseNoise


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What is expected of a case now: above `slower` it is slower, below `faster` it is faster.

    The level of `expected` includes what the framework's cases share. `common_shift` is the part of
    the deviation from that level that the case shares with others now, and `residual` the rest,
    with the standard deviation `deviation` and the limit `residual_limit`. `fastest` is the limit
    of the fastest launch where neighbours' fastest launches say it.
    """

    expected: ExpectedTime
    slower: float
    faster: float
    deviation: float
    common_shift: float
    residual: float
    residual_limit: float
    noise: CaseNoise
    fastest: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLimits:
    """The limits by case, and what the cases of each framework share.

    Cases deviate `noisier` times as much as usual, 1 where chance explains it; limits are `widened`
    by some noise, with which a session makes no level.
    """

    limits: Mapping[Case, Limit] = field(default_factory=dict)
    shared: Mapping[str, Shared] = field(default_factory=dict)
    noisier: float = 1.0
    widened: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseTimes:
    """The launches of a case in one session: the `first` ones, all, and those that confirm.

    `fresh` is the median of the last ones, None where there are too few.
    """

    first: Launches
    every: Launches
    fresh: float | None

    @classmethod
    def of(cls, times_s: Sequence[float], rule: Rule, launches: int | None = None) -> CaseTimes:
        """Split launches in seconds after the first `launches`, or before the last few."""
        count = max(1, len(times_s) - rule.confirming) if launches is None else launches
        every, last = Launches.of(times_s), times_s[count:]
        if len(last) < rule.confirming:
            return cls(first=every, every=every, fresh=None)
        fresh = math.log(median(last))
        return cls(first=Launches.of(times_s[:count]), every=every, fresh=fresh)


@dataclass(kw_only=True, slots=True)
class History:
    """The sessions replayed so far: a series for each case and one for each framework.

    The cases of frameworks `together` are enough to show what they share. `floors` are the
    smallest losses that count, by case. `noisy` says of each session whether it was noisy.
    """

    rule: Rule
    together: frozenset[str]
    floors: Mapping[Case, float] = field(default_factory=dict)
    cases: dict[Case, Series] = field(default_factory=dict)
    shared: dict[str, Series] = field(default_factory=dict)
    noisy: list[bool] = field(default_factory=list)

    @property
    def sessions(self) -> int:
        return len(self.noisy)

    def floor(self, case: Case) -> float:
        return max(math.log1p(self.rule.floor), self.floors.get(case, 0.0))


def limits(history: History, today: Mapping[Case, CaseTimes]) -> SessionLimits:
    """Compare today's launches with the history; the first ones tell how noisy the session is."""
    measured = {case: times for case, times in today.items() if case in history.cases}
    first = _Comparison(history, {case: times.first for case, times in measured.items()})
    noisier, widened = first.noise_ratios()
    every = {case: times.every for case, times in measured.items()}
    second = first if every == first.today else _Comparison(history, every)
    case_limits: dict[Case, Limit] = {}
    shared = {}
    for name in second.frameworks:
        shared[name] = second.shared(name, widened)
        case_limits |= second.limits(shared[name], name, widened)
    return SessionLimits(limits=case_limits, shared=shared, noisier=noisier, widened=widened)


class _Comparison:
    """The comparison of some launches, `today`, with the history."""

    def __init__(self, history: History, today: Mapping[Case, Launches]) -> None:
        rule = history.rule
        levels = {case: series.expected(rule) for case, series in history.cases.items()}
        self.history, self.rule, self.today = history, rule, today
        self.frameworks = list(dict.fromkeys(case.framework for case in today))
        self.expected = {case: level for case, level in levels.items() if level is not None}
        quiet = history.noisy.count(False)
        self.noise = estimate_noise(history.cases, self.expected, today, quiet, rule)
        self.normal_factor = rule.factor + rule.factor_of_one / max(1, quiet)
        self.factor = self._factor()

    def _factor(self) -> float:
        """Return the limit of a session in standard deviations; it is larger for heavy tails."""
        rule, cases = self.rule, self.history.cases.values()
        farthest = sorted(max(case.extremes[-rule.level_sessions :], default=0.0) for case in cases)
        third = farthest[-min(3, len(farthest))] if farthest else 0.0
        if self.noise.residuals >= rule.tails_from and third > rule.heavy:
            return max(self.normal_factor, rule.tails * third)
        return self.normal_factor

    def _deviation(self, case: Case) -> float:
        """Return the standard deviation of one more session of a case from its level."""
        expected = self.expected[case]
        return self.noise.cases[case].with_sessions(expected) * math.sqrt(1 + 1 / expected.sessions)

    def _own_limit(self, case: Case, widened: float = 1.0) -> float:
        return max(self.history.floor(case), self.factor * widened * self._deviation(case))

    def _shared_noise(self, name: str, count: int) -> tuple[CaseNoise, ExpectedTime]:
        """Return the noise of what a framework's cases share, and its level: 0 for few cases."""
        rule, series = self.rule, self.history.shared.get(name)
        expected = series.expected(rule) if series is not None else None
        uncertain = self.noise.session / count
        if name in self.history.together and expected is not None:
            squares = rule.prior_shared_freedom * (rule.prior_shared**2 + 4 * uncertain)
            return CaseNoise(squares=squares, freedom=rule.prior_shared_freedom), expected
        level = ExpectedTime(level=0, fastest=0, sessions=self.history.sessions, squares=0)
        squares = rule.prior_shared**2 + math.pi / 2 * uncertain
        return CaseNoise(squares=squares, freedom=1), level

    def _off(self, name: str, level: float) -> dict[Case, float]:
        return {
            case: launches.median - self.expected[case].level - level
            for case, launches in self.today.items()
            if case.framework == name
        }

    def shared(self, name: str, widened: float = 1.0) -> Shared:
        """Return what a framework's cases share now: the median of cases inside their limits.

        The others may be half of all cases.
        """
        count = sum(case.framework == name for case in self.today)
        noise, expected = self._shared_noise(name, count)
        together = name in self.history.together
        deviation = noise.with_sessions(expected) if together else noise.deviation()
        deviation *= math.sqrt(1 + 1 / expected.sessions)
        off = self._off(name, expected.level)
        # Heavy tails make no limit wider here: half of the cases may be faster.
        inside = [
            value
            for case, value in off.items()
            if abs(value) <= self._whole_limit(case, deviation, self.normal_factor)
        ]
        cases = [self.noise.cases[case].with_sessions(self.expected[case]) ** 2 for case in off]
        more = 4 * (widened**2 - 1) * fmean(cases) * (1 + 1 / self.history.sessions) / count
        limit = self.rule.factor_shared * math.sqrt(deviation**2 + more)
        return Shared(
            level=expected.level,
            off=median(inside if len(inside) >= self.rule.least_cases else off.values()),
            limit=max(math.log1p(self.rule.slower), limit) if count > 1 else math.inf,
            deviation=deviation,
            noise=noise,
        )

    def _whole_limit(self, case: Case, shared: float, factor: float, widened: float = 1.0) -> float:
        deviation = math.hypot(widened * self._deviation(case), shared)
        return max(self.history.floor(case), factor * deviation)

    def _parts(self, name: str, middle: float, off: Mapping[Case, float]) -> dict[Case, float]:
        """Return what each case shares with others: with all, or with the two nearest sizes."""
        parts = dict.fromkeys(off, middle if name in self.history.together else 0.0)
        if self.rule.by_neighbours and name in self.history.together:
            for family in families(off):
                for case in family if len(family) > 1 else ():
                    parts[case] = median(off[other] for other in nearest(case, family))
        return parts

    def noise_ratios(self) -> tuple[float, float]:
        """Return how much noisier than usual the session is, if clearly, and by what limits widen.

        It is noisy by the deviations of the cases, or by these and the launches together.
        """
        rule, ratios = self.rule, []
        for name in self.frameworks:
            shared = self.shared(name)
            off = self._off(name, shared.level)
            for case, part in self._parts(name, shared.off, off).items():
                residual, limit = abs(off[case] - part), self._own_limit(case)
                if residual <= limit:
                    ratios.append(residual * self.factor / limit)
        if not ratios or len(self.today) < rule.least_cases_of_noise:
            return 1.0, 1.0
        ratio = quantile(ratios, 0.7) / _LARGEST_30_PERCENT
        chance = math.sqrt(max(1.0, _MANY_CASES / len(self.today)))
        # The noise of earlier sessions is uncertain, too, if there are few of these.
        more = self.history.noisy.count(False) - 1
        usual = math.sqrt(1 + 0.5 / more) if more > 0 else 1.0
        if ratio <= 1 + (rule.widened - 1) * chance * usual:
            return 1.0, 1.0
        least = 1 + ((rule.noisier if more else rule.noisier_at_first) - 1) * chance
        is_noisy = ratio > least or self._launch_ratio() > rule.noisier
        return ratio if is_noisy else 1.0, rule.widening * ratio

    def _launch_ratio(self) -> float:
        """Return how many times as much as usual launches differ now."""
        series = (self.history.cases[case] for case in self.today)
        before = launch_variance([case.launch_squares(self.rule) for case in series], self.rule)
        fresh = [(launches.squares, launches.freedom) for launches in self.today.values()]
        return math.sqrt(launch_variance(fresh, self.rule) / before)

    def limits(self, shared: Shared, name: str, widened: float) -> dict[Case, Limit]:
        """Return the limit of each case of a framework, whose cases share `shared`."""
        off, fastest = self._off(name, shared.level), dict[Case, float]()
        if self.rule.by_neighbours and name in self.history.together:
            fast = {
                case: self.today[case].fastest - self.expected[case].fastest - shared.level
                for case in off
            }
            fastest = self._parts(name, shared.off, fast)
        return {
            case: self._limit(case, off[case], part, shared, widened, fastest.get(case))
            for case, part in self._parts(name, shared.off, off).items()
        }

    def _limit(
        self,
        case: Case,
        off: float,
        part: float,
        shared: Shared,
        widened: float,
        fastest: float | None,
    ) -> Limit:
        own, whole, expected = self._own_limit(case, widened), math.inf, self.expected[case]
        if case.framework in self.history.together:
            whole = self._whole_limit(case, shared.deviation, self.factor, widened)
        return Limit(
            expected=replace(
                expected,
                level=expected.level + shared.level,
                fastest=expected.fastest + shared.level,
            ),
            slower=min(self._beyond(case, part, own), whole),
            faster=-min(self._beyond(case, -part, own), whole),
            deviation=self._deviation(case),
            common_shift=part,
            residual=off - part,
            residual_limit=own,
            noise=self.noise.cases[case],
            fastest=None if fastest is None else min(self._beyond(case, fastest, own), whole),
        )

    def _beyond(self, case: Case, part: float, own: float) -> float:
        """Return the limit beyond what is shared; on a CPU a fast neighbour makes no case slow."""
        if not self.rule.by_neighbours:
            return max(0.0, part) + own
        return max(self.history.floor(case), part + own)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Slower (1), faster (-1) or neither (0); None while a suspicion waits for more launches.

    `off` is the log ratio of the median of all launches to the level, `fresh` that of those that
    were to confirm it, None for none. `suspected`: the first launches looked slower; `confirmed`:
    the fresh ones, too. `wanted` launches in all decide it; None for no more. `is_noisy`: it was
    confirmed and lies within the limit, or beyond it and not all launches confirm it.
    """

    direction: int | None
    off: float
    limit: float
    fresh: float | None
    suspected: bool
    wanted: int | None
    confirmed: bool
    is_noisy: bool


def decide(times: CaseTimes, limit: Limit, rule: Rule, most: float, wanted: int = 0) -> Decision:
    """Decide what today's launches say against the limit `most`.

    Slower is what the median of all launches says, and nearly so do the first, the fresh ones and
    the fastest of all. `wanted` is how many launches a suspicion needs in all.
    """

    def nearly(share: float) -> float:
        # A share of the way to the limit, beyond what the case shares with others now.
        part = limit.common_shift if rule.by_neighbours else max(0.0, limit.common_shift)
        return min(most, max(share * most, part + share * limit.residual_limit))

    expected, suspicion = limit.expected, nearly(rule.suspect)
    off = times.every.median - expected.level
    fresh = None if times.fresh is None else times.fresh - expected.level
    suspected = times.first.median - expected.level > suspicion
    confirmed = suspected and fresh is not None and fresh > suspicion
    direction: int | None = 0
    if suspected and fresh is None:
        direction = None
    elif confirmed and off > most:
        least = nearly(rule.by_fastest) if limit.fastest is None else limit.fastest
        direction = int(times.every.fastest - expected.fastest > least)
    elif off < limit.faster:
        direction = -1
    return Decision(
        direction=direction,
        off=off,
        limit=most,
        fresh=fresh,
        suspected=suspected,
        wanted=wanted if direction is None else None,
        confirmed=confirmed,
        is_noisy=direction == 0 and (confirmed or off > most),
    )
