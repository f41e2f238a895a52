"""The clock `device`: a collective's own events in the recording of the framework's profiler.

Every call's first collective is the warm-up and left out. Of the others the slowest rank counts,
since no rank is done before it is. What a profiler leaves out (traces are cut at a million events)
is found by counting: each rank must have every collective that it ran.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model import variables
from busbw.model.case import Case
from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.event import RecordedCollective, TraceError
from busbw.traces.recognition import UNKNOWN
from busbw.worker.backends.base import AbstractBackend, MeasuringError, Reader, unavailable
from busbw.worker.sampling import Gathered, Sampled, Sampler, alone, launch_time_s

_OVER_RANKS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "slowest": max,
    "mean": statistics.fmean,
    "median": statistics.median,
    "fastest": min,
}

# A recording of more collectives takes longer to write and to read than it is worth: in each of
# ten calls over eight ranks there are 62.
MOST_EVENTS = 5_000


@dataclass(frozen=True)
class Recorded:
    """Seconds of one collective in each call of `iterations`, by the slowest rank; medians by rank.

    `over_ranks_s` has the launch's time by the slowest, the median and the fastest rank of each
    collective, and by the mean over ranks. `calls_s` are whole calls by the host's clock.
    """

    iterations: int
    samples_s: tuple[float, ...]
    rank_times_s: tuple[float, ...]
    over_ranks_s: Mapping[str, float]
    calls_s: tuple[float, ...] = ()


def record(
    backend: AbstractBackend, case: Case, sampler: Sampler, slopes: Sampled, calls: int
) -> Recorded:
    """Raises MeasuringError UNAVAILABLE where the recording does not hold every collective."""
    step = sampler.program.step
    most = MOST_EVENTS // (case.ranks * sampler.plan.samples)
    iterations = max(step * -(-2 // step), min(slopes.iterations, most) // step * step)
    iterations = min(iterations, sampler.program.most_iterations)
    with sampler.phases.of("recording"), _folder(case) as name:
        with backend.recording(Path(name)) as reader:
            elapsed_s = [sampler.timed(iterations) for _ in range(calls)]
        found = read(reader, case.collective)
    said = times(
        found, ranks=case.ranks, calls=calls, iterations=iterations, gathered=backend.gathered
    )
    return replace(said, calls_s=tuple(elapsed_s))


def _folder(case: Case) -> contextlib.AbstractContextManager[str]:
    """Return a folder that is removed afterwards, unless BUSBW_RECORDINGS says where it is kept."""
    kept = os.environ.get(variables.RECORDINGS)
    if kept:
        return contextlib.nullcontext(tempfile.mkdtemp(prefix=f"{case.name}@", dir=kept))
    return tempfile.TemporaryDirectory()


def read(reader: Reader, kind: str) -> tuple[RecordedCollective, ...]:
    """Return the collectives of one kind in what was recorded, of all hosts.

    Raises MeasuringError UNAVAILABLE if no recording can be read, or if it has only collectives of
    unknown kind.
    """
    found: list[RecordedCollective] = []
    unknown = 0
    try:
        for trace in reader(WantedEvents()):
            all_kinds = collectives(trace)
            unknown += sum(one.kind == UNKNOWN for one in all_kinds)
            found += [one for one in all_kinds if one.kind == kind]
    except TraceError as error:
        raise _no_clock(str(error)) from error
    if unknown and not found:
        raise _no_clock(f"the profiler recorded {unknown} collectives of unknown kind, no {kind}")
    return tuple(found)


def times(
    found: Sequence[RecordedCollective],
    *,
    ranks: int,
    calls: int,
    iterations: int,
    gathered: Gathered = alone,
) -> Recorded:
    """What `found` says of `calls` calls of `iterations` collectives each, over `ranks` ranks.

    Each process has found those of its own ranks; they say the same of all. Raises MeasuringError
    UNAVAILABLE if it does not hold every one of them.
    """
    of_process = ranks // len(gathered([0.0]))
    by_rank: Mapping[str, list[RecordedCollective]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.start_s):
        by_rank[one.rank].append(one)
    ordered = sorted(by_rank.items(), key=lambda item: (item[1][0].host, item[1][0].device))
    counts = {rank: len(ones) for rank, ones in ordered}
    if len(counts) != of_process or set(counts.values()) != {calls * iterations}:
        raise _no_clock(
            f"the profiler recorded {counts or 'no collectives'} by rank, "
            f"expected {calls * iterations} on each of {of_process}"
        )
    if iterations < 2:
        raise _no_clock("a call of a single collective has none after its warm-up")
    counted = [[one for index, one in enumerate(ones) if index % iterations] for _, ones in ordered]
    kept = _of_all([[one.duration_s for one in ones] for ones in counted], gathered)
    by_call = {
        name: _means([aggregate(at_once) for at_once in zip(*kept)], iterations - 1)
        for name, aggregate in _OVER_RANKS.items()
    }
    return Recorded(
        iterations=iterations,
        samples_s=tuple(by_call["slowest"]),
        rank_times_s=tuple(statistics.median(durations) for durations in kept),
        over_ranks_s={name: launch_time_s(times_s) for name, times_s in by_call.items()},
    )


def _of_all(own: Sequence[Sequence[float]], gathered: Gathered) -> list[Sequence[float]]:
    each = len(own[0])
    rows = gathered([seconds for durations in own for seconds in durations])
    return [row[begin : begin + each] for row in rows for begin in range(0, len(row), each)]


def _means(durations_s: Sequence[float], each: int) -> list[float]:
    return [
        statistics.fmean(durations_s[begin : begin + each])
        for begin in range(0, len(durations_s), each)
    ]


def _no_clock(reason: str) -> MeasuringError:
    return unavailable(f"no time on the device's clock: {reason}; try --clock=host")
