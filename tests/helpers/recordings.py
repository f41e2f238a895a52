"""Recordings as profilers write them, made up: bytes of both formats, whose times are known.

No test lives here. The xplane writer shares no code with the reader that it tests.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Stat = str | int | float


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A stat whose text lies among the names of stats."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Made:
    """One event, in picoseconds from its line's clock."""

    name: str
    offset_ps: int = 0
    duration_ps: int = 0
    stats: Mapping[str, Stat | Reference | bytes] = field(default_factory=dict)
    shown: str = ""
    common: Mapping[str, Stat] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a plane."""

    name: str
    events: Sequence[Made]
    timestamp_ns: int = 0


def number(value: int) -> bytes:
    """A protobuf varint."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def numbered(place: int, value: int) -> bytes:
    """A field that holds a number."""
    return number(place << 3) + number(value)


def sized(place: int, content: bytes | str) -> bytes:
    """A field that holds bytes, text or a message."""
    raw = content.encode() if isinstance(content, str) else content
    return number(place << 3 | 2) + number(len(raw)) + raw


class _Names:
    """Names to ids, from 1 on."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id(self, name: str) -> int:
        return self.ids.setdefault(name, len(self.ids) + 1)


def _stat(names: _Names, name: str, value: Stat | Reference | bytes) -> bytes:
    key = numbered(1, names.id(name))
    if isinstance(value, Reference):
        return key + numbered(7, names.id(value.text))
    if isinstance(value, float):
        return key + number(2 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return key + numbered(4 if value < 2**63 else 3, value)
    return key + sized(6 if isinstance(value, bytes) else 5, value)


def plane(name: str, lines: Sequence[Line], *, metadata_last: bool = False) -> bytes:
    """An XPlane; profilers differ in whether lines or metadata come first."""
    kinds, names = _Names(), _Names()
    common: dict[str, Made] = {}
    written = []
    for line in lines:
        body = sized(2, line.name) + numbered(3, line.timestamp_ns)
        for event in line.events:
            common.setdefault(event.name, event)
            stats = b"".join(sized(4, _stat(names, k, v)) for k, v in event.stats.items())
            times = numbered(2, event.offset_ps) + numbered(3, event.duration_ps)
            body += sized(4, numbered(1, kinds.id(event.name)) + times + stats)
        written.append(sized(3, body))
    metadata = []
    for text, key in kinds.ids.items():
        event = common[text]
        stats = b"".join(sized(5, _stat(names, k, v)) for k, v in event.common.items())
        shown = sized(4, event.shown) if event.shown else b""
        value = numbered(1, key) + sized(2, text) + shown + stats
        metadata.append(sized(4, numbered(1, key) + sized(2, value)))
    for text, key in names.ids.items():
        metadata.append(sized(5, numbered(1, key) + sized(2, numbered(1, key) + sized(2, text))))
    ordered = [*written, *metadata] if metadata_last else [*metadata, *written]
    return numbered(1, 7) + sized(2, name) + b"".join(ordered)


def space(*planes: bytes, host: str = "") -> bytes:
    """An XSpace: the content of an xplane.pb."""
    return b"".join(sized(1, one) for one in planes) + (sized(4, host) if host else b"")


def process(pid: int, name: str, threads: Mapping[int, str]) -> list[dict[str, Any]]:
    """The rows of a trace.json that name a process and its threads."""
    rows = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}]
    for tid, thread in threads.items():
        args = {"name": thread}
        rows.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": args})
    return rows


def complete(
    name: str, *, pid: int, tid: int, ts: float, dur: float, **args: Stat
) -> dict[str, Any]:
    """A row of a trace.json with a begin and a duration in microseconds."""
    row = {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name}
    return {**row, "args": args} if args else row


def packed(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The content of a trace.json.gz, with the empty object that profilers put at the end."""
    document = {"displayTimeUnit": "ns", "traceEvents": [*rows, {}]}
    return gzip.compress(json.dumps(document).encode(), mtime=0)
