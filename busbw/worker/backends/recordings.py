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
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .base import TimedCollective
from .hlo.module import Module

# Instructions that profilers show in place of the computation that they call.
_CALLERS = ("async-start", "call-start", "custom-call-start", "fusion-start", "fusion")
# Plane and line of what a device does, with its number.
_WORK = re.compile(
    r".*\b(?:TPU(?:[ _]?Core)?[:_ ](?P<tpu>\d{1,9}) XLA Ops|GPU:(?P<gpu>\d{1,9})\b.* ?Stream.*)"
)
_MEMORY = ("Memcpy", "Memset")
_PS = 1e-12
# Begin and duration of an event by the own clock of a TPU.
OWN_TIMES = ("device_offset_ps", "device_duration_ps")


class ProfileEvent(NamedTuple):
    """An event of a recording. Its plane is a device or a host, its line a queue or a thread."""

    plane: str
    line: str
    name: str
    start_ps: float
    duration_ps: float
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
    events: Iterable[ProfileEvent], timed: Mapping[str, str] | None
) -> list[tuple[TimedCollective, ProfileEvent]]:
    """Return each collective that has both its begin and its end in the recording.

    Each collective is returned with the event that begins it, and timed by the device's own clock.

    Args:
        events: the events of one recording, or of several.
        timed: the instructions that begin and end each collective, as `Program.timed`. None for a
            recording of an unknown program, for all that devices do; then begin and end have the
            same name but for `-start` and `-done`.

    """
    begin_of = {end: begin for begin, end in (timed or {}).items()}
    begun: dict[tuple[str, str | None], ProfileEvent] = {}
    collectives = []
    for event in sorted(events, key=lambda event: event.start_ps):
        work = _WORK.fullmatch(f"{event.plane[:80]} {event.line[:80]}")
        device = str((work["tpu"] or work["gpu"]) if work else event.stats.get("device_ordinal"))
        name = event.name.partition(" = ")[0].lstrip("%").removesuffix(".in_megacore_fusion")
        begin = begin_of.get(name)
        if timed is None and "-start" not in name:
            begin = name.replace("-done", "-start")
        if work and work["gpu"]:
            name = begin = str(event.stats.get("hlo_op", name))
            is_collective = timed is None or name in timed or name.startswith("nccl")
            if event.name.startswith(_MEMORY) or not is_collective:
                continue
        begun[device, name] = event
        first = begun.pop((device, begin), None)
        if first is not None and begin is not None and device.isdecimal():
            times = [(ends.start_ps, ends.duration_ps) for ends in (first, event)]
            if all(key in ends.stats for ends in (first, event) for key in OWN_TIMES):
                times = [tuple(map(ends.stats.__getitem__, OWN_TIMES)) for ends in (first, event)]
            (begin_ps, _), (end_ps, lasted_ps) = times
            times_s = begin_ps * _PS, (end_ps + lasted_ps - begin_ps) * _PS
            collectives.append((TimedCollective(int(device), begin, *times_s), first))
    return collectives


def node_runs(events: Iterable[ProfileEvent]) -> Iterator[ProfileEvent]:
    """Yield each run of a node of TensorFlow's on a CPU, the latest first, until its result.

    A collective is a node of the graph: an event `<node>:<operation>` on a line
    `collective_ops/...`. It ends where the node returns the result, because operations that wait
    for the result may run in the same event (a recording of TensorFlow 2.21). There an event of
    the node's name begins.
    """
    returns_ps: dict[tuple[str, str], float] = {}
    for event in reversed(sorted(events, key=lambda event: event.start_ps)):
        if event.name == "CollectiveExecutor::ExecuteAsync::Done":
            returns_ps[event.line, str(event.stats.get("name"))] = event.start_ps
        elif event.line.startswith("collective_ops"):
            node, end_ps = event.name.rpartition(":")[0], event.start_ps + event.duration_ps
            end_ps = min(end_ps, returns_ps.get((event.line, node), end_ps))
            yield event._replace(duration_ps=end_ps - event.start_ps)
