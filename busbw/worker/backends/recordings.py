"""Finds the collectives in a recording of the framework's profiler by the names of instructions.

Both frameworks write recordings in XProf's format (`*.xplane.pb`). JAX has a reader of its own, and
TensorFlow's wheel has the protobuf classes. This module imports neither.

The names come from the compiled program of this process, so that no event is guessed. A recording
has planes (each is a device or a host), a plane has lines (each is a queue or a thread), and a line
has events. An event has stats, which are named values. Profilers show an instruction as follows:

- On a TPU, as an event with the instruction's name on the line "XLA Ops", with the instruction's
  text after " = ". The stats `device_offset_ps` and `device_duration_ps` are its times by the
  device's own clock. Source: a recording of a v6e.
- A collective that another instruction waits for, as two events, such as `all-reduce-start.2` and
  `all-reduce-done.2`, on a SparseCore `all-reduce.2.cloned.1.call-start` and `.call-done`. Source:
  programs that libtpu 0.0.42 compiles for v2 to v7x.
- If both cores of a chip are fused, with `.in_megacore_fusion` after the name. Source: the texts in
  libtpu 0.0.42.
- On a GPU, as a kernel on a line "Stream ...", whose stat `hlo_op` is the instruction that started
  the kernel. In a CUDA graph, and in TensorFlow, kernels have no such stat, and kernels of NCCL
  (`ncclDevKernel_AllReduce_...`) belong to no named instruction. Kernels that copy or set memory
  are no collectives. Source: the code of XLA (backends/profiler/gpu) and NCCL 2.30.
- On a CPU, as an event with the instruction's name and the stat `device_ordinal`. Source:
  recordings of JAX 0.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .base import TimedCollective
from .hlo import Module

# Instructions that call a computation, and that profilers show in place of the instructions inside.
_CALLING_OPS = ("async-start", "call-start", "custom-call-start", "fusion-start", "fusion")
# The plane and the line on which the instructions of a device are, with the number of the device.
_DEVICE_LINE_PATTERN = re.compile(
    r".*\b(?:TPU(?:[ _]?Core)?[:_ ](?P<tpu>\d{1,9}) XLA Ops|GPU:(?P<gpu>\d{1,9})\b.* ?Stream.*)"
)
# The beginnings of the names of kernels that copy or set memory.
_MEMORY_KERNELS = ("Memcpy", "Memset")
_PS = 1e-12
# The stats with the start and the duration of an event by a TPU's own clock.
DEVICE_TIME_STATS = ("device_offset_ps", "device_duration_ps")


class ProfileEvent(NamedTuple):
    """An event of a profiler's recording, such as an instruction that ran, or a call on the host.

    Attributes:
        plane: The name of the device or host on which the event happened.
        line: The name of the queue or thread on which the event happened.
        name: The name of the event, such as the name of the instruction.
        start_ps: The begin of the event in picoseconds, comparable within a recording.
        duration_ps: The duration of the event in picoseconds.
        stats: Maps the names of further values of the event to these values.

    """

    plane: str
    line: str
    name: str
    start_ps: float
    duration_ps: float
    stats: Mapping[str, Any]


def events_of_profile_data(recording: Any) -> list[ProfileEvent]:
    """Return the events of a recording that JAX reads, from all lines of all its planes.

    `recording` is a `jax.profiler.ProfileData`.
    """
    return [
        ProfileEvent(
            plane=plane.name,
            line=line.name,
            name=event.name,
            start_ps=round(event.start_ns * 1000),
            duration_ps=round(event.duration_ns * 1000),
            stats=dict(event.stats),
        )
        for plane in recording.planes
        for line in plane.lines
        for event in line.events
    ]


def events_of_xspace(recording: Any) -> Iterator[ProfileEvent]:
    """Yield the events of a recording that protobuf reads, from all lines of all its planes.

    `recording` is an `XSpace`, a protobuf class in TensorFlow's wheel.
    """
    for plane in recording.planes:
        names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                yield ProfileEvent(
                    plane=plane.name,
                    line=line.display_name or line.name,
                    name=plane.event_metadata[event.metadata_id].name,
                    start_ps=line.timestamp_ns * 1000 + event.offset_ps,
                    duration_ps=event.duration_ps,
                    stats={
                        names[stat.metadata_id]: _stat_value(stat, names) for stat in event.stats
                    },
                )


def _stat_value(stat: Any, names: Mapping[int, str]) -> Any:
    """Return the value of a stat, which is a named value of an event.

    `names` maps the ids of names to names. The value is such a name if the stat refers to an id.
    """
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return names[stat.ref_value]
    return getattr(stat, kind)


def end_by_begin_instruction_of(module: Module) -> dict[str, str]:
    """Return the name of the instruction that ends each collective of a program, as a dictionary.

    The key is the name of the instruction that begins the collective. Profilers show these names.
    Both names are equal if the collective is synchronous. If a collective is in a fusion, or in a
    computation that is called asynchronously, the instructions that call the fusion or the
    computation begin and end the collective.
    """
    lines = [line for computation in module.computations.values() for line in computation]
    inner = {
        line.name: [
            inner
            for name in line.called_computations
            for inner in module.unconditional_instructions(name)
        ]
        for line in lines
        if line.op in _CALLING_OPS
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
    events: Iterable[ProfileEvent], end_by_begin: Mapping[str, str] | None
) -> list[tuple[TimedCollective, ProfileEvent]]:
    """Return each recorded collective, with the event that begins the collective.

    A collective is left out if its begin or its end is not recorded. The times of a collective are
    read from the device's own clock if the events have such times.

    Args:
        events: the events of a recording, or of several recordings.
        end_by_begin: maps the name of the instruction that begins a collective to the name of the
            instruction that ends the collective, as `Program.end_by_begin_instruction` does. None
            for a recording of an unknown program: then every event on a device is returned, even if
            it is no collective. An event `...-start` and the event `...-done` of the same name are
            then a pair.

    """
    begin_of = {end: begin for begin, end in (end_by_begin or {}).items()}
    begun: dict[tuple[str, str | None], ProfileEvent] = {}
    collectives = []
    for event in sorted(events, key=lambda event: event.start_ps):
        work = _DEVICE_LINE_PATTERN.fullmatch(f"{event.plane[:80]} {event.line[:80]}")
        device = str(event.stats.get("device_ordinal"))
        if work:
            device = work["tpu"] or work["gpu"]
        name = event.name.partition(" = ")[0].lstrip("%").removesuffix(".in_megacore_fusion")
        begin = begin_of.get(name)
        if end_by_begin is None and "-start" not in name:
            begin = name.replace("-done", "-start")
        if work and work["gpu"]:
            name = begin = str(event.stats.get("hlo_op", name))
            is_collective = end_by_begin is None or name in end_by_begin or name.startswith("nccl")
            if event.name.startswith(_MEMORY_KERNELS) or not is_collective:
                continue
        begun[device, name] = event
        begin_event = begun.pop((device, begin), None)
        if begin_event is not None and begin is not None and device.isdecimal():
            times_s = _begin_and_duration_s(begin_event, event)
            collectives.append((TimedCollective(int(device), begin, *times_s), begin_event))
    return collectives


def _begin_and_duration_s(
    begin_event: ProfileEvent, end_event: ProfileEvent
) -> tuple[float, float]:
    """Return the begin and the duration of a collective in seconds, given its two events.

    The times are by the device's own clock if both events have such times.
    """
    begin_ps, end_ps = begin_event.start_ps, end_event.start_ps + end_event.duration_ps
    if begin_event.stats.keys() & end_event.stats.keys() >= set(DEVICE_TIME_STATS):
        offset, duration = DEVICE_TIME_STATS
        begin_ps = begin_event.stats[offset]
        end_ps = end_event.stats[offset] + end_event.stats[duration]
    return begin_ps * _PS, (end_ps - begin_ps) * _PS


def tensorflow_collective_runs(events: Iterable[ProfileEvent]) -> Iterator[ProfileEvent]:
    """Yield an event for each run of a collective of TensorFlow on a CPU, the latest run first.

    A collective is a node of TensorFlow's graph. In a recording of TensorFlow 2.21 a run of the
    node is an event `<node>:<operation>` on a line `collective_ops/...`. Operations that wait for
    the result may run in the same event. So the yielded event is shorter: it ends when the node
    returns its result, at the event `CollectiveExecutor::ExecuteAsync::Done` of the node.
    """
    returns_ps: dict[tuple[str, str], float] = {}
    for event in reversed(sorted(events, key=lambda event: event.start_ps)):
        if event.name == "CollectiveExecutor::ExecuteAsync::Done":
            returns_ps[event.line, str(event.stats.get("name"))] = event.start_ps
        elif event.line.startswith("collective_ops"):
            node, end_ps = event.name.rpartition(":")[0], event.start_ps + event.duration_ps
            end_ps = min(end_ps, returns_ps.get((event.line, node), end_ps))
            yield event._replace(duration_ps=end_ps - event.start_ps)
