"""Readers of profiler recordings: files to events, events to collectives, these to iterations.

A leaf: bytes in, values out. Opens no file, judges nothing and makes no rate. The standard
library of Python 3.10 and `busbw.model` only, for a worker under a foreign interpreter reads its
own recordings with it, as the command does those of others.
"""

from .chrome import read_chrome
from .collectives import collectives, is_collective, is_wanted
from .event import MOST_EVENTS, Collective, Event, TooLargeError, Trace, TraceError
from .iterations import Iteration, iterations
from .names import KINDS
from .rows import MOST_BYTES
from .xplane import read_xplane

__all__ = [
    "KINDS",
    "MOST_BYTES",
    "MOST_EVENTS",
    "Collective",
    "Event",
    "Iteration",
    "TooLargeError",
    "Trace",
    "TraceError",
    "collectives",
    "is_collective",
    "is_wanted",
    "iterations",
    "read_chrome",
    "read_xplane",
]
