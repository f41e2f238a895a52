"""What earlier sessions say of the cases: what each usually takes, and how noisy that is.

Which sessions there are is decided in `levels`, every number is in `policy`, and docs/verdict.md
has the formulas. Times are logarithms of seconds, so that a limit is the logarithm of a ratio.
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
from busbw.stats.variance import squares_of, trigamma

from .policy import Rule

_Sized = TypeVar("_Sized")
ByCase = Mapping[Case, float]
BySession = Mapping[int, float]


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
    own: BySession
    squares: float
    freedom: int
    by_fastest: bool
    variance: float = 0.0
    expected: float = 0.0

    def off(self, launches: Launches) -> float:
        return (launches.fastest if self.by_fastest else launches.median) - self.level


Usuals = Mapping[Case, Usual]


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What `sessions` sessions say of the cases of some frameworks.

    `shared` is what cases of a framework have in common, by session; they are enough for that in
    those `together`. `launch` is the deviation of a launch, `factor` is k.
    """

    sessions: int
    usual: Usuals
    shared: Mapping[str, BySession]
    together: Collection[str]
    launch: float
    factor: float


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
) -> tuple[dict[Case, Usual], BySession]:
    there = {}
    for case in cases:
        its = {n: one.launches[case] for n, one in enumerate(nights) if case in one.launches}
        kept = counted([nights[n].called.get(case, 0) for n in its])
        at = [n for n, one in zip(its, kept) if one] or list(its)[:1]
        there[case] = {n: its[n] for n in at}
    usual, shared = _split(there, rule, together=together, by_fastest=False)
    variances = _between(usual)
    most = rule.clipped * median(variances.values()) if variances else 0.0
    odd = [case for case, one in variances.items() if one > most]
    fastest = _split(there, rule, together=together, by_fastest=True)[0] if odd else {}
    usual |= {case: fastest[case] for case in odd if fastest[case].squares < usual[case].squares}
    return usual, shared


def _split(
    there: Mapping[Case, Mapping[int, Launches]], rule: Rule, *, together: bool, by_fastest: bool
) -> tuple[dict[Case, Usual], BySession]:
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
            for case, part in shared_parts(off, shared[number], rule).items() if together else ():
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


def _between(usual: Usuals) -> dict[Case, float]:
    return {case: one.squares / one.freedom for case, one in usual.items() if one.freedom}


def shared_parts(off: ByCase, middle: float, rule: Rule) -> dict[Case, float]:
    """What each case shares with others: with all, or with the other sizes nearest to it."""
    found = dict.fromkeys(off, middle)
    for alike in families(off) if rule.by_neighbours else ():
        for case in alike if len(alike) > 1 else ():
            found[case] = median(off[one] for one in nearest(case, alike))
    return found


def nearest(one: _Sized, alike: Sequence[_Sized]) -> list[_Sized]:
    """The two others next to `one`, of what is `alike` but for its size, in the order of that."""
    at = alike.index(one)
    others = [other for other in range(len(alike)) if other != at]
    return [alike[other] for other in sorted(others, key=lambda other: abs(other - at))[:2]]


def families(cases: Iterable[Case]) -> list[list[Case]]:
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
    usual: Usuals, nights: Sequence[Night], rule: Rule, *, alone: bool
) -> tuple[ByCase, float]:
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


def _slope(found: Iterable[tuple[ByCase, int, float]], rule: Rule) -> float:
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


def _mean(variances: ByCase, usual: Usuals, rule: Rule) -> float:
    """By degrees of freedom; an odd one counts as a few times the median at most."""
    if not variances:
        return 0.0
    most = rule.clipped * median(variances.values())
    weights = [max(1, usual[case].freedom) for case in variances]
    return fmean((min(one, most) for one in variances.values()), weights)


def _tails(usual: Usuals, rule: Rule) -> float:
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
