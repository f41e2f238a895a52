"""TensorFlow's own reader of recordings: the classes of their format, which it brings along."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from busbw.traces.attribution import INSTRUCTION, is_of_gpu
from busbw.traces.event import Event, Keep, Stats, Trace
from busbw.traces.xplane import own_times

from ..recorded import read_files

_PS = 1e-12


def read(folder: Path, keep: Keep) -> list[Trace]:
    """The recordings below `folder`; by our own reader where this TensorFlow brings no classes.

    Raises TraceError for one that only our own reader may read, and cannot.
    """
    paths = sorted(folder.rglob("*.xplane.pb"))
    try:
        space = importlib.import_module("tensorflow.tsl.profiler.protobuf.xplane_pb2").XSpace
    except (ImportError, AttributeError):
        return read_files(folder, keep)
    return [_trace(space.FromString(path.read_bytes()), path.name, keep) for path in paths]


def _trace(space: Any, host: str, keep: Keep) -> Trace:
    """Times from the first clock on: since 1970, a float of seconds is true to 0.2 us only."""
    clocks = [line.timestamp_ns for plane in space.planes for line in plane.lines]
    begin_ns = min((clock for clock in clocks if clock), default=0)
    return Trace(
        events=tuple(event for plane in space.planes for event in _events(plane, keep, begin_ns)),
        host=host,
        planes=tuple(plane.name for plane in space.planes),
    )


def _events(plane: Any, keep: Keep, begin_ns: int) -> Iterator[Event]:
    names = {key: one.name for key, one in plane.stat_metadata.items()}
    kinds = {key: _kind(one, names) for key, one in plane.event_metadata.items()}
    kept = {key for key, (name, shared) in kinds.items() if keep(name, plane.name, shared)}
    each = is_of_gpu(plane.name) and INSTRUCTION in names.values()
    for line in plane.lines:
        where = plane.name, line.display_name or line.name
        base_ps = (line.timestamp_ns - begin_ns) * 1000
        for event in line.events:
            is_kept = event.metadata_id in kept
            if not (is_kept or each):
                continue
            name, shared = kinds[event.metadata_id]
            stats = {**shared, **_stats(event.stats, names)} if event.stats else shared
            if is_kept or keep(name, plane.name, stats):
                shared_s = ((base_ps + event.offset_ps) * _PS, event.duration_ps * _PS)
                yield Event.timed((name, *where), shared_s, own_times(stats), stats)


def _kind(metadata: Any, names: Mapping[int, str]) -> tuple[str, Stats]:
    """Name and stats of all events of one kind; the text of an instruction is a stat."""
    stats = _stats(metadata.stats, names)
    if metadata.display_name and " = " in metadata.name:
        return metadata.display_name, {"long_name": metadata.name, **stats}
    return metadata.name, stats


def _stats(found: Any, names: Mapping[int, str]) -> dict[str, str | int | float]:
    """Those of plain values; a text may stand among the names."""
    stats: dict[str, str | int | float] = {}
    for one in found:
        which = one.WhichOneof("value")
        if which == "ref_value":
            stats[names[one.metadata_id]] = names.get(one.ref_value, "")
        elif which not in (None, "bytes_value"):
            stats[names[one.metadata_id]] = getattr(one, which)
    return stats
