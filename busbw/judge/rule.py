"""Tonight's launches against what is usual: the rule of docs/verdict.md, formula by formula.

Numbers in, numbers out; times are logarithms of seconds, and every number is in `policy`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from busbw.model.case import Case
from busbw.stats.launches import quantile
from busbw.stats.variance import squares_of

from .policy import Rule
from .usual import ByCase, BySession, Launches, Past, Usual, Usuals, families, shared_parts

# 70 % of the differences of two normal values are below this number of deviations of one.
_SEVENTY = 1.036 * math.sqrt(2)
# `Rule.noisier` is for as many differences: of two frameworks with 21 sizes.
_MANY = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What a framework's cases share: `before` by session, `tonight`, which is more by `off`.

    More than `limit` is slower. `rise` is by how much it rose over the sessions, 0 for not clearly.
    """

    before: BySession
    tonight: float
    off: float
    limit: float
    rise: float = 0.0

    @property
    def is_slower(self) -> bool:
        return self.off > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Off its level by more than `slower` a case is slower, by less than `faster` it is faster.

    `part` is what it shares with others tonight, with all of them or with its neighbours; `own` is
    the rest, `deviation` that of the rest in one more session, and `alone` the limit of the rest.
    `fastest` is that of the fastest launch where its neighbours' fastest ones say it. `launch` is
    the deviation of a launch. `rise` is by how much its own part rose over the sessions, 0 for not
    clearly.
    """

    usual: Usual
    slower: float
    faster: float
    deviation: float
    part: float
    own: float
    alone: float
    launch: float
    fastest: float | None
    rise: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tonight:
    """The limits by case, and what the cases of each framework share.

    Sizes next to each other differ `noisier` times as much as usual, 1 where chance explains it.
    """

    limits: Mapping[Case, Limit]
    shared: Mapping[str, Shared]
    noisier: float


def limits(past: Past, today: Mapping[Case, Launches], rule: Rule) -> Tonight:
    usual = {case: one for case, one in past.usual.items() if case in today}
    noisier = _noisier({case: one.off(today[case]) for case, one in usual.items()}, past, rule)
    more = (noisier**2 - 1) * (1 + 1 / max(1, past.sessions))
    found: dict[Case, Limit] = {}
    shared = {}
    for name in past.shared:
        its = {case: one for case, one in usual.items() if case.framework == name}
        shared[name], limits = _framework(name, its, today, past, rule, more)
        found |= limits
    return Tonight(limits=found, shared=shared, noisier=noisier)


def _noisier(off: ByCase, past: Past, rule: Rule) -> float:
    """How many times as much as usual sizes next to each other differ; 1 where chance explains it.

    A step or a slope over the sizes adds nothing to it; of fewer than `least_sizes` one single
    loss would be too much, and of few differences chance makes more.
    """
    found = [
        abs(off[a] - off[b]) / math.sqrt((past.usual[a].variance + past.usual[b].variance) / 2)
        for alike in families(off)
        if len(alike) >= rule.least_sizes
        for a, b in pairwise(alike)
    ]
    if not found:
        return 1.0
    times = quantile(found, 0.7) / (_SEVENTY * math.sqrt(1 + 1 / past.sessions))
    return times if times > 1 + (rule.noisier - 1) * math.sqrt(_MANY / len(found)) else 1.0


def _framework(
    name: str, usual: Usuals, today: Mapping[Case, Launches], past: Past, rule: Rule, more: float
) -> tuple[Shared, dict[Case, Limit]]:
    before, together, count = past.shared[name], name in past.together, len(usual)
    off = {case: one.off(today[case]) for case, one in usual.items()}
    mean = fmean(before.values()) if before else 0.0
    uncertain = fmean(one.expected for one in usual.values()) / count
    expected = rule.prior_shared**2 + (4 if together else math.pi / 2) * uncertain
    squares = math.fsum((one - mean) ** 2 for one in before.values())
    freedom = rule.prior_shared_freedom
    variance = (freedom * expected + squares) / (freedom + max(0, len(before) - 1))
    variance *= 1 + 1 / past.sessions
    own = {}
    for case, one in usual.items():
        deviation = math.sqrt(one.variance * (1 + 1 / len(one.own) + more))
        own[case] = _Own(usual=one, off=off[case], deviation=deviation, past=past, rule=rule)
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
    parts, fastest = shared_parts(off, tonight, rule), dict[Case, float]()
    if rule.by_neighbours:
        fastest = {case: today[case].fastest - one.fastest for case, one in usual.items()}
        fastest = shared_parts(fastest, tonight, rule)
    return shared, {c: own[c].limit(one, fastest.get(c), variance) for c, one in parts.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """A case that is `off` its level tonight, and the deviation that it has in a night."""

    usual: Usual
    off: float
    deviation: float
    past: Past
    rule: Rule

    def alone(self, variance: float = 0.0) -> float:
        """The limit of its own part, and with the `variance` of what is shared of the whole."""
        deviation = math.sqrt(variance + self.deviation**2)
        return max(math.log1p(self.rule.floor), self.past.factor * deviation)

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
            launch=self.past.launch,
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


def call(times_s: Sequence[float], limit: Limit, launches: int, rule: Rule, most: float) -> Call:
    """What the launches `times_s` say, of which those beyond the first `launches` confirm.

    Slower is what the median of all launches says, and nearly so do the first, the fresh ones and
    the fastest of all. Beyond `most` it is slower.
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
    split = _modes(times_s, limit.launch, rule)
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
    ordered = sorted(times_s)
    gaps = [math.log(after / before) for before, after in pairwise(ordered)]
    if not gaps or max(gaps) <= max(math.log(rule.modes), rule.clear_gap * launch):
        return ()
    at = gaps.index(max(gaps)) + 1
    return tuple(ordered[:at]), tuple(ordered[at:])
