"""What all files of baselines have in common: JSON with one line per payload, read strictly.

Knows text and values. What else a line of times holds is in `timed`, of programs in `compiled`.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from busbw import inputs, model, wire
from busbw.model import Case, CaseKey, EnvironmentKey, Protocol, payload_text
from busbw.workloads import Collective


class BaselineError(ValueError):
    """A baseline file that cannot be used; says which, where in it, and what is accepted."""


class Status(str, enum.Enum):
    """Whether the payload was timed or did not fit."""

    OK = "ok"
    OOM = "oom"


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
    def line_key(self) -> tuple[str, str, str, str, int]:
        """What the line is about, and its place among the others."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def order(self) -> tuple[object, ...]:
        """What no other line of its file has, and what lines are sorted by."""
        return self.line_key


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """What every file says: the Environment key in full, what all its cases share, its lines."""

    schema: int
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str
    entries: tuple[StoredLine, ...]


def case_of(
    document: StoredFile, entry: StoredLine, protocol: Protocol, file_name: str = ""
) -> Case:
    """The Case that `entry` is about; whether it is a training step's, its file's name says."""
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
        return wire.parsed(inputs.content(path))
    except inputs.InputError as error:
        raise BaselineError(f"{path}: {error}") from error
    except wire.WireError as error:
        # As compilers do it: path, line and column, if these are known.
        space = "" if str(error)[0].isdigit() else " "
        raise BaselineError(f"{path}:{space}{error}") from error


def check_file(document: StoredFile) -> None:
    """Raises WireError with the place of what no file can hold, whatever its lines are about.

    That is an impossible key, a payload that is not its bytes, memory below 0, two lines of one
    place.
    """
    with placed("document.environment"):
        model.check_key(document.environment)
    seen = set()
    for index, line in enumerate(document.entries):
        where = f"document.entries[{index}]"
        check_payload(line.payload, line.payload_bytes, where)
        for key in ("needed_bytes", "available_bytes"):
            count = getattr(line, key, None)
            if (count or 0) < 0:
                raise wire.WireError(f"{where}.{key}: expected bytes, got {count}")
        if line.order in seen:
            raise wire.WireError(f"{where}: a second entry for {line.dtype} {line.payload}")
        seen.add(line.order)


def check_payload(payload: str, payload_bytes: int, where: str) -> None:
    """Raises WireError where a payload's text and its bytes are not the same."""
    if payload_bytes <= 0 or payload != payload_text(payload_bytes):
        raise wire.WireError(
            f"{where}.payload: {payload[:60]!r} is not {payload_bytes} bytes; "
            f"expected {payload_text(payload_bytes)!r}"
        )


def check_date(text: str, where: str) -> None:
    """Raises WireError for what is no day."""
    owner, _, name = where.rpartition(".")
    with placed(owner):
        model.check_date(name, text)


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """What a check of the model says becomes a WireError with the place before it."""
    try:
        yield
    except wire.WireError:
        raise
    except ValueError as error:
        raise wire.WireError(f"{where}.{error}") from error


def dumps(document: StoredFile) -> str:
    """The file's text: entries sorted, one line each, so that a review shows what changed.

    So has every other list of the file, such as its history, a line for each of its rows.
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
    """What is empty or unknown is left out; so it is read."""
    if isinstance(row, dict):
        return {
            key: _without_empty(value)
            for key, value in row.items()
            if value is not False and value not in (None, [], "", {})
        }
    return [_without_empty(item) for item in row] if isinstance(row, list) else row
