"""Today's launches against the sessions before: the rule of docs/verdict.md, formula by formula.

Numbers in, numbers out: which sessions there are is decided in `levels`, every number is in
`policy`. Times are logarithms of seconds, so that a limit is the logarithm of a ratio.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist, fmean, linear_regression, median, pvariance
from typing import TypeVar

from busbw.model.case import Case
from busbw.stats.launches import quantile
from busbw.stats.variance import squares_of, trigamma

from .policy import Rule

_Sized = TypeVar("_Sized")
_ByCase = Mapping[Case, float]
_BySession = Mapping[int, float]

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
        middle, squares = math.log(median(times_s)), squares_of(logs)
        return cls(median=middle, fastest=min(logs), squares=squares, freedom=len(logs) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """One session: what it measured, and which cases it called slower (1) or faster (-1)."""

    launches: Mapping[Case, Launches]
    called: Mapping[Case, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """What a case takes: its level, and its `own` part of each session that counts, by number.

    `fastest` is the level of the fastest launches; `by_fastest`: its launches have modes, so that
    `level` and `own` are of the fastest, too. `squares` are those of its own parts, known with
    `freedom`; `variance` is that of one, `expected` what all cases say of it.
    """

    level: float
    fastest: float
    own: _BySession
    squares: float
    freedom: int
    by_fastest: bool = False
    variance: float = 0.0
    expected: float = 0.0

    def off(self, launches: Launches) -> float:
        """How far tonight's launches are off the level."""
        return (launches.fastest if self.by_fastest else launches.median) - self.level


_Usuals = Mapping[Case, Usual]


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What `sessions` sessions say of the cases of some frameworks.

    `shared` is what cases of a framework have in common, by session; they are enough for that in
    those `together`. `launch` is the deviation of a launch, `factor` is k.
    """

    sessions: int
    usual: _Usuals
    shared: Mapping[str, _BySession]
    together: Collection[str]
    launch: float
    factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What a framework's cases share: `before` by session, `tonight`, which is more by `off`.

    More than `limit` is slower. `rise` is by how much it rose over the sessions, 0 for not clearly.
    """

    before: _BySession
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
    """The limits by case, what the cases of each framework share, and the deviation of a launch.

    Sizes next to each other differ `noisier` times as much as usual, 1 where chance explains it.
    """

    limits: Mapping[Case, Limit]
    shared: Mapping[str, Shared]
    noisier: float = 1.0
    launch: float = 0.0


# What a case usually takes: log time = level + what it shares in that session + its own part.


def counted(called: Sequence[int]) -> list[bool]:
    """Which sessions count in a level, given what each was called: -1, 0 or 1.

    A night that was slower or faster counts if the next did not repeat it: it was noise. What
    stays moves no level, and neither does what may stay: the last one.
    """
    repeated = [one == other != 0 for one, other in pairwise(called)]
    before, after = [False, *repeated], [*repeated, True]
    return [not one or not (a or b) for one, a, b in zip(called, before, after)]


def _usual(
    cases: Sequence[Case], nights: Sequence[Night], rule: Rule, *, together: bool
) -> tuple[dict[Case, Usual], _BySession]:
    """Each case's level and own parts, and what the cases share, by session."""
    there: dict[Case, dict[int, Launches]] = {}
    for case in cases:
        its = {n: one.launches[case] for n, one in enumerate(nights) if case in one.launches}
        kept = counted([nights[n].called.get(case, 0) for n in its])
        at = [n for n, one in zip(its, kept) if one] or list(its)[:1]
        there[case] = {n: its[n] for n in at}
    usual, shared = _split(there, rule, together=together, by_fastest=False)
    variances = _between(usual)
    most = rule.clipped * median(variances.values()) if variances else 0.0
    if any(one > most for one in variances.values()):
        fastest, _ = _split(there, rule, together=together, by_fastest=True)
        for case, one in variances.items():
            if one > most and fastest[case].squares < usual[case].squares:
                usual[case] = fastest[case]
    return usual, shared


def _split(
    there: Mapping[Case, Mapping[int, Launches]], rule: Rule, *, together: bool, by_fastest: bool
) -> tuple[dict[Case, Usual], _BySession]:
    logs = {
        case: {n: one.fastest if by_fastest else one.median for n, one in its.items()}
        for case, its in there.items()
    }
    means = {case: fmean(its.values()) for case, its in logs.items()}
    shared, usual = {}, {}
    for number in sorted({number for its in logs.values() for number in its}):
        off = {case: its[number] - means[case] for case, its in logs.items() if number in its}
        if len(off) >= (rule.least_cases if together else 1):
            shared[number] = median(off.values())
            for case, part in _parts(off, shared[number], rule).items() if together else ():
                logs[case][number] -= part
    for case, its in logs.items():
        level = fmean(its.values())
        own = {n: value - level for n, value in its.items()}
        usual[case] = Usual(
            level=level,
            fastest=fmean(one.fastest for one in there[case].values()),
            own=own,
            squares=math.fsum(one * one for one in own.values()),
            freedom=len(own) - 1,
            by_fastest=by_fastest,
        )
    return usual, shared


def _between(usual: _Usuals) -> dict[Case, float]:
    """The variance of a case's own parts, where it has several."""
    return {case: one.squares / one.freedom for case, one in usual.items() if one.freedom}


def _parts(off: _ByCase, middle: float, rule: Rule) -> dict[Case, float]:
    """What each case shares with others: with all, or with the other sizes nearest to it."""
    found = dict.fromkeys(off, middle)
    for alike in _families(off) if rule.by_neighbours else ():
        for case in alike if len(alike) > 1 else ():
            found[case] = median(off[one] for one in nearest(case, alike))
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
        found, shared[name] = _usual(cases, nights, rule, together=name in together)
        usual |= found
    expected, launch = _expected(usual, nights, rule, alone=not together)
    own = rule.own_freedom
    for case, one in usual.items():
        variance = (own * expected[case] + one.squares) / (own + one.freedom)
        usual[case] = replace(one, expected=expected[case], variance=variance)
    factor = rule.factor + rule.factor_of_one / max(1, len(nights))
    if sum(one.freedom for one in usual.values()) >= rule.tails_from:
        factor = max(factor, min(rule.most_factor, factor * _tails(usual, rule)))
    return Past(
        sessions=len(nights),
        usual=usual,
        shared=shared,
        together=together,
        launch=launch,
        factor=factor,
    )


def _expected(
    usual: _Usuals, nights: Sequence[Night], rule: Rule, *, alone: bool
) -> tuple[_ByCase, float]:
    """By case the variance of its own part of a session as all cases show it; a launch's deviation.

    The prior counts in the first sessions only, and the variance of launches is a lower bound.
    Noise follows the payload where that is clear.
    """
    within, launches, total = {}, 0, sum(one.freedom for one in usual.values())
    for case in usual:
        its = [night.launches[case] for night in nights if case in night.launches]
        squares, freedom = math.fsum(one.squares for one in its), sum(one.freedom for one in its)
        within[case] = max(rule.least_deviation**2, squares / max(1, freedom))
        launches += freedom
    between = _between(usual)
    slope = _slope([(within, launches, rule.misleading), (between, total, 0.0)], rule)
    middle = fmean(math.log2(case.payload_bytes) for case in usual) if usual else 0.0
    times = {case: math.exp(slope * (math.log2(case.payload_bytes) - middle)) for case in usual}
    launch, pooled = (
        _mean({case: one / times[case] for case, one in found.items()}, usual, rule)
        for found in (within, between)
    )
    prior = (rule.prior_alone if alone else rule.prior) if len(nights) <= rule.prior_sessions else 0
    weight = rule.prior_freedom if prior or rule.of_launches or not total else 0.0
    return {
        case: (weight * max(prior**2, rule.of_launches * launch * one) + total * pooled * one)
        / (weight + total)
        for case, one in times.items()
    }, math.sqrt(launch)


def _slope(found: Iterable[tuple[_ByCase, int, float]], rule: Rule) -> float:
    """Of log variance over the doublings of the payload, 0 where it is not clearly inclined.

    Lines through variances of as many degrees of freedom, each by its certainty; the last number
    is by how much it may mislead.
    """
    slope = certainty = 0.0
    for variances, freedom, more in found:
        sizes = [math.log2(case.payload_bytes) for case, one in variances.items() if one > 0]
        if len(sizes) >= rule.least_cases and len(set(sizes)) > 1 and freedom:
            logs = [math.log(one) for one in variances.values() if one > 0]
            spread = pvariance(sizes) * len(sizes)
            error = trigamma(freedom / len(variances) / 2) / spread + more**2
            slope += linear_regression(sizes, logs).slope / error
            certainty += 1 / error
    return slope / certainty if slope**2 > rule.clear**2 * certainty else 0.0


def _mean(variances: _ByCase, usual: _Usuals, rule: Rule) -> float:
    """By degrees of freedom; an odd one counts as a few times the median at most."""
    if not variances:
        return 0.0
    most = rule.clipped * median(variances.values())
    weights = [max(1, usual[case].freedom) for case in variances]
    return fmean((min(one, most) for one in variances.values()), weights)


def _tails(usual: _Usuals, rule: Rule) -> float:
    """By how much more k is where tails are heavier than normal ones, almost a switch.

    Of each case's farthest session, in deviations that leave it out, the third farthest.
    """
    farthest, own = [], rule.own_freedom
    for one in usual.values():
        squares = max(value * value for value in one.own.values())
        squares *= (one.freedom + 1) / max(1, one.freedom)
        rest = max(1e-18, own * one.expected + one.squares - squares)
        farthest.append(math.sqrt(squares * (own + one.freedom - 1) / rest))
    third = sorted(farthest)[-min(3, len(farthest))]
    normal = NormalDist().inv_cdf(1 - 1.5 / sum(len(one.own) for one in usual.values()))
    return max(1.0, third / (rule.heavy * normal)) ** rule.switch


# Tonight.


def limits(past: Past, today: Mapping[Case, Launches], rule: Rule) -> Tonight:
    """The limits of what is measured `today`."""
    usual = {case: one for case, one in past.usual.items() if case in today}
    noisier = _noisier({case: one.off(today[case]) for case, one in usual.items()}, past, rule)
    more = (noisier**2 - 1) * (1 + 1 / max(1, past.sessions))
    found: dict[Case, Limit] = {}
    shared = {}
    for name in past.shared:
        its = {case: one for case, one in usual.items() if case.framework == name}
        shared[name], limits = _framework(name, its, today, past, rule, more)
        found |= limits
    return Tonight(limits=found, shared=shared, noisier=noisier, launch=past.launch)


def _noisier(off: _ByCase, past: Past, rule: Rule) -> float:
    """How many times as much as usual sizes next to each other differ; 1 where chance explains it.

    A step or a slope over the sizes adds nothing to it; of fewer than `least_sizes` one single
    loss would be too much, and of few differences chance makes more.
    """
    found = [
        abs(off[a] - off[b]) / math.sqrt((past.usual[a].variance + past.usual[b].variance) / 2)
        for alike in _families(off)
        if len(alike) >= rule.least_sizes
        for a, b in pairwise(alike)
    ]
    if not found:
        return 1.0
    times = quantile(found, 0.7) / (_SEVENTY * math.sqrt(1 + 1 / past.sessions))
    return times if times > 1 + (rule.noisier - 1) * math.sqrt(_MANY / len(found)) else 1.0


def _framework(
    name: str, usual: _Usuals, today: Mapping[Case, Launches], past: Past, rule: Rule, more: float
) -> tuple[Shared, dict[Case, Limit]]:
    """What its cases share tonight, and the limit of each; by `more` tonight varies."""
    before, together, count = past.shared[name], name in past.together, len(usual)
    off = {case: one.off(today[case]) for case, one in usual.items()}
    mean = fmean(before.values()) if before else 0.0
    uncertain = fmean(one.expected for one in usual.values()) / count
    expected = rule.prior_shared**2 + (4 if together else math.pi / 2) * uncertain
    squares = math.fsum((one - mean) ** 2 for one in before.values())
    freedom = rule.prior_shared_freedom
    variance = (freedom * expected + squares) / (freedom + max(0, len(before) - 1))
    variance *= 1 + 1 / past.sessions
    own = {
        case: _Own(usual=one, off=off[case], more=more, factor=past.factor, rule=rule)
        for case, one in usual.items()
    }
    # The median of those that are not off by themselves: the others may be half of them.
    inside = [one for case, one in off.items() if abs(one - mean) <= own[case].alone(variance)]
    tonight = median(inside if len(inside) >= rule.least_cases else off.values())
    raised = 4 * more * fmean(one.variance for one in usual.values()) / count
    limit = max(math.log1p(rule.slower), rule.factor_shared * math.sqrt(variance + raised))
    values, errors = [*before.values(), tonight], rule.rise_errors
    shared = Shared(
        before=before,
        tonight=tonight,
        off=tonight - mean,
        limit=limit if count > 1 else math.inf,
        rise=rise(values, expected, rule, freedom=freedom, errors=errors),
    )
    if not together:
        return shared, {case: one.limit(0.0, None, math.inf) for case, one in own.items()}
    parts, fastest = _parts(off, tonight, rule), dict[Case, float]()
    if rule.by_neighbours:
        fastest = {case: today[case].fastest - one.fastest for case, one in usual.items()}
        fastest = _parts(fastest, tonight, rule)
    return shared, {c: own[c].limit(one, fastest.get(c), variance) for c, one in parts.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """A case that is `off` its level tonight, which varies by `more`; `factor` is k."""

    usual: Usual
    off: float
    more: float
    factor: float
    rule: Rule

    @property
    def deviation(self) -> float:
        """That of its own part in one more session."""
        return math.sqrt(self.usual.variance * (1 + 1 / len(self.usual.own) + self.more))

    def alone(self, variance: float = 0.0) -> float:
        """The limit of its own part, and with the `variance` of what is shared of the whole."""
        deviation = math.sqrt(variance + self.deviation**2)
        return max(math.log1p(self.rule.floor), self.factor * deviation)

    def limit(self, part: float, fastest: float | None, variance: float) -> Limit:
        """With the `part` that it shares with others, and that of its `fastest` launch."""
        usual, rule, most = self.usual, self.rule, self.alone(variance)
        values = [*usual.own.values(), self.off - part]
        freedom, errors = rule.own_freedom, rule.rise_errors_of_case
        return Limit(
            usual=usual,
            slower=min(self._beyond(part), most),
            faster=-min(self._beyond(-part), most),
            deviation=self.deviation,
            part=part,
            own=self.off - part,
            alone=self.alone(),
            fastest=None if fastest is None else min(self._beyond(fastest), most),
            rise=rise(values, usual.expected, rule, freedom=freedom, errors=errors),
        )

    def _beyond(self, part: float) -> float:
        """Beyond what is shared; a case as fast as ever is not slower than its neighbours."""
        if not self.rule.by_neighbours:
            return max(0.0, part) + self.alone()
        return max(math.log1p(self.rule.floor), part + self.alone())


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
    rest = squares_of([value - slope * at for at, value in enumerate(values)])
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
    again: bool
    is_noisy: bool
    modes: tuple[tuple[float, ...], ...]


def call(
    times_s: Sequence[float], limit: Limit, launches: int, launch: float, rule: Rule, most: float
) -> Call:
    """What the launches `times_s` say, of which those beyond the first `launches` confirm.

    Slower is what the median of all launches says, and nearly so do the first, the fresh ones and
    the fastest of all. `launch` is the deviation of a launch; beyond `most` it is slower.
    """

    def nearly(share: float) -> float:
        # A share of the way to the limit, beyond what the case shares with others tonight.
        return min(most, max(share * most, limit.part + share * limit.alone))

    usual, suspicion, everything = limit.usual, nearly(rule.suspect), Launches.of(times_s)
    off, fresh = usual.off(everything), None
    suspected = usual.off(Launches.of(times_s[:launches])) > suspicion
    if len(times_s) >= launches + rule.confirming:
        fresh = Launches.of(times_s[launches:]).median - usual.level
    again = suspected and fresh is not None and fresh > suspicion
    split = _modes(times_s, launch, rule)
    wanted: int | None = None
    called: int | None = 0
    if suspected and fresh is None:
        wanted, called = launches + rule.confirming, None
    elif split and len(times_s) < launches + rule.more_of_modes:
        wanted = launches + rule.more_of_modes
    elif again and off > most:
        least = nearly(rule.by_fastest) if limit.fastest is None else limit.fastest
        called = int(everything.fastest - usual.fastest > least)
    elif off < limit.faster:
        called = -1
    return Call(
        called=called,
        off=off,
        limit=most,
        fresh=fresh,
        suspected=suspected,
        wanted=wanted,
        again=again,
        is_noisy=called == 0 and (again or off > most),
        modes=split,
    )


def _modes(times_s: Sequence[float], launch: float, rule: Rule) -> tuple[tuple[float, ...], ...]:
    """The launches of two modes: a gap among them is far wider than a launch's deviation."""
    ordered = sorted(times_s)
    gaps = [math.log(after / before) for before, after in pairwise(ordered)]
    if not gaps or max(gaps) <= max(math.log(rule.modes), rule.clear_gap * launch):
        return ()
    at = gaps.index(max(gaps)) + 1
    return tuple(ordered[:at]), tuple(ordered[at:])
