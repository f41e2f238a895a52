"""The events of a trace.json, one after another: the document is never in memory as a whole.

A recording of a million events is some 300 MB of text, and ten times that as Python objects. The
text is decompressed and parsed in chunks; one value and the text after it are held at a time.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from .event import MOST_EVENTS, RecordingTooLargeError, TraceError

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


def _of_object(text: _Text) -> Iterator[Any]:
    seen = False
    for key in text.names():
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
