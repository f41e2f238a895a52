"""One baseline file as values: what it holds, read strictly, written one line per payload.

Schema history:
1  the first: the launch times of one session per payload.
2  the sessions of each payload with commit and anchors, the pinned level, the file's history.
   A file of schema 1 is read as one session, pinned at its median, and written as schema 2.

Knows text and values; what becomes of an entry is decided in `pool`.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import inputs, model, wire
from busbw.model import Case, Compiled, EnvironmentKey, Protocol, payload_text

SCHEMA = 2

# No clock is finer, and what is compared is divided by it; nothing that is timed takes so long.
LEAST_US, MOST_US = 1e6 * model.LEAST_S, 1e6 * model.MOST_S


class BaselineError(ValueError):
    """A baseline file that cannot be used; says which, where in it, and what is accepted."""


class Status(str, enum.Enum):
    """Whether the payload was timed or did not fit."""

    OK = "ok"
    OOM = "oom"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """What one session added to an entry: one time, and perhaps one anchor, for each launch."""

    date: str
    commit: str = ""
    times_us: tuple[float, ...]
    anchors_us: tuple[float, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLine:
    """What every line says: its payload, the kind of case, and whether it fitted."""

    dtype: str
    reduce_op: str
    placement: str
    axes: str = ""
    payload: str
    payload_bytes: int
    status: Status

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """What the line is about, and its place among the others."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """What every file says: the Environment key in full, and what all its cases share."""

    schema: int
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(StoredLine):
    """One line: a payload's sessions, oldest first, or that it was out of memory on `date`.

    `pinned_us` is the level that the entry may not lose more than a budget against. With a
    `memory_limit_bytes` it was out of memory under that artificial limit, and is an entry of its
    own: it says nothing of sessions without it.
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

    entries: tuple[Entry, ...]
    history: tuple[Update, ...] = ()


def read_json(path: Path) -> Any:
    """The JSON in `path`. Raises BaselineError with line and column, also for a repeated key."""
    try:
        return wire.parsed(inputs.content(path))
    except inputs.InputError as error:
        raise BaselineError(f"{path}: {error}") from error
    except wire.WireError as error:
        # As compilers do it: path, line and column, if these are known.
        space = "" if str(error)[0].isdigit() else " "
        raise BaselineError(f"{path}:{space}{error}") from error


def check_key(key: EnvironmentKey, where: str) -> None:
    """Raises WireError with the place of what no machine has."""
    with _placed(where):
        model.check_key(key)


def check_case(case: Case, where: str) -> None:
    """Raises WireError with the place of what no case can be."""
    with _placed(where):
        model.check_case(case)


def check_compiled(compiled: Compiled, where: str) -> None:
    """Raises WireError with the place of what no program has."""
    with _placed(where):
        model.check_compiled(compiled)


def check_payload(payload: str, payload_bytes: int, where: str) -> None:
    """Raises WireError where a payload's text and its bytes are not the same."""
    if payload_bytes <= 0 or payload != payload_text(payload_bytes):
        raise wire.WireError(
            f"{where}.payload: {payload[:60]!r} is not {payload_bytes} bytes; "
            f"expected {payload_text(payload_bytes)!r}"
        )


def check_bytes(entry: Any, where: str) -> None:
    """Raises WireError for memory below 0."""
    for key in ("needed_bytes", "available_bytes"):
        if (getattr(entry, key) or 0) < 0:
            raise wire.WireError(f"{where}.{key}: expected bytes, got {getattr(entry, key)}")


def check_date(text: str, where: str) -> None:
    """Raises WireError for what is no day."""
    owner, _, name = where.rpartition(".")
    with _placed(owner):
        model.check_date(name, text)


@contextlib.contextmanager
def _placed(where: str) -> Iterator[None]:
    """What a check of the model says, with the place before it."""
    try:
        yield
    except wire.WireError:
        raise
    except ValueError as error:
        raise wire.WireError(f"{where}.{error}") from error


def check_entries(entries: Sequence[Entry]) -> None:
    """Raises WireError with the place of what no entry of a measurement can hold."""
    seen = set()
    for index, entry in enumerate(entries):
        where = f"document.entries[{index}]"
        _check_entry(entry, where)
        if (entry.place, entry.memory_limit_bytes) in seen:
            raise wire.WireError(f"{where}: a second entry for {entry.dtype} {entry.payload}")
        seen.add((entry.place, entry.memory_limit_bytes))


def _check_entry(entry: Entry, where: str) -> None:
    check_payload(entry.payload, entry.payload_bytes, where)
    check_bytes(entry, where)
    if entry.memory_limit_bytes is not None and entry.memory_limit_bytes <= 0:
        raise wire.WireError(
            f"{where}.memory_limit_bytes: expected bytes above 0, got {entry.memory_limit_bytes}"
        )
    if entry.status is Status.OK:
        _check_timed(entry, where)
        return
    for key in ("sessions", "pinned_us", "pinned_date"):
        if getattr(entry, key):
            raise wire.WireError(f"{where}.{key}: expected none with the status 'oom'")
    if not entry.date:
        raise wire.WireError(f"{where}.date: expected one with the status 'oom'")
    check_date(entry.date, f"{where}.date")


def _check_timed(entry: Entry, where: str) -> None:
    if not entry.sessions:
        raise wire.WireError(f"{where}.sessions: expected at least one, or the status 'oom'")
    if entry.memory_limit_bytes is not None:
        raise wire.WireError(f"{where}.memory_limit_bytes: expected only with the status 'oom'")
    if entry.date or entry.versions:
        key = "date" if entry.date else "versions"
        raise wire.WireError(f"{where}.{key}: expected in the sessions, or the status 'oom'")
    if entry.pinned_us is None or not entry.pinned_date:
        key = "pinned_us" if entry.pinned_us is None else "pinned_date"
        raise wire.WireError(f"{where}.{key}: missing")
    for index, session in enumerate(entry.sessions):
        _check_session(session, f"{where}.sessions[{index}]")
    _check_microseconds(entry.pinned_us, f"{where}.pinned_us")
    check_date(entry.pinned_date, f"{where}.pinned_date")


def _check_session(session: StoredSession, where: str) -> None:
    check_date(session.date, f"{where}.date")
    if not session.times_us:
        raise wire.WireError(f"{where}.times_us: expected at least one time")
    for key, values_us in (("times_us", session.times_us), ("anchors_us", session.anchors_us)):
        for place, value_us in enumerate(values_us):
            _check_microseconds(value_us, f"{where}.{key}[{place}]")
    launches = len(session.times_us)
    if session.anchors_us and len(session.anchors_us) != launches:
        raise wire.WireError(
            f"{where}.anchors_us: expected none, or one for each of {launches} launches, "
            f"got {len(session.anchors_us)}"
        )


def _check_microseconds(value_us: float, where: str) -> None:
    if value_us < LEAST_US:
        raise wire.WireError(
            f"{where}: expected microseconds above 0 (at least {LEAST_US:g}), got {value_us:g}"
        )
    if value_us > MOST_US:
        raise wire.WireError(f"{where}: expected microseconds up to {MOST_US:g}, got {value_us:g}")


def dumps(document: Document) -> str:
    """The file's text: entries sorted, one line each, so that a review shows what changed."""
    entries = sorted(document.entries, key=lambda one: (one.place, one.memory_limit_bytes or 0))
    return one_line_each(document, {"entries": entries, "history": document.history})


def one_line_each(document: object, lists: Mapping[str, Sequence[object]]) -> str:
    """`document` as JSON, in which each row of its `lists` has a line of its own."""
    text = json.dumps(wire.to_json(document) | {key: [] for key in lists}, indent=2)
    for key, rows in lists.items():
        lines = ",\n".join("    " + json.dumps(_without_empty(wire.to_json(row))) for row in rows)
        if rows:
            text = text.replace(f'"{key}": []', f'"{key}": [\n{lines}\n  ]')
    return text + "\n"


def _without_empty(row: object) -> object:
    """What is empty or unknown is left out; so it is read."""
    if isinstance(row, dict):
        return {
            key: _without_empty(value)
            for key, value in row.items()
            if value is not False and value not in (None, [], "", {})
        }
    return [_without_empty(item) for item in row] if isinstance(row, list) else row
