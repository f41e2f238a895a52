"""The folder of the history: a file for each machine and year, to which lines are appended.

Lines are appended under a lock. The lines of a session are written with a single call, and are on
the disk before `append_lines` returns. A session that is killed meanwhile can leave an incomplete
last line: the next session begins on a new line, and reading the file raises an error with the
number of the incomplete line. Nothing is appended to a file with lines of another format.
"""

from __future__ import annotations

import datetime
import errno
import fnmatch
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from busbw import storage, wire
from busbw.model.field_types import Date
from busbw.model.machine import EnvironmentKey

from .lines import Line, parse_line

# A year of daily sessions with a thousand cases needs half as many bytes.
MAX_FILE_BYTES = 1 << 30
_YEAR_FILE = re.compile(r"[0-9]{4}\.jsonl")


class HistoryError(Exception):
    """A history file that cannot be read or written; the message says which file, where and why."""


def append_lines(root: Path, key: EnvironmentKey, lines: Sequence[Line]) -> Path:
    """Append the `lines` of a session, at least one, and return the path of the file.

    `root` is the folder of the history, and `key` names the machine. Raises HistoryError if the
    lines cannot be written; then the file has no line of the session.
    """
    path = root / key.folder / f"{lines[0].began.year}.jsonl"
    content = "".join(f"{line.text}\n" for line in lines).encode()
    with (
        storage.reraise_as(HistoryError, storage.LockedError, OSError, where=f"{path}: "),
        storage.lock_folder(path.parent),
    ):
        _append_content(path, content)
    return path


def _append_content(path: Path, content: bytes) -> None:
    """Append lines to a history file, or raise OSError and leave the file as it was.

    Raises HistoryError if the file has lines of another format.
    """
    before = _read_content(path) if path.exists() else b""
    if before:
        # A file of another format is not appended to.
        _parse_lines(path, {before.partition(b"\n")[0]: 1})
    if before and not before.endswith(b"\n"):
        content = b"\n" + content
    with path.open("ab", buffering=0) as file:
        try:
            written = file.write(content)
            os.fsync(file.fileno())
            if written < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # The disk is full, and half a session must not stay in the file.
            file.truncate(len(before))
            raise


def _parse_lines(path: Path, line_numbers: Mapping[bytes, int]) -> list[Line]:
    """Parse lines of the file `path`; `line_numbers` contains the line number of each text.

    Raises HistoryError for an invalid line.
    """
    with storage.reraise_as(HistoryError, wire.WireError, where=f"{path}: "):
        return [parse_line(text, f"line {number}") for text, number in line_numbers.items() if text]


def read_all_machines(root: Path) -> dict[str, tuple[Line, ...]]:
    """Read the history in the folder `root`, and map the name of each machine to its lines.

    The name is the machine's folder below `root`. Raises HistoryError if a file cannot be read or
    has an invalid line.
    """
    return {name: read_folder(root / name) for name in machine_folders(root)}


def machine_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the machines that have a history: their folders below `root`.

    Raises HistoryError if there is no folder `root`, or it cannot be read.
    """
    if not root.is_dir():
        raise HistoryError(f"there is no folder {root}")
    with_lines = (
        Path(folder).relative_to(root)
        for folder, _, names in os.walk(root, onerror=_raise_history_error)
        if any(name.endswith(".jsonl") for name in names)
    )
    return tuple(sorted(str(folder) for folder in with_lines if len(folder.parts) == 2))


def _raise_history_error(error: OSError) -> None:
    raise HistoryError(storage.error_text(error)) from error


def read_folder(folder: Path, first_year: int = 0) -> tuple[Line, ...]:
    """Read the lines of a machine's folder, oldest first, from `first_year` on.

    A folder that is missing has no lines. Raises HistoryError if a file cannot be read or has an
    invalid line.
    """
    with storage.reraise_as(HistoryError, storage.InputError, where=f"{folder}: "):
        storage.check_readable_folder(folder)
    paths = (path for path in folder.glob("*.jsonl") if path.stem >= f"{first_year:04d}")
    lines = (line for path in sorted(paths) for line in _read_lines(path))
    return tuple(sorted(lines, key=lambda line: line.moment))


def _read_lines(path: Path) -> list[Line]:
    """Read the lines of a file, without repetitions of a line. Raises HistoryError."""
    if not _YEAR_FILE.fullmatch(path.name):
        raise HistoryError(f"{path}: expected a file named for a year, such as 2026.jsonl")
    numbers: dict[bytes, int] = {}
    for number, text in enumerate(_read_content(path).split(b"\n"), 1):
        numbers.setdefault(text, number)
    return _parse_lines(path, numbers)


def _read_content(path: Path) -> bytes:
    """Read the bytes of a history file. Raises HistoryError, also for a merge conflict of Git."""
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
    if not reason.strip():
        raise ValueError("expected the reason of the change, got an empty text")


@dataclass(frozen=True, kw_only=True, slots=True)
class AcknowledgedChange:
    """A change of levels that the user accepts with a `reason`.

    `since` is the day on which the change began. Levels are computed from sessions since that day.
    `case` and `machine` are patterns for the names of cases and machines with the change, such as
    ``jax.all_reduce.*``.
    """

    since: Date
    reason: Annotated[str, _check_reason]
    case: str = "*"
    machine: str = "*"

    @property
    def began(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.since).replace(tzinfo=datetime.UTC)

    def matches(self, case: str, machine: str) -> bool:
        """Return whether the change applies to a case on a machine, given both names."""
        return fnmatch.fnmatchcase(case, self.case) and fnmatch.fnmatchcase(machine, self.machine)

    def explains(self, began: datetime.datetime) -> bool:
        """Return whether this change is the reason for a level that changed at `began`."""
        return self.began - _DATE_TOLERANCE <= began < self.began + 2 * _DATE_TOLERANCE


@dataclass(frozen=True, kw_only=True, slots=True)
class _AcknowledgedFile:
    """The content of the file of acknowledged changes."""

    change: tuple[AcknowledgedChange, ...] = ()


def read_acknowledged(root: Path) -> tuple[AcknowledgedChange, ...]:
    """Read the acknowledged changes in `root`, the folder of baselines; empty without a file.

    Users write the file ``acknowledged.toml``. Raises HistoryError if it is not valid.

        [[change]]
        since = 2026-11-03
        case = "jax.all_reduce.*"
        machine = "tpu-v5-lite/4r"
        reason = "libtpu 0.0.31 waits for all hosts; accepted in #123"
    """
    path = root / ACKNOWLEDGED_FILE
    # A link to nothing is an error, because a file was meant to be there.
    if not os.path.lexists(path):
        return ()
    with storage.reraise_as(HistoryError, storage.InputError, where=f"{path} "):
        content = storage.read(path)
    try:
        raw = tomllib.loads(content.decode())
    except ValueError as error:
        text = wire.git_leftover_text(content) or f" not TOML: {error}"
        raise HistoryError(f"{path}:{text}") from error
    for change in raw["change"] if isinstance(raw.get("change"), list) else ():
        if isinstance(change, dict) and isinstance(change.get("since"), datetime.date):
            change["since"] = change["since"].isoformat()
    with storage.reraise_as(HistoryError, wire.WireError, where=f"{path}: "):
        return wire.from_json(_AcknowledgedFile, raw, "file").change
