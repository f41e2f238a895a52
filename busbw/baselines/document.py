"""The conversion between the JSON text of a baseline file and values.

A file has a line of text for each case. A file with any unexpected key or value is refused. The
sessions in which lines were measured are stored once for all lines, so that a line has only a case
and its times, and a review shows which times changed. Files of compiled programs have the same
layout, with lines of another type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from busbw import extensions, storage, wire
from busbw.model.case import Case, dataclass_from
from busbw.model.field_types import (
    AtLeast1,
    Date,
    Microseconds,
    Natural,
    check_not_empty,
    parse_moment,
)
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.stored import Baseline, Record, Stack
from busbw.model.words import check_payload_text, parse_payload, payload_text

T = TypeVar("T")

_DOCUMENT_KIND = "busbw baselines"
_REMEDY = "move the file away, and record it again with --update-baselines=all"


class BaselineError(ValueError):
    """A baseline file that cannot be used; the message says which file, where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeLogEntry:
    """An entry in the change log of a baseline file: the changes that one session made.

    Attributes:
        date: The date of the session.
        commit: The commit of the working directory; empty outside of a repository.
        entries: The number of lines that were written or removed.
        reason: The user's reason; empty without a reason.
        accepted_regression: Whether a loss beyond the budget was accepted.

    """

    date: Date
    commit: str = ""
    entries: int
    reason: str = ""
    accepted_regression: bool = False


# The name of a session is its moment, such as 2026-01-31T03:00:00Z. The name of a second session of
# the same moment ends with -2.
_SESSION_NAME_PATTERN = re.compile(r"(.{20})(?:-[2-9])?")


def _check_session_name(name: str) -> None:
    """Raise ValueError unless `name` is a moment, optionally with a suffix from -2 to -9.

    The name of a session is the moment at which the session began, such as 2026-01-31T03:00:00Z.
    """
    match = _SESSION_NAME_PATTERN.fullmatch(name)
    parse_moment(match[1] if match else name)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLine:
    """The part of a stored line that identifies its case within the file.

    A key whose value is the default is not written.

    Attributes:
        payload: The payload as text, such as ``1M``.
        dtype: The type of the elements.
        reduce_op: The operation by which the collective combines values.
        placement: ``in_place`` or ``out_of_place``.
        axes: The axes of the mesh over which the collective runs; empty for all axes.
        protocol: How the times were measured.

    """

    payload: Annotated[str, check_payload_text]
    dtype: str = "float32"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    protocol: Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredBaselineLine(StoredLine):
    """A line of a baseline file: the stored times of a case, or that it ran out of memory.

    Attributes:
        pinned_us: The pinned time in microseconds, which the stored time may exceed by at most the
            budget; None without times.
        pinned_date: The date on which the time was pinned; None without times.
        times_us: Maps the name of each session, oldest first, to the times of its launches in
            microseconds; empty if the case ran out of memory.
        extra: Maps the names of extra values of extensions to these values, which are those of the
            newest session.
        out_of_memory: The name of the session in which the case ran out of memory; empty with
            times.
        needed_bytes: The memory that the case needed; None if unknown, or with times.
        available_bytes: The memory that was free; None if unknown, or with times.
        memory_limit_bytes: The artificial limit of memory under which the case ran out of memory;
            None without a limit. Sessions with another limit ignore the line.

    """

    pinned_us: Microseconds | None = None
    pinned_date: Date | None = None
    times_us: Mapping[str, Annotated[tuple[Microseconds, ...], check_not_empty]] = field(
        default_factory=dict
    )
    extra: Mapping[str, object] = field(default_factory=dict)
    out_of_memory: str = ""
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None
    memory_limit_bytes: AtLeast1 | None = None

    def validate(self) -> None:
        """Raise ValueError unless the line has either times or a session that ran out of memory.

        A pinned time is required with times and forbidden without times. A limit of memory is
        allowed only without times. The message begins with the name of the wrong field.
        """
        if bool(self.times_us) is bool(self.out_of_memory):
            raise ValueError("times_us: expected times, or the session that was out_of_memory")
        for name in ("pinned_us", "pinned_date"):
            if (getattr(self, name) is None) is bool(self.times_us):
                raise ValueError(f"{name}: expected with times and only then")
        if self.times_us and self.memory_limit_bytes is not None:
            raise ValueError("memory_limit_bytes: expected only where it was out_of_memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """The head of a stored file: the format, the machine, and the values that all cases share.

    Attributes:
        document: The kind of document, such as ``busbw baselines``.
        version: The version of the format.
        environment: The machine on which the cases were measured or compiled.
        framework: The framework of all cases.
        collective: The collective of all cases.
        strategy: The strategy of all cases.

    """

    document: str
    version: int = wire.DOCUMENT_VERSION
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredBaselineFile(StoredFile):
    """A baseline file in the form in which the file is stored: with lines in place of Baselines.

    Attributes:
        sessions: Maps the name of each session to its stack. The name is the moment (UTC) at which
            the session began. If several sessions have this moment, a suffix such as ``-2``
            follows.
        entries: The lines of the file.
        history: The change log, oldest change first.

    """

    document: str = _DOCUMENT_KIND
    sessions: Mapping[Annotated[str, _check_session_name], Stack]
    entries: tuple[StoredBaselineLine, ...]
    history: tuple[ChangeLogEntry, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineFile(StoredFile):
    """The content of a baseline file: a framework's baselines of a collective and a strategy.

    Attributes:
        baselines: The baselines, one for each line.
        history: The change log of the file, oldest change first.

    """

    document: str = _DOCUMENT_KIND
    baselines: tuple[Baseline, ...] = ()
    history: tuple[ChangeLogEntry, ...] = ()

    def find(self, case: Case, memory_limit_bytes: int | None = None) -> Baseline | None:
        """Return the baseline of `case`, whatever its protocol; None if the file has none.

        If `memory_limit_bytes` is not None, return only a baseline that says that the case ran out
        of memory under this artificial limit.
        """
        line = (case.line_key, memory_limit_bytes or 0)
        baseline = next((other for other in self.baselines if other.line_id == line), None)
        return baseline and replace(baseline, case=replace(case, protocol=baseline.case.protocol))


def read_baselines(path: Path) -> BaselineFile:
    """Read a baseline file. Raises BaselineError if the file cannot be read or is not valid."""
    stored, cases = read_stored_file(path, StoredBaselineFile, _DOCUMENT_KIND)
    with storage.reraise_as(BaselineError, ValueError, where=f"{path}: document."):
        baselines = tuple(
            _baseline_of_line(stored, f"entries[{index}]", line, case)
            for index, (line, case) in enumerate(zip(stored.entries, cases))
        )
    return dataclass_from(BaselineFile, stored, baselines=baselines)


def read_stored_file(
    path: Path, content_type: type[T], document_kind: str
) -> tuple[T, tuple[Case, ...]]:
    """Read a stored file, and return its content and the case of each of its lines.

    The content is a value of the class `content_type`, whose field `entries` has the lines, such as
    StoredBaselineFile. `document_kind` is the kind of document that the file must name, such as
    ``busbw baselines``. Raises BaselineError if the file cannot be read or is not valid, or if two
    lines have the same case.
    """
    stored: Any = read_document(path, content_type, document_kind)
    cases: dict[object, Case] = {}
    for index, line in enumerate(stored.entries):
        location = f"{path}: document.entries[{index}]"
        case = dataclass_from(
            Case,
            line,
            stored,
            stored.environment,
            payload_bytes=parse_payload(line.payload),
        )
        with storage.reraise_as(BaselineError, ValueError, where=f"{location}."):
            case.validate()
        line_key = case.line_key, getattr(line, "memory_limit_bytes", None)
        if line_key in cases:
            raise BaselineError(f"{location}: a second entry for its payload")
        cases[line_key] = case
    return stored, tuple(cases.values())


def read_document(
    path: Path, content_type: type[T], document_kind: str, remedy: str = _REMEDY
) -> T:
    """Read a JSON file as a value of type `content_type`.

    Args:
        path: The file.
        content_type: The type of the value.
        document_kind: The kind of document that the file must name, such as ``busbw baselines``.
        remedy: How the user can repair the file. The error message ends with this text if the file
            names another kind or version.

    Raises:
        BaselineError: The file cannot be read or is not valid, or an object has a key twice. For
            text that is not JSON, the message has the line and the column.

    """
    with storage.reraise_as(BaselineError, ValueError, where=f"{path}: "):
        raw = wire.parse_json(storage.read(path))
        wire.check_document(raw, document_kind, remedy)
        return wire.from_json(content_type, raw, "document")


def _baseline_of_line(
    stored_file: StoredBaselineFile, location: str, line: StoredBaselineLine, case: Case
) -> Baseline:
    """Return the Baseline of `case` that the entry `line` of the file `stored_file` describes.

    Raises ValueError if `line` names a session that `stored_file.sessions` lacks. The message
    begins with `location`, the place of the line in the file, such as ``entries[2]``.
    """
    records, extra = [], extensions.with_declared_types(line.extra, f"{location}.extra")
    for name, times_us in (line.times_us or {line.out_of_memory: ()}).items():
        if name not in stored_file.sessions:
            raise ValueError(f"{location}: the session {name[:60]!r} is none of document.sessions")
        same = {"moment": name[:20], "extra": extra}
        records.append(
            dataclass_from(Record, stored_file.sessions[name], times_us=times_us, **same)
        )
    return dataclass_from(Baseline, line, case=case, records=tuple(records))


def baselines_text(file: BaselineFile) -> str:
    """Return the JSON text of a baseline file, sorted so that a review shows the changed lines."""
    sessions: dict[str, Stack] = {}
    baselines = sorted(file.baselines, key=lambda baseline: baseline.line_id)
    entries = tuple(_make_line_and_add_sessions(baseline, sessions) for baseline in baselines)
    ordered = dict(sorted(sessions.items()))
    return stored_file_text(
        dataclass_from(StoredBaselineFile, file, sessions=ordered, entries=entries)
    )


def _make_line_and_add_sessions(
    baseline: Baseline, sessions: dict[str, Stack]
) -> StoredBaselineLine:
    """Return the line that stores a baseline in a file, and add its sessions to `sessions`.

    `sessions` maps the names of the sessions of all lines to their stacks. The caller writes this
    mapping once for the whole file. If another session began at the same moment, the name gets a
    suffix such as ``-2``.
    """
    times_us: dict[str, tuple[float, ...]] = {}
    for record in baseline.records:
        shared = dataclass_from(Stack, record)
        names = (record.moment, *(f"{record.moment}-{number}" for number in range(2, 10)))
        name = next(n for n in names if n not in times_us and sessions.get(n, shared) == shared)
        sessions[name] = shared
        times_us[name] = record.times_us
    return dataclass_from(
        StoredBaselineLine,
        baseline,
        baseline.case,
        payload=payload_text(baseline.case.payload_bytes),
        extra=baseline.records[-1].extra,
        times_us={} if baseline.is_out_of_memory else times_us,
        out_of_memory=next(iter(times_us)) if baseline.is_out_of_memory else "",
    )


def stored_file_text(stored_file: StoredFile) -> str:
    """Return the JSON text of a stored file, with a line for each session, entry and change."""
    parts = []
    for part in fields(stored_file):
        value = getattr(stored_file, part.name)
        if isinstance(value, Mapping):
            lines = (
                f"{json.dumps(key)}: {_json_without_defaults(row)}" for key, row in value.items()
            )
            text = f"{{{_indented_lines(lines)}}}"
        elif isinstance(value, tuple):
            text = f"[{_indented_lines(map(_json_without_defaults, value))}]"
        else:
            text = json.dumps(wire.to_json(value))
        parts += [f"{json.dumps(part.name)}: {text}"] if value or part.name != "history" else []
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def _json_without_defaults(value: object) -> str:
    """Return the JSON text of a value such as a line or a Stack.

    Fields that have their default values are left out.
    """
    return json.dumps(wire.to_json(value, is_brief=True))


def _indented_lines(lines: Iterable[str]) -> str:
    """Join the texts of the elements of a JSON array or object, each on its own line.

    The result is "" if there are no elements.
    """
    text = ",\n    ".join(lines)
    return f"\n    {text}\n  " if text else ""
