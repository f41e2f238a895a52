"""What all files of baselines have in common: JSON with one line per payload, read strictly.

Knows text and values. What only lines of times hold is in `timed`, of programs in `compiled`.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from busbw import files, wire
from busbw.model import stored
from busbw.model.case import Case, CaseKey
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.stored import check_key
from busbw.model.words import payload_text
from busbw.workloads.collective import Collective


class BaselineError(ValueError):
    """A baseline file that cannot be used; says which, where in it, and what is accepted."""


class Status(str, enum.Enum):
    """Whether the payload was timed or did not fit."""

    OK = "ok"
    OOM = "oom"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLine:
    """What every line holds: its payload, the kind of case, and whether it fitted."""

    dtype: str
    reduce_op: str
    placement: str
    axes: str = ""
    payload: str
    payload_bytes: int
    status: Status

    @property
    def line_key(self) -> tuple[str, str, str, str, int]:
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def order(self) -> tuple[object, ...]:
        """What is unique within the file, and what lines are sorted by."""
        return self.line_key


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """What every file holds: its format, the full Environment key, what all cases share, lines."""

    document: str
    version: int = wire.VERSION
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str
    entries: tuple[StoredLine, ...]


def case_of(
    document: StoredFile, entry: StoredLine, protocol: Protocol, file_name: str = ""
) -> Case:
    """The Case that `entry` is about; `file_name` says whether it is a training step."""
    named = CaseKey.of_file(file_name)
    kind = type(named.workload) if named is not None else Collective
    return Case(
        framework=document.framework,
        payload_bytes=entry.payload_bytes,
        workload=kind(
            collective=document.collective,
            reduce_op=entry.reduce_op,
            placement=entry.placement,
            axes=entry.axes,
        ),
        strategy=document.strategy,
        dtype=entry.dtype,
        ranks=document.environment.ranks,
        mesh=document.environment.mesh,
        protocol=protocol,
    )


def read_json(path: Path) -> Any:
    """The JSON in `path`. Raises BaselineError with line and column, also for a repeated key."""
    try:
        return wire.parsed(files.content(path))
    except files.InputError as error:
        raise BaselineError(f"{path}: {error}") from error
    except wire.WireError as error:
        # As compilers do it: path, line and column, if these are known.
        space = "" if str(error)[0].isdigit() else " "
        raise BaselineError(f"{path}:{space}{error}") from error


def check_file(document: StoredFile) -> None:
    """Raises WireError with the location of what no file can hold, of times or of programs.

    That is an impossible key, a payload that is not its bytes, memory below 0, or a repeated line.
    """
    with located("document.environment"):
        check_key(document.environment)
    seen = set()
    for index, line in enumerate(document.entries):
        location = f"document.entries[{index}]"
        check_payload(line.payload, line.payload_bytes, location)
        for key in ("needed_bytes", "available_bytes"):
            count = getattr(line, key, None)
            if (count or 0) < 0:
                raise wire.WireError(f"{location}.{key}: expected bytes, got {count}")
        if line.order in seen:
            raise wire.WireError(f"{location}: a second entry for {line.dtype} {line.payload}")
        seen.add(line.order)


def check_payload(payload: str, payload_bytes: int, location: str) -> None:
    """Raises WireError if a payload's text and its bytes differ."""
    if payload_bytes <= 0 or payload != payload_text(payload_bytes):
        raise wire.WireError(
            f"{location}.payload: {payload[:60]!r} is not {payload_bytes} bytes; "
            f"expected {payload_text(payload_bytes)!r}"
        )


def check_date(text: str, location: str) -> None:
    """Raises WireError if `text` is not a day."""
    owner, _, name = location.rpartition(".")
    with located(owner):
        stored.check_date(name, text)


@contextlib.contextmanager
def located(location: str) -> Iterator[None]:
    """Turn the ValueError of a check in the model into a WireError with its location."""
    try:
        yield
    except wire.WireError:
        raise
    except ValueError as error:
        raise wire.WireError(f"{location}.{error}") from error


def dumps(document: StoredFile) -> str:
    """The file's text: entries sorted, one line each, so that a review shows what changed.

    Every other list of the file, such as its history, has one line for each row, too.
    """
    lists = {one.name: getattr(document, one.name) for one in fields(document)}
    lists = {name: rows for name, rows in lists.items() if isinstance(rows, tuple)}
    lists["entries"] = sorted(document.entries, key=lambda line: line.order)
    text = json.dumps(wire.to_json(document) | {key: [] for key in lists}, indent=2)
    for key, rows in lists.items():
        lines = ",\n".join("    " + json.dumps(_without_empty(wire.to_json(row))) for row in rows)
        if rows:
            text = text.replace(f'"{key}": []', f'"{key}": [\n{lines}\n  ]')
    return text + "\n"


def _without_empty(row: object) -> object:
    """`row` without what is empty or unknown, which are the defaults when it is read."""
    if isinstance(row, dict):
        return {
            key: _without_empty(value)
            for key, value in row.items()
            if value is not False and value not in (None, [], "", {})
        }
    return [_without_empty(item) for item in row] if isinstance(row, list) else row
