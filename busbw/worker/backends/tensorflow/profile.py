"""Recordings of TensorFlow's profiler, read by the protobuf classes in TensorFlow's wheel.

On a CPU a collective is a node of the graph: an event `<node>:<operation>` on a line
`collective_ops/...`. The collective ends when `CollectiveExecutor::ExecuteAsync::Done` begins
inside the event, because operations that wait for the result may run in the same event (a recording
of TensorFlow 2.21).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ..base import TimedCollective
from ..hlo import module as hlo
from ..recordings import ProfileEvent, timed_collectives, timed_instructions

_DONE = "CollectiveExecutor::ExecuteAsync::Done"


def read(folder: Path, timed: Mapping[str, str]) -> list[TimedCollective]:
    """Read the collectives from the recordings below a folder.

    `timed` has the nodes of this process in the order of its devices. TensorFlow does not show the
    program of a TPU, so there the instructions are read from the recording.
    """
    events = [event for path in folder.rglob("*.xplane.pb") for event in _events(path)]
    texts = {event.name for event in events if " = " in event.name}
    module = hlo.read("\n".join(["recorded {", *texts, "}"]))
    nodes = _nodes(events, list(timed))
    return timed_collectives([*events, *nodes], {**timed_instructions(module), **timed})


def _nodes(events: list[ProfileEvent], names: list[str]) -> Iterator[ProfileEvent]:
    """Yield each run of a node on a CPU as an event of its device that ends with the result."""
    done = defaultdict(list)
    for event in events:
        if event.name == _DONE:
            done[event.line, event.stats.get("name")].append(event.start_ps)
    for event in events:
        name = event.name.rpartition(":")[0]
        if name in names and event.line.startswith("collective_ops"):
            ends = [end - event.start_ps for end in done[event.line, name] if end >= event.start_ps]
            yield event._replace(
                name=name,
                duration_ps=min([*ends, event.duration_ps]),
                stats={"device_ordinal": names.index(name)},
            )


def _events(path: Path) -> Iterator[ProfileEvent]:
    for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
        names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                yield ProfileEvent(
                    plane=plane.name,
                    line=line.display_name or line.name,
                    name=plane.event_metadata[event.metadata_id].name,
                    start_ps=line.timestamp_ns * 1000 + event.offset_ps,
                    duration_ps=event.duration_ps,
                    stats={names[stat.metadata_id]: _value(stat, names) for stat in event.stats},
                )


def _value(stat: Any, names: Mapping[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)
