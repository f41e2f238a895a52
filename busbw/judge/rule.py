"""Today's launches against the sessions before: the rule of docs/verdict.md, formula by formula.

Numbers in, numbers out: which sessions there are is decided in `levels`, every number is in
`policy`. Times are logarithms of seconds, so that a limit is the logarithm of a ratio.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from busbw import stats
from busbw.model import Case

from .policy import Rule

_Sized = TypeVar("_Sized")

# 70 % of the differences of two normal values are below this number of deviations of one.
_SEVENTY = 1.036 * math.sqrt(2)

# `Rule.noisier` is for as many differences: of two frameworks with 21 sizes.
_MANY = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Launches:
    """One case in one session: median and fastest launch, and the squares about their mean."""

    median: float
    fastest: float
    squares: float
    freedom: int

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Launches:
        """Of at least one launch, in seconds."""
        logs = [math.log(one) for one in times_s]
        return cls(
            median=math.log(statistics.median(times_s)),
            fastest=min(logs),
            squares=stats.squares_of(logs),
            freedom=len(logs) - 1,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """One session: what it measured, and which cases it called slower (1) or faster (-1)."""

    launches: Mapping[Case, Launches]
    called: Mapping[Case, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """What a case takes: its level, and its own part of each session that counts, by number.

    `fastest` is the level of the fastest launches; `by_fastest`: its launches have modes, so that
    `level` and `own` are of the fastest, too.
    """

    level: float
    fastest: float
    own: Mapping[int, float]
    by_fastest: bool = False

    @property
    def squares(self) -> float:
        """The sum of squares of its own parts."""
        return math.fsum(one * one for one in self.own.values())

    @property
    def freedom(self) -> int:
        """The degrees of freedom of these."""
        return len(self.own) - 1

    def off(self, launches: Launches) -> float:
        """How far tonight's launches are off the level."""
        return (launches.fastest if self.by_fastest else launches.median) - self.level


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What `sessions` sessions say of the cases of some frameworks.

    `shared` is what cases of a framework have in common, by session; they are enough for that in
    those `together`. `variance` is that of a case's own part of a session, `expected` what all
    cases say of it, `launch` the deviation of a launch; `factor` is k.
    """

    sessions: int
    usual: Mapping[Case, Usual]
    shared: Mapping[str, Mapping[int, float]]
    together: Collection[str]
    variance: Mapping[Case, float]
    expected: Mapping[Case, float]
    launch: float
    factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What a framework's cases share: `before` by session, `tonight`, which is more by `off`.

    More than `limit` is slower. `rise` is by how much it rose over the sessions, 0 for not clearly.
    """

    before: Mapping[int, float]
    tonight: float
    off: float
    limit: float
    rise: float = 0.0

    @property
    def is_slower(self) -> bool:
        """Whether all cases together are slower."""
        return self.off > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Off its level by more than `slower` a case is slower, by less than `faster` it is faster.

    `part` is what it shares with others tonight, with all of them or with its neighbours; `own` is
    the rest, `deviation` that of the rest in one more session, and `alone` the limit of the rest.
    `fastest` is that of the fastest launch where its neighbours' fastest ones say it. `rise` is by
    how much its own part rose over the sessions, 0 for not clearly.
    """

    usual: Usual
    slower: float
    faster: float
    deviation: float
    part: float
    own: float
    alone: float
    fastest: float | None = None
    rise: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tonight:
    """The limits by case, what the cases of each framework share, and the noise.

    Sizes next to each other differ `noisier` times as much as usual, 1 where chance explains it.
    `launch` is the deviation of a launch.
    """

    limits: Mapping[Case, Limit]
    shared: Mapping[str, Shared]
    noisier: float = 1.0
    launch: float = 0.0


# What a case usually takes.


def counted(called: Sequence[int]) -> list[bool]:
    """Which sessions count in a level, given what each was called: -1, 0 or 1.

    A night that was slower or faster counts if the next did not repeat it: it was noise. What
    stays moves no level, and neither does what may stay: the last one.
    """
    repeated = [one == other != 0 for one, other in pairwise(called)]
    before, after = [False, *repeated], [*repeated, True]
    return [not one or not (a or b) for one, a, b in zip(called, before, after)]


def _usual(
    cases: Sequence[Case], nights: Sequence[Night], rule: Rule, together: bool
) -> tuple[dict[Case, Usual], Mapping[int, float]]:
    """Each case's level and own parts, and what the cases share, by session."""
    at = {case: _counted(case, nights) for case in cases}
    usual, shared = _split(at, nights, rule, together, lambda one: one.median)
    variances = {case: one.squares / one.freedom for case, one in usual.items() if one.freedom}
    most = rule.clipped * statistics.median(variances.values()) if variances else 0.0
    odd = [case for case, one in variances.items() if one > most]
    if odd:
        fastest, _ = _split(at, nights, rule, together, lambda one: one.fastest)
        for case in odd:
            if fastest[case].squares < usual[case].squares:
                usual[case] = replace(fastest[case], by_fastest=True)
    return usual, shared


def _counted(case: Case, nights: Sequence[Night]) -> list[int]:
    there = [number for number, night in enumerate(nights) if case in night.launches]
    kept = counted([nights[number].called.get(case, 0) for number in there])
    return [number for number, one in zip(there, kept) if one] or there[:1]


def _split(
    at: Mapping[Case, Sequence[int]],
    nights: Sequence[Night],
    rule: Rule,
    together: bool,
    log: Callable[[Launches], float],
) -> tuple[dict[Case, Usual], Mapping[int, float]]:
    """Log time = level + what is shared with others in that session + the case's own part."""
    logs = {case: {n: log(nights[n].launches[case]) for n in those} for case, those in at.items()}
    levels = {case: statistics.fmean(one.values()) for case, one in logs.items()}
    shared: dict[int, float] = {}
    parts: dict[int, Mapping[Case, float]] = {}
    for number in range(len(nights)):
        off = {case: one[number] - levels[case] for case, one in logs.items() if number in one}
        if len(off) >= (rule.least_cases if together else 1):
            shared[number] = statistics.median(off.values())
            parts[number] = _parts(off, shared[number], rule) if together else {}
    usual = {}
    for case, one in logs.items():
        own = {n: value - parts.get(n, {}).get(case, 0.0) for n, value in one.items()}
        level = statistics.fmean(own.values())
        usual[case] = Usual(
            level=level,
            fastest=statistics.fmean(nights[n].launches[case].fastest for n in own),
            own={n: value - level for n, value in own.items()},
        )
    return usual, shared


def _parts(off: Mapping[Case, float], middle: float, rule: Rule) -> dict[Case, float]:
    """What each case shares with others: with all, or with the other sizes nearest to it."""
    found = dict.fromkeys(off, middle)
    for alike in _families(off) if rule.by_neighbours else ():
        for case in alike if len(alike) > 1 else ():
            found[case] = statistics.median(off[one] for one in nearest(case, alike))
    return found


def nearest(one: _Sized, alike: Sequence[_Sized]) -> list[_Sized]:
    """The two others next to `one`, of what is `alike` but for its size, in the order of that."""
    at = alike.index(one)
    others = [other for other in range(len(alike)) if other != at]
    return [alike[other] for other in sorted(others, key=lambda other: abs(other - at))[:2]]


def _families(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that differ in nothing but their size, by size."""
    kinds: dict[object, list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.key.family, case.protocol), []).append(case)
    return [sorted(one, key=lambda case: case.payload_bytes) for one in kinds.values()]


# The noise: what launches and sessions show of it.


def learn(nights: Sequence[Night], measured: Collection[Case], rule: Rule) -> Past:
    """What `nights`, oldest first, say of the frameworks whose cases are `measured` tonight."""
    known = dict.fromkeys(case for night in nights for case in night.launches)
    counts = Counter(case.framework for case in known if case in measured)
    together = {name for name, count in counts.items() if count >= rule.least_cases}
    usual: dict[Case, Usual] = {}
    shared = {}
    for name in counts:
        cases = [case for case in known if case.framework == name]
        found, shared[name] = _usual(cases, nights, rule, name in together)
        usual.update(found)
    expected, launch = _expected(usual, nights, rule, alone=not together)
    own = rule.own_freedom
    total = sum(one.freedom for one in usual.values())
    factor = rule.factor + rule.factor_of_one / max(1, len(nights))
    if total >= rule.tails_from:
        factor = max(factor, min(rule.most_factor, factor * _tails(usual, expected, rule)))
    return Past(
        sessions=len(nights),
        usual=usual,
        shared=shared,
        together=together,
        variance={
            case: (own * expected[case] + one.squares) / (own + one.freedom)
            for case, one in usual.items()
        },
        expected=expected,
        launch=launch,
        factor=factor,
    )


def _expected(
    usual: Mapping[Case, Usual], nights: Sequence[Night], rule: Rule, *, alone: bool
) -> tuple[dict[Case, float], float]:
    """By case the variance of its own part of a session as all cases show it; a launch's deviation.

    The prior counts in the first sessions only, and the variance of launches is a lower bound.
    Noise follows the payload where that is clear.
    """
    within = {case: _within(case, nights, rule) for case in usual}
    between = {case: one.squares / one.freedom for case, one in usual.items() if one.freedom}
    slope = _slope(usual, within, between, nights, rule)
    middle = statistics.fmean(math.log2(case.payload_bytes) for case in usual) if usual else 0.0
    times = {case: math.exp(slope * (math.log2(case.payload_bytes) - middle)) for case in usual}
    launch = _mean({case: one / times[case] for case, one in within.items()}, usual, rule)
    pooled = _mean({case: one / times[case] for case, one in between.items()}, usual, rule)
    total = sum(one.freedom for one in usual.values())
    prior = (rule.prior_alone if alone else rule.prior) if len(nights) <= rule.prior_sessions else 0
    freedom = rule.prior_freedom if prior or rule.of_launches or not total else 0.0
    expected = {
        case: (freedom * max(prior**2, rule.of_launches * launch * one) + total * pooled * one)
        / (freedom + total)
        for case, one in times.items()
    }
    return expected, math.sqrt(launch)


def _slope(
    usual: Mapping[Case, Usual],
    within: Mapping[Case, float],
    between: Mapping[Case, float],
    nights: Sequence[Night],
    rule: Rule,
) -> float:
    """Of log variance over the doublings of the payload, 0 where it is not clearly inclined.

    Lines through the variances of launches and of sessions, each by its certainty; launches may
    mislead.
    """
    launches = sum(
        one.freedom for night in nights for case, one in night.launches.items() if case in usual
    )
    sessions = sum(one.freedom for one in usual.values())
    slope = certainty = 0.0
    for found, freedom, more in ((within, launches, rule.misleading), (between, sessions, 0.0)):
        sizes = [math.log2(case.payload_bytes) for case, one in found.items() if one > 0]
        if len(sizes) >= rule.least_cases and len(set(sizes)) > 1 and freedom:
            logs = [math.log(one) for one in found.values() if one > 0]
            spread = statistics.pvariance(sizes) * len(sizes)
            error = stats.trigamma(freedom / len(found) / 2) / spread + more**2
            slope += statistics.linear_regression(sizes, logs).slope / error
            certainty += 1 / error
    return slope / certainty if slope**2 > rule.clear**2 * certainty else 0.0


def _mean(variances: Mapping[Case, float], usual: Mapping[Case, Usual], rule: Rule) -> float:
    """By degrees of freedom; an odd one counts as a few times the median at most."""
    if not variances:
        return 0.0
    most = rule.clipped * statistics.median(variances.values())
    weights = [max(1, usual[case].freedom) for case in variances]
    return statistics.fmean((min(one, most) for one in variances.values()), weights)


def _within(case: Case, nights: Sequence[Night], rule: Rule) -> float:
    """The variance of launches of one session."""
    there = [night.launches[case] for night in nights if case in night.launches]
    squares, freedom = math.fsum(one.squares for one in there), sum(one.freedom for one in there)
    return max(rule.least_deviation**2, squares / max(1, freedom))


def _tails(usual: Mapping[Case, Usual], expected: Mapping[Case, float], rule: Rule) -> float:
    """By how much more k is where tails are heavier than normal ones, almost a switch.

    Of each case's farthest session, in deviations that leave it out, the third farthest.
    """
    farthest = []
    for case, one in usual.items():
        more = (one.freedom + 1) / max(1, one.freedom)
        squares = max(own * own for own in one.own.values()) * more
        rest = max(1e-18, rule.own_freedom * expected[case] + one.squares - squares)
        farthest.append(math.sqrt(squares * (rule.own_freedom + one.freedom - 1) / rest))
    third = sorted(farthest)[-min(3, len(farthest))]
    count = sum(len(one.own) for one in usual.values())
    normal = statistics.NormalDist().inv_cdf(1 - 1.5 / count)
    return max(1.0, third / (rule.heavy * normal)) ** rule.switch


# Tonight.


def limits(past: Past, today: Mapping[Case, Launches], rule: Rule) -> Tonight:
    """The limits of what is measured `today`."""
    off = {case: one.off(today[case]) for case, one in past.usual.items() if case in today}
    fastest = {case: today[case].fastest - past.usual[case].fastest for case in off}
    noisier = _noisier(off, past, rule)
    found: dict[Case, Limit] = {}
    shared = {}
    for name in past.shared:
        one = _Framework(
            name=name,
            off={case: value for case, value in off.items() if case.framework == name},
            fastest=fastest,
            more=(noisier**2 - 1) * (1 + 1 / past.sessions),
            past=past,
            rule=rule,
        )
        shared[name], its = one.limits()
        found.update(its)
    return Tonight(limits=found, shared=shared, noisier=noisier, launch=past.launch)


def _noisier(off: Mapping[Case, float], past: Past, rule: Rule) -> float:
    """How many times as much as usual sizes next to each other differ; 1 where chance explains it.

    A step or a slope over the sizes adds nothing to it; of fewer than `least_sizes` one single
    loss would be too much.
    """
    found = [
        abs(off[a] - off[b]) / math.sqrt((past.variance[a] + past.variance[b]) / 2)
        for alike in _families(off)
        if len(alike) >= rule.least_sizes
        for a, b in pairwise(alike)
    ]
    if not found:
        return 1.0
    times = stats.quantile(found, 0.7) / (_SEVENTY * math.sqrt(1 + 1 / past.sessions))
    # Of few differences chance makes more.
    least = 1 + (rule.noisier - 1) * math.sqrt(_MANY / len(found))
    return times if times > least else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Framework:
    """How far a framework's cases are off their levels, and by how much `more` tonight varies.

    `fastest` is how far the fastest launches are off theirs, of all cases.
    """

    name: str
    off: Mapping[Case, float]
    fastest: Mapping[Case, float]
    more: float
    past: Past
    rule: Rule

    def limits(self) -> tuple[Shared, dict[Case, Limit]]:
        """What its cases share tonight, and the limit of each."""
        rule, before = self.rule, self.past.shared[self.name]
        together = self.name in self.past.together
        mean = statistics.fmean(before.values()) if before else 0.0
        uncertain = statistics.fmean(self.past.expected[c] for c in self.off) / len(self.off)
        expected = rule.prior_shared**2 + (4 if together else math.pi / 2) * uncertain
        squares = math.fsum((value - mean) ** 2 for value in before.values())
        freedom = rule.prior_shared_freedom
        variance = (freedom * expected + squares) / (freedom + max(0, len(before) - 1))
        variance *= 1 + 1 / self.past.sessions
        tonight = self._middle(mean, variance)
        shared = Shared(
            before=before,
            tonight=tonight,
            off=tonight - mean,
            limit=self._limit_of_all(variance),
            rise=rise(
                [*before.values(), tonight],
                expected,
                rule,
                freedom=freedom,
                errors=rule.rise_errors,
            ),
        )
        parts = _parts(self.off, tonight, rule) if together else dict.fromkeys(self.off, 0.0)
        most = variance if together else math.inf
        found = {case: self._limit(case, part, most) for case, part in parts.items()}
        if together and rule.by_neighbours:
            parts = _parts({case: self.fastest[case] for case in self.off}, tonight, rule)
            for case, part in parts.items():
                fastest = self._beyond(part, found[case].alone)
                most_of = self._alone(case, variance)
                found[case] = replace(found[case], fastest=min(fastest, most_of))
        return shared, found

    def _middle(self, mean: float, variance: float) -> float:
        """The median of those that are not off by themselves: the others may be half of them."""
        inside = [
            off for case, off in self.off.items() if abs(off - mean) <= self._alone(case, variance)
        ]
        return statistics.median(
            inside if len(inside) >= self.rule.least_cases else self.off.values()
        )

    def _limit_of_all(self, variance: float) -> float:
        """Of what all share; one case has nothing to share."""
        count = len(self.off)
        raised = 4 * self.more * statistics.fmean(self.past.variance[c] for c in self.off) / count
        limit = self.rule.factor_shared * math.sqrt(variance + raised)
        return max(math.log1p(self.rule.slower), limit) if count > 1 else math.inf

    def _deviation(self, case: Case) -> float:
        sessions = len(self.past.usual[case].own)
        return math.sqrt(self.past.variance[case] * (1 + 1 / sessions + self.more))

    def _alone(self, case: Case, variance: float = 0.0) -> float:
        """The limit of its own part, and with the `variance` of what is shared of the whole."""
        deviation = math.sqrt(variance + self._deviation(case) ** 2)
        return max(math.log1p(self.rule.floor), self.past.factor * deviation)

    def _limit(self, case: Case, part: float, variance: float) -> Limit:
        usual, alone, most = self.past.usual[case], self._alone(case), self._alone(case, variance)
        return Limit(
            usual=usual,
            slower=min(self._beyond(part, alone), most),
            faster=-min(self._beyond(-part, alone), most),
            deviation=self._deviation(case),
            part=part,
            own=self.off[case] - part,
            alone=alone,
            rise=rise(
                [*usual.own.values(), self.off[case] - part],
                self.past.expected[case],
                self.rule,
                freedom=self.rule.own_freedom,
                errors=self.rule.rise_errors_of_case,
            ),
        )

    def _beyond(self, part: float, alone: float) -> float:
        """Beyond what is shared; a case as fast as ever is not slower than its neighbours."""
        if not self.rule.by_neighbours:
            return max(0.0, part) + alone
        return max(math.log1p(self.rule.floor), part + alone)


def rise(
    values: Sequence[float], expected: float, rule: Rule, *, freedom: float, errors: float
) -> float:
    """By how much a line through the sessions rises from first to last, 0 for not clearly.

    The variance about it is `expected` with `freedom` degrees; a slope of less than `errors`
    standard errors is none.
    """
    count = len(values)
    if count <= rule.rise_from:
        return 0.0
    middle = (count - 1) / 2
    squares = math.fsum((at - middle) ** 2 for at in range(count))
    slope = math.fsum((at - middle) * value for at, value in enumerate(values)) / squares
    rest = stats.squares_of([value - slope * at for at, value in enumerate(values)])
    error = math.sqrt((freedom * expected + rest) / (freedom + count - 2) / squares)
    whole = slope * (count - 1)
    return whole if whole > math.log1p(rule.rise) and slope > errors * error else 0.0


# What a case is called.


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Slower (1), faster (-1) or neither (0); None while a suspicion waits to be seen again.

    `off` is the log ratio of the median of all launches to the level, `fresh` that of those that
    were to show it again, None for none. `suspected`: the first launches looked slower; `again`:
    the fresh ones, too. `wanted` launches in all decide it; None for no more. `is_noisy`: it was
    seen again and lies within the limit, or beyond it and not all confirm it. `modes` are the
    launches in seconds of each of two.
    """

    called: int | None
    off: float
    limit: float
    fresh: float | None
    suspected: bool
    wanted: int | None
    again: bool = False
    is_noisy: bool = False
    modes: tuple[tuple[float, ...], ...] = ()


def call(
    times_s: Sequence[float], limit: Limit, launches: int, launch: float, rule: Rule, most: float
) -> Call:
    """What the launches `times_s` say, of which those beyond the first `launches` confirm.

    Slower is what the median of all launches says, and nearly so do the first, the fresh ones and
    the fastest of all. `launch` is the deviation of a launch; beyond `most` it is slower.
    """
    usual, suspicion = limit.usual, _nearly(limit, most, rule.suspect)
    everything = Launches.of(times_s)
    off = usual.off(everything)
    suspected = usual.off(Launches.of(times_s[:launches])) > suspicion
    enough = len(times_s) >= launches + rule.confirming
    fresh = Launches.of(times_s[launches:]).median - usual.level if enough else None
    again = suspected and fresh is not None and fresh > suspicion
    split = modes(times_s, launch, rule)
    wanted: int | None = None
    called: int | None = 0
    if suspected and fresh is None:
        wanted, called = launches + rule.confirming, None
    elif split and len(times_s) < launches + rule.more_of_modes:
        wanted = launches + rule.more_of_modes
    elif again and off > most:
        least = _nearly(limit, most, rule.by_fastest) if limit.fastest is None else limit.fastest
        called = int(everything.fastest - usual.fastest > least)
    elif off < limit.faster:
        called = -1
    return Call(
        called=called,
        again=again,
        is_noisy=called == 0 and (again or off > most),
        off=off,
        limit=most,
        fresh=fresh,
        suspected=suspected,
        wanted=wanted,
        modes=split,
    )


def _nearly(limit: Limit, most: float, share: float) -> float:
    """A `share` of the way to the limit, beyond what the case shares with others tonight."""
    return min(most, max(share * most, limit.part + share * limit.alone))


def modes(times_s: Sequence[float], launch: float, rule: Rule) -> tuple[tuple[float, ...], ...]:
    """The launches of two modes: a gap among them is far wider than a launch's deviation."""
    ordered = sorted(times_s)
    gaps = [math.log(after / before) for before, after in pairwise(ordered)]
    if not gaps or max(gaps) <= max(math.log(rule.modes), rule.clear_gap * launch):
        return ()
    at = gaps.index(max(gaps)) + 1
    return tuple(ordered[:at]), tuple(ordered[at:])
