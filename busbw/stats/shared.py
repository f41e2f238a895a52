"""What the cases of a session share: with all others, or with their neighbours.

Each case is a series over sessions, with a level for each of its segments.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
Session = Mapping[K, float]
Neighbours = Mapping[K, Sequence[K]]

# Levels and shared parts are found in turn, as often at most, or until none moves by more.
_TURNS = 4
_STILL = 1e-9

# Fewer neighbours than these say nothing.
_LEAST_NEIGHBOURS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One case: its sessions by position, their log times, and where its segments begin.

    `begins` are positions within the series. `counts` says which sessions count for the level.
    """

    positions: tuple[int, ...]
    logs: tuple[float, ...]
    counts: tuple[bool, ...]
    begins: tuple[int, ...] = (0,)

    def less(self, shared: Sequence[float | None]) -> list[float]:
        """Log times less what all cases share."""
        return [log - (shared[at] or 0.0) for at, log in zip(self.positions, self.logs)]

    def own(self, parts: Sequence[float]) -> list[float]:
        """Log times less `parts`, one for each session of the series."""
        return [log - part for log, part in zip(self.logs, parts)]

    def spans(self) -> list[tuple[int, int]]:
        """The begin and the end of each segment."""
        return list(zip(self.begins, (*self.begins[1:], len(self.logs))))

    def newest(self) -> list[int]:
        """The sessions that count of the newest segment."""
        return newest(self.spans(), self.counts)


def newest(spans: Sequence[tuple[int, int]], counts: Sequence[bool]) -> list[int]:
    """The positions that count of the newest span of which most do; else all that do."""
    for begin, end in reversed(spans):
        kept = [at for at in range(begin, end) if counts[at]]
        if 2 * len(kept) > end - begin:
            return kept
    return [at for at, one in enumerate(counts) if one] or list(range(len(counts)))


def series_of(sessions: Sequence[Session[K]], left_out: Sequence[Collection[K]]) -> dict[K, Series]:
    """The series of each case; `left_out` are, by session, cases that count for no level."""
    found: dict[K, list[tuple[int, float, bool]]] = {}
    for position, session in enumerate(sessions):
        for case, log in session.items():
            found.setdefault(case, []).append((position, log, case not in left_out[position]))
    series = {}
    for case, rows in found.items():
        positions, logs, counts = zip(*rows)
        series[case] = Series(positions=positions, logs=logs, counts=counts)
    return series


def shared_of(
    sessions: Sequence[Session[K]],
    series: Mapping[K, Series],
    least_cases: int,
    shared: Sequence[float | None],
) -> list[float | None]:
    """The shared part of each session, 0 on average, from those found so far, if any."""
    off = _off_levels(sessions, series, shared, statistics.fmean if shared else statistics.median)
    found: list[float | None] = []
    for _ in range(_TURNS):
        before, found = found, _centred([_middle(one.values(), least_cases) for one in off])
        if _are_still(before, found):
            break
        off = _off_levels(sessions, series, found, statistics.fmean)
    return found


def _are_still(before: Sequence[float | None], now: Sequence[float | None]) -> bool:
    return bool(before) and all(
        one is None or other is None or abs(one - other) < _STILL for one, other in zip(before, now)
    )


def _off_levels(
    sessions: Sequence[Session[K]],
    series: Mapping[K, Series],
    shared: Sequence[float | None],
    middle: Callable[[Sequence[float]], float],
) -> list[dict[K, float]]:
    """By session and case, log time less the level, which is that of the case's segment there."""
    found: list[dict[K, float]] = [{} for _ in sessions]
    for case, one in series.items():
        own = one.less(shared) if shared else one.logs
        for begin, end in one.spans():
            level = middle(own[begin:end])
            for at in range(begin, end):
                found[one.positions[at]][case] = one.logs[at] - level
    return found


def _centred(shared: Sequence[float | None]) -> list[float | None]:
    """With a mean of 0: the levels have the rest."""
    known = [one for one in shared if one is not None]
    mean = math.fsum(known) / len(known) if known else 0.0
    return [None if one is None else one - mean for one in shared]


def shared_part(session: Session[K], levels: Mapping[K, float], least_cases: int) -> float | None:
    """The median over cases of log time less level; None with too few cases."""
    return _middle(
        [log - levels[case] for case, log in session.items() if case in levels], least_cases
    )


def _middle(off: Collection[float], least_cases: int) -> float | None:
    return statistics.median(off) if len(off) >= least_cases else None


def parts_of(
    sessions: Sequence[Session[K]],
    series: Mapping[K, Series],
    shared: Sequence[float | None],
    neighbours: Neighbours[K] | None,
) -> dict[K, list[float]]:
    """By case, what it shares with all others, or with its neighbours, in each of its sessions."""
    common = {case: [shared[at] or 0.0 for at in one.positions] for case, one in series.items()}
    if neighbours is None:
        return common
    off = [
        {case: one - (part or 0.0) for case, one in each.items()}
        for each, part in zip(_off_levels(sessions, series, shared, statistics.fmean), shared)
    ]
    return {
        case: [
            part + local_part(off[at], case, neighbours)
            for part, at in zip(common[case], one.positions)
        ]
        for case, one in series.items()
    }


def local_part(off: Mapping[K, float], case: K, neighbours: Neighbours[K]) -> float:
    """What the neighbours of `case`, itself among them, have in common; 0 where there are few."""
    found = [off[one] for one in neighbours.get(case, ()) if one in off]
    return statistics.median(found) if len(found) >= _LEAST_NEIGHBOURS else 0.0
