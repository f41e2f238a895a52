"""Readers of profiler recordings: files to events, events to collectives, these to iterations.

A leaf: bytes in, values out. Opens no file, judges nothing and makes no rate. The standard
library of Python 3.10, `busbw.model` and `busbw.collectives` only, for a worker under a foreign
interpreter reads its own recordings with it, as the command does those of others.
"""

from .chrome import MOST_BYTES, read_chrome
from .collectives import WantedEvents, collectives, only_enqueued, ranks_of
from .event import (
    MOST_EVENTS,
    Event,
    Keep,
    RecordedCollective,
    RecordingTooLargeError,
    Trace,
    TraceError,
)
from .iterations import CutError, Iteration, iterations
from .recognition import UNKNOWN
from .xplane import read_xplane

__all__ = [
    "MOST_BYTES",
    "MOST_EVENTS",
    "UNKNOWN",
    "CutError",
    "Event",
    "Iteration",
    "Keep",
    "RecordedCollective",
    "RecordingTooLargeError",
    "Trace",
    "TraceError",
    "WantedEvents",
    "collectives",
    "iterations",
    "only_enqueued",
    "ranks_of",
    "read_chrome",
    "read_xplane",
]
