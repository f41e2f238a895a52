"""`*.xplane.pb`: an XSpace of planes of lines of events (tsl/profiler/protobuf/xplane.proto).

A file has up to a million events; names are read first, so that an event of no interest costs no
more than finding its end. No framework and no protobuf library: a worker's interpreter reads it.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .event import (
    INSTRUCTION,
    OWN_BEGIN,
    OWN_DURATION,
    Begun,
    Event,
    Keep,
    Kept,
    Stat,
    Times,
    TooManyError,
    Trace,
    TraceError,
    device_of_plane,
    is_of_gpu,
    reached,
)

# How a field is written: a number of any length, 8 bytes, bytes with their count, 4 bytes.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Span = tuple[int, int]


def _signed(content: bytes, value: int, end: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _unsigned(content: bytes, value: int, end: int) -> int:
    return value


def _double(content: bytes, value: int, end: int) -> float:
    found: float = struct.unpack_from("<d", content, value)[0]
    return found


def _text(content: bytes, value: int, end: int) -> str:
    return content[value:end].decode("utf-8", "replace")


def _span(content: bytes, value: int, end: int) -> Span:
    """Where another message is."""
    return value, end


Meaning = Callable[[bytes, int, int], Any]
Table = Mapping[int, tuple[str, Meaning]]

_WRITTEN: Mapping[Meaning, int] = {
    _signed: _VARINT,
    _unsigned: _VARINT,
    _double: _FIXED64,
    _text: _BYTES,
    _span: _BYTES,
}


def _fields_of(**numbers: tuple[int, Meaning]) -> Table:
    """By tag, number and encoding in one integer: what is written otherwise is another field."""
    return {
        number << 3 | _WRITTEN[meaning]: (name, meaning)
        for name, (number, meaning) in numbers.items()
    }


# What is read of each message; all other fields are passed over.
_SPACE = _fields_of(plane=(1, _span), host=(4, _text))
_PLANE = _fields_of(name=(2, _text), line=(3, _span), kind=(4, _span), stat_name=(5, _span))
_ENTRY = _fields_of(key=(1, _signed), value=(2, _span))
_STAT_NAME = _fields_of(name=(2, _text))
_KIND = _fields_of(name=(2, _text), shown=(4, _text), stat=(5, _span))
_LINE = _fields_of(name=(2, _text), timestamp_ns=(3, _signed), event=(4, _span), shown=(11, _text))
_KEY = _fields_of(key=(1, _signed))
_EVENT = _fields_of(offset_ps=(2, _signed), duration_ps=(3, _signed), stat=(4, _span))
_STAT = _fields_of(
    key=(1, _signed),
    double=(2, _double),
    unsigned=(3, _unsigned),
    signed=(4, _signed),
    text=(5, _text),
    reference=(7, _unsigned),
)
_KEY_TAG = 1 << 3 | _VARINT

# What repeats itself is read; of the others a message of a profiler has some.
_MOST_PASSED = 2**16

_PS = 1e-12


@dataclass(kw_only=True, slots=True)
class _Line:
    """A line's name and clock, and for each event of interest its metadata id and byte range."""

    name: str = ""
    timestamp_ns: int = 0
    spans: list[tuple[int, Span]] = field(default_factory=list)
    recorded: int = 0


@dataclass(kw_only=True, slots=True)
class _Kind:
    """What all events of one metadata id have in common."""

    name: str
    wanted: bool
    stats: dict[str, Stat]


@dataclass(kw_only=True, slots=True)
class _Plane:
    """One plane: its names are decoded, its lines are byte ranges of the file."""

    name: str = ""
    stat_names: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, _Kind] = field(default_factory=dict)
    lines: list[_Line] = field(default_factory=list)


def read_xplane(content: bytes, *, host: str = "", keep: Keep | None = None) -> Trace:
    """The recording in an xplane file; of its events those that `keep` accepts.

    `keep` is called once for all events of one name on one plane, with the stats that they share,
    and for each kernel of a GPU, which may note the instruction that it belongs to.

    An event whose name is the text of an HLO instruction gets its display name, as in the trace
    viewer, and the text becomes its stat `long_name`. Raises TraceError, naming the byte, for
    anything but a whole XSpace, and for one that holds more than is kept of any recording.
    """
    if not content:
        raise TraceError("the file is empty")
    try:
        return _read(content, host, keep)
    except TooManyError:
        raise
    except TraceError as error:
        raise TraceError(f"{error}{_reached(content)}") from error


def _read(content: bytes, host: str, keep: Keep | None) -> Trace:
    planes, hosts, kept = [], [], Kept()
    for name, value in _named(content, (0, len(content)), _SPACE):
        if name == "host":
            hosts.append(value)
        else:
            kept.add()
            planes.append(_plane(content, value, keep, kept))
    if not planes:
        raise TraceError("no plane in it: not a profiler's recording")
    return Trace(
        events=tuple(_events(content, planes, keep, kept)),
        host=host or "+".join(hosts),
        hosts=tuple(hosts),
        recorded=sum(line.recorded for plane in planes for line in plane.lines),
        planes=tuple(plane.name for plane in planes),
    )


def _plane(content: bytes, span: Span, keep: Keep | None, kept: Kept) -> _Plane:
    """Names are read first, in whatever order the file has them: events are found by them."""
    plane = _Plane()
    found: dict[str, list[Any]] = {name: [] for name, _ in _PLANE.values()}
    for name, value in _named(content, span, _PLANE):
        kept.add(name != "name")
        found[name].append(value)
    plane.name = ["", *found["name"]][-1]
    for key, entry in (_entry(content, one) for one in found["stat_name"]):
        plane.stat_names[key] = dict(_named(content, entry, _STAT_NAME)).get("name", "")
    for key, entry in (_entry(content, one) for one in found["kind"]):
        plane.kinds[key] = _kind(content, entry, plane, keep)
        kept.add(len(plane.kinds[key].stats))
    each = is_of_gpu(plane.name) and INSTRUCTION in plane.stat_names.values()
    wanted = {key for key, kind in plane.kinds.items() if each or kind.wanted}
    nameless = keep is None or keep("", plane.name, {})
    plane.lines = [
        _line(content, one, plane.kinds, wanted, nameless, kept) for one in found["line"]
    ]
    return plane


def _entry(content: bytes, span: Span) -> tuple[int, Span]:
    """Key and value of an entry of a map."""
    found = dict(_named(content, span, _ENTRY))
    return found.get("key", 0), found.get("value", (span[1], span[1]))


def _kind(content: bytes, span: Span, plane: _Plane, keep: Keep | None) -> _Kind:
    texts = {"name": "", "shown": ""}
    stats: dict[str, Stat] = {}
    for name, value in _named(content, span, _KIND):
        if name == "stat":
            stats.update(_stat(content, value, plane.stat_names))
        else:
            texts[name] = value
    name, shown = texts["name"], texts["shown"]
    if shown and " = " in name:
        stats.setdefault("long_name", name)
        name = shown
    return _Kind(name=name, wanted=keep is None or keep(name, plane.name, stats), stats=stats)


def _line(
    content: bytes,
    span: tuple[int, int],
    kinds: Mapping[int, _Kind],
    wanted: set[int],
    nameless: bool,
    kept: Kept,
) -> _Line:
    """`nameless`: events without a name are wanted, too."""
    line = _Line()
    shown = ""
    for name, value in _named(content, span, _LINE):
        if name == "event":
            line.recorded += 1
            key = _kind_of(content, value)
            if key in wanted or (nameless and key not in kinds):
                kept.add()
                line.spans.append((key, value))
        elif name == "shown":
            shown = value
        else:
            setattr(line, name, value)
    line.name = shown or line.name
    return line


def _kind_of(content: bytes, span: Span) -> int:
    # Profilers write it first, so that the rest of an unwanted event is not read.
    start, end = span
    if start < end and content[start] == _KEY_TAG:
        value, _ = _varint(content, start + 1, end)
        return _signed(content, value, end)
    return next((value for _, value in _named(content, span, _KEY)), 0)


def _events(content: bytes, planes: list[_Plane], keep: Keep | None, kept: Kept) -> Iterator[Event]:
    """Times count from the first clock: in seconds since 1970 a float resolves only 0.2 us."""
    clocks = [line.timestamp_ns for plane in planes for line in plane.lines if line.timestamp_ns]
    begin_ns = min(clocks, default=0)
    for plane in planes:
        for line in plane.lines:
            base_ps = (line.timestamp_ns - begin_ns) * 1000
            for key, span in line.spans:
                kind = plane.kinds.get(key) or _Kind(name="", wanted=True, stats={})
                event = _event(content, span, plane, line.name, kind, base_ps)
                if kind.wanted or (keep is not None and keep(event.name, plane.name, event.stats)):
                    kept.add(len(event.stats))
                    yield event
            # Frees memory: no event is held twice.
            line.spans.clear()


def _event(
    content: bytes, span: Span, plane: _Plane, line: str, kind: _Kind, base_ps: int
) -> Event:
    times = {"offset_ps": 0, "duration_ps": 0}
    stats = dict(kind.stats)
    for name, value in _named(content, span, _EVENT):
        if name == "stat":
            stats.update(_stat(content, value, plane.stat_names))
        else:
            times[name] = value
    offset_ps, duration_ps = times.values()
    if duration_ps < 0:
        raise TraceError(f"byte {span[0]}: an event of {duration_ps} ps")
    shared = ((base_ps + offset_ps) * _PS, duration_ps * _PS)
    return Event.timed((kind.name, plane.name, line), shared, _own_times(stats), stats)


def _own_times(stats: Mapping[str, Stat]) -> Times | None:
    """Begin and duration by the device's own clock; None unless both are noted."""
    begin_ps, lasted_ps = stats.get(OWN_BEGIN), stats.get(OWN_DURATION)
    if not isinstance(begin_ps, int) or not isinstance(lasted_ps, int) or lasted_ps < 0:
        return None
    return begin_ps * _PS, lasted_ps * _PS


def _stat(content: bytes, span: Span, names: Mapping[int, str]) -> dict[str, Stat]:
    """A stat by its name; {} for one of raw bytes."""
    key = 0
    worth: Stat | None = None
    for name, value in _named(content, span, _STAT):
        if name == "key":
            key = value
        else:
            worth = names.get(value, "") if name == "reference" else value
    return {} if worth is None else {names.get(key, ""): worth}


def _reached(content: bytes) -> str:
    found = reached(_begun(content))
    planes = [_first(content, span, _PLANE, "name", "") for span in _whole(content)]
    return found or (f"; it ends within {planes[-1]}" if planes and planes[-1] else "")


def _whole(content: bytes) -> Iterator[Span]:
    return _some(content, (0, len(content)), _SPACE, "plane")


def _begun(content: bytes) -> Iterator[Begun]:
    for span in _whole(content):
        plane = _first(content, span, _PLANE, "name", "")
        if device_of_plane(plane) is None:
            continue
        for line in _some(content, span, _PLANE, "line"):
            name = _first(content, line, _LINE, "name", "")
            for event in _some(content, line, _LINE, "event"):
                yield plane, name, _first(content, event, _EVENT, "offset_ps", 0)


def _first(content: bytes, span: Span, table: Table, name: str, default: Any) -> Any:
    return next(_some(content, span, table, name), default)


def _some(content: bytes, span: Span, table: Table, name: str) -> Iterator[Any]:
    """Each such field of a message that may be cut, the last one partly."""
    with contextlib.suppress(TraceError):
        for found, value in _named(content, span, table, cut=True):
            if found == name:
                yield value


def _named(
    content: bytes, span: Span, table: Table, *, cut: bool = False
) -> Iterator[tuple[str, Any]]:
    """Name and value of each field of a message that the table has.

    Raises TraceError, with the offset, for bytes that are no message or exceed it. In a message
    that is `cut`, the last field ends where the message does.
    """
    at, stop = span
    passed = 0
    while at < stop:
        begun = at
        tag, value = _varint(content, at, stop)
        # No field has the number 0, of which a file that a crash emptied is full.
        written = tag & 7 if tag >> 3 else None
        if written == _VARINT:
            value, end = _varint(content, value, stop)
        elif written == _BYTES:
            length, value = _varint(content, value, stop)
            end = value + length
        elif written in (_FIXED64, _FIXED32):
            end = value + (8 if written == _FIXED64 else 4)
        else:
            raise TraceError(f"byte {begun}: not a protobuf field")
        if end > stop and cut and written == _BYTES:
            end = stop
        if end > stop:
            raise TraceError(
                f"byte {begun}: a field goes on to byte {end}, after its end at {stop}"
            )
        if tag in table:
            name, meaning = table[tag]
            yield name, meaning(content, value, end)
        else:
            passed += 1
            if passed > _MOST_PASSED:
                raise TraceError(
                    f"byte {begun}: more than {_MOST_PASSED} unknown fields until here"
                )
        at = end


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends; raises TraceError if it does not."""
    if at < end and content[at] < 0x80:
        return content[at], at + 1
    value = shift = 0
    while at < end:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise TraceError(f"byte {at}: a number of more than 64 bits")
    raise TraceError(f"byte {end}: ends within a number")
