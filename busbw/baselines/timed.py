"""One file of times as values, and its checks. How entries are joined is decided in `entries`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.stored import LEAST_S, MOST_S, check_case, check_moment

from . import files
from .document import Status, StoredFile, StoredLine, case_of, check_date, check_file, located
from .files import Codec

# No clock is finer than the first, and ratios divide by it; nothing that is timed takes the second.
LEAST_US, MOST_US = 1e6 * LEAST_S, 1e6 * MOST_S


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """What one session, which began `at`, UTC, added to an entry: times of its launches."""

    date: str
    at: str
    commit: str = ""
    times_us: tuple[float, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(StoredLine):
    """One line: a payload's sessions, oldest first, or that it was out of memory on `date`.

    `pinned_us` is the level against which the entry may lose no more than a budget. An entry with
    `memory_limit_bytes` was out of memory under that artificial limit, and is a separate line: it
    says nothing of sessions without the limit.
    """

    pinned_us: float | None = None
    pinned_date: str = ""
    sessions: tuple[StoredSession, ...] = ()
    needed_bytes: int | None = None
    available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    protocol: Protocol
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def order(self) -> tuple[object, ...]:
        """With the memory limit: there may be a line for each."""
        return (self.line_key, self.memory_limit_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """One line of the file's history: `entries` were written or removed.

    `worst_percent` is the largest rise of a level, below 0 where all of them fell.
    `accepted_regression` says that a loss beyond the budget was accepted, for the `reason`.
    """

    date: str
    commit: str = ""
    entries: int
    worst_percent: float
    reason: str = ""
    accepted_regression: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Document(StoredFile):
    """One file of times: entries, and history."""

    document: str = "busbw baseline"
    entries: tuple[Entry, ...]
    history: tuple[Update, ...] = ()

    def entry(self, case: Case, memory_limit_bytes: int | None = None) -> Entry | None:
        """The line of `case`, or that of out of memory under the limit; None: no such line."""
        wanted = (case.key.line_key, memory_limit_bytes)
        found = (e for e in self.entries if (e.line_key, e.memory_limit_bytes) == wanted)
        return next(found, None)


def checked(raw: Any) -> Document:
    """The Document in `raw`. Raises WireError with the location of what cannot be."""
    document = wire.from_json(Document, raw, "document")
    check_file(document)
    for index, entry in enumerate(document.entries):
        _check_entry(entry, f"document.entries[{index}]")
        with located(f"document.entries[{index}]"):
            check_case(case_of(document, entry, entry.protocol))
    for index, update in enumerate(document.history):
        check_date(update.date, f"document.history[{index}].date")
    return document


def _check_entry(entry: Entry, location: str) -> None:
    """Raises WireError with the location of what no entry of a measurement can hold."""
    if entry.memory_limit_bytes is not None and entry.memory_limit_bytes <= 0:
        raise wire.WireError(
            f"{location}.memory_limit_bytes: expected bytes above 0, got {entry.memory_limit_bytes}"
        )
    if entry.status is Status.OK:
        _check_timed(entry, location)
        return
    for key in ("sessions", "pinned_us", "pinned_date"):
        if getattr(entry, key):
            raise wire.WireError(f"{location}.{key}: expected none with the status 'oom'")
    if not entry.date:
        raise wire.WireError(f"{location}.date: expected one with the status 'oom'")
    check_date(entry.date, f"{location}.date")


def _check_timed(entry: Entry, location: str) -> None:
    if not entry.sessions:
        raise wire.WireError(f"{location}.sessions: expected at least one, or the status 'oom'")
    if entry.memory_limit_bytes is not None:
        raise wire.WireError(f"{location}.memory_limit_bytes: expected only with the status 'oom'")
    if entry.date or entry.versions:
        key = "date" if entry.date else "versions"
        raise wire.WireError(f"{location}.{key}: expected in the sessions, or the status 'oom'")
    if entry.pinned_us is None or not entry.pinned_date:
        key = "pinned_us" if entry.pinned_us is None else "pinned_date"
        raise wire.WireError(f"{location}.{key}: missing")
    for index, session in enumerate(entry.sessions):
        _check_session(session, f"{location}.sessions[{index}]")
    _check_microseconds(entry.pinned_us, f"{location}.pinned_us")
    check_date(entry.pinned_date, f"{location}.pinned_date")


def _check_session(session: StoredSession, location: str) -> None:
    check_date(session.date, f"{location}.date")
    with located(location):
        check_moment("at", session.at)
    if not session.times_us:
        raise wire.WireError(f"{location}.times_us: expected at least one time")
    for index, time_us in enumerate(session.times_us):
        _check_microseconds(time_us, f"{location}.times_us[{index}]")


def _check_microseconds(value_us: float, location: str) -> None:
    if value_us < LEAST_US:
        raise wire.WireError(
            f"{location}: expected microseconds above 0 (at least {LEAST_US:g}), got {value_us:g}"
        )
    if value_us > MOST_US:
        raise wire.WireError(
            f"{location}: expected microseconds up to {MOST_US:g}, got {value_us:g}"
        )


TIMED = Codec(kind=Document, folder="", checked=checked)


def read(path: Path) -> Document:
    """The checked Document in `path`. Raises BaselineError."""
    return files.read(TIMED, path)
