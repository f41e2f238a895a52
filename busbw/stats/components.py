"""What sessions differ by: the level of each case, its own part, and a part that all cases share.

The log time of case c in session s is level[c] + shared[s] + own[s, c]. The shared part is what all
cases of a session have in common, the machine's state; the own part is the rest.
Where cases have neighbours, such as the sizes next to their own, what these have in common counts
as shared, too.
Levels and the shared part may change: each has segments, and what is compared with is the newest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from .change_points import change_points
from .shared import Neighbours, Series, Session, newest, parts_of, series_of, shared_of
from .t_distribution import t_quantile
from .variance import Variance, moderated, prior_variance, successive_variance, variance_of

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)

# The variance of a median of many is this much that of their mean: pi / 2.
_MEDIAN = math.pi / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What is expected of a device before its sessions say something else.

    `own` and `shared` are the usual variances of both parts of log time, each with the degrees of
    freedom that it counts as. No own part is known better than `least_deviation`. With fewer than
    `least_cases` the shared part of a session is unknown. A change that chance makes at a given
    position with a probability of `false_changes` at most is a change; a segment has
    `least_segment` sessions at least. With `neighbours`, that many sizes next to each other have a
    part in common besides; None where only all cases do.
    """

    own: Variance
    shared: Variance
    least_deviation: float = 1e-3
    least_cases: int = 6
    false_changes: float = 3e-7
    least_segment: int = 3
    neighbours: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Sessions with one level: the position of the first, how many, and the mean log time."""

    begin: int
    count: int
    level: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLevel:
    """A case's level in log seconds, over how many sessions, and the variance of its own part.

    `segments` are all of its levels, oldest first; the level compared with is that of the newest
    one that is not left out.
    """

    level: float
    sessions: int
    own: Variance
    segments: tuple[Segment, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Components(Generic[K]):
    """Levels by case; the shared part of each session, in order, and its variance.

    The shared part is None where too few cases were measured to tell. Its `segments` have known
    sessions only; it is 0 on average over the `sessions` that count of the newest one.
    """

    cases: Mapping[K, CaseLevel]
    shared: tuple[float | None, ...]
    variance: Variance
    segments: tuple[Segment, ...]
    sessions: int

    def uncertainty(self, cases: Iterable[K]) -> float:
        """The variance with which a session's shared part is known: of a median over `cases`."""
        known = [self.cases[case].own.value for case in cases if case in self.cases]
        return _MEDIAN * math.fsum(known) / len(known) ** 2 if known else 0.0


def components(
    sessions: Sequence[Session[K]],
    expected: Expected,
    left_out: Sequence[Collection[K]] = (),
    neighbours: Neighbours[K] | None = None,
) -> Components[K]:
    """The components of at least one session, oldest first, each the log times of its cases.

    `left_out` are, by session, cases that count for no level and no variance, though for changes;
    where they are half of a session, nor does its shared part. Levels are means, the shared part of
    a session is the median over its cases, so that a few slow ones do not move it; with
    `neighbours`, the median over those by case is added. The variance of a case's own part is
    moderated by those of all others.
    """
    return components_of({None: sessions}, expected, {None: left_out}, neighbours)[None]


def components_of(
    groups: Mapping[G, Sequence[Session[K]]],
    expected: Expected,
    left_out: Mapping[G, Sequence[Collection[K]]],
    neighbours: Neighbours[K] | None = None,
) -> dict[G, Components[K]]:
    """As `components`, of several groups of cases: each has a shared part of its own.

    The variances of all groups' cases moderate each other: more cases know more.
    """
    found = {
        name: _Group.of(sessions, left_out.get(name) or [()] * len(sessions), expected, neighbours)
        for name, sessions in groups.items()
    }
    own = _moderated(_by_case(found, lambda values, _: _over_time(values, expected)), expected)
    found = {
        name: one.split({case: own[name, case] for case in one.series}, expected)
        for name, one in found.items()
    }
    within = _moderated(
        _by_case(found, lambda values, one: _within(values, one.newest(), expected)), expected
    )
    return {
        name: one.components({case: within[name, case] for case in one.series})
        for name, one in found.items()
    }


def _by_case(
    groups: Mapping[G, _Group[K]],
    variance: Callable[[Sequence[float], Series], Variance | None],
) -> dict[tuple[G, K], Variance | None]:
    """The variance of each case's own part."""
    return {
        (name, case): variance(one.own(group.parts[case]), one)
        for name, group in groups.items()
        for case, one in group.series.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group(Generic[K]):
    """Cases with a shared part: by session what all share, by case what is not its own."""

    sessions: Sequence[Session[K]]
    neighbours: Neighbours[K] | None
    series: Mapping[K, Series]
    shared: Sequence[float | None]
    parts: Mapping[K, Sequence[float]]
    segments: tuple[Segment, ...] = ()
    variance: Variance | None = None
    count: int = 0

    @classmethod
    def of(
        cls,
        sessions: Sequence[Session[K]],
        left_out: Sequence[Collection[K]],
        expected: Expected,
        neighbours: Neighbours[K] | None,
    ) -> _Group[K]:
        """Each case with a single level."""
        series = series_of(sessions, left_out)
        shared = shared_of(sessions, series, expected.least_cases, [])
        return cls(
            sessions=sessions,
            neighbours=neighbours,
            series=series,
            shared=shared,
            parts=parts_of(sessions, series, shared, neighbours),
        )

    def split(self, own: Mapping[K, Variance], expected: Expected) -> _Group[K]:
        """With the levels that cases had one after another, and those of the shared part."""
        series = {
            case: replace(one, begins=_begins(one.own(self.parts[case]), own[case], expected))
            for case, one in self.series.items()
        }
        shared = shared_of(self.sessions, series, expected.least_cases, self.shared)
        counts = _counting(series, len(shared))
        shared, segments, variance, count = _segmented(shared, counts, list(own.values()), expected)
        return replace(
            self,
            series=series,
            shared=shared,
            parts=parts_of(self.sessions, series, shared, self.neighbours),
            segments=segments,
            variance=variance,
            count=count,
        )

    def components(self, own: Mapping[K, Variance]) -> Components[K]:
        """What they amount to, with the variances of own parts."""
        assert self.variance is not None
        return Components(
            cases={
                case: _level(one, self.parts[case], own[case]) for case, one in self.series.items()
            },
            shared=tuple(self.shared),
            variance=self.variance,
            segments=self.segments,
            sessions=self.count,
        )


def _begins(values: Sequence[float], own: Variance, expected: Expected) -> tuple[int, ...]:
    """Where segments begin, the first at 0."""
    threshold = t_quantile(expected.false_changes, own.freedom)
    return (
        0,
        *change_points(
            values, math.sqrt(own.value), threshold=threshold, least=expected.least_segment
        ),
    )


def _over_time(values: Sequence[float], expected: Expected) -> Variance | None:
    """The variance from one session to the next, whatever the level does; None for a single one."""
    if len(values) < 2:
        return None
    return _not_below(successive_variance(values), expected)


def _within(values: Sequence[float], kept: Sequence[int], expected: Expected) -> Variance | None:
    """The variance over these sessions; None for a single one."""
    if len(kept) < 2:
        return None
    return _not_below(variance_of([values[at] for at in kept]), expected)


def _not_below(found: Variance, expected: Expected) -> Variance:
    return replace(found, value=max(found.value, expected.least_deviation**2))


def _moderated(own: Mapping[K, Variance | None], expected: Expected) -> dict[K, Variance]:
    """Each case's own variance, drawn to what the others say of it."""
    known = [one for one in own.values() if one is not None]
    prior = _prior(known, expected)
    return {case: prior if one is None else moderated(one, prior) for case, one in own.items()}


def _prior(known: Sequence[Variance], expected: Expected) -> Variance:
    """What the variances of all cases say of each; with too few of them, what is usual."""
    if len(known) < expected.least_cases:
        return expected.own
    prior = prior_variance(known)
    # No more is known of it than all cases together say.
    return replace(prior, freedom=min(prior.freedom, math.fsum(one.freedom for one in known)))


def _counting(cases: Mapping[K, Series], sessions: int) -> list[bool]:
    """Whether the shared part of each session counts: more than half of its cases do."""
    more = [0] * sessions
    for one in cases.values():
        for at, counts in zip(one.positions, one.counts):
            more[at] += 1 if counts else -1
    return [one > 0 for one in more]


def _segmented(
    shared: Sequence[float | None],
    counts: Sequence[bool],
    own: Sequence[Variance],
    expected: Expected,
) -> tuple[list[float | None], tuple[Segment, ...], Variance, int]:
    """The shared part, 0 on average over its newest segment; segments, variance, and sessions.

    The variance is that from one session to the next, less what the parts themselves are uncertain
    by, moderated by what is usual; of the sessions of the newest segment that count.
    """
    at = [position for position, one in enumerate(shared) if one is not None]
    known = [one for one in shared if one is not None]
    if len(known) < 2:
        segments = tuple(Segment(begin=one, count=1, level=0.0) for one in at)
        return list(shared), segments, expected.shared, len(known)
    noise = _MEDIAN * math.fsum(one.value for one in own) / len(own) ** 2
    whole = moderated(_not_below(successive_variance(known), expected), expected.shared)
    begins = _begins(known, whole, expected)
    spans = list(zip(begins, (*begins[1:], len(known))))
    counting = [known[one] for one in newest(spans, [counts[position] for position in at])]
    middle = statistics.fmean(counting)
    segments = tuple(
        Segment(
            begin=at[begin], count=end - begin, level=statistics.fmean(known[begin:end]) - middle
        )
        for begin, end in spans
    )
    variance = expected.shared
    if len(counting) > 1:
        lasting = successive_variance(counting)
        less = _not_below(replace(lasting, value=lasting.value - noise), expected)
        variance = moderated(less, expected.shared)
    centred = [None if one is None else one - middle for one in shared]
    return centred, segments, variance, len(counting)


def _level(one: Series, parts: Sequence[float], own: Variance) -> CaseLevel:
    values, kept = one.own(parts), one.newest()
    return CaseLevel(
        level=statistics.fmean([values[at] for at in kept]),
        sessions=len(kept),
        own=own,
        segments=tuple(
            Segment(
                begin=one.positions[begin],
                count=end - begin,
                level=statistics.fmean(values[begin:end]),
            )
            for begin, end in one.spans()
        ),
    )
