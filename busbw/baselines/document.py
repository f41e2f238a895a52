"""One baseline file as values: what it holds, read strictly, written one line per payload.

Schema history:
1  the first.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.model import EnvironmentKey, payload_text

SCHEMA = 1

# No clock is finer, and what is compared is divided by it.
LEAST_US = 1e-6


class BaselineError(ValueError):
    """A baseline file that cannot be used; says which, where in it, and what is accepted."""


class Status(str, enum.Enum):
    """Whether the payload was timed or did not fit."""

    OK = "ok"
    OOM = "oom"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line: a payload's launch times in microseconds, or that it was out of memory."""

    dtype: str
    reduce_op: str
    placement: str
    axes: str = ""
    payload: str
    payload_bytes: int
    status: Status
    times_us: tuple[float, ...] = ()
    needed_bytes: int | None = None
    available_bytes: int | None = None
    protocol: str
    date: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """What the entry is about, and its place among the others."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One file: the Environment key in full, the rest of the Case, and the entries."""

    schema: int
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str
    entries: tuple[Entry, ...]


def read_json(path: Path) -> Any:
    """The JSON in `path`. Raises BaselineError with line and column, also for a repeated key."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        raise BaselineError(
            f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
        ) from error
    except (ValueError, OSError) as error:
        raise BaselineError(f"{path}: {error}") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} stands twice in one object")
    return document


def read(path: Path) -> Document:
    """The checked Document in `path`; raises BaselineError."""
    raw = read_json(path)
    if isinstance(raw, dict) and raw.get("schema") not in (None, SCHEMA):
        raise BaselineError(f"{path}: schema: this version reads {SCHEMA}, got {raw['schema']!r}")
    try:
        document = wire.from_json(Document, raw, "document")
        _check_entries(document.entries)
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error
    return document


def _check_entries(entries: tuple[Entry, ...]) -> None:
    seen = set()
    for index, entry in enumerate(entries):
        where = f"document.entries[{index}]"
        _check_entry(entry, where)
        if entry.place in seen:
            raise wire.WireError(f"{where}: a second entry for {entry.dtype} {entry.payload}")
        seen.add(entry.place)


def _check_entry(entry: Entry, where: str) -> None:
    if entry.payload_bytes <= 0 or entry.payload != payload_text(entry.payload_bytes):
        raise wire.WireError(
            f"{where}.payload: {entry.payload!r} is not {entry.payload_bytes} bytes; "
            f"expected {payload_text(entry.payload_bytes)!r}"
        )
    if entry.status is Status.OK and not entry.times_us:
        raise wire.WireError(f"{where}.times_us: expected at least one time, or the status 'oom'")
    if entry.status is Status.OOM and entry.times_us:
        raise wire.WireError(f"{where}.times_us: expected none with the status 'oom'")
    for place, time_us in enumerate(entry.times_us):
        if time_us < LEAST_US:
            raise wire.WireError(
                f"{where}.times_us[{place}]: expected microseconds above 0 "
                f"(at least {LEAST_US:g}), got {time_us:g}"
            )


def dumps(document: Document) -> str:
    """The file's text: entries sorted, one line each, so that a review shows what changed."""
    head = wire.to_json(document)
    entries = [_entry_json(e) for e in sorted(document.entries, key=lambda e: e.place)]
    rows = ",\n".join("    " + json.dumps(entry) for entry in entries)
    head["entries"] = []
    text = json.dumps(head, indent=2)
    return text.replace('"entries": []', f'"entries": [\n{rows}\n  ]') + "\n"


def _entry_json(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = wire.to_json(entry)
    return {key: value for key, value in row.items() if value not in (None, [], "", {})}
