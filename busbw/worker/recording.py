"""Chains that run once more while the framework's profiler looks on.

What its recording says of them is read in `device_clock`; which time counts is for `measure`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from busbw.model import Case
from busbw.worker import device_clock
from busbw.worker.backends.base import AbstractBackend
from busbw.worker.sampling import Sampled, Sampler


@dataclass(frozen=True)
class Recording:
    """What the profiler said of calls of `iterations` each, and the host's seconds of each call."""

    said: device_clock.Recorded
    iterations: int
    elapsed_s: tuple[float, ...]


def record(
    backend: AbstractBackend, case: Case, sampler: Sampler, slopes: Sampled, calls: int
) -> Recording:
    """`calls` calls of the chains that were sampled, two collectives long at least.

    Raises MeasuringError UNAVAILABLE where the recording does not hold every collective.
    """
    step = sampler.program.step
    most = device_clock.MOST_EVENTS // (case.ranks * sampler.plan.samples)
    iterations = max(step * -(-2 // step), min(slopes.iterations, most) // step * step)
    iterations = min(iterations, sampler.program.most_iterations)
    with sampler.phases.of("recording"), tempfile.TemporaryDirectory() as name:
        with backend.recording(Path(name)) as reader:
            elapsed_s = [sampler.timed(iterations) for _ in range(calls)]
        found = device_clock.read(reader, case.collective, beside=not case.workload.is_bare)
    said = device_clock.times(found, ranks=case.ranks, calls=calls, iterations=iterations)
    return Recording(said, iterations, tuple(elapsed_s))
