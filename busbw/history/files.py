"""The folder of the history: a file for each year and machine, appended to under a lock.

The lines of a session are written with one call, and flushed to the disk before `append` returns. A
session that is killed meanwhile can leave a torn last line: the next append begins on a new line,
and reading the file raises an error with the number of the torn line. Nothing is appended to a file
with lines of another format.
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
from busbw.model.limits import Date
from busbw.model.machine import EnvironmentKey

from .lines import Line, parse

# A year of daily sessions with a thousand cases takes half of it.
MOST_BYTES = 1 << 30
_YEAR = re.compile(r"[0-9]{4}\.jsonl")


class HistoryError(Exception):
    """A history that cannot be read or written; the message says which file, where and why."""


def append(root: Path, key: EnvironmentKey, lines: Sequence[Line]) -> Path:
    """Append the lines of a session, one at least, and return the path of the file.

    Raises HistoryError if they cannot be written; then none of them is in the file.
    """
    path = root / key.folder / f"{lines[0].began.year}.jsonl"
    content = "".join(f"{line.text}\n" for line in lines).encode()
    with (
        storage.raised_as(HistoryError, storage.LockedError, OSError, where=f"{path}: "),
        storage.folder_lock(path.parent),
    ):
        _append(path, content)
    return path


def _append(path: Path, content: bytes) -> None:
    before = _content(path) if path.exists() else b""
    if before:
        # A file of another format is not appended to.
        _parse(path, {before.partition(b"\n")[0]: 1})
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


def _parse(path: Path, numbers: Mapping[bytes, int]) -> list[Line]:
    """Parse lines of a file, by their numbers. Raises HistoryError."""
    with storage.raised_as(HistoryError, wire.WireError, where=f"{path}: "):
        return [parse(text, f"line {number}") for text, number in numbers.items() if text]


def read(root: Path, key: EnvironmentKey, since: int = 0) -> tuple[Line, ...]:
    """Read the lines of one machine from the year `since` on, oldest first. Raises HistoryError."""
    return _read_folder(root / key.folder, since)


def read_all(root: Path) -> dict[str, tuple[Line, ...]]:
    """Read all lines by machine, which is a folder below `root`. Raises HistoryError."""
    return {name: _read_folder(root / name) for name in folders(root)}


def folders(root: Path) -> tuple[str, ...]:
    """Return the machines that have a history. Raises HistoryError without the folder `root`."""
    if not root.is_dir():
        raise HistoryError(f"there is no folder {root}")
    with_lines = (
        Path(folder).relative_to(root)
        for folder, _, names in os.walk(root, onerror=_raise)
        if any(name.endswith(".jsonl") for name in names)
    )
    return tuple(sorted(str(folder) for folder in with_lines if len(folder.parts) == 2))


def _raise(error: OSError) -> None:
    raise HistoryError(storage.error_text(error)) from error


def _read_folder(folder: Path, since: int = 0) -> tuple[Line, ...]:
    with storage.raised_as(HistoryError, storage.InputError, where=f"{folder}: "):
        storage.check_is_folder(folder)
    paths = (path for path in folder.glob("*.jsonl") if path.stem >= f"{since:04d}")
    lines = (line for path in sorted(paths) for line in _lines(path))
    return tuple(sorted(lines, key=lambda line: line.moment))


def _lines(path: Path) -> list[Line]:
    """Read the lines of a file, each once. Raises HistoryError."""
    if not _YEAR.fullmatch(path.name):
        raise HistoryError(f"{path}: expected a file named for a year, such as 2026.jsonl")
    numbers: dict[bytes, int] = {}
    for number, text in enumerate(_content(path).split(b"\n"), 1):
        numbers.setdefault(text, number)
    return _parse(path, numbers)


def _content(path: Path) -> bytes:
    """Read a file of the history. Raises HistoryError, also for a conflict that Git left in it."""
    with storage.raised_as(HistoryError, storage.InputError, where=f"{path}: "):
        content = storage.read(path, MOST_BYTES)
    conflict = wire.left_by_git(content)
    if conflict:
        raise HistoryError(f"{path}:{conflict}")
    return content


FILE = "acknowledged.toml"

# A change begins with a session; its day in the file may be a day early or late.
_NEAR = datetime.timedelta(days=1)


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise ValueError("expected the reason of the change, got an empty text")


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """A change that is accepted `since` a day, of the cases and machines that match the patterns.

    The level is that of the sessions from that day on.
    """

    since: Date
    reason: Annotated[str, _check_reason]
    case: str = "*"
    machine: str = "*"

    @property
    def began(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.since).replace(tzinfo=datetime.UTC)

    def matches(self, case: str, machine: str) -> bool:
        """Return whether the names of a case and of a machine match the patterns."""
        return fnmatch.fnmatchcase(case, self.case) and fnmatch.fnmatchcase(machine, self.machine)

    def explains(self, began: datetime.datetime) -> bool:
        """Return whether a change of a level at `began` is this change."""
        return self.began - _NEAR <= began < self.began + 2 * _NEAR


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    change: tuple[Acknowledged, ...] = ()


def acknowledged(root: Path) -> tuple[Acknowledged, ...]:
    """Read the acknowledged changes in `root`, the folder of the baselines; none without a file.

    The file is written by hand and reviewed. Raises HistoryError, whose message says where and why.

        [[change]]
        since = 2026-11-03
        case = "jax.all_reduce.*"
        machine = "tpu-v5-lite/4r"
        reason = "libtpu 0.0.31 waits for all hosts; accepted in #123"
    """
    path = root / FILE
    # A link to nothing is an error, because a file was meant to be there.
    if not os.path.lexists(path):
        return ()
    with storage.raised_as(HistoryError, storage.InputError, where=f"{path} "):
        content = storage.read(path)
    try:
        raw = tomllib.loads(content.decode())
    except ValueError as error:
        text = wire.left_by_git(content) or f" not TOML: {error}"
        raise HistoryError(f"{path}:{text}") from error
    for change in raw["change"] if isinstance(raw.get("change"), list) else ():
        if isinstance(change, dict) and isinstance(change.get("since"), datetime.date):
            change["since"] = change["since"].isoformat()
    with storage.raised_as(HistoryError, wire.WireError, where=f"{path}: "):
        return wire.from_json(_File, raw, "file").change
