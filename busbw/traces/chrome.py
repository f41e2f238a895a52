"""`*.trace.json.gz`: the trace viewer's own format, which profilers have written since 2017.

Gzip and JSON of the standard library; times are in microseconds, those by a device's own clock
are among the arguments, in picoseconds.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .attribution import Begun, reached
from .event import (
    MOST_EVENTS,
    OWN_BEGIN,
    OWN_DURATION,
    Event,
    Keep,
    Kept,
    RecordingTooLargeError,
    Stats,
    Times,
    TooManyError,
    Trace,
    TraceError,
)
from .rows import MOST_BYTES, rows

_NO_STATS: Stats = {}
_US = 1e-6
_PS = 1e-12
# Since 1970 it is 1.8e15 us; nothing that is recorded takes eleven days.
_MOST_US, _LONGEST_US = 1e18, 1e12


def read_chrome(
    content: bytes,
    *,
    host: str = "",
    keep: Keep | None = None,
    most_bytes: int = MOST_BYTES,
) -> Trace:
    """Raises TraceError for what is cut, is no trace, or unpacks to more than `most_bytes`."""
    read = _Read(keep)
    try:
        for index, row in enumerate(rows(content, most_bytes)):
            read.add(row, index)
    except (RecordingTooLargeError, TooManyError):
        raise
    except TraceError as error:
        raise TraceError(f"{error}{reached(read.begun())}") from error
    return Trace(
        events=tuple(_events(read.found, read.names)),
        host=host,
        recorded=read.recorded,
        is_cut=read.recorded >= MOST_EVENTS,
        planes=tuple(read.names.planes.values()),
    )


def _events(found: list[_Row], names: _Names) -> Iterator[Event]:
    """Rows are released one by one, so that none is held twice."""
    found.reverse()
    while found:
        yield found.pop().event(names)


@dataclass(frozen=True)
class _Names:
    """The names of processes and of their threads, which may come after their events."""

    planes: dict[str, str] = field(default_factory=dict)
    lines: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], kept: Kept) -> None:
        args = row.get("args")
        if not isinstance(args, dict):
            return
        process, name = _word(row.get("pid")), _word(args.get("name"))
        if row.get("name") == "process_name":
            self.planes[process] = name
        elif row.get("name") == "thread_name":
            self.lines[process, _word(row.get("tid"))] = name
        kept.add()

    def plane(self, row: Mapping[str, Any]) -> str:
        """The process of an event, if its name came before it; else ""."""
        return self.planes.get(_word(row.get("pid")), "")

    def of(self, row: _Row) -> tuple[str, str]:
        line = self.lines.get((row.process, row.thread), row.thread)
        return self.planes.get(row.process, row.process), line


@dataclass(frozen=True, slots=True)
class _Row:
    """An event before the names of its process and thread are known."""

    name: str
    process: str
    thread: str
    shared: Times
    own: Times | None
    stats: Stats

    @classmethod
    def of(cls, row: Mapping[str, Any], stats: Stats, index: int, same: dict[str, str]) -> _Row:
        """Texts are interned in `same`. Raises TraceError for invalid times."""
        name, process, thread = (_word(row.get(key)) for key in ("name", "pid", "tid"))
        where = f"traceEvents[{index}]"
        begin_s = _number(row.get("ts"), f"{where}.ts", _MOST_US) * _US
        return cls(
            name=same.setdefault(name, name),
            process=same.setdefault(process, process),
            thread=same.setdefault(thread, thread),
            shared=(begin_s, _lasted_s(row.get("dur", 0), f"{where}.dur", _US)),
            own=_own(stats, begin_s, f"{where}.args") if OWN_DURATION in stats else None,
            stats=stats,
        )

    def event(self, names: _Names) -> Event:
        return Event.timed((self.name, *names.of(self)), self.shared, self.own, self.stats)


class _Read:
    """Everything read so far."""

    def __init__(self, keep: Keep | None) -> None:
        self.names = _Names()
        self.found: list[_Row] = []
        self.recorded = 0
        self._keep = keep
        self._kept = Kept()
        self._same: dict[str, str] = {}

    def add(self, row: Mapping[str, Any], index: int) -> None:
        phase = row.get("ph")
        if phase == "M":
            self.names.add(row, self._kept)
        elif phase == "X":
            self.recorded += 1
            args = row.get("args")
            noted = args if isinstance(args, dict) else _NO_STATS
            if self._keep is None or self._keep(
                _word(row.get("name")), self.names.plane(row), noted
            ):
                self.found.append(_Row.of(row, _stats(noted), index, self._same))
                self._kept.add(1 + len(self.found[-1].stats))

    def begun(self) -> Iterator[Begun]:
        for row in self.found:
            plane, line = self.names.of(row)
            yield plane, line, row.shared[0]


def _stats(noted: Mapping[str, Any]) -> Stats:
    found = {key: worth for key, worth in noted.items() if isinstance(worth, (str, int, float))}
    return found or _NO_STATS


def _own(stats: Stats, begin_s: float, where: str) -> Times:
    """Times by the device's own clock; from `begin_s` on where no start is noted."""
    if OWN_BEGIN in stats:
        begin_s = _number(stats[OWN_BEGIN], f"{where}.{OWN_BEGIN}", _MOST_US * _US / _PS) * _PS
    return begin_s, _lasted_s(stats[OWN_DURATION], f"{where}.{OWN_DURATION}", _PS)


def _lasted_s(worth: Any, where: str, unit_s: float) -> float:
    found = _number(worth, where, _LONGEST_US * _US / unit_s)
    if found < 0:
        raise TraceError(f"{where}: expected 0 or more, got {found:g}")
    return found * unit_s


def _number(worth: Any, where: str, most: float) -> float:
    """A number, also one written as text, as the viewer's format does with large ones."""
    try:
        number = float(worth)
    except (TypeError, ValueError, OverflowError) as error:
        shown = reprlib.repr(worth) if isinstance(worth, (list, dict)) else repr(str(worth)[:60])
        raise TraceError(f"{where}: expected a number, got {shown}") from error
    if not math.isfinite(number):
        raise TraceError(f"{where}: expected a finite number, got {number}")
    if abs(number) > most:
        raise TraceError(f"{where}: expected a number up to {most:g}, got {number:g}")
    return number


def _word(worth: Any) -> str:
    return str(worth) if isinstance(worth, (str, int, float)) else ""
