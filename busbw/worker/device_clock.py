"""The clock `device`: the times of collectives in a recording of the framework's profiler.

The first collective of each call is a warm-up and does not count. A collective takes as long as on
its slowest rank, because no rank has finished before that. A profiler may drop events, so a case
fails unless the recording has every collective of each device.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model import variables
from busbw.model.case import Case
from busbw.worker.backends.base import (
    AllGather,
    Backend,
    TimedCollective,
    single_process_gather,
    unavailable,
)
from busbw.worker.sampling import Sampler, Samples

# Reading and writing a recording of more collectives takes longer than it is worth: in each of ten
# calls over eight ranks there are 62.
MAX_EVENTS = 5_000


@dataclass(frozen=True)
class Recorded:
    """The times of recorded calls, each of `iterations` collectives.

    `samples_s` are seconds of one collective on its slowest rank, a mean for each call.
    `rank_times_s` are medians for each rank, and `calls_s` the times of calls by the host's clock.
    """

    iterations: int
    samples_s: tuple[float, ...]
    rank_times_s: tuple[float, ...]
    calls_s: tuple[float, ...] = ()


def record(
    backend: Backend, case: Case, sampler: Sampler, samples: Samples, calls: int
) -> Recorded:
    """Run and record `calls` calls, and return their times.

    Raises MeasuringError UNAVAILABLE if the recording lacks a collective.
    """
    step = sampler.program.step
    readable = MAX_EVENTS // (case.ranks * sampler.plan.samples)
    iterations = max(step * -(-2 // step), min(samples.iterations, readable) // step * step)
    iterations = min(iterations, sampler.program.most_iterations)
    with sampler.phases.enter("recording"), _folder(case) as name:
        with backend.record(Path(name)) as reader:
            elapsed_s = [sampler.time_chain(iterations) for _ in range(calls)]
        collectives = reader(sampler.program.timed)
    recorded = times(
        collectives,
        ranks=case.ranks,
        calls=calls,
        iterations=iterations,
        names=sampler.program.timed,
        all_gather=backend.all_gather,
    )
    return replace(recorded, calls_s=tuple(elapsed_s))


def _folder(case: Case) -> contextlib.AbstractContextManager[str]:
    """Return a folder that is removed at the end, unless BUSBW_RECORDINGS names a place for it."""
    parent = os.environ.get(variables.RECORDINGS)
    if parent:
        return contextlib.nullcontext(tempfile.mkdtemp(prefix=f"{case.name}@", dir=parent))
    return tempfile.TemporaryDirectory()


def times(
    collectives: Iterable[TimedCollective],
    *,
    ranks: int,
    calls: int,
    iterations: int,
    names: Collection[str] = (),
    all_gather: AllGather = single_process_gather,
) -> Recorded:
    """Return the times of `calls` calls of `iterations` collectives each on every rank.

    Args:
        collectives: those on the devices of this process.
        ranks: the number of ranks in all processes.
        calls: the number of recorded calls.
        iterations: the number of collectives in each call.
        names: the instructions that begin collectives.
        all_gather: sends values of this process to all, and returns those of every process.

    Raises:
        MeasuringError: UNAVAILABLE if a collective is missing, or if there are too many.

    """
    by_device: Mapping[int, list[TimedCollective]] = defaultdict(list)
    for collective in sorted(collectives, key=lambda timed: (timed.device, timed.start_s)):
        by_device[collective.device].append(collective)
    devices = ranks // len(all_gather([0.0]))
    problems = list(_incomplete(by_device, devices, calls * iterations, names))
    if iterations < 2:
        problems.append("a call of a single collective has none after its warm-up")
    if problems:
        text = "; ".join(problems)
        raise unavailable(f"no time by the device's clock: {text}; try --clock=host")
    durations_s = [
        [timed.duration_s for index, timed in enumerate(timeline) if index % iterations]
        for timeline in by_device.values()
    ]
    # All processes have equally many ranks, and each rank has the same number of times.
    rows = all_gather([seconds for durations in durations_s for seconds in durations])
    count = len(durations_s[0])
    by_rank = [row[begin : begin + count] for row in rows for begin in range(0, len(row), count)]
    slowest_s = [max(column) for column in zip(*by_rank)]
    return Recorded(
        iterations=iterations,
        samples_s=tuple(_means(slowest_s, iterations - 1)),
        rank_times_s=tuple(statistics.median(durations) for durations in by_rank),
    )


def _incomplete(
    by_device: Mapping[int, Sequence[TimedCollective]],
    devices: int,
    expected: int,
    names: Collection[str],
) -> Iterator[str]:
    """Yield a sentence for missing devices, and for each device without all its collectives.

    The instructions of `names` that a device runs must occur equally often. A GPU's kernels may
    name no instruction, and then only their total counts.
    """
    expected_names = ", ".join(names) or "collectives"
    if len(by_device) != devices:
        yield (
            f"expected {expected_names} on {devices} devices, the recording has {len(by_device)} "
            f"({', '.join(map(str, by_device)) or 'none'})"
        )
    for device, collectives in by_device.items():
        counts = Counter(collective.instruction for collective in collectives)
        different = {counts[name] for name in names if name in counts}
        if len(collectives) != expected or len(different) > 1:
            text = ", ".join(f"{count} of {name}" for name, count in counts.items())
            yield f"device {device}: expected {expected} of {expected_names}, got {text}"


def _means(durations_s: Sequence[float], size: int) -> list[float]:
    return [
        statistics.fmean(durations_s[begin : begin + size])
        for begin in range(0, len(durations_s), size)
    ]
