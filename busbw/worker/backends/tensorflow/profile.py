"""Reads recordings of TensorFlow's profiler, with the protobuf classes in TensorFlow's wheel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ..base import TimedCollective
from ..hlo import module as hlo
from ..recordings import (
    ProfileEvent,
    map_begin_to_end,
    tensorflow_collective_runs,
    timed_collectives,
)


def read_collectives(folder: Path, end_by_begin_node: Mapping[str, str]) -> list[TimedCollective]:
    """Return the collectives in the recordings of TensorFlow's profiler below `folder`.

    `end_by_begin_node` maps the name of each node of the graph that reduces to the same name, in
    the order of the devices of this process. TensorFlow does not show the program of a TPU. For a
    TPU the instructions are read from the recording, in which the name of an event is the
    instruction's whole text.
    """
    events = [event for path in folder.rglob("*.xplane.pb") for event in _read_events(path)]
    texts = {event.name for event in events if " = " in event.name}
    module = hlo.read_module("\n".join(["recorded {", *texts, "}"]))
    runs = [
        event._replace(name=node, stats={"device_ordinal": list(end_by_begin_node).index(node)})
        for event in tensorflow_collective_runs(events)
        if (node := event.name.rpartition(":")[0]) in end_by_begin_node
    ]
    return [
        collective
        for collective, _ in timed_collectives(
            [*events, *runs], {**map_begin_to_end(module), **end_by_begin_node}
        )
    ]


def _read_events(path: Path) -> Iterator[ProfileEvent]:
    """Yield the events in a file of TensorFlow's profiler, from all lines of all its planes."""
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
                    stats={
                        names[stat.metadata_id]: _stat_value(stat, names) for stat in event.stats
                    },
                )


def _stat_value(stat: Any, names: Mapping[int, str]) -> Any:
    """Return the value of a stat, which is a named value of an event.

    `names` maps the ids of names to names. The value is such a name if the stat refers to an id.
    """
    kind = stat.WhichOneof("value")
    return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)
