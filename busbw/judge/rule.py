"""Today's launches against the sessions before: the rule of docs/verdict.md, formula by formula.

Numbers in, numbers out: which sessions there are is decided in `levels`, every number is in
`policy`. Times are logarithms of seconds, so that a limit is the logarithm of a ratio.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from busbw import stats
from busbw.model import Case

from .policy import Rule

# 70 % of the differences of two normal values are below this number of deviations of one.
_SEVENTY = 1.036 * math.sqrt(2)


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
        mean = math.fsum(logs) / len(logs)
        return cls(
            median=math.log(statistics.median(times_s)),
            fastest=min(logs),
            squares=math.fsum((one - mean) ** 2 for one in logs),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What a framework's cases share: `before` by session, `tonight`, which is more by `off`.

    More than `limit` is slower. `deviation` is that of one more session; `rise` is by how much it
    rose over the sessions, 0 for not clearly.
    """

    before: Mapping[int, float]
    tonight: float
    off: float
    limit: float
    deviation: float
    rise: float = 0.0

    @property
    def is_slower(self) -> bool:
        """Whether all cases together are slower."""
        return self.off > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Off its level by more than `slower` a case is slower, by less than `faster` it is faster.

    `deviation` is that of its own part in one more session, `part` what it shares with others
    tonight: with all of them, or with its neighbours; `own` is the rest and `alone` the limit of
    that. `rise` is by how much its own part rose over the sessions, 0 for not clearly.
    """

    usual: Usual
    slower: float
    faster: float
    deviation: float
    part: float
    own: float
    alone: float
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


def limits(nights: Sequence[Night], today: Mapping[Case, Launches], rule: Rule) -> Tonight:
    """The limits of what is measured `today`, from all `nights` before, oldest first."""
    known = dict.fromkeys(case for night in nights for case in night.launches)
    groups: dict[str, list[Case]] = {}
    for case in known:
        groups.setdefault(case.framework, []).append(case)
    measured = {name: [case for case in cases if case in today] for name, cases in groups.items()}
    measured = {name: cases for name, cases in measured.items() if cases}
    if not measured:
        return Tonight(limits={}, shared={})
    together = {name for name, cases in measured.items() if len(cases) >= rule.least_cases}
    usual: dict[Case, Usual] = {}
    before: dict[str, Mapping[int, float]] = {}
    for name in measured:
        found, before[name] = _usual(groups[name], nights, rule, name in together)
        usual.update(found)
    noise = _noise(usual, nights, today, rule, alone=not together)
    off = {case: _log(today[case], one) - one.level for case, one in usual.items() if case in today}
    noisier = _noisier(off, noise.variance, len(nights), rule)
    result: dict[Case, Limit] = {}
    shared: dict[str, Shared] = {}
    for name, cases in measured.items():
        one = _Framework(
            off={case: off[case] for case in cases},
            before=before[name],
            more=(noisier**2 - 1) * (1 + 1 / len(nights)),
            sessions=len(nights),
            together=name in together,
            usual=usual,
            noise=noise,
            rule=rule,
        )
        shared[name], its = one.limits()
        result.update(its)
    return Tonight(limits=result, shared=shared, noisier=noisier, launch=math.sqrt(noise.launch))


def _log(launches: Launches, usual: Usual) -> float:
    return launches.fastest if usual.by_fastest else launches.median


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
    fastest, _ = _split(at, nights, rule, together, lambda one: one.fastest)
    variances = [one.squares / one.freedom for one in usual.values() if one.freedom]
    odd = rule.clipped * statistics.median(variances) if variances else math.inf
    for case, one in usual.items():
        steadier = fastest[case].squares < one.squares
        if one.freedom and one.squares / one.freedom > odd and steadier:
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
        if together and len(off) >= rule.least_cases:
            shared[number] = statistics.median(off.values())
            parts[number] = _parts(off, shared[number], rule)
        elif off and not together:
            shared[number] = statistics.median(off.values())
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
    for alike in _families(off) if rule.neighbours else ():
        for at, case in enumerate(alike):
            others = [other for other in range(len(alike)) if other != at]
            others.sort(key=lambda other: (abs(other - at), other))
            if others:
                near = others[: rule.neighbours]
                found[case] = statistics.median(off[alike[other]] for other in near)
    return found


def _families(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that differ in nothing but their size, by size."""
    kinds: dict[object, list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.key.family, case.protocol), []).append(case)
    return [sorted(one, key=lambda case: case.payload_bytes) for one in kinds.values()]


# The noise: what launches and sessions show of it.


@dataclass(frozen=True, kw_only=True, slots=True)
class _Noise:
    """By case the variance of its own part, and what was `expected` of it; k; that of a launch."""

    variance: Mapping[Case, float]
    expected: Mapping[Case, float]
    factor: float
    launch: float


def _noise(
    usual: Mapping[Case, Usual],
    nights: Sequence[Night],
    today: Mapping[Case, Launches],
    rule: Rule,
    *,
    alone: bool,
) -> _Noise:
    within = {case: _within(case, nights, today, rule) for case in usual}
    known = {case: one for case, one in usual.items() if one.freedom}
    between = {case: one.squares / one.freedom for case, one in known.items()}
    bent = _bent(usual, within, between, nights, rule)
    launch = _mean({case: one / bent[case] for case, one in within.items()}, usual, rule)
    pooled = _mean({case: one / bent[case] for case, one in between.items()}, usual, rule)
    total = sum(one.freedom for one in usual.values())
    prior = (rule.prior_alone if alone else rule.prior) if len(nights) <= rule.prior_sessions else 0
    freedom = rule.prior_freedom if prior or rule.of_launches or not total else 0.0
    expected = {
        case: (freedom * max(prior**2, rule.of_launches * launch * one) + total * pooled * one)
        / (freedom + total)
        for case, one in bent.items()
    }
    variance = {
        case: (rule.own_freedom * expected[case] + one.squares) / (rule.own_freedom + one.freedom)
        for case, one in usual.items()
    }
    factor = rule.factor + rule.factor_of_one / len(nights)
    if total >= rule.tails_from:
        factor = max(factor, min(rule.most_factor, factor * _tails(usual, expected, rule)))
    return _Noise(variance=variance, expected=expected, factor=factor, launch=launch)


def _within(
    case: Case, nights: Sequence[Night], today: Mapping[Case, Launches], rule: Rule
) -> float:
    """The variance of launches of one session."""
    there = [one.launches[case] for one in (*nights, Night(launches=today)) if case in one.launches]
    freedom = max(1, sum(one.freedom for one in there))
    return max(rule.least_deviation**2, math.fsum(one.squares for one in there) / freedom)


def _mean(variances: Mapping[Case, float], usual: Mapping[Case, Usual], rule: Rule) -> float:
    """By degrees of freedom; an odd one counts as a few times the median at most."""
    if not variances:
        return 0.0
    most = rule.clipped * statistics.median(variances.values())
    weights = [max(1, usual[case].freedom) for case in variances]
    found = math.fsum(min(one, most) * w for one, w in zip(variances.values(), weights))
    return found / sum(weights)


def _bent(
    usual: Mapping[Case, Usual],
    within: Mapping[Case, float],
    between: Mapping[Case, float],
    nights: Sequence[Night],
    rule: Rule,
) -> dict[Case, float]:
    """By case, how many times the variance of the middle size: noise follows the payload.

    A line through log variance over log payload, of launches and of sessions, each by its
    certainty; launches may mislead. 1 where it is not clearly inclined.
    """
    flat = dict.fromkeys(usual, 1.0)
    logs = {case: math.log2(case.payload_bytes) for case in usual}
    width = max(logs.values()) - min(logs.values())
    if len(usual) < rule.least_cases or not width:
        return flat
    middle = statistics.fmean(logs.values())
    at = {case: (one - middle) / width for case, one in logs.items()}
    freedom = statistics.fmean(
        sum(night.launches[case].freedom for night in nights if case in night.launches)
        for case in usual
    )
    of_sessions = statistics.fmean([usual[case].freedom for case in between] or [0])
    lines = (
        _line(at, within, freedom, rule.misleading),
        _line(at, {case: one for case, one in between.items() if one > 0}, of_sessions, 0.0),
    )
    certainty = math.fsum(1 / error for _, error in lines)
    slope = math.fsum(slope / error for slope, error in lines) / certainty if certainty else 0.0
    if slope**2 * certainty <= rule.clear**2:
        return flat
    return {case: math.exp(slope * one) for case, one in at.items()}


def _line(
    at: Mapping[Case, float], variances: Mapping[Case, float], freedom: float, misleading: float
) -> tuple[float, float]:
    """The slope of log variance, and the variance of the slope: infinite where it is unknown."""
    middle = statistics.fmean([at[case] for case in variances] or [0.0])
    squares = math.fsum((at[case] - middle) ** 2 for case in variances)
    if not squares or not freedom:
        return 0.0, math.inf
    slope = math.fsum((at[case] - middle) * math.log(one) for case, one in variances.items())
    return slope / squares, stats.trigamma(freedom / 2) / squares + misleading**2


def _tails(usual: Mapping[Case, Usual], expected: Mapping[Case, float], rule: Rule) -> float:
    """By how much more k is where tails are heavier than normal ones, almost a switch.

    Of each case's farthest session, in deviations that leave it out, the third farthest.
    """
    farthest = []
    for case, one in usual.items():
        more = (one.freedom + 1) / max(1, one.freedom)
        whole = rule.own_freedom * expected[case] + one.squares
        freedom = rule.own_freedom + one.freedom - 1
        squares = max(own * own for own in one.own.values()) * more
        farthest.append(math.sqrt(squares * freedom / max(1e-18, whole - squares)))
    third = sorted(farthest)[-min(3, len(farthest))]
    count = sum(len(one.own) for one in usual.values())
    normal = statistics.NormalDist().inv_cdf(1 - 1.5 / count)
    return max(1.0, third / (rule.heavy * normal)) ** rule.switch


# Tonight.


def _noisier(
    off: Mapping[Case, float], variance: Mapping[Case, float], sessions: int, rule: Rule
) -> float:
    """How many times as much as usual sizes next to each other differ; 1 where chance explains it.

    A step or a slope over the sizes adds nothing to it; of fewer than `least_sizes` one single
    loss would be too much.
    """
    found = [
        abs(off[a] - off[b]) / math.sqrt((variance[a] + variance[b]) / 2)
        for alike in _families(off)
        if len(alike) >= rule.least_sizes
        for a, b in pairwise(alike)
    ]
    if not found:
        return 1.0
    times = stats.quantile(found, 0.7) / (_SEVENTY * math.sqrt(1 + 1 / sessions))
    return times if times > rule.noisier else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Framework:
    """How far its cases are off their levels, what they shared before, and tonight's noise."""

    off: Mapping[Case, float]
    before: Mapping[int, float]
    more: float
    sessions: int
    together: bool
    usual: Mapping[Case, Usual]
    noise: _Noise
    rule: Rule

    def limits(self) -> tuple[Shared, dict[Case, Limit]]:
        """What its cases share tonight, and the limit of each."""
        rule = self.rule
        mean = statistics.fmean(self.before.values()) if self.before else 0.0
        uncertain = statistics.fmean(self.noise.expected[case] for case in self.off) / len(self.off)
        expected = rule.prior_shared**2 + (4 if self.together else math.pi / 2) * uncertain
        squares = math.fsum((value - mean) ** 2 for value in self.before.values())
        freedom = rule.prior_shared_freedom + max(0, len(self.before) - 1)
        variance = (rule.prior_shared_freedom * expected + squares) / freedom
        variance *= 1 + 1 / self.sessions
        tonight = self._middle(mean, variance)
        shared = Shared(
            before=self.before,
            tonight=tonight,
            off=tonight - mean,
            limit=self._limit_of_all(variance),
            deviation=math.sqrt(variance),
            rise=rise(
                [*self.before.values(), tonight],
                expected,
                rule,
                freedom=rule.prior_shared_freedom,
                errors=rule.rise_errors,
            ),
        )
        alone = dict.fromkeys(self.off, 0.0)
        parts = _parts(self.off, tonight, rule) if self.together else alone
        return shared, {case: self._limit(case, parts[case], variance) for case in self.off}

    def _middle(self, mean: float, variance: float) -> float:
        """The median of those that are not off by themselves: the others may be half of them."""
        inside = [
            off for case, off in self.off.items() if abs(off - mean) <= self._alone(case, variance)
        ]
        enough = len(inside) >= self.rule.least_cases
        return statistics.median(inside if enough else self.off.values())

    def _limit_of_all(self, variance: float) -> float:
        """Of what all share; a single case shares nothing."""
        own = statistics.fmean(self.noise.variance[case] for case in self.off)
        raised = 4 * self.more * own / len(self.off)
        limit = self.rule.factor_shared * math.sqrt(variance + raised)
        return max(math.log1p(self.rule.slower), limit) if len(self.off) > 1 else math.inf

    def _deviation(self, case: Case) -> float:
        sessions = len(self.usual[case].own)
        return math.sqrt(self.noise.variance[case] * (1 + 1 / sessions + self.more))

    def _alone(self, case: Case, variance: float = 0.0) -> float:
        """The limit of its own part; with the `variance` of what is shared, that of the whole."""
        deviation = math.sqrt(variance + self._deviation(case) ** 2)
        return max(math.log1p(self.rule.floor), self.noise.factor * deviation)

    def _limit(self, case: Case, part: float, variance: float) -> Limit:
        usual, alone = self.usual[case], self._alone(case)
        most = self._alone(case, variance) if self.together else math.inf
        return Limit(
            usual=usual,
            slower=min(_beyond(part, alone, self.rule), most),
            faster=-min(_beyond(-part, alone, self.rule), most),
            deviation=self._deviation(case),
            part=part,
            own=self.off[case] - part,
            alone=alone,
            rise=rise(
                [*usual.own.values(), self.off[case] - part],
                self.noise.expected[case],
                self.rule,
                freedom=self.rule.own_freedom,
                errors=self.rule.rise_errors_of_case,
            ),
        )


def _beyond(part: float, alone: float, rule: Rule) -> float:
    """The limit beyond what is shared; a case as fast as ever is not slower than its neighbours."""
    if rule.neighbours is None:
        return max(0.0, part) + alone
    return max(math.log1p(rule.floor), part + alone)


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
    middle, mean = (count - 1) / 2, statistics.fmean(values)
    squares = math.fsum((at - middle) ** 2 for at in range(count))
    slope = math.fsum((at - middle) * value for at, value in enumerate(values)) / squares
    rest = math.fsum((v - mean - slope * (at - middle)) ** 2 for at, v in enumerate(values))
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
    everything, first = Launches.of(times_s), Launches.of(times_s[:launches])
    off = _log(everything, usual) - usual.level
    suspected = _log(first, usual) - usual.level > suspicion
    enough = len(times_s) >= launches + rule.confirming
    fresh = Launches.of(times_s[launches:]).median - usual.level if enough else None
    split = modes(times_s, launch, rule)
    wanted: int | None = None
    called: int | None = 0
    if suspected and fresh is None:
        wanted, called = launches + rule.confirming, None
    elif split and len(times_s) < launches + rule.more_of_modes:
        wanted = launches + rule.more_of_modes
    elif suspected and fresh is not None and off > most and fresh > suspicion:
        called = int(everything.fastest - usual.fastest > _nearly(limit, most, rule.by_fastest))
    elif off < limit.faster:
        called = -1
    again = suspected and fresh is not None and fresh > suspicion
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
