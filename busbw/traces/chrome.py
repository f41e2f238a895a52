"""`*.trace.json.gz`: the trace viewer's own format, which profilers have written since 2017.

Gzip and JSON of the standard library; times are in microseconds, those by a device's own clock
are among the arguments, in picoseconds.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import json
import math
import re
import reprlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .event import (
    MOST_EVENTS,
    OWN_BEGIN,
    OWN_DURATION,
    Begun,
    Event,
    Keep,
    Kept,
    RecordingTooLargeError,
    Stats,
    Times,
    TooManyError,
    Trace,
    TraceError,
    reached,
)

# A million events, the most that profilers write, of 1 KiB each.
MOST_BYTES = 2**30
# With the names of processes and threads there are some more rows than events.
MOST_ROWS = 2 * MOST_EVENTS
# The longest text of an instruction has less.
MOST_CHARACTERS = 2 * 2**20

_AT_ONCE = 2**18
_SPACE = re.compile(r"[ \t\n\r]*")
# This near the end of the text read so far, anything may still become a word or a number.
_LONGEST_WORD = 16
_DECODER = json.JSONDecoder()


def rows(content: bytes, most_bytes: int) -> Iterator[dict[str, Any]]:
    """The events in gzip's `content`, as they stand there: a list, or `traceEvents` of an object.

    Raises TraceError for what is cut, damaged or no list of objects, and RecordingTooLargeError
    for what unpacks to more than `most_bytes`, before any of it is parsed.
    """
    if not content:
        raise TraceError("the file is empty")
    try:
        _check_size(content, most_bytes)
        for index, row in enumerate(_listed(_Text(content))):
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise TraceError(f"traceEvents[{index}]: expected an object, got {kind}")
            if index >= MOST_ROWS:
                raise TraceError(f"more than {MOST_ROWS} rows, twice what profilers write")
            yield row
    except EOFError as error:
        raise TraceError("the gzip stream is cut: the file is not whole") from error
    except (OSError, zlib.error) as error:
        raise TraceError(f"not a gzip file, or a damaged one: {error}") from error


def _check_size(content: bytes, most_bytes: int) -> None:
    """Decompressing is quick and parsing is not: oversize is found first."""
    count = 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file, contextlib.suppress(EOFError):
        while part := file.read(_AT_ONCE):
            count += len(part)
            if count > most_bytes:
                raise RecordingTooLargeError(f"unpacks to more than {most_bytes} bytes")


def _listed(text: _Text) -> Iterator[Any]:
    if text.next() == "[":
        yield from text.items()
    elif text.next() == "{":
        yield from _of_object(text)
    else:
        text.value()
        raise TraceError("no traceEvents in it: not a profiler's recording")
    text.check_end()


# Keys that PyTorch's profiler writes before the events, whose names busbw does not know.
_OF_PYTORCH = {"schemaVersion", "distributedInfo"}


def _of_object(text: _Text) -> Iterator[Any]:
    seen = False
    for key in text.names():
        if key in _OF_PYTORCH:
            raise TraceError(
                "a recording of PyTorch's profiler; expected one of JAX's or TensorFlow's profiler"
            )
        if key != "traceEvents":
            text.value()
            continue
        if seen:
            raise text.error("traceEvents occurs twice")
        if text.next() != "[":
            break
        seen = True
        yield from text.items()
    if not seen:
        raise TraceError("no traceEvents in it: not a profiler's recording")


class _Text:
    """The decompressed text that is not parsed yet, no more of it than a value takes."""

    def __init__(self, content: bytes) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(content))
        self._decoded = codecs.getincrementaldecoder("utf-8-sig")()
        self._held = ""
        self._at = 0
        self._dropped = 0
        self._ended = False

    def next(self) -> str:
        while True:
            space = _SPACE.match(self._held, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._read():
                return ""

    def value(self) -> Any:
        while True:
            self.next()
            try:
                found, end = _DECODER.raw_decode(self._held, self._at)
            except json.JSONDecodeError as error:
                if self._is_wrong(error) or not self._read():
                    raise self.error(error.msg, error.pos) from error
                continue
            except (ValueError, RecursionError) as error:
                raise self.error(str(error)) from error
            # A number at the end of the text read so far may continue.
            if end < len(self._held) or not self._read():
                self._at = end
                return found

    def items(self) -> Iterator[Any]:
        return self._between("[", "]", self.value)

    def names(self) -> Iterator[str]:
        """The keys of the object that begins here; after each, its value must be read."""
        return self._between("{", "}", self._key)

    def _between(self, begin: str, end: str, one: Callable[[], Any]) -> Iterator[Any]:
        self._take(begin)
        if self.next() != end:
            yield one()
            while self.next() == ",":
                self._take(",")
                yield one()
        self._take(end)

    def _key(self) -> Any:
        if self.next() != '"':
            raise self.error("expected a key")
        key = self.value()
        self._take(":")
        return key

    def check_end(self) -> None:
        if self.next():
            raise self.error("something follows its end")

    def error(self, text: str, at: int | None = None) -> TraceError:
        position = self._dropped + (self._at if at is None else at)
        return TraceError(f"no whole JSON document: {text}, at character {position}")

    def _take(self, character: str) -> None:
        if self.next() != character:
            raise self.error(f"expected {character!r}")
        self._at += 1

    def _is_wrong(self, error: json.JSONDecodeError) -> bool:
        """Whether more text could not make it valid."""
        unfinished = error.msg.startswith("Unterminated string")
        return not unfinished and error.pos < len(self._held) - _LONGEST_WORD

    def _read(self) -> bool:
        if self._ended:
            return False
        self._dropped += self._at
        self._held, self._at = self._held[self._at :], 0
        if len(self._held) > MOST_CHARACTERS:
            raise TraceError(f"a value of more than {MOST_CHARACTERS} characters")
        part = self._file.read(max(_AT_ONCE, len(self._held)))
        self._ended = not part
        try:
            self._held += self._decoded.decode(part, final=self._ended)
        except UnicodeDecodeError as error:
            raise self.error(f"not UTF-8 ({error.reason})", len(self._held)) from error
        return bool(part)


_NO_STATS: Stats = {}
_US = 1e-6
_PS = 1e-12
# Since 1970 it is 1.8e15 us; nothing that is recorded takes eleven days.
_MOST_US, _LONGEST_US = 1e18, 1e12


def read_chrome(
    content: bytes, *, host: str = "", keep: Keep | None = None, most_bytes: int = MOST_BYTES
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
        events=tuple(read.events()),
        host=host,
        recorded=read.recorded,
        is_cut=read.recorded >= MOST_EVENTS,
        planes=tuple(read.planes.values()),
    )


class _Read:
    """Everything read so far.

    Planes and lines of `found` are numbers: their names may come after the events.
    """

    def __init__(self, keep: Keep | None) -> None:
        self.planes: dict[str, str] = {}
        self.found: list[Event] = []
        self.recorded = 0
        self._lines: dict[tuple[str, str], str] = {}
        self._keep = keep
        self._kept = Kept()
        self._same: dict[str, str] = {}

    def add(self, row: Mapping[str, Any], index: int) -> None:
        phase, args = row.get("ph"), row.get("args")
        if phase == "M" and isinstance(args, dict):
            self._name(row, _word(args.get("name")))
        elif phase == "X":
            self.recorded += 1
            noted = args if isinstance(args, dict) else _NO_STATS
            # The process, if its name came before the event.
            plane = self.planes.get(_word(row.get("pid")), "")
            if self._keep is None or self._keep(_word(row.get("name")), plane, noted):
                self.found.append(_event(row, _stats(noted), index, self._same))
                self._kept.add(1 + len(self.found[-1].stats))

    def _name(self, row: Mapping[str, Any], name: str) -> None:
        process = _word(row.get("pid"))
        if row.get("name") == "process_name":
            self.planes[process] = name
        elif row.get("name") == "thread_name":
            self._lines[process, _word(row.get("tid"))] = name
        self._kept.add()

    def _where(self, event: Event) -> tuple[str, str]:
        line = self._lines.get((event.plane, event.line), event.line)
        return self.planes.get(event.plane, event.plane), line

    def begun(self) -> Iterator[Begun]:
        for event in self.found:
            yield (*self._where(event), event.shared_s)

    def events(self) -> Iterator[Event]:
        """Events are released one by one, so that none is held twice."""
        self.found.reverse()
        while self.found:
            event = self.found.pop()
            plane, line = self._where(event)
            yield replace(event, plane=plane, line=line)


def _event(row: Mapping[str, Any], stats: Stats, index: int, same: dict[str, str]) -> Event:
    """Its plane and line are numbers until names are known; texts are interned in `same`.

    Raises TraceError for invalid times.
    """
    words = (_word(row.get(key)) for key in ("name", "pid", "tid"))
    name, process, thread = (same.setdefault(word, word) for word in words)
    where = f"traceEvents[{index}]"
    begin_s = _number(row.get("ts"), f"{where}.ts", _MOST_US) * _US
    shared = begin_s, _lasted_s(row.get("dur", 0), f"{where}.dur", _US)
    own = _own(stats, begin_s, f"{where}.args") if OWN_DURATION in stats else None
    return Event.timed((name, process, thread), shared, own, stats)


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
