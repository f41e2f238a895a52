"""A file of baselines as text and as values: JSON with one line per payload, read strictly.

The sessions that lines were measured in are stored once, so that a line is a payload and its times,
and a review shows which moved. Files of other kinds have the same layout, and lines and values of
their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from busbw import extensions, storage, wire
from busbw.model.case import Case, converted
from busbw.model.limits import (
    AtLeast1,
    Date,
    Microseconds,
    Natural,
    check_some,
    moment_of,
)
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.stored import Baseline, Record, Stack
from busbw.model.words import payload_of, payload_text

F = TypeVar("F", bound="StoredFile")

_DOCUMENT = "busbw baselines"
_REMEDY = "move the file away, and record it again with --update-baselines=all"


class BaselineError(ValueError):
    """A baseline file that cannot be used; says which, where in it, and what is expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """One line of the file's history: `entries` were written or removed.

    `accepted_regression` says that a loss beyond the budget was accepted, for the `reason`.
    """

    date: Date
    commit: str = ""
    entries: int
    reason: str = ""
    accepted_regression: bool = False


# A session's moment; a second one of the same second ends with -2.
_SESSION = re.compile(r"(.{20})(?:-[2-9])?")


def _check_session(name: str) -> None:
    match = _SESSION.fullmatch(name)
    moment_of(match[1] if match else name)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLine:
    """What every line holds: its payload and the kind of case. Usual values are left out."""

    payload: Annotated[str, payload_of]
    dtype: str = "float32"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    protocol: Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedLine(StoredLine):
    """A payload's times by session, oldest first, or the session in which it was out of memory.

    `pinned_us` is the level against which it may lose no more than a budget. A line with
    `memory_limit_bytes` was out of memory under that artificial limit: it says nothing of sessions
    without the limit. `extra` has the values of extensions in the newest session.
    """

    pinned_us: Microseconds | None = None
    pinned_date: Date | None = None
    times_us: Mapping[str, Annotated[tuple[Microseconds, ...], check_some]] = field(
        default_factory=dict
    )
    extra: Mapping[str, object] = field(default_factory=dict)
    out_of_memory: str = ""
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None
    memory_limit_bytes: AtLeast1 | None = None

    def validate(self) -> None:
        """Raise ValueError, which begins with the field, for what no session writes."""
        if bool(self.times_us) is bool(self.out_of_memory):
            raise ValueError("times_us: expected times, or the session that was out_of_memory")
        for name in ("pinned_us", "pinned_date"):
            if (getattr(self, name) is None) is bool(self.times_us):
                raise ValueError(f"{name}: expected with times and only then")
        if self.times_us and self.memory_limit_bytes is not None:
            raise ValueError("memory_limit_bytes: expected only where it was out_of_memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """What every file holds: its format, the full Environment key, what all cases share."""

    document: str
    version: int = wire.VERSION
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedFile(StoredFile):
    """One file of times: lines, and the file's history.

    `sessions` has what each session measured with, by the moment when the session began, UTC.
    """

    document: str = _DOCUMENT
    sessions: Mapping[Annotated[str, _check_session], Stack]
    entries: tuple[TimedLine, ...]
    history: tuple[Update, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineFile(StoredFile):
    """What is stored of one framework, collective and strategy on one Environment key."""

    document: str = _DOCUMENT
    baselines: tuple[Baseline, ...] = ()
    history: tuple[Update, ...] = ()

    def find(self, case: Case, memory_limit_bytes: int | None = None) -> Baseline | None:
        """Return the baseline of `case`, with the protocol that it was stored with."""
        line = (case.line_key, memory_limit_bytes or 0)
        for baseline in self.baselines:
            if baseline.line == line:
                return replace(baseline, case=replace(case, protocol=baseline.case.protocol))
        return None


def read(path: Path) -> BaselineFile:
    """Read a file of times. Raises BaselineError."""
    stored, cases = read_file(path, TimedFile, _DOCUMENT)
    with storage.raised_as(BaselineError, ValueError, where=f"{path}: document."):
        baselines = tuple(
            _baseline(stored, f"entries[{index}]", line, case)
            for index, (line, case) in enumerate(zip(stored.entries, cases))
        )
    return converted(BaselineFile, stored, baselines=baselines)


def read_file(path: Path, kind: type[F], document: str) -> tuple[F, tuple[Case, ...]]:
    """Read a file that says it is a `document`, and the case of each of its lines.

    Raises BaselineError, also for two lines of one case.
    """
    raw = read_json(path)
    cases: dict[object, Case] = {}
    with storage.raised_as(BaselineError, ValueError, where=f"{path}: "):
        wire.check_document(raw, document, _REMEDY)
        stored: Any = wire.from_json(kind, raw, "document")
    for index, line in enumerate(stored.entries):
        place, payload_bytes = f"{path}: document.entries[{index}]", payload_of(line.payload)
        case = converted(Case, line, stored, stored.environment, payload_bytes=payload_bytes)
        with storage.raised_as(BaselineError, ValueError, where=f"{place}."):
            case.validate()
        line_key = case.line_key, getattr(line, "memory_limit_bytes", None)
        if line_key in cases:
            raise BaselineError(f"{place}: a second entry for its payload")
        cases[line_key] = case
    return stored, tuple(cases.values())


def read_json(path: Path) -> Any:
    """Read JSON. Raises BaselineError with line and column, also for a repeated key."""
    with storage.raised_as(BaselineError, storage.InputError, where=f"{path}: "):
        content = storage.read(path)
    try:
        return wire.parsed(content)
    except wire.WireError as error:
        # As compilers do it: path, line and column, if these are known.
        space = "" if str(error)[0].isdigit() else " "
        raise BaselineError(f"{path}:{space}{error}") from error


def _baseline(stored: TimedFile, place: str, line: TimedLine, case: Case) -> Baseline:
    """Return the baseline of a line. Raises ValueError, whose message begins with `place`."""
    records, extra = [], extensions.with_declared_types(line.extra, f"{place}.extra")
    for name, times_us in (line.times_us or {line.out_of_memory: ()}).items():
        if name not in stored.sessions:
            raise ValueError(f"{place}: the session {name[:60]!r} is none of document.sessions")
        same = {"moment": name[:20], "extra": extra}
        records.append(converted(Record, stored.sessions[name], times_us=times_us, **same))
    return converted(Baseline, line, case=case, records=tuple(records))


def dumps(file: BaselineFile) -> str:
    """Return the file's text: sorted, so that a review shows what changed."""
    sessions: dict[str, Stack] = {}
    baselines = sorted(file.baselines, key=lambda baseline: baseline.line)
    entries = tuple(_timed_line(baseline, sessions) for baseline in baselines)
    ordered = dict(sorted(sessions.items()))
    return text_of(converted(TimedFile, file, sessions=ordered, entries=entries))


def _timed_line(baseline: Baseline, sessions: dict[str, Stack]) -> TimedLine:
    """Return the line of a baseline; values that lines share are put into `sessions`."""
    times_us: dict[str, tuple[float, ...]] = {}
    for record in baseline.records:
        shared = converted(Stack, record)
        names = (record.moment, *(f"{record.moment}-{number}" for number in range(2, 10)))
        name = next(n for n in names if n not in times_us and sessions.get(n, shared) == shared)
        sessions[name] = shared
        times_us[name] = record.times_us
    return converted(
        TimedLine,
        baseline,
        baseline.case,
        payload=payload_text(baseline.case.payload_bytes),
        extra=baseline.records[-1].extra,
        times_us={} if baseline.oom else times_us,
        out_of_memory=next(iter(times_us)) if baseline.oom else "",
    )


def text_of(stored: StoredFile) -> str:
    """Return the text of a file; sessions, entries and history have a line for each row."""
    parts = []
    for part in fields(stored):
        value = getattr(stored, part.name)
        if isinstance(value, Mapping):
            lines = (f"{json.dumps(key)}: {_row(row)}" for key, row in value.items())
            text = f"{{{_indented(lines)}}}"
        elif isinstance(value, tuple):
            text = f"[{_indented(map(_row, value))}]"
        else:
            text = json.dumps(wire.to_json(value))
        parts += [f"{json.dumps(part.name)}: {text}"] if value or part.name != "history" else []
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def _row(row: object) -> str:
    return json.dumps(wire.to_json(row, is_brief=True))


def _indented(lines: Iterable[str]) -> str:
    text = ",\n    ".join(lines)
    return f"\n    {text}\n  " if text else ""
