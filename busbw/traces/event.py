"""One form for the recordings of all profilers: named intervals of time, with their stats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from busbw.collectives.base import GroupSize

# Profilers write no more events than this into a trace.json.gz, the earliest, and say nothing of
# the rest (jax issue 21295). An xplane file has no such limit.
MOST_EVENTS = 1_000_000


# What a reader keeps, events and all that is noted of them, takes up to 200 bytes each: 1 GB.
MOST_KEPT = 5_000_000


# What TPUs' profilers note, in picoseconds, of an event's times by the device's own clock.
OWN_BEGIN, OWN_DURATION = "device_offset_ps", "device_duration_ps"

Stat = str | int | float
Stats = Mapping[str, Stat]
# When an event began and how long it took, in seconds.
Times = tuple[float, float]
# Whether events of this name, plane and shared stats are kept; "" is a plane that is not known
# yet. Of a GPU's kernel it is asked again with all stats of the very event.
Keep = Callable[[str, str, Stats], bool]


class TraceError(ValueError):
    """A recording that cannot be read or is not whole; the message says what and where."""


class RecordingTooLargeError(TraceError):
    """A recording of more bytes than are read; the message says how many."""


class TooManyError(TraceError):
    """A recording of more events, names and stats than are kept."""


class Kept:
    """Counts what a reader keeps of one recording."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int = 1) -> None:
        self._count += count
        if self._count > MOST_KEPT:
            raise TooManyError(f"more than {MOST_KEPT} events, names and stats to be kept")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """An interval of time on one line of one plane, and what the profiler noted about it.

    A plane is a device or a host's processes (``/device:TPU:0``, ``/host:CPU``), a line is one
    of its threads or streams. `start_s` counts from an origin of the recording, by the device's
    own clock where the profiler noted that. `aligned_s` are then start and duration on the clock
    that all lines share, which lengthens some events and shortens others.
    """

    name: str
    plane: str
    line: str
    start_s: float
    duration_s: float
    stats: Stats
    aligned_s: Times | None = None

    @classmethod
    def timed(
        cls, where: tuple[str, str, str], shared: Times, own: Times | None, stats: Stats
    ) -> Event:
        """`shared` are begin and duration on the clock that all lines share."""
        name, plane, line = where
        start_s, duration_s = own or shared
        return cls(
            name=name,
            plane=plane,
            line=line,
            start_s=start_s,
            duration_s=duration_s,
            stats=stats,
            aligned_s=shared if own else None,
        )

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s

    @property
    def shared_s(self) -> float:
        """When it began, on the clock that all lines share."""
        return self.start_s if self.aligned_s is None else self.aligned_s[0]

    @property
    def shared_end_s(self) -> float:
        return self.end_s if self.aligned_s is None else sum(self.aligned_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What one host recorded.

    `recorded` includes the events that were not kept; `is_cut` says that the profiler has probably
    left out later ones. `planes` has the names of empty planes, too, `hosts` those that the
    recording itself says it is of.
    """

    events: tuple[Event, ...]
    host: str
    recorded: int = 0
    is_cut: bool = False
    planes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedCollective:
    """One collective on one device: from when the device joined it to when it had its values.

    `call` is the launch of `program` that it belongs to, as that device counts them; both are ""
    where the recording does not say. `start_s` is on the device's own clock, and compares with
    those of the same device alone. The time holds the wait for devices that join later. `groups`
    are the replica groups that run it at the same time, None where nothing says them. `track` is
    the plane and the line on which it began, and `hidden_s` how much of it other instructions of
    the device ran, None where that is not known; neither counts in a comparison.
    """

    kind: str
    name: str
    host: str
    device: int
    call: str
    start_s: float
    duration_s: float
    payload_bytes: int | None
    program: str = ""
    groups: GroupSize | None = None
    track: tuple[str, str] = field(default=("", ""), compare=False)
    hidden_s: float | None = field(default=None, compare=False)

    @property
    def rank(self) -> str:
        """The device among all hosts, such as ``host/0``."""
        return f"{self.host}/{self.device}"
