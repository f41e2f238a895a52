"""A baseline file at the door: its schema, and the files of schema 1 as today's.

Everything that is written here is today's schema; nothing is written by this file.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from busbw import wire
from busbw.model import Protocol, variables

from .document import (
    SCHEMA,
    Document,
    Entry,
    StoredFile,
    StoredLine,
    StoredSession,
    check_case,
    check_date,
    check_entries,
    check_key,
)
from .entries import case_of


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryOne(StoredLine):
    """An entry of schema 1: launch times of one session, of unknown commit and without anchors."""

    times_us: tuple[float, ...] = ()
    needed_bytes: int | None = None
    available_bytes: int | None = None
    protocol: Protocol
    date: str
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentOne(StoredFile):
    """A file of schema 1."""

    entries: tuple[EntryOne, ...]


def checked(raw: Any) -> Document:
    """The Document that JSON is, whichever known schema it has. Raises WireError."""
    schema = raw.get("schema", SCHEMA) if isinstance(raw, dict) else SCHEMA
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise wire.WireError(f"schema: this version reads 1 to {SCHEMA}, got {schema!r}")
    if schema == 1:
        return _whole(_renewed(wire.from_json(DocumentOne, raw, "document")))
    return _whole(wire.from_json(Document, raw, "document"))


def _whole(document: Document) -> Document:
    """`document`, if all of it can be: raises WireError with the place."""
    check_key(document.environment, "document.environment")
    check_entries(document.entries)
    for index, entry in enumerate(document.entries):
        check_case(case_of(document, entry, entry.protocol), f"document.entries[{index}]")
    for index, update in enumerate(document.history):
        check_date(update.date, f"document.history[{index}].date")
    return replace(document, entries=tuple(map(_masked, document.entries)))


def _masked(entry: Entry) -> Entry:
    """Values that earlier versions wrote down and that are nobody's business are gone at the door.

    So they are not shown, and the next update leaves them out of the file.
    """
    sessions = (
        replace(one, surroundings=variables.masked(one.surroundings)) for one in entry.sessions
    )
    return replace(entry, sessions=tuple(sessions))


def _renewed(old: DocumentOne) -> Document:
    return Document(
        schema=SCHEMA,
        environment=old.environment,
        framework=old.framework,
        collective=old.collective,
        strategy=old.strategy,
        entries=tuple(_renewed_entry(entry) for entry in old.entries),
    )


def _renewed_entry(old: EntryOne) -> Entry:
    """Times become one session, and what they amounted to is what later losses count against."""
    entry = Entry(
        dtype=old.dtype,
        reduce_op=old.reduce_op,
        placement=old.placement,
        axes=old.axes,
        payload=old.payload,
        payload_bytes=old.payload_bytes,
        status=old.status,
        needed_bytes=old.needed_bytes,
        available_bytes=old.available_bytes,
        protocol=old.protocol,
    )
    if not old.times_us:
        return replace(entry, date=old.date, versions=old.versions)
    return replace(
        entry,
        sessions=(StoredSession(date=old.date, times_us=old.times_us, versions=old.versions),),
        pinned_us=statistics.median(old.times_us),
        pinned_date=old.date,
    )
