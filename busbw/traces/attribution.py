"""Where in a recording an event belongs: to which device, to which launch of a program, until when.

Each profiler notes these differently: in the plane's name, in a stat, in an event around it or in
one inside it.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from .event import Event

_DEVICE = re.compile(r"\b(?:TPU|GPU)(?:[ _]?[Cc]ore)?[:_ ](\d{1,9})(?!\d)")
_GPU = "/device:GPU:"
# The stat in which a kernel notes the instruction that it belongs to.
INSTRUCTION = "hlo_op"
_LAUNCH = re.compile(r"[\w.<>\-]+\(\d+\)")
LAUNCH_LINE = "XLA Modules"
_RETURN = "CollectiveExecutor::ExecuteAsync::Done"
_DIGITS = re.compile(r"([0-9]+)")
# A device's number has fewer.
_MOST_DIGITS = 9

# The plane and the line of an event, and when it began, on the clock of the plane's lines.
Begun = tuple[str, str, float]

_Natural = tuple[tuple[int, str], ...]
_Name = TypeVar("_Name", str, _Natural)


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
    numbers = {instance: _numbered(found) for instance, found in nodes.items()}
    lines = _numbered({event.line for event in events})
    devices = []
    for event in events:
        noted = noted_device(event)
        if noted is not None:
            devices.append(noted)
        elif "instance_key" in event.stats:
            devices.append(numbers[_instance(event)][_natural(node_of(event))])
        else:
            devices.append(lines[event.line])
    return devices


def noted_device(event: Event) -> int | None:
    noted = str(event.stats.get("device_ordinal", ""))
    return int(noted) if noted.isdecimal() and len(noted) <= _MOST_DIGITS else None


def _numbered(names: Iterable[_Name]) -> dict[_Name, int]:
    return {name: index for index, name in enumerate(sorted(names))}


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


def is_return(name: str) -> bool:
    """Whether TensorFlow gives this name to what it does after a collective, within its event."""
    return name == _RETURN


class ProgramLaunches:
    """The launches of programs on each device: an event belongs to the one around it."""

    def __init__(self, events: Iterable[Event]) -> None:
        found: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.line == LAUNCH_LINE and is_launch(event.name):
                found[event.plane].append(event)
        self._of_plane = {
            plane: sorted(launches, key=lambda one: one.shared_s)
            for plane, launches in found.items()
        }
        self._starts = {
            plane: [one.shared_s for one in launches] for plane, launches in self._of_plane.items()
        }

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
        starts = self._starts.get(event.plane)
        if starts is None:
            return None, -1
        index = bisect.bisect_right(starts, event.shared_s) - 1
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
            if is_return(event.name):
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
