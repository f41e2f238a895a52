"""Recordings of TensorFlow's profiler, read by the protobuf classes in TensorFlow's wheel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ..base import TimedCollective
from ..hlo import module as hlo
from ..recordings import ProfileEvent, node_runs, timed_collectives, timed_instructions


def read(folder: Path, timed: Mapping[str, str]) -> list[TimedCollective]:
    """Read the collectives from the recordings below a folder.

    `timed` has the nodes of this process in the order of its devices. TensorFlow does not show the
    program of a TPU, so there the instructions are read from the recording.
    """
    events = [event for path in folder.rglob("*.xplane.pb") for event in _events(path)]
    texts = {event.name for event in events if " = " in event.name}
    module = hlo.read("\n".join(["recorded {", *texts, "}"]))
    runs = [
        event._replace(name=node, stats={"device_ordinal": list(timed).index(node)})
        for event in node_runs(events)
        if (node := event.name.rpartition(":")[0]) in timed
    ]
    return [
        collective
        for collective, _ in timed_collectives(
            [*events, *runs], {**timed_instructions(module), **timed}
        )
    ]


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
