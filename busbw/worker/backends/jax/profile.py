"""Recordings of JAX's profiler, read by JAX itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jax.profiler import ProfileData

from ..base import TimedCollective
from ..recordings import ProfileEvent, timed_collectives


def read(folder: Path, timed: Mapping[str, str]) -> list[TimedCollective]:
    """Read the collectives of `timed` from the recordings below a folder."""
    events = [
        ProfileEvent(
            plane=plane.name,
            line=line.name,
            name=event.name,
            start_ps=round(event.start_ns * 1000),
            duration_ps=round(event.duration_ns * 1000),
            stats=dict(event.stats),
        )
        for path in folder.rglob("*.xplane.pb")
        for plane in ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
    ]
    return timed_collectives(events, timed)
