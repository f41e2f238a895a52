"""How far a recording goes that is cut: up to which device, and which of its calls.

A file is read as far as it goes, whatever else is wrong with it; names may stand behind the cut.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from .attribution import LAUNCH_LINE, device_of_plane
from .event import TraceError
from .protobuf import BYTES, VARINT, fields, signed, tag, text

_PLANE, _PLANE_NAME, _PLANE_LINE = tag(1, BYTES), tag(2, BYTES), tag(3, BYTES)
_LINE_NAME, _LINE_EVENT = tag(2, BYTES), tag(4, BYTES)
_EVENT_OFFSET_PS = tag(2, VARINT)

# The plane and the line of an event, and when it began, on the clock of the plane's lines.
Begun = tuple[str, str, float]


def reached(found: Iterable[Begun]) -> str:
    """In words, up to where events, in the order of the file, go; "" where no device has one."""
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


def xplane_reached(content: bytes) -> str:
    """The same of an xplane file's content; of one that holds no device, in which plane it ends."""
    found = reached(_events(content))
    planes = [
        _name(content, *place[1:], _PLANE_NAME) for place in _some(content, 0, len(content), _PLANE)
    ]
    return found or (f"; it ends within {planes[-1]}" if planes and planes[-1] else "")


def _events(content: bytes) -> Iterator[Begun]:
    for _, start, stop in _some(content, 0, len(content), _PLANE):
        plane = _name(content, start, stop, _PLANE_NAME)
        if device_of_plane(plane) is None:
            continue
        for _, begin, end in _some(content, start, stop, _PLANE_LINE):
            line = _name(content, begin, end, _LINE_NAME)
            for _, first, last in _some(content, begin, end, _LINE_EVENT):
                yield plane, line, _offset_ps(content, first, last)


def _name(content: bytes, start: int, stop: int, wanted: int) -> str:
    return next((text(content, *place[1:]) for place in _some(content, start, stop, wanted)), "")


def _offset_ps(content: bytes, start: int, stop: int) -> float:
    return next((signed(place[1]) for place in _some(content, start, stop, _EVENT_OFFSET_PS)), 0)


def _some(content: bytes, start: int, stop: int, wanted: int) -> Iterator[tuple[int, int, int]]:
    """The fields with this tag of a message that may be cut, the last of them in part."""
    with contextlib.suppress(TraceError):
        for found, value, end in fields(content, start, stop, cut=True):
            if found == wanted:
                yield found, value, end
