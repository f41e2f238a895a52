"""The folder of the history: a file for each machine and year, to which lines are appended.

A line has the times of a case in a session, the verdict on the case, and the stack. Lines are
appended under a lock, and the file is replaced atomically. So the file has either all lines of a
session or none of them. If the last line is incomplete, because a copy was cut short, reading the
file raises an error with the number of the incomplete line, and the next session begins on a new
line. Nothing is appended to a file with lines of another format.
"""

from __future__ import annotations

import datetime
import fnmatch
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from busbw import extensions, storage, wire
from busbw.model.case import Case
from busbw.model.field_types import Date
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Record, StoredSession
from busbw.model.words import DeviceClass, FailureKind, Outcome, SessionOutcome

DOCUMENT = "busbw record"
_REMEDY = "move the file away, and the next session begins a new one"
# The outcomes of a session in which many cases together left their expected times.
_SHARED_CHANGE_OUTCOMES = (
    SessionOutcome.MACHINE_SHIFT,
    SessionOutcome.SLOWER,
    SessionOutcome.DRIFT,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryLine(Record):
    """A line of the history: the record of a case in a session, and its verdict.

    Attributes:
        session: The name of the session, which is the same in all its lines.
        device: The class of the device: CPU, GPU or TPU.
        case: The case.
        outcome: The outcome of the case; NO_BASELINE for a reference stack, which is not judged.
        session_outcome: The main outcome of the session: the first of `session_outcomes`.
        session_outcomes: All outcomes of the session that apply.
        failure: The kind of failure if the case has no times; None with times.
        ratio: The time divided by the expected time, or by the time of the interleaved reference;
            None without a comparison.
        injected: The text of the injection, such as ``delay:5%``; empty without an injection.
        paired: Whether two stacks were interleaved.
        baseline_date: The date of the baseline with which the case was compared; empty without a
            baseline.
        stack: The digest of the locked reference stack that was interleaved; empty without such a
            stack.
        is_reference: Whether the times are those of the reference stack.
        changed: The flags that options changed on purpose, as text; empty without such a flag.

    """

    session: str
    device: DeviceClass
    case: Case
    outcome: Outcome
    session_outcome: SessionOutcome
    session_outcomes: tuple[SessionOutcome, ...] = ()
    failure: FailureKind | None = None
    ratio: float | None = None
    injected: str = ""
    paired: bool = False
    baseline_date: str = ""
    stack: str = ""
    is_reference: bool = False
    changed: str = ""

    @property
    def is_comparable(self) -> bool:
        """Whether the times can be compared with times of other sessions.

        Times cannot be compared if a loss was injected. Times cannot be compared either if the
        stack was interleaved with a stack that is not locked, because that stack may differ from
        session to session.
        """
        return not self.injected and (bool(self.stack) or not self.paired)

    @property
    def has_change(self) -> bool:
        """Whether the case, or all cases of the session together, became slower or faster."""
        return self.outcome in (Outcome.REGRESSED, Outcome.IMPROVED) or any(
            outcome in _SHARED_CHANGE_OUTCOMES for outcome in self.session_outcomes
        )

    @property
    def text(self) -> str:
        """The line as JSON text, without the newline at the end."""
        document = {"document": DOCUMENT, "version": wire.DOCUMENT_VERSION, **wire.to_json(self)}
        return json.dumps(document, separators=(",", ":"))


def parse_line(text: str | bytes, location: str) -> HistoryLine:
    """Parse the JSON text of a line of the history.

    Raises WireError if the text is not valid. The message begins with `location`, the place of the
    line, such as ``line 7``.
    """
    try:
        raw = wire.parse_json(text)
        wire.check_document(raw, DOCUMENT, _REMEDY)
    except wire.WireError as error:
        # Each line is a document by itself, so that its error is always in line 1 of the document.
        where = str(error).replace("1:", ", column ", 1) if str(error)[:2] == "1:" else f": {error}"
        raise wire.WireError(f"{location}{where}") from error
    # A HistoryLine has fields for the other keys only.
    del raw["document"], raw["version"]
    line = wire.from_json(HistoryLine, raw, location)
    return replace(line, extra=extensions.with_declared_types(line.extra, f"{location}.extra"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesKey:
    """The key of a series: sessions of a framework whose times can be compared with each other.

    Times with and without an interleaved reference belong to different series, because two
    interleaved stacks slow each other down.

    Attributes:
        framework: The name of the framework.
        stack: The digest of the locked reference stack with which the framework was interleaved;
            empty if the framework was measured alone.
        is_reference: Whether the series has the times of the reference stack, not of the candidate.

    """

    framework: str
    stack: str = ""
    is_reference: bool = False

    @classmethod
    def of_line(cls, line: HistoryLine) -> SeriesKey:
        """Return the key of the series to which a line belongs."""
        return cls(framework=line.case.framework, stack=line.stack, is_reference=line.is_reference)

    @property
    def text(self) -> str:
        """The series as text, such as ``jax interleaved with the reference 0123456789abcdef``."""
        if not self.stack:
            return self.framework
        if self.is_reference:
            return f"the reference {self.stack} of {self.framework}"
        return f"{self.framework} interleaved with the reference {self.stack}"


def comparable_sessions(lines: Iterable[HistoryLine], series: SeriesKey) -> list[StoredSession]:
    """Return the sessions of the series `series` that are in `lines`, in the order of these lines.

    Lines without times, and lines whose times cannot be compared (`is_comparable`), are left out.
    """
    sessions: dict[str, dict[Case, HistoryLine]] = {}
    for line in lines:
        if line.times_us and line.is_comparable and SeriesKey.of_line(line) == series:
            sessions.setdefault(line.session, {})[line.case] = line
    return [
        StoredSession.from_records(
            by_case, has_change=any(line.has_change for line in by_case.values())
        )
        for by_case in sessions.values()
    ]


# A year of daily sessions with a thousand cases needs half as many bytes.
MAX_FILE_BYTES = 1 << 30
_YEAR_FILE_PATTERN = re.compile(r"[0-9]{4}\.jsonl")


class HistoryError(Exception):
    """A history file that cannot be read or written; the message says which file, where and why."""


def _check_no_link(folder: Path) -> None:
    """Raise HistoryError if `folder` or its parent is a link, which may lead out of the history."""
    for part in (folder, folder.parent):
        if part.is_symlink():
            raise HistoryError(f"{part} is a link, expected a folder; make --history the link")


def append_lines(history_folder: Path, key: EnvironmentKey, lines: Sequence[HistoryLine]) -> Path:
    """Append one or more `lines` of a session to the history, and return the path of the file.

    `history_folder` is the folder of the history, and `key` names the machine. Raises HistoryError
    if the lines cannot be written; then the file has no line of the session.
    """
    path = history_folder / key.folder / f"{lines[0].began.year}.jsonl"
    _check_no_link(path.parent)
    content = "".join(f"{line.text}\n" for line in lines).encode()
    with (
        storage.reraise_as(HistoryError, storage.LockedError, OSError, where=f"{path}: "),
        storage.lock_folder(path.parent),
    ):
        before = _read_refusing_conflict_markers(path) if path.exists() else b""
        # A file of another format is not appended to.
        _parse_lines(path, {before.partition(b"\n")[0]: 1})
        if before and not before.endswith(b"\n"):
            before += b"\n"
        storage.remove_half_written_files(path.parent)
        storage.write(path, before + content)
    return path


def _parse_lines(path: Path, line_number_by_text: Mapping[bytes, int]) -> list[HistoryLine]:
    """Parse lines of the file `path`, given the number of each line by the text of the line.

    The numbers are for the messages of errors. Empty texts are left out. Raises HistoryError for an
    invalid line.
    """
    with storage.reraise_as(HistoryError, wire.WireError, where=f"{path}: "):
        return [
            parse_line(text, f"line {number}")
            for text, number in line_number_by_text.items()
            if text
        ]


def read_all_machines(history_folder: Path) -> dict[str, tuple[HistoryLine, ...]]:
    """Read a folder with the history of all machines, and map each machine's name to its lines.

    The name of a machine is its folder below `history_folder`, such as ``tpu-v5-lite/4r``. Raises
    HistoryError if a file cannot be read or has an invalid line.
    """
    return {
        name: read_machine_lines(history_folder / name) for name in machine_folders(history_folder)
    }


def machine_folders(history_folder: Path) -> tuple[str, ...]:
    """Return the names of the machines that have a history: their folders below `history_folder`.

    A name is such as ``tpu-v5-lite/4r``. Raises HistoryError if `history_folder` is missing or
    cannot be read.
    """
    if not history_folder.is_dir():
        raise HistoryError(f"there is no folder {history_folder}")
    with storage.reraise_as(HistoryError, storage.InputError, where=f"{history_folder}: "):
        storage.check_readable_folder(history_folder)
    folders = {
        path.parent.relative_to(history_folder) for path in history_folder.glob("*/*/*.jsonl")
    }
    return tuple(sorted(map(str, folders)))


def read_machine_lines(folder: Path, first_year: int = 0) -> tuple[HistoryLine, ...]:
    """Read the history lines in the folder of a machine, oldest line first.

    Files of years before `first_year` are not read. The result is empty if the folder is missing.
    Raises HistoryError if a file cannot be read or has an invalid line, or if the folder is a link.
    """
    _check_no_link(folder)
    with storage.reraise_as(HistoryError, storage.InputError, where=f"{folder}: "):
        storage.check_readable_folder(folder)
    paths = (path for path in folder.glob("*.jsonl") if path.stem >= f"{first_year:04d}")
    lines = (line for path in sorted(paths) for line in _read_lines(path))
    return tuple(sorted(lines, key=lambda line: line.moment))


def _read_lines(path: Path) -> list[HistoryLine]:
    """Read the lines of a history file, and drop each line that repeats an earlier line.

    Raises HistoryError if the file cannot be read, if it has an invalid line, or if it is not named
    for a year.
    """
    if not _YEAR_FILE_PATTERN.fullmatch(path.name):
        raise HistoryError(f"{path}: expected a file named for a year, such as 2026.jsonl")
    numbers: dict[bytes, int] = {}
    for number, text in enumerate(_read_refusing_conflict_markers(path).split(b"\n"), 1):
        numbers.setdefault(text, number)
    return _parse_lines(path, numbers)


def _read_refusing_conflict_markers(path: Path) -> bytes:
    """Read the bytes of a history file.

    Raises HistoryError if the file cannot be read, or has the markers of a merge conflict of Git.
    """
    with storage.reraise_as(HistoryError, storage.InputError, where=f"{path}: "):
        content = storage.read(path, MAX_FILE_BYTES)
    conflict = wire.git_leftover_text(content)
    if conflict:
        raise HistoryError(f"{path}:{conflict}")
    return content


ACKNOWLEDGED_FILE = "acknowledged.toml"

# Users may note a change a day before or after the session with which it began.
_DATE_TOLERANCE = datetime.timedelta(days=1)


def _check_reason(reason: str) -> None:
    """Raise ValueError if `reason` is empty or has only spaces."""
    if not reason.strip():
        raise ValueError("expected the reason of the change, got an empty text")


@dataclass(frozen=True, kw_only=True, slots=True)
class AcknowledgedChange:
    """A change of levels that the user accepts with a reason, in ``acknowledged.toml``.

    Attributes:
        since: The day on which the change began. Levels are computed from sessions since this day.
        reason: The user's reason.
        case: The shell pattern that the names of changed cases match, such as
            ``jax.all_reduce.*``.
        machine: The shell pattern that the names of changed machines match, such as
            ``tpu-v5-lite/*``.

    """

    since: Date
    reason: Annotated[str, _check_reason]
    case: str = "*"
    machine: str = "*"

    @property
    def began(self) -> datetime.datetime:
        """The beginning of the day `since` (UTC)."""
        return datetime.datetime.fromisoformat(self.since).replace(tzinfo=datetime.UTC)

    def matches(self, case: str, machine: str) -> bool:
        """Return whether the change applies to a case on a machine, given the names of both."""
        return fnmatch.fnmatchcase(case, self.case) and fnmatch.fnmatchcase(machine, self.machine)

    def explains(self, began: datetime.datetime) -> bool:
        """Return whether this change explains that a level changed at `began`, judged by the dates.

        `began` may be on the day `since`, on the day after it, or up to a day before it.
        """
        return self.began - _DATE_TOLERANCE <= began < self.began + 2 * _DATE_TOLERANCE


@dataclass(frozen=True, kw_only=True, slots=True)
class _AcknowledgedFile:
    """The content of ``acknowledged.toml``: `change` has the acknowledged changes."""

    change: tuple[AcknowledgedChange, ...] = ()


def read_acknowledged_changes(baselines_folder: Path) -> tuple[AcknowledgedChange, ...]:
    """Read the acknowledged changes in the folder of baselines; empty if the file is missing.

    Users write the file ``acknowledged.toml``. Raises HistoryError if the file is not valid. An
    example of the file:

        [[change]]
        since = 2026-11-03
        case = "jax.all_reduce.*"
        machine = "tpu-v5-lite/4r"
        reason = "libtpu 0.0.31 waits for all hosts; accepted in #123"
    """
    path = baselines_folder / ACKNOWLEDGED_FILE
    # A link to nothing is an error, because a file was meant to be there.
    if not os.path.lexists(path):
        return ()
    with storage.reraise_as(HistoryError, ValueError, where=f"{path}: "):
        content = tomllib.loads(_read_refusing_conflict_markers(path).decode())
        # JSON has no dates, so that each date becomes a text.
        document = json.loads(json.dumps(content, default=str))
        return wire.from_json(_AcknowledgedFile, document, "file").change
