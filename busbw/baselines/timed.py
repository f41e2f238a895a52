"""One file of times as values: its checks, its entries as Baselines, and how a session joins one.

A level may creep: each step is too small for a verdict, and each is accepted. So an entry has a
pin, which its level may exceed by a budget, no more. The pin rises only when somebody accepts a
loss with a reason; an improvement beyond the budget lowers it, or it could be lost again unseen.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from busbw import wire
from busbw.baselines.document import (
    Status,
    StoredFile,
    StoredLine,
    case_of,
    check_date,
    check_file,
    located,
)
from busbw.baselines.files import Codec
from busbw.model.case import Case, converted
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.stored import (
    LEAST_S,
    MOST_S,
    Baseline,
    BaselineSession,
    check_case,
    check_moment,
)
from busbw.model.words import payload_text

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


# Enough launches to know the noise, and few enough that the level follows the machine and a line
# can still be read.
MOST_SESSIONS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """When baselines are written, at which commit (may be empty), and why (may be empty).

    `at` is when the session began, as a moment's text. `surroundings` is what else is recorded of
    the machine.
    """

    at: str
    commit: str = ""
    reason: str = ""
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """The day, UTC."""
        return self.at[: len("2026-01-31")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What a session measured of a case and wants stored, seconds for each launch.

    No times: it was out of memory. With `append` the level did not change, and the session joins
    those that are stored; without it the session replaces them. `memory_limit_bytes` is the
    session's artificial limit, if it had one. `why` says in a word or two why it is stored; with
    `takes_loss` also if it loses more than the budget.
    """

    key: EnvironmentKey
    measurement: Measurement
    times_s: tuple[float, ...]
    append: bool = False
    memory_limit_bytes: int | None = None
    why: str = ""
    takes_loss: bool = False


def baseline_of(case: Case, entry: Entry) -> Baseline:
    """What is stored, with the protocol that it was measured with."""
    newest = entry.sessions[-1] if entry.sessions else entry
    return Baseline(
        case=replace(case, protocol=entry.protocol),
        oom=entry.status is Status.OOM,
        sessions=tuple(_session_of(stored) for stored in entry.sessions),
        date=newest.date,
        versions=newest.versions,
        needed_bytes=entry.needed_bytes,
        available_bytes=entry.available_bytes,
        memory_limit_bytes=entry.memory_limit_bytes,
        pinned_s=entry.pinned_us / 1e6 if entry.pinned_us is not None else None,
        pinned_date=entry.pinned_date,
    )


def _session_of(stored: StoredSession) -> BaselineSession:
    return converted(
        BaselineSession, stored, times_s=tuple(time_us / 1e6 for time_us in stored.times_us)
    )


def entry_of(accepted: Accepted, occasion: Occasion) -> Entry:
    """The entry with this session alone; its pin is not set yet."""
    case, measurement = accepted.measurement.case, accepted.measurement
    versions = measurement.runs[0].versions if measurement.runs else {}
    failure = measurement.failures[0] if measurement.failures else None
    oom = not accepted.times_s
    return Entry(
        dtype=case.dtype,
        reduce_op=case.reduce_op,
        placement=case.placement,
        axes=case.axes,
        payload=payload_text(case.payload_bytes),
        payload_bytes=case.payload_bytes,
        status=Status.OOM if oom else Status.OK,
        sessions=() if oom else (_stored(accepted, occasion, versions),),
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
        memory_limit_bytes=accepted.memory_limit_bytes if oom else None,
        protocol=case.protocol,
        date=occasion.date if oom else "",
        versions=versions if oom else {},
    )


def _stored(accepted: Accepted, occasion: Occasion, versions: Mapping[str, str]) -> StoredSession:
    return StoredSession(
        date=occasion.date,
        at=occasion.at,
        commit=occasion.commit,
        times_us=tuple(rounded_us(1e6 * time_s) for time_s in accepted.times_s),
        versions=versions,
        surroundings=occasion.surroundings,
    )


def rounded_us(time_us: float) -> float:
    """Rounded to six significant digits: no clock gives more, and a review has less to read."""
    return float(f"{time_us:.6g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The entry as it would be written; `lost`: it loses so much that this takes a reason."""

    entry: Entry
    lost: bool = False


def level_us(entry: Entry) -> float | None:
    """The median over sessions of each session's median launch; None without sessions."""
    if not entry.sessions:
        return None
    return statistics.median(statistics.median(s.times_us) for s in entry.sessions)


def beyond(level: float, pinned: float, budget: float) -> bool:
    """Whether `level` is slower than `pinned`, in the same unit, by more than the fraction."""
    return level > pinned * (1 + budget)


def joined(old: Entry | None, new: Entry, *, append: bool, budget: float) -> Joined:
    """`new`, with one session and no pin, instead of `old` or, with `append`, joined to it.

    Times of another protocol are not comparable: they replace the old ones and pin their own level.
    Running out of memory where there was a time is a loss beyond any budget.
    """
    if old is None or old.status is Status.OOM or old.protocol != new.protocol:
        return Joined(entry=pinned_at_level(new))
    if new.status is Status.OOM:
        return Joined(entry=new, lost=True)
    sessions = (*old.sessions, *new.sessions)[-MOST_SESSIONS:] if append else new.sessions
    entry = replace(new, sessions=sessions, pinned_us=old.pinned_us, pinned_date=old.pinned_date)
    level, pinned = level_us(entry), old.pinned_us
    assert level is not None and pinned is not None
    lost = beyond(level, pinned, budget)
    if lost or beyond(pinned, level, budget):
        entry = pinned_at_level(entry)
    return Joined(entry=entry, lost=lost)


def pinned_at_level(entry: Entry, date: str = "") -> Entry:
    """`entry` pinned at its level, if it has one, on `date` or that of its newest session."""
    level = level_us(entry)
    if level is None:
        return entry
    return replace(entry, pinned_us=rounded_us(level), pinned_date=date or entry.sessions[-1].date)
