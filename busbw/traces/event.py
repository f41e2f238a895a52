"""One form for the recordings of all profilers: named intervals of time, and where each belongs.

To which device, to which launch of a program, and until when, each profiler notes differently: in
the plane's name, in a stat, in an event around it or in one inside it.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    are the replica groups that run it at the same time, None where nothing says them, or what says
    them cannot be read: `unread_groups`.
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
    unread_groups: str = ""

    @property
    def rank(self) -> str:
        """The device among all hosts, such as ``host/0``."""
        return f"{self.host}/{self.device}"


_DEVICE = re.compile(r"\b(?:TPU|GPU)(?:[ _]?[Cc]ore)?[:_ ](\d{1,9})(?!\d)")
_GPU = "/device:GPU:"
# The stat in which a kernel notes the instruction that it belongs to.
INSTRUCTION = "hlo_op"
_LAUNCH = re.compile(r"[\w.<>\-]+\(\d+\)")
LAUNCH_LINE = "XLA Modules"
# What TensorFlow does after a collective, within its event.
RETURN = "CollectiveExecutor::ExecuteAsync::Done"
_DIGITS = re.compile(r"([0-9]+)")
# A device's number has fewer.
_MOST_DIGITS = 9

# The plane and the line of an event, and when it began, on the clock of the plane's lines.
Begun = tuple[str, str, float]

_Natural = tuple[tuple[int, str], ...]


def device_of_plane(plane: str) -> int | None:
    """The number of the accelerator whose plane this is; None for a host's."""
    match = _DEVICE.search(plane)
    return int(match[1]) if match else None


def is_of_gpu(plane: str) -> bool:
    """Whether this is the plane of a GPU: each kernel notes for itself what it belongs to."""
    return plane.startswith(_GPU)


def host_devices(events: Sequence[Event]) -> list[int]:
    """The device of each event of a host's plane, whose lines are threads of a pool.

    XLA notes it. TensorFlow does not: the replicas of one collective are nodes of one step,
    iteration and instance, numbered in the order of the replicas.
    """
    nodes: dict[tuple[str, ...], set[_Natural]] = defaultdict(set)
    for event in events:
        nodes[_instance(event)].add(_natural(node_of(event)))
    replicas = {
        instance: {node: number for number, node in enumerate(sorted(found))}
        for instance, found in nodes.items()
    }
    lines = {line: number for number, line in enumerate(sorted({one.line for one in events}))}
    devices = []
    for event in events:
        noted = noted_device(event)
        if noted is not None:
            devices.append(noted)
        elif "instance_key" in event.stats:
            devices.append(replicas[_instance(event)][_natural(node_of(event))])
        else:
            devices.append(lines[event.line])
    return devices


def noted_device(event: Event) -> int | None:
    noted = str(event.stats.get("device_ordinal", ""))
    return int(noted) if noted.isdecimal() and len(noted) <= _MOST_DIGITS else None


def _instance(event: Event) -> tuple[str, ...]:
    keys = ("step_id", "frame_id", "iter_id", "instance_key")
    return tuple(str(event.stats.get(key, "")) for key in keys)


def _natural(name: str) -> _Natural:
    """Natural order: ``x_2`` before ``x_10``, ``x`` before both."""
    parts = _DIGITS.split(name)
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if index % 2 else (0, part)
        for index, part in enumerate(parts)
    )


def node_of(event: Event) -> str:
    full = event.name if ":" in event.name else str(event.stats.get("long_name", event.name))
    return full.rsplit(":", 1)[0]


def is_launch(name: str) -> bool:
    return _LAUNCH.fullmatch(name) is not None


class ProgramLaunches:
    """The launches of programs on each device: an event belongs to the one around it."""

    def __init__(self, events: Iterable[Event]) -> None:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.line == LAUNCH_LINE and is_launch(event.name):
                found[event.plane].append(event)
        for launches in found.values():
            launches.sort(key=lambda one: one.shared_s)
        self._of_plane = found
        self._starts = {plane: [one.shared_s for one in ones] for plane, ones in found.items()}

    def program_and_call(self, event: Event) -> tuple[str, str]:
        """Which program the event belongs to, and which launch of it; "" for what is not noted.

        The launch around it says both, unless the event does: each device counts launches by
        itself, and may have begun before the others.
        """
        if not event.stats and event.plane not in self._starts:
            return "", ""
        launch, index = self._around(event)
        program = launch.name if launch is not None else _noted_program(event)
        for key in ("run_id", "step_id"):
            if key in event.stats:
                return program, str(event.stats[key])
        return program, str(launch.stats.get("run_id", index)) if launch is not None else ""

    def _around(self, event: Event) -> tuple[Event | None, int]:
        index = bisect.bisect_right(self._starts.get(event.plane, []), event.shared_s) - 1
        launch = self._of_plane[event.plane][index] if index >= 0 else None
        if launch is None or launch.shared_end_s < event.shared_s:
            return None, -1
        return launch, index


def _noted_program(event: Event) -> str:
    """XLA notes at an instruction on the host, and at a GPU's kernel, which module it is of."""
    module = str(event.stats.get("hlo_module", ""))
    number = event.stats.get("program_id", "") if module else ""
    return f"{module}({number})" if number != "" else module


class Returns:
    """When TensorFlow's collectives returned their values.

    The event of the node lasts longer: whatever waits for the values may run inside it, on
    the same thread.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._starts: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for event in events:
            if event.name == RETURN:
                node = str(event.stats.get("name", ""))
                self._starts[event.plane, event.line, node].append(event.start_s)
        for starts in self._starts.values():
            starts.sort()

    def end_s(self, event: Event) -> float:
        if not self._starts:
            return event.end_s
        starts = self._starts.get((event.plane, event.line, node_of(event)), [])
        index = bisect.bisect_left(starts, event.start_s)
        inside = index < len(starts) and starts[index] <= event.end_s
        return starts[index] if inside else event.end_s


def reached(found: Iterable[Begun]) -> str:
    """In words; "" where no device has an event. Names may come after the cut."""
    launches: list[float] = []
    last: Begun | None = None
    for one in found:
        if device_of_plane(one[0]) is None:
            continue
        if last is None or one[0] != last[0]:
            launches = []
        last = one
        if one[1] == LAUNCH_LINE:
            launches.append(one[2])
    if last is None:
        return ""
    plane, line, begun = last
    call = sum(launch <= begun for launch in launches) if line != LAUNCH_LINE else len(launches)
    return f"; it goes up to {f'call {call} of ' if call else ''}{plane}"
