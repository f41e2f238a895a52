"""The clock `device`: reads the times of collectives from a recording of the framework's profiler.

The first collective of each call is a warm-up, and its time is not used. The time of any other
collective is its time on its slowest rank. A profiler may drop events, so a case fails unless the
recording has every collective of each device.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Run
from busbw.model.words import Clock
from busbw.worker.backends.base import (
    AllGather,
    Backend,
    TimedCollective,
    single_process_gather,
    unavailable,
)
from busbw.worker.sampling import MIN_SAMPLES, Sampler, launch_time_s

# The largest number of collectives that a recording has on all ranks together, because large
# recordings take long to write and to read. The number allows 62 collectives in each of ten calls
# over eight ranks.
MAX_RECORDED_COLLECTIVES = 5_000


def record_device_times(
    backend: Backend, case: Case, sampler: Sampler, run: Run, host_short_chain_s: float
) -> Run:
    """Call the program while the profiler records, and return `run` with the recorded times.

    The program is called once for each sample of `run`, and at least twice. A call has as many
    collectives as a long chain of `run`, or fewer if the recording would become too large.

    Args:
        backend: the back end, which records.
        case: the case.
        sampler: the sampler of the case's program, which makes the calls.
        run: the Run of the case by the host's clock. The returned Run has the recorded
            samples instead. The `clocks_s` of the returned Run maps the clocks ``device`` and
            ``host`` to the time of a collective in the recorded calls. ``host`` is left out if its
            time is not positive.
        host_short_chain_s: the time of a short chain by the host's clock, in seconds.

    Raises:
        MeasuringError: UNAVAILABLE if the recording lacks a collective, or if a call can have only
            a single collective.

    """
    calls = max(MIN_SAMPLES, len(run.samples_s))
    per_turn = sampler.program.iterations_per_turn
    max_iterations = MAX_RECORDED_COLLECTIVES // (case.ranks * sampler.plan.samples)
    iterations = max(
        per_turn * -(-2 // per_turn), min(run.iterations, max_iterations) // per_turn * per_turn
    )
    iterations = min(iterations, sampler.program.max_iterations)
    with sampler.phases.enter("recording"), _recording_folder(case) as name:
        with backend.record_profile(Path(name)) as reader:
            calls_s = [sampler.time_chain(iterations) for _ in range(calls)]
        collectives = reader(sampler.program.end_by_begin_instruction)
    samples_s, rank_times_s = times_s_by_call_and_by_rank(
        collectives,
        ranks=case.ranks,
        call_count=calls,
        iterations=iterations,
        begin_instruction_names=sampler.program.end_by_begin_instruction,
        all_gather=backend.all_gather,
    )
    clocks_s = {Clock.DEVICE.value: launch_time_s(samples_s)}
    host_s = launch_time_s(
        [sampler.slope_s(call_s, host_short_chain_s, iterations) for call_s in calls_s]
    )
    # The host cannot time chains that are as short as the variation of a call.
    if host_s > 0:
        clocks_s[Clock.HOST.value] = host_s
    return replace(
        run,
        iterations=iterations,
        samples_s=samples_s,
        values_checked=sampler.values_checked,
        rank_times_s=rank_times_s,
        clocks_s=clocks_s,
    )


def _recording_folder(case: Case) -> contextlib.AbstractContextManager[str]:
    """Return a context manager that makes a folder for recordings, and removes it at the end.

    The `with` block gets the path of the folder. If the environment variable
    BUSBW_RECORDINGS names a parent folder, the new folder is made in the parent folder, named after
    the case, and kept.
    """
    parent = os.environ.get(variables.RECORDINGS_VARIABLE)
    if parent:
        return contextlib.nullcontext(tempfile.mkdtemp(prefix=f"{case.name}@", dir=parent))
    return tempfile.TemporaryDirectory()


def times_s_by_call_and_by_rank(
    collectives: Iterable[TimedCollective],
    *,
    ranks: int,
    call_count: int,
    iterations: int,
    begin_instruction_names: Collection[str] = (),
    all_gather: AllGather = single_process_gather,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return a time of a collective for each call, and a time for each rank, in seconds.

    The times are computed from recorded collectives. The first collective of each call is left out.

    Args:
        collectives: the recorded collectives on the devices of this process.
        ranks: the number of ranks in all processes together.
        call_count: the number of recorded calls.
        iterations: the number of collectives in each call.
        begin_instruction_names: the names of the instructions that begin collectives.
        all_gather: exchanges values with the other processes of the group.

    Returns:
        A pair of tuples. The first tuple has the mean time of the collectives in each call, where
        the time of a collective is its time on its slowest rank. The second tuple has the median
        time of the collectives on each rank.

    Raises:
        MeasuringError: UNAVAILABLE if a device or a collective is missing, if there are too many
            collectives, or if a call has only a single collective.

    """
    collectives_by_device: Mapping[int, list[TimedCollective]] = defaultdict(list)
    for collective in sorted(collectives, key=lambda timed: (timed.device, timed.start_s)):
        collectives_by_device[collective.device].append(collective)
    devices = ranks // len(all_gather([0.0]))
    problems = list(
        _describe_gaps(
            collectives_by_device, devices, call_count * iterations, begin_instruction_names
        )
    )
    if iterations < 2:
        problems.append("a call of a single collective has none after its warm-up")
    if problems:
        text = "; ".join(problems)
        raise unavailable(f"no time by the device's clock: {text}; try --clock=host")
    durations_s = [
        [timed.duration_s for index, timed in enumerate(timeline) if index % iterations]
        for timeline in collectives_by_device.values()
    ]
    # All processes have the same number of ranks, and all ranks have the same number of times.
    rows = all_gather([seconds for durations in durations_s for seconds in durations])
    count = len(durations_s[0])
    by_rank = [row[begin : begin + count] for row in rows for begin in range(0, len(row), count)]
    slowest_s = [max(column) for column in zip(*by_rank)]
    per_call = iterations - 1
    samples_s = (
        statistics.fmean(slowest_s[begin : begin + per_call])
        for begin in range(0, len(slowest_s), per_call)
    )
    return tuple(samples_s), tuple(statistics.median(durations) for durations in by_rank)


def _describe_gaps(
    collectives_by_device: Mapping[int, Sequence[TimedCollective]],
    device_count: int,
    collective_count: int,
    begin_instruction_names: Collection[str],
) -> Iterator[str]:
    """Yield a message for a wrong number of devices, and for each device that lacks collectives.

    Args:
        collectives_by_device: the recorded collectives of this process, by the index of the device.
        device_count: the expected number of devices.
        collective_count: the expected number of collectives on each device.
        begin_instruction_names: the names of the instructions that begin collectives. If a device
            ran several of these instructions, it must have run each of them equally often. Kernels
            of a GPU may name no instruction: then only the number of collectives is checked.

    """
    expected_names = ", ".join(begin_instruction_names) or "collectives"
    if len(collectives_by_device) != device_count:
        yield (
            f"expected {expected_names} on {device_count} devices, "
            f"the recording has {len(collectives_by_device)} "
            f"({', '.join(map(str, collectives_by_device)) or 'none'})"
        )
    for device, collectives in collectives_by_device.items():
        counts = Counter(collective.instruction for collective in collectives)
        different = {counts[name] for name in begin_instruction_names if name in counts}
        if len(collectives) != collective_count or len(different) > 1:
            text = ", ".join(f"{count} of {name}" for name, count in counts.items())
            yield f"device {device}: expected {collective_count} of {expected_names}, got {text}"
