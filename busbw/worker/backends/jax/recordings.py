"""JAX's own reader of recordings: many times as fast as ours, and what JAX wrote, JAX can read.

It gives an instruction's text as the name, and none of the stats that events of one name share.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from busbw.traces.attribution import is_of_gpu
from busbw.traces.event import Event, Keep, Stats, Trace
from busbw.traces.xplane import own_times

from ..recorded import read_files

_PS = 1e-12


def read(folder: Path, keep: Keep) -> list[Trace]:
    """The recordings below `folder`; by our own reader where this JAX brings none.

    Raises TraceError for one that only our own reader may read, and cannot.
    """
    paths = sorted(folder.rglob("*.xplane.pb"))
    if not paths or not hasattr(jax.profiler, "ProfileData"):
        return read_files(folder, keep)
    with warnings.catch_warnings():
        # With Python 3.12 its types are warned of, and where that is an error the process ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        return [_trace(path, keep) for path in paths]


def _trace(path: Path, keep: Keep) -> Trace:
    data = jax.profiler.ProfileData.from_file(str(path))
    planes = list(data.planes)
    return Trace(
        events=tuple(event for plane in planes for event in _events(plane, keep)),
        host=path.name,
        planes=tuple(plane.name for plane in planes),
    )


def _events(plane: Any, keep: Keep) -> Iterator[Event]:
    """Those that are kept: asked once for all of one name, and of a kernel each time."""
    of_plane, each = plane.name, is_of_gpu(plane.name)
    known: dict[str, tuple[str, Stats, bool]] = {}
    for line in plane.lines:
        of_line = line.name
        for event in line.events:
            full = event.name
            if full not in known:
                short, shared = _parted(full)
                known[full] = short, shared, keep(short, of_plane, shared)
            short, shared, is_kept = known[full]
            if is_kept or each:
                found = _event(event, (short, of_plane, of_line), shared)
                if is_kept or keep(short, of_plane, found.stats):
                    yield found


def _parted(full: str) -> tuple[str, Stats]:
    """The name as the trace viewer shows it, and the text of the instruction if that was it."""
    short, there, _ = full.partition(" = ")
    return (short.lstrip("%"), {"long_name": full}) if there else (full, {})


def _event(event: Any, where: tuple[str, str, str], shared: Stats) -> Event:
    stats: Mapping[str, Any] = {
        **shared,
        **{key: worth for key, worth in event.stats if isinstance(worth, (str, int, float))},
    }
    # The file has picoseconds.
    begin_s, lasted_s = (round(ns * 1e3) * _PS for ns in (event.start_ns, event.duration_ns))
    return Event.timed(where, (begin_s, lasted_s), own_times(stats), stats)
