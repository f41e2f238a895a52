"""What sessions differ by: the level of each case, its own part, and a part that all cases share.

The log time of case c in session s is level[c] + shared[s] + own[s, c]. The shared part is what all
cases of a session have in common, a machine's mood; the own part is what a case differs by besides.
Levels and the shared part may change: each has segments, and what is compared with is the newest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from .change_points import change_points
from .t_distribution import t_quantile
from .variance import Variance, moderated, prior_variance, successive_variance, variance_of

K = TypeVar("K", bound=Hashable)
Session = Mapping[K, float]

# The variance of a median of many is this much that of their mean: pi / 2.
_MEDIAN = math.pi / 2

# Levels and shared parts are found in turn; after as many turns neither moves any more.
_TURNS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What is expected of a device before its sessions say something else.

    `own` and `shared` are the usual variances of both parts of log time, each with the degrees of
    freedom that it counts as. No own part is known better than `least_deviation`. With fewer than
    `least_cases` the shared part of a session is unknown. A change that chance makes at a given
    position with a probability of `false_changes` at most is a change; a segment has
    `least_segment` sessions at least.
    """

    own: Variance
    shared: Variance
    least_deviation: float = 1e-3
    least_cases: int = 6
    false_changes: float = 3e-7
    least_segment: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Sessions with one level: the position of the first, how many, and the mean log time."""

    begin: int
    count: int
    level: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLevel:
    """A case's level in log seconds over so many sessions, and the variance of its own part.

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

    The shared part is None where too few cases were measured to tell, and 0 on average over the
    newest of its `segments`, which have known sessions only.
    """

    cases: Mapping[K, CaseLevel]
    shared: tuple[float | None, ...]
    variance: Variance
    segments: tuple[Segment, ...]

    @property
    def sessions(self) -> int:
        """Over how many sessions the shared part is an average."""
        return self.segments[-1].count if self.segments else 0

    def uncertainty(self, cases: Collection[K]) -> float:
        """The variance with which a session's shared part is known: of a median over `cases`."""
        known = [self.cases[case].own.value for case in cases if case in self.cases]
        return _MEDIAN * math.fsum(known) / len(known) ** 2 if known else 0.0

    def shared_part(self, session: Session[K], least_cases: int) -> float | None:
        """How far `session` is off the levels as a whole."""
        levels = {case: one.level for case, one in self.cases.items()}
        return shared_part(session, levels, least_cases)


def shared_part(session: Session[K], levels: Mapping[K, float], least_cases: int) -> float | None:
    """The median over cases of log time less level; None with too few cases."""
    off = [log - levels[case] for case, log in session.items() if case in levels]
    return statistics.median(off) if len(off) >= least_cases else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Series:
    """One case: its sessions by position, their log times, and where its segments begin.

    `begins` are positions within the series. `counts` says which sessions count for the level.
    """

    positions: tuple[int, ...]
    logs: tuple[float, ...]
    counts: tuple[bool, ...]
    begins: tuple[int, ...] = (0,)

    def own(self, shared: Sequence[float | None]) -> list[float]:
        """Log times less what all cases share."""
        return [log - (shared[at] or 0.0) for at, log in zip(self.positions, self.logs)]

    def spans(self) -> list[tuple[int, int]]:
        """The begin and the end of each segment."""
        return list(zip(self.begins, (*self.begins[1:], len(self.logs))))

    def newest(self) -> list[int]:
        """The sessions of the newest segment that counts: most of its sessions do."""
        for begin, end in reversed(self.spans()):
            kept = [at for at in range(begin, end) if self.counts[at]]
            if 2 * len(kept) > end - begin:
                return kept
        return [at for at, one in enumerate(self.counts) if one] or list(range(len(self.logs)))


def components(
    sessions: Sequence[Session[K]],
    expected: Expected,
    left_out: Sequence[Collection[K]] = (),
) -> Components[K]:
    """The components of at least one session, oldest first, each the log times of its cases.

    `left_out` are, by session, cases that count for no level and no variance, though for changes.
    Levels are means, the shared part of a session is the median over its cases, so that a few slow
    ones do not move it. The variance of a case's own part is moderated by those of all others.
    """
    series = _series(sessions, left_out or [()] * len(sessions))
    shared = _shared(sessions, series, expected, [])
    own = _moderated(
        {case: _over_time(one.own(shared), expected) for case, one in series.items()}, expected
    )
    series = {
        case: replace(one, begins=_begins(one.own(shared), own[case], expected))
        for case, one in series.items()
    }
    shared = _shared(sessions, series, expected, shared)
    shared, segments, variance = _segmented(shared, series, own, expected)
    within = {
        case: _within(one.own(shared), one.newest(), expected) for case, one in series.items()
    }
    own = _moderated(within, expected)
    return Components(
        cases={case: _level(one, shared, own[case]) for case, one in series.items()},
        shared=tuple(shared),
        variance=variance,
        segments=segments,
    )


def _series(sessions: Sequence[Session[K]], left_out: Sequence[Collection[K]]) -> dict[K, _Series]:
    found: dict[K, list[tuple[int, float, bool]]] = {}
    for position, session in enumerate(sessions):
        for case, log in session.items():
            found.setdefault(case, []).append((position, log, case not in left_out[position]))
    series = {}
    for case, rows in found.items():
        positions, logs, counts = zip(*rows)
        series[case] = _Series(positions=positions, logs=logs, counts=counts)
    return series


def _shared(
    sessions: Sequence[Session[K]],
    series: Mapping[K, _Series],
    expected: Expected,
    shared: Sequence[float | None],
) -> list[float | None]:
    """The shared part of each session, 0 on average, from those found so far, if any."""
    levels = _levels(sessions, series, shared, statistics.fmean if shared else statistics.median)
    found: list[float | None] = []
    for _ in range(_TURNS):
        found = _centred(
            [shared_part(one, each, expected.least_cases) for one, each in zip(sessions, levels)]
        )
        levels = _levels(sessions, series, found, statistics.fmean)
    return found


def _levels(
    sessions: Sequence[Session[K]],
    series: Mapping[K, _Series],
    shared: Sequence[float | None],
    middle: Callable[[Sequence[float]], float],
) -> list[dict[K, float]]:
    """The level of each case at each session, which is that of its segment."""
    found: list[dict[K, float]] = [{} for _ in sessions]
    for case, one in series.items():
        own = one.own(shared) if shared else one.logs
        for begin, end in one.spans():
            level = middle(own[begin:end])
            for at in range(begin, end):
                found[one.positions[at]][case] = level
    return found


def _centred(shared: Sequence[float | None]) -> list[float | None]:
    """With a mean of 0: the levels have the rest."""
    known = [one for one in shared if one is not None]
    mean = math.fsum(known) / len(known) if known else 0.0
    return [None if one is None else one - mean for one in shared]


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


def _segmented(
    shared: Sequence[float | None],
    series: Mapping[K, _Series],
    own: Mapping[K, Variance],
    expected: Expected,
) -> tuple[list[float | None], tuple[Segment, ...], Variance]:
    """The shared part, 0 on average over its newest segment; the segments; and its variance.

    The variance is that from one session to the next, less what the parts themselves are uncertain
    by, moderated by what is usual.
    """
    at = [position for position, one in enumerate(shared) if one is not None]
    known = [one for one in shared if one is not None]
    if len(known) < 2:
        segments = tuple(Segment(begin=one, count=1, level=0.0) for one in at)
        return list(shared), segments, expected.shared
    noise = _MEDIAN * math.fsum(one.value for one in own.values()) / len(own) ** 2
    whole = moderated(_not_below(successive_variance(known), expected), expected.shared)
    begins = _begins(known, whole, expected)
    spans = list(zip(begins, (*begins[1:], len(known))))
    newest = statistics.fmean(known[begins[-1] :])
    segments = tuple(
        Segment(
            begin=at[begin], count=end - begin, level=statistics.fmean(known[begin:end]) - newest
        )
        for begin, end in spans
    )
    lasting = successive_variance(known[begins[-1] :])
    less = _not_below(replace(lasting, value=lasting.value - noise), expected)
    variance = moderated(less, expected.shared)
    return [None if one is None else one - newest for one in shared], segments, variance


def _level(one: _Series, shared: Sequence[float | None], own: Variance) -> CaseLevel:
    values, kept = one.own(shared), one.newest()
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
