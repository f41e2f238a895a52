"""The clock `device`: the times of collectives in the recording of the framework's profiler.

The first collective of each call is a warm-up and left out. Of the others the time on the slowest
rank counts, because no rank is done before it. A profiler may drop events, so the collectives of
each device are counted: a case fails unless each has every collective that it ran.
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
from busbw.worker.backends.base import AbstractBackend, TimedCollective, unavailable
from busbw.worker.sampling import Gathered, Sampled, Sampler, alone

# A recording of more collectives takes longer to write and to read than it is worth: in each of
# ten calls over eight ranks there are 62.
MOST_EVENTS = 5_000


@dataclass(frozen=True)
class Recorded:
    """Seconds of one collective in each call of `iterations`, by the slowest rank; medians by rank.

    `calls_s` are whole calls by the host's clock.
    """

    iterations: int
    samples_s: tuple[float, ...]
    rank_times_s: tuple[float, ...]
    calls_s: tuple[float, ...] = ()


def record(
    backend: AbstractBackend, case: Case, sampler: Sampler, slopes: Sampled, calls: int
) -> Recorded:
    """Run and record `calls` calls, and return their times.

    Raises MeasuringError UNAVAILABLE where the recording lacks a collective.
    """
    step = sampler.program.step
    most = MOST_EVENTS // (case.ranks * sampler.plan.samples)
    iterations = max(step * -(-2 // step), min(slopes.iterations, most) // step * step)
    iterations = min(iterations, sampler.program.most_iterations)
    with sampler.phases.of("recording"), _folder(case) as name:
        with backend.recording(Path(name)) as reader:
            elapsed_s = [sampler.timed(iterations) for _ in range(calls)]
        collectives = reader(sampler.program.timed)
    recorded = times(
        collectives,
        ranks=case.ranks,
        calls=calls,
        iterations=iterations,
        names=sampler.program.timed,
        gathered=backend.gathered,
    )
    return replace(recorded, calls_s=tuple(elapsed_s))


def _folder(case: Case) -> contextlib.AbstractContextManager[str]:
    """Return a folder that is removed afterwards, unless BUSBW_RECORDINGS says where it is kept."""
    kept = os.environ.get(variables.RECORDINGS)
    if kept:
        return contextlib.nullcontext(tempfile.mkdtemp(prefix=f"{case.name}@", dir=kept))
    return tempfile.TemporaryDirectory()


def times(
    collectives: Iterable[TimedCollective],
    *,
    ranks: int,
    calls: int,
    iterations: int,
    names: Collection[str] = (),
    gathered: Gathered = alone,
) -> Recorded:
    """Return the times of `calls` calls of `iterations` collectives each on every rank.

    Args:
        collectives: those on the devices of this process.
        ranks: the number of ranks in all processes.
        calls: the number of recorded calls.
        iterations: the number of collectives in each call.
        names: the instructions that begin collectives.
        gathered: gives values of this process to all, and returns those of every process.

    Raises:
        MeasuringError: UNAVAILABLE where a collective is missing, or there is one too many.

    """
    by_device: Mapping[int, list[TimedCollective]] = defaultdict(list)
    for collective in sorted(collectives, key=lambda timed: (timed.device, timed.start_s)):
        by_device[collective.device].append(collective)
    devices = ranks // len(gathered([0.0]))
    problems = list(_incomplete(by_device, devices, calls * iterations, names))
    if iterations < 2:
        problems.append("a call of a single collective has none after its warm-up")
    if problems:
        text = "; ".join(problems)
        raise unavailable(f"no time by the device's clock: {text}; try --clock=host")
    durations_s = [
        [timed.duration_s for index, timed in enumerate(of_device) if index % iterations]
        for of_device in by_device.values()
    ]
    # Processes have equally many ranks, and so of each rank the same number of times.
    rows = gathered([seconds for of_device in durations_s for seconds in of_device])
    count = len(durations_s[0])
    of_ranks = [row[begin : begin + count] for row in rows for begin in range(0, len(row), count)]
    slowest_s = [max(at_once) for at_once in zip(*of_ranks)]
    return Recorded(
        iterations=iterations,
        samples_s=tuple(_means(slowest_s, iterations - 1)),
        rank_times_s=tuple(statistics.median(durations) for durations in of_ranks),
    )


def _incomplete(
    by_device: Mapping[int, Sequence[TimedCollective]],
    devices: int,
    expected: int,
    names: Collection[str],
) -> Iterator[str]:
    """Yield a sentence for each device without all its collectives, and one for missing devices.

    Each instruction of `names` that a device runs must be there equally often. A GPU's kernels may
    name none: only the number of all then counts.
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


def _means(durations_s: Sequence[float], each: int) -> list[float]:
    return [
        statistics.fmean(durations_s[begin : begin + each])
        for begin in range(0, len(durations_s), each)
    ]
