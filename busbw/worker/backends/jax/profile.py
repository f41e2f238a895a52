"""Reads recordings of JAX's profiler, with JAX's own reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jax.profiler import ProfileData

from ..base import TimedCollective
from ..recordings import ProfileEvent, timed_collectives


def read_collectives(folder: Path, end_by_begin: Mapping[str, str]) -> list[TimedCollective]:
    """Return the collectives in the recordings of JAX's profiler below `folder`.

    `end_by_begin` maps the name of the instruction that begins a collective to the name of the
    instruction that ends the collective, as `Program.end_by_begin_instruction` does.
    """
    events = [
        event
        for path in folder.rglob("*.xplane.pb")
        for event in events_of(ProfileData.from_file(str(path)))
    ]
    return [collective for collective, _ in timed_collectives(events, end_by_begin)]


def events_of(recording: ProfileData) -> list[ProfileEvent]:
    """Return the events of a recording of JAX's profiler, from all lines of all its planes."""
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
