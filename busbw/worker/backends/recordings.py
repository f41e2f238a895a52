"""The collectives in a recording of the framework's profiler, found by the instructions' names.

The names come from the compiled program of this process, so that no event is guessed. The list says
how profilers show an instruction, and which recordings or sources show that.

- On a TPU: an event with the instruction's name on the line "XLA Ops", with the instruction's text
  behind " = ". `device_offset_ps` and `device_duration_ps` are its times by the device's own clock.
  Known from a recording of a v6e.
- A collective that another instruction waits for: two events, such as `all-reduce-start.2` and
  `all-reduce-done.2`, on a SparseCore `all-reduce.2.cloned.1.call-start` and `.call-done`. Known
  from programs that libtpu 0.0.42 compiles for v2 to v7x.
- With both cores of a chip fused, the name ends with `.in_megacore_fusion`. Known from the texts in
  libtpu 0.0.42.
- On a GPU: a kernel on a line "Stream ...", whose stat `hlo_op` is the instruction that started it.
  In a CUDA graph, and in TensorFlow, kernels have no such stat: those of NCCL
  (`ncclDevKernel_AllReduce_...`) then belong to no named instruction. What copies or sets memory is
  no collective. Known from the sources of XLA (backends/profiler/gpu) and NCCL 2.30.
- On a CPU: an event with the instruction's name and the stat `device_ordinal`. Known from
  recordings of JAX 0.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .base import TimedCollective
from .hlo.module import Module

# Instructions that profilers show in place of the computation that they call.
_CALLERS = ("async-start", "call-start", "custom-call-start", "fusion-start", "fusion")
# Plane and line of what a device does, with its number.
_WORK = re.compile(r"/device:(?:TPU:(?P<tpu>\d+) XLA Ops|GPU:(?P<gpu>\d+) Stream.*)")
_MEMORY = ("Memcpy", "Memset")
_PS = 1e-12


class ProfileEvent(NamedTuple):
    """An event of a recording. Its plane is a device or a host, its line a queue or a thread."""

    plane: str
    line: str
    name: str
    start_ps: int
    duration_ps: int
    stats: Mapping[str, Any]


def timed_instructions(module: Module) -> dict[str, str]:
    """Return the names of the instructions between whose begin and end each collective runs.

    The name of the instruction that begins a collective is the key, and the name of the one that
    ends it the value. They are the same for a synchronous collective. A collective in a fusion, or
    in a computation that is called asynchronously, begins and ends with instructions of the caller.
    """
    lines = [line for computation in module.computations.values() for line in computation]
    inner = {
        line.name: [inner for name in line.called for inner in module.reached(name)]
        for line in lines
        if line.op in _CALLERS
    }
    hidden = {line.name for called in inner.values() for line in called}
    done = {line.operands[0]: line.name for line in lines if line.op.endswith("-done")}
    begins = [
        line.name
        for line in lines
        if line.name not in hidden
        and any(part.collective for part in (line, *inner.get(line.name, ())))
    ]
    return {begin: done.get(begin, begin) for begin in begins}


def timed_collectives(
    events: Iterable[ProfileEvent], timed: Mapping[str, str]
) -> list[TimedCollective]:
    """Return each collective that has both its begin and its end in the recording.

    Args:
        events: the events of one recording.
        timed: the instructions that begin and end each collective, as `Program.timed`.

    """
    begin_of = {end: begin for begin, end in timed.items()}
    begun: dict[tuple[str, str | None], ProfileEvent] = {}
    collectives = []
    for event in sorted(events, key=lambda event: event.start_ps):
        work = _WORK.fullmatch(f"{event.plane} {event.line}")
        device = str((work["tpu"] or work["gpu"]) if work else event.stats.get("device_ordinal"))
        name = event.name.partition(" = ")[0].lstrip("%").removesuffix(".in_megacore_fusion")
        begin = begin_of.get(name)
        if work and work["gpu"]:
            name = begin = event.stats.get("hlo_op", name)
            is_collective = name in timed or name.startswith("nccl")
            if event.name.startswith(_MEMORY) or not is_collective:
                continue
        begun[device, name] = event
        first = begun.pop((device, begin), None)
        if first is not None and begin is not None and device.isdecimal():
            collectives.append(_timed(int(device), begin, first, event))
    return collectives


def _timed(
    device: int, instruction: str, first: ProfileEvent, last: ProfileEvent
) -> TimedCollective:
    """Return the time from the begin of `first` to the end of `last`, by the device's own clock."""
    times = [event[3:5] for event in (first, last)]
    if all("device_duration_ps" in event.stats for event in (first, last)):
        names = ("device_offset_ps", "device_duration_ps")
        times = [tuple(map(event.stats.__getitem__, names)) for event in (first, last)]
    (begin_ps, _), (end_ps, lasted_ps) = times
    return TimedCollective(
        device, instruction, begin_ps * _PS, (end_ps + lasted_ps - begin_ps) * _PS
    )
