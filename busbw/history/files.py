"""The folder of the history: a file for each year and machine, appended to under a lock.

A session's lines are written with one call and flushed to the disk before it is said that they are
there. A session that is killed meanwhile can leave a torn last line: the next append begins on a
new line, and whoever reads the file is told the number of the torn one. A file with lines of
another format is not appended to.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fnmatch
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from busbw import storage, wire
from busbw.model.limits import Date
from busbw.model.machine import EnvironmentKey

from .lines import Line, parsed

LOCK_TIMEOUT_S = 60.0
# A thousand cases in every night of a year are half of it.
MOST_BYTES = 1 << 30
_YEAR = re.compile(r"[0-9]{4}\.jsonl")


class HistoryError(Exception):
    """A history that cannot be read or written; the message says which file, where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """How many lines were appended to the file at `path`."""

    path: Path
    lines: int


def append(root: Path, key: EnvironmentKey, lines: Sequence[Line]) -> Appended:
    """Append a session's `lines`, one at least.

    Raises HistoryError where they cannot be, and none of them is there then.
    """
    path = root / key.folder / f"{lines[0].began.year}.jsonl"
    content = "".join(f"{line.text}\n" for line in lines).encode()
    with _locked(path):
        _append(path, content)
    return Appended(path=path, lines=len(lines))


def _append(path: Path, content: bytes) -> None:
    before = _content(path) if path.exists() else b""
    if before:
        # A file of another format is not appended to.
        _parsed(path, before.partition(b"\n")[0], 1)
    if before and not before.endswith(b"\n"):
        content = b"\n" + content
    with path.open("ab", buffering=0) as file:
        try:
            written = file.write(content)
            os.fsync(file.fileno())
            if written < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # A full disk: what of them is there would be half a session.
            file.truncate(len(before))
            raise


def _parsed(path: Path, text: bytes, number: int) -> Line:
    try:
        return parsed(text, f"line {number}")
    except wire.WireError as error:
        raise HistoryError(f"{path}: {error}") from error


def read(root: Path, key: EnvironmentKey, since: int = 0) -> tuple[Line, ...]:
    """The lines of one machine from the year `since` on, oldest first. Raises HistoryError."""
    return _read_folder(root / key.folder, since)


def read_all(root: Path) -> dict[str, tuple[Line, ...]]:
    """All lines by machine, its folder below `root` as text. Raises HistoryError."""
    return {name: _read_folder(root / name) for name in folders(root)}


def folders(root: Path) -> tuple[str, ...]:
    """The machines that there is a history of. Raises HistoryError."""
    return tuple(dict.fromkeys(str(path.parent.relative_to(root)) for path in _files(root)))


def _files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise HistoryError(f"there is no folder {root}")
    return sorted(root.glob("*/*/*.jsonl"))


def _read_folder(folder: Path, since: int = 0) -> tuple[Line, ...]:
    paths = (path for path in folder.glob("*.jsonl") if path.stem >= f"{since:04d}")
    lines = (line for path in sorted(paths) for line in _lines(path).values())
    return tuple(sorted(lines, key=lambda line: line.at))


def _lines(path: Path) -> dict[bytes, Line]:
    """The lines of a file by their bytes. Raises HistoryError."""
    if not _YEAR.fullmatch(path.name):
        raise HistoryError(f"{path}: expected a file named for a year, such as 2026.jsonl")
    texts = _content(path).removesuffix(b"\n").split(b"\n")
    numbered = enumerate(texts if texts != [b""] else (), 1)
    return {text: _parsed(path, text, number) for number, text in numbered}


def _content(path: Path) -> bytes:
    """Read a file of the history. Raises HistoryError, also for what Git left in it."""
    try:
        found = storage.read(path, MOST_BYTES)
    except storage.InputError as error:
        raise HistoryError(f"{path}: {error}") from error
    left = wire.left_by_git(found)
    if left:
        raise HistoryError(f"{path}:{left}")
    return found


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The only writer in the folder of `path`, which is made. Raises HistoryError."""
    with _errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with storage.folder_lock(path.parent.resolve(), LOCK_TIMEOUT_S):
            yield


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Errors of the system and of the lock become a HistoryError with `path`."""
    try:
        yield
    except storage.LockedError as error:
        raise HistoryError(
            f"{path}: another session has been writing for {LOCK_TIMEOUT_S:g} s"
        ) from error
    except OSError as error:
        raise HistoryError(f"{path}: {storage.error_text(error)}") from error


FILE = "acknowledged.toml"

# A change begins with a session; whoever writes the day may mean the one before or after it.
_NEAR = datetime.timedelta(days=1)


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise ValueError("expected why it is accepted, got nothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """A change `since` a day, of the cases and machines whose names match the patterns.

    From that day on the level is what has been measured since.
    """

    since: Date
    reason: Annotated[str, _check_reason]
    case: str = "*"
    machine: str = "*"

    @property
    def began(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.since).replace(tzinfo=datetime.UTC)

    def is_of(self, case: str, machine: str) -> bool:
        return fnmatch.fnmatchcase(case, self.case) and fnmatch.fnmatchcase(machine, self.machine)

    def explains(self, began: datetime.datetime) -> bool:
        return self.began - _NEAR <= began < self.began + 2 * _NEAR


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    change: tuple[Acknowledged, ...] = ()


def acknowledged(root: Path) -> tuple[Acknowledged, ...]:
    """What is acknowledged in `root`, the folder of the baselines; nothing without a file.

    The file is written by hand and reviewed. Raises HistoryError, which says where and why.

        [[change]]
        since = 2026-11-03
        case = "jax.all_reduce.*"
        machine = "tpu-v5-lite/4r"
        reason = "libtpu 0.0.31 waits for all hosts; accepted in #123"
    """
    path = root / FILE
    if not path.exists():
        return ()
    try:
        content = storage.read(path)
        raw = tomllib.loads(content.decode())
    except storage.InputError as error:
        raise HistoryError(f"{path} {error}") from error
    except ValueError as error:
        left = wire.left_by_git(content)
        raise HistoryError(f"{path}:{left}" if left else f"{path}: not TOML: {error}") from error
    for one in raw["change"] if isinstance(raw.get("change"), list) else ():
        if isinstance(one, dict) and isinstance(one.get("since"), datetime.date):
            one["since"] = one["since"].isoformat()
    try:
        return wire.from_json(_File, raw, "file").change
    except wire.WireError as error:
        raise HistoryError(f"{path}: {error}") from error
