"""Compare one session with what earlier sessions say: the rule that docs/verdict.md explains.

Numbers in, numbers out: times are natural logarithms of seconds, and every number is in `policy`.
Losses over several sessions are in `lasting_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from busbw.model.case import Case

from .expected_times import (
    CaseNoise,
    ExpectedTime,
    Launches,
    Series,
    clipped_mean,
    families,
    nearest,
    noise_of,
    noise_ratio,
)
from .policy import Rule

# `Rule.noisier` is meant for as many cases: those of two frameworks with 21 sizes.
_MANY_CASES = 42


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

    `off` is its deviation from `expected`, whose level includes what the framework's cases share;
    `common_shift` the part that it shares with others now, and `residual` the rest, with the
    standard deviation `deviation` and the limit `residual_limit`. `fastest` is the limit of the
    fastest launch where neighbours' fastest launches say it.
    """

    expected: ExpectedTime
    off: float
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
        every, rest = Launches.of(times_s), times_s[count:]
        if len(rest) < rule.confirming:
            return cls(first=every, every=every, fresh=None)
        fresh = math.log(median(rest))
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
    known = {case: times for case, times in today.items() if case in history.cases}
    first = _Look(history, {case: times.first for case, times in known.items()})
    noisier, widened = first.noise_ratios()
    every = {case: times.every for case, times in known.items()}
    second = first if every == first.today else _Look(history, every)
    found: dict[Case, Limit] = {}
    shared = {}
    for name in dict.fromkeys(case.framework for case in known):
        shared[name], own = second.framework(name, widened)
        found |= own
    return SessionLimits(limits=found, shared=shared, noisier=noisier, widened=widened)


class _Look:
    """The comparison of some launches, `today`, with the history."""

    def __init__(self, history: History, today: Mapping[Case, Launches]) -> None:
        rule = history.rule
        expected = {case: one.expected(rule) for case, one in history.cases.items()}
        self.history, self.rule, self.today = history, rule, today
        self.expected = {case: one for case, one in expected.items() if one is not None}
        self.noise = noise_of(history.cases, self.expected, today, history.sessions, rule)
        self.normal_factor = rule.factor + rule.factor_of_one / max(1, history.sessions)
        self.factor = self._factor()

    def _factor(self) -> float:
        """Return the limit of a session in standard deviations; it is larger for heavy tails."""
        rule, series = self.rule, self.history.cases.values()
        farthest = sorted(max(one.extremes[-rule.level_sessions :], default=0.0) for one in series)
        third = farthest[-min(3, len(farthest))] if farthest else 0.0
        if self.noise.residuals >= rule.tails_from and third > rule.heavy:
            return max(self.normal_factor, rule.tails * third)
        return self.normal_factor

    def deviation(self, case: Case) -> float:
        """Return the standard deviation of one more session of a case from its level."""
        expected = self.expected[case]
        deviation = self.noise.cases[case].with_sessions(expected)
        return deviation * math.sqrt(1 + 1 / expected.sessions)

    def _own_limit(self, case: Case, widened: float = 1.0) -> float:
        return max(self.history.floor(case), self.factor * widened * self.deviation(case))

    def _whole_limit(
        self, case: Case, shared: float, widened: float = 1.0, *, factor: float
    ) -> float:
        deviation = math.hypot(widened * self.deviation(case), shared)
        return max(self.history.floor(case), factor * deviation)

    def _shared_noise(self, name: str, count: int) -> tuple[CaseNoise, ExpectedTime]:
        """Return the noise of what a framework's cases share, and its level: 0 for few cases."""
        rule, series = self.rule, self.history.shared.get(name)
        expected = series.expected(rule) if series is not None else None
        uncertain = self.noise.session / count
        if name not in self.history.together or expected is None:
            level = ExpectedTime(level=0, fastest=0, sessions=self.history.sessions, squares=0)
            return CaseNoise(
                squares=rule.prior_shared**2 + math.pi / 2 * uncertain, freedom=1
            ), level
        squares = rule.prior_shared_freedom * (rule.prior_shared**2 + 4 * uncertain)
        return CaseNoise(squares=squares, freedom=rule.prior_shared_freedom), expected

    def _shift(self, name: str) -> tuple[Shared, dict[Case, float]]:
        """Return what a framework's cases share now, and each case's deviation.

        It is the median of those inside their limits: the others may be half of all.
        """
        cases = [case for case in self.today if case.framework == name]
        noise, level = self._shared_noise(name, len(cases))
        together = name in self.history.together
        deviation = noise.with_sessions(level) if together else noise.deviation
        deviation *= math.sqrt(1 + 1 / level.sessions)
        off = {
            case: self.today[case].median - self.expected[case].level - level.level
            for case in cases
        }
        # Heavy tails make no limit wider here: half of the cases may be faster.
        limits = {c: self._whole_limit(c, deviation, factor=self.normal_factor) for c in off}
        inside = [value for case, value in off.items() if abs(value) <= limits[case]]
        middle = median(inside if len(inside) >= self.rule.least_cases else off.values())
        shared = Shared(level=level.level, off=middle, limit=0.0, deviation=deviation, noise=noise)
        return shared, off

    def _parts(self, name: str, middle: float, off: Mapping[Case, float]) -> dict[Case, float]:
        """Return what each case shares with others: with all, or with the two nearest sizes."""
        parts = dict.fromkeys(off, middle if name in self.history.together else 0.0)
        if self.rule.by_neighbours and name in self.history.together:
            for alike in families(off):
                for case in alike if len(alike) > 1 else ():
                    parts[case] = median(off[other] for other in nearest(case, alike))
        return parts

    def noise_ratios(self) -> tuple[float, float]:
        """Return how much noisier than usual the session is, if clearly, and by what limits widen.

        It is noisy by the deviations of the cases, or by these and the launches together.
        """
        rule, ratios = self.rule, []
        for name in dict.fromkeys(case.framework for case in self.today):
            shared, off = self._shift(name)
            for case, part in self._parts(name, shared.off, off).items():
                residual, limit = abs(off[case] - part), self._own_limit(case)
                if residual <= limit:
                    ratios.append(residual * self.factor / limit)
        ratio = noise_ratio(ratios, len(self.today), rule)
        chance = math.sqrt(max(1.0, _MANY_CASES / max(1, len(self.today))))
        least = rule.noisier_at_first if self.history.sessions == 1 else rule.noisier
        if ratio <= 1 + (rule.widened - 1) * chance:
            return 1.0, 1.0
        is_noisy = ratio > 1 + (least - 1) * chance or self._launch_ratio() > rule.noisier
        return ratio if is_noisy else 1.0, rule.widening * ratio

    def _launch_ratio(self) -> float:
        """Return how many times as much as usual launches differ now."""
        least, before = self.rule.least_deviation**2, []
        for case in self.today:
            squares, freedom = self.history.cases[case].launch_squares(self.rule)
            before.append((max(least, squares / max(1, freedom)), max(1, freedom)))
        now = [
            (max(least, one.squares / max(1, one.freedom)), max(1, one.freedom))
            for one in self.today.values()
        ]
        usual = max(least, clipped_mean(before, self.rule))
        return math.sqrt(clipped_mean(now, self.rule) / usual)

    def framework(self, name: str, widened: float) -> tuple[Shared, dict[Case, Limit]]:
        """Return what the cases of a framework share in this session, and the limit of each."""
        rule, history = self.rule, self.history
        shared, off = self._shift(name)
        variance = fmean(self.noise.cases[c].with_sessions(self.expected[c]) ** 2 for c in off)
        more = 4 * (widened**2 - 1) * variance * (1 + 1 / history.sessions) / len(off)
        limit = rule.factor_shared * math.sqrt(shared.deviation**2 + more)
        limit = max(math.log1p(rule.slower), limit) if len(off) > 1 else math.inf
        shared = Shared(
            level=shared.level,
            off=shared.off,
            limit=limit,
            deviation=shared.deviation,
            noise=shared.noise,
        )
        parts, fastest = self._parts(name, shared.off, off), dict[Case, float]()
        if rule.by_neighbours and name in history.together:
            fast = {c: self.today[c].fastest - self.expected[c].fastest - shared.level for c in off}
            fastest = self._parts(name, shared.off, fast)
        return shared, {
            case: self._limit(case, off[case], part, shared, widened, fastest.get(case))
            for case, part in parts.items()
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
        own, whole = self._own_limit(case, widened), math.inf
        if case.framework in self.history.together:
            whole = self._whole_limit(case, shared.deviation, widened, factor=self.factor)
        expected = self.expected[case]
        return Limit(
            expected=ExpectedTime(
                level=expected.level + shared.level,
                fastest=expected.fastest + shared.level,
                sessions=expected.sessions,
                squares=expected.squares,
            ),
            off=off,
            slower=min(self._beyond(case, part, own), whole),
            faster=-min(self._beyond(case, -part, own), whole),
            deviation=self.deviation(case),
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
