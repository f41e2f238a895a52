"""`*.xplane.pb`: an XSpace of planes of lines of events (tsl/profiler/protobuf/xplane.proto).

A file has up to a million events; names are read first, so that an event of no interest costs no
more than finding its end. No framework and no protobuf library: a worker's interpreter reads it.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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

# Encodings of a field, which is recognized by its tag: number and encoding in one integer.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _tag(number: int, written: int) -> int:
    return number << 3 | written


_SPACE_PLANE, _SPACE_HOST = _tag(1, _BYTES), _tag(4, _BYTES)
_PLANE_NAME, _PLANE_LINE = _tag(2, _BYTES), _tag(3, _BYTES)
_PLANE_EVENT_ENTRY, _PLANE_STAT_ENTRY = _tag(4, _BYTES), _tag(5, _BYTES)
_ENTRY_KEY, _ENTRY_VALUE = _tag(1, _VARINT), _tag(2, _BYTES)
_NAME = _tag(2, _BYTES)  # of a line, of an event's metadata and of a stat's metadata
_METADATA_DISPLAY_NAME, _METADATA_STAT = _tag(4, _BYTES), _tag(5, _BYTES)
_LINE_TIMESTAMP_NS, _LINE_EVENT = _tag(3, _VARINT), _tag(4, _BYTES)
_LINE_DISPLAY_NAME = _tag(11, _BYTES)
_METADATA_ID = _tag(1, _VARINT)  # of an event and of a stat
_EVENT_OFFSET_PS, _EVENT_DURATION_PS = _tag(2, _VARINT), _tag(3, _VARINT)
_EVENT_STAT = _tag(4, _BYTES)
_STAT_DOUBLE, _STAT_UINT, _STAT_INT = _tag(2, _FIXED64), _tag(3, _VARINT), _tag(4, _VARINT)
_STAT_TEXT, _STAT_REFERENCE = _tag(5, _BYTES), _tag(7, _VARINT)

_PS = 1e-12


@dataclass(kw_only=True, slots=True)
class _Line:
    """A line's name and clock, and for each event of interest its metadata id and byte range."""

    name: str = ""
    timestamp_ns: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)
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
    for found, value, end in _fields(content, 0, len(content)):
        if found == _SPACE_PLANE:
            kept.add()
            planes.append(_plane(content, value, end, keep, kept))
        elif found == _SPACE_HOST:
            hosts.append(_text(content, value, end))
    if not planes:
        raise TraceError("no plane in it: not a profiler's recording")
    return Trace(
        events=tuple(_events(content, planes, keep, kept)),
        host=host or "+".join(hosts),
        hosts=tuple(hosts),
        recorded=sum(line.recorded for plane in planes for line in plane.lines),
        planes=tuple(plane.name for plane in planes),
    )


def _plane(content: bytes, start: int, end: int, keep: Keep | None, kept: Kept) -> _Plane:
    """Names are read first, in whatever order the file has them: events are found by them."""
    plane = _Plane()
    lines, kinds = [], []
    for found, value, stop in _fields(content, start, end):
        if found == _PLANE_NAME:
            plane.name = _text(content, value, stop)
        elif found == _PLANE_LINE:
            kept.add()
            lines.append((value, stop))
        elif found == _PLANE_EVENT_ENTRY:
            kept.add()
            kinds.append((value, stop))
        elif found == _PLANE_STAT_ENTRY:
            kept.add()
            key, first, last = _entry(content, value, stop)
            names = [span[1:] for span in _fields(content, first, last) if span[0] == _NAME]
            plane.stat_names[key] = _text(content, *names[-1]) if names else ""
    for span in kinds:
        key, first, last = _entry(content, *span)
        plane.kinds[key] = _kind(content, (first, last), plane, keep)
        kept.add(len(plane.kinds[key].stats))
    each = is_of_gpu(plane.name) and INSTRUCTION in plane.stat_names.values()
    wanted = {key for key, kind in plane.kinds.items() if each or kind.wanted}
    nameless = keep is None or keep("", plane.name, {})
    plane.lines = [_line(content, span, plane.kinds, wanted, nameless, kept) for span in lines]
    return plane


def _entry(content: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Key, and begin and end of the value, of an entry of a map."""
    fields = {found: (value, stop) for found, value, stop in _fields(content, start, end)}
    key, _ = fields.get(_ENTRY_KEY, (0, end))
    return _signed(key), *fields.get(_ENTRY_VALUE, (end, end))


def _kind(content: bytes, span: tuple[int, int], plane: _Plane, keep: Keep | None) -> _Kind:
    name = shown = ""
    stats: dict[str, Stat] = {}
    for found, value, stop in _fields(content, *span):
        if found == _NAME:
            name = _text(content, value, stop)
        elif found == _METADATA_DISPLAY_NAME:
            shown = _text(content, value, stop)
        elif found == _METADATA_STAT:
            stats.update(_stat(content, value, stop, plane.stat_names))
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
    for found, value, stop in _fields(content, *span):
        if found == _LINE_EVENT:
            line.recorded += 1
            key = _metadata_id(content, value, stop)
            if key in wanted or (nameless and key not in kinds):
                kept.add()
                line.spans.append((key, value, stop))
        elif found == _NAME:
            line.name = _text(content, value, stop)
        elif found == _LINE_DISPLAY_NAME:
            shown = _text(content, value, stop)
        elif found == _LINE_TIMESTAMP_NS:
            line.timestamp_ns = _signed(value)
    line.name = shown or line.name
    return line


def _metadata_id(content: bytes, start: int, end: int) -> int:
    # Profilers write it first, so that the rest of an unwanted event is not read.
    if start < end and content[start] == _METADATA_ID:
        return _signed(_varint(content, start + 1, end)[0])
    for found, value, _ in _fields(content, start, end):
        if found == _METADATA_ID:
            return _signed(value)
    return 0


def _events(content: bytes, planes: list[_Plane], keep: Keep | None, kept: Kept) -> Iterator[Event]:
    """Times count from the first clock: in seconds since 1970 a float resolves only 0.2 us."""
    clocks = [line.timestamp_ns for plane in planes for line in plane.lines if line.timestamp_ns]
    begin_ns = min(clocks, default=0)
    for plane in planes:
        for line in plane.lines:
            base_ps = (line.timestamp_ns - begin_ns) * 1000
            for key, start, end in line.spans:
                kind = plane.kinds.get(key) or _Kind(name="", wanted=True, stats={})
                event = _event(content, (start, end), plane, line.name, kind, base_ps)
                if kind.wanted or (keep is not None and keep(event.name, plane.name, event.stats)):
                    kept.add(len(event.stats))
                    yield event
            # Frees memory: no event is held twice.
            line.spans.clear()


def _event(
    content: bytes, span: tuple[int, int], plane: _Plane, line: str, kind: _Kind, base_ps: int
) -> Event:
    offset_ps = duration_ps = 0
    stats = dict(kind.stats)
    for found, value, stop in _fields(content, *span):
        if found == _EVENT_OFFSET_PS:
            offset_ps = _signed(value)
        elif found == _EVENT_DURATION_PS:
            duration_ps = _signed(value)
        elif found == _EVENT_STAT:
            stats.update(_stat(content, value, stop, plane.stat_names))
    if duration_ps < 0:
        raise TraceError(f"byte {span[0]}: an event of {duration_ps} ps")
    shared = ((base_ps + offset_ps) * _PS, duration_ps * _PS)
    return Event.timed((kind.name, plane.name, line), shared, own_times(stats), stats)


def own_times(stats: Mapping[str, Stat]) -> Times | None:
    """Begin and duration by the device's own clock; None unless both are noted."""
    begin_ps, lasted_ps = stats.get(OWN_BEGIN), stats.get(OWN_DURATION)
    if not isinstance(begin_ps, int) or not isinstance(lasted_ps, int) or lasted_ps < 0:
        return None
    return begin_ps * _PS, lasted_ps * _PS


def _stat(content: bytes, start: int, end: int, names: dict[int, str]) -> dict[str, Stat]:
    """A stat by its name; {} for one of raw bytes."""
    key = 0
    worth: Stat | None = None
    for found, value, stop in _fields(content, start, end):
        if found == _METADATA_ID:
            key = _signed(value)
        elif found == _STAT_INT:
            worth = _signed(value)
        elif found == _STAT_UINT:
            worth = value
        elif found == _STAT_DOUBLE:
            (worth,) = struct.unpack_from("<d", content, value)
        elif found == _STAT_TEXT:
            worth = _text(content, value, stop)
        elif found == _STAT_REFERENCE:
            worth = names.get(value, "")
    return {} if worth is None else {names.get(key, ""): worth}


def _reached(content: bytes) -> str:
    found = reached(_begun(content))
    spans = _some(content, 0, len(content), _SPACE_PLANE)
    planes = [_first_text(content, *span, _PLANE_NAME) for span in spans]
    return found or (f"; it ends within {planes[-1]}" if planes and planes[-1] else "")


def _begun(content: bytes) -> Iterator[Begun]:
    for start, stop in _some(content, 0, len(content), _SPACE_PLANE):
        plane = _first_text(content, start, stop, _PLANE_NAME)
        if device_of_plane(plane) is None:
            continue
        for begin, end in _some(content, start, stop, _PLANE_LINE):
            line = _first_text(content, begin, end, _NAME)
            for first, last in _some(content, begin, end, _LINE_EVENT):
                yield plane, line, _offset_ps(content, first, last)


def _first_text(content: bytes, start: int, stop: int, wanted: int) -> str:
    return next((_text(content, *span) for span in _some(content, start, stop, wanted)), "")


def _offset_ps(content: bytes, start: int, stop: int) -> float:
    return next((_signed(value) for value, _ in _some(content, start, stop, _EVENT_OFFSET_PS)), 0)


def _some(content: bytes, start: int, stop: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Value and end of each such field of a message that may be cut, the last one partly."""
    with contextlib.suppress(TraceError):
        for found, value, end in _fields(content, start, stop, cut=True):
            if found == wanted:
                yield value, end


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends; raises TraceError if it does not."""
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


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _fields(
    content: bytes, start: int, end: int, *, cut: bool = False
) -> Iterator[tuple[int, int, int]]:
    """(tag, value, end) of each field of the message between `start` and `end`.

    The value of a varint is its number; of all others, the offset of its bytes. Raises TraceError,
    with the offset, for bytes that are no message or exceed it. In a message that is `cut`, the
    last field ends where the message does.
    """
    at = start
    while at < end:
        begun = at
        found, at = _varint(content, at, end)
        written = found & 7
        if written == _VARINT:
            value, at = _varint(content, at, end)
        elif written == _BYTES:
            length, value = _varint(content, at, end)
            at = value + length
        elif written in (_FIXED64, _FIXED32):
            value, at = at, at + (8 if written == _FIXED64 else 4)
        else:
            raise TraceError(f"byte {begun}: not a protobuf field")
        if at > end and cut and written == _BYTES:
            at = end
        if at > end:
            raise TraceError(f"byte {begun}: a field goes on to byte {at}, after its end at {end}")
        yield found, value, at


def _text(content: bytes, start: int, end: int) -> str:
    return content[start:end].decode("utf-8", "replace")
