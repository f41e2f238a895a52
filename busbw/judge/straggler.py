"""Which process or rank of a group the others wait for: named, never judged.

All processes end a collective together, so that its time by their own clocks is nearly the same. A
process that is slow by itself is slow where it waits for no other: between two calls, when it lays
out and compares its own values. And in a recording of the devices the rank that comes last is the
one that spends least time in the collective, as all others wait there for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from busbw.model import EnvironmentKey, Run, Straggler

from .policy import STRAGGLES

# In a single launch one process is behind by chance.
LEAST_LAUNCHES = 2


def straggler_of(
    runs: Sequence[Run], key: EnvironmentKey, hosts: Sequence[str] = ()
) -> Straggler | None:
    """The one that is behind in every launch, of two at least; None where there is none.

    `hosts` are the names of the processes' hosts. Ranks of virtual devices share processors and
    say nothing of themselves.
    """
    if key.processes == 1 or len(runs) < LEAST_LAUNCHES:
        return None
    each = key.ranks // key.processes
    by_own_work = [_outlier(run.process_own_s) for run in runs]
    found = _same(by_own_work)
    if found is not None:
        process, ratio = found
        return Straggler(process=process, host=_host(hosts, process), ratio=ratio)
    if key.cores is not None:
        return None
    found = _same([_outlier([1 / one for one in run.rank_times_s]) for run in runs])
    if found is None:
        return None
    rank, ratio = found
    process = rank // each
    return Straggler(process=process, host=_host(hosts, process), ratio=ratio, rank=rank)


def _outlier(values: Sequence[float]) -> tuple[int, float] | None:
    """The index of the largest, and how many times the median of the others that is."""
    if len(values) < 2:
        return None
    index = max(range(len(values)), key=lambda one: values[one])
    others = statistics.median(value for one, value in enumerate(values) if one != index)
    if others <= 0 or values[index] < STRAGGLES * others:
        return None
    return index, values[index] / others


def _same(found: Sequence[tuple[int, float] | None]) -> tuple[int, float] | None:
    """What all launches found, if that is the same; the median of the ratios."""
    there = [one for one in found if one is not None]
    if len(there) != len(found) or len({index for index, _ in there}) != 1:
        return None
    return there[0][0], statistics.median(ratio for _, ratio in there)


def _host(hosts: Sequence[str], process: int) -> str:
    return hosts[process] if process < len(hosts) else ""
