"""Recordings as profilers write them, made up: bytes of both formats, whose times are known.

No test lives here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Stat = str | int | float


@dataclass(frozen=True, kw_only=True)
class Made:
    """One event, in picoseconds from its line's clock."""

    name: str
    offset_ps: int = 0
    duration_ps: int = 0
    stats: Mapping[str, Stat] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a plane."""

    name: str
    events: Sequence[Made]


def number(value: int) -> bytes:
    """Return a protobuf varint."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def numbered(place: int, value: int) -> bytes:
    """Return a field that holds a number."""
    return number(place << 3) + number(value)


def sized(place: int, content: bytes | str) -> bytes:
    """Return a field that holds bytes, text or a message."""
    raw = content.encode() if isinstance(content, str) else content
    return number(place << 3 | 2) + number(len(raw)) + raw


def plane(name: str, lines: Sequence[Line]) -> bytes:
    """Return an XPlane whose events and their stats have the names of their metadata."""
    kinds: dict[str, int] = {}
    names: dict[str, int] = {}
    body = b""
    for line in lines:
        events = b""
        for event in line.events:
            stats = b""
            for key, value in event.stats.items():
                stat = numbered(1, names.setdefault(key, len(names) + 1))
                stat += numbered(4, value) if isinstance(value, int) else sized(5, str(value))
                stats += sized(4, stat)
            kind = numbered(1, kinds.setdefault(event.name, len(kinds) + 1))
            times = numbered(2, event.offset_ps) + numbered(3, event.duration_ps)
            events += sized(4, kind + times + stats)
        body += sized(3, sized(2, line.name) + events)
    for place, metadata in ((4, kinds), (5, names)):
        for text, number_of_text in metadata.items():
            named = numbered(1, number_of_text)
            body += sized(place, named + sized(2, named + sized(2, text)))
    return sized(2, name) + body


def space(*planes: bytes) -> bytes:
    """Return an XSpace: the content of an xplane.pb."""
    return b"".join(sized(1, content) for content in planes)


def process(pid: int, name: str, threads: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the rows of a trace.json that name a process and its threads."""
    rows = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}]
    for tid, thread in threads.items():
        args = {"name": thread}
        rows.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": args})
    return rows


def complete(
    name: str, *, pid: int, tid: int, ts: float, dur: float, **args: Stat
) -> dict[str, Any]:
    """Return a row of a trace.json with a begin and a duration in microseconds."""
    row = {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name}
    return {**row, "args": args} if args else row


def packed(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a trace.json.gz, with the empty object that profilers put at the end."""
    document = {"displayTimeUnit": "ns", "traceEvents": [*rows, {}]}
    return gzip.compress(json.dumps(document).encode(), mtime=0)
