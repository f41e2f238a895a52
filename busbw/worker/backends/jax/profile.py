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
        event
        for path in folder.rglob("*.xplane.pb")
        for event in events_of(ProfileData.from_file(str(path)))
    ]
    return [collective for collective, _ in timed_collectives(events, timed)]


def events_of(recording: ProfileData) -> list[ProfileEvent]:
    """Return the events on the lines of all planes."""
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
