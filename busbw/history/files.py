"""The folder of the history: a file for each year and machine, appended to under a lock.

A session's lines are written with one call and flushed to the disk before it is said that they are
there. A session that is killed meanwhile can leave a torn last line: the next one moves it to a
file beside, and says so. A file with lines of another format is not appended to.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from busbw import files, locks, wire
from busbw.model.limits import Date
from busbw.model.machine import EnvironmentKey

from .lines import Line, parsed

LOCK_TIMEOUT_S = 60.0
# A thousand cases in every night of a year are half of it.
MOST_BYTES = 1 << 30
# As much as is looked at for the begin of a torn line: no line is as long.
_TAIL_BYTES = 1 << 20
# A pipe without a reader is not waited for.
_TO_APPEND = os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_YEAR = re.compile(r"[0-9]{4}\.jsonl")


class HistoryError(Exception):
    """A history that cannot be read or written; the message says which file, where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """The lines of a file or of several, in their order, and what is wrong with their ends."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """How many lines were appended to the file at `path`, and notes on what was repaired before."""

    path: Path
    lines: int
    notes: tuple[str, ...] = ()


def append(root: Path, key: EnvironmentKey, lines: Sequence[Line]) -> Appended:
    """Append a session's `lines`, one at least.

    Raises HistoryError where they cannot be, and none of them is there then.
    """
    path = root / key.folder / f"{lines[0].began.year}.jsonl"
    content = "".join(f"{line.text}\n" for line in lines).encode()
    with _locked(root, path):
        return Appended(path=path, lines=len(lines), notes=_append(path, content))


def append_from(root: Path, other: Path) -> tuple[Appended, ...]:
    """Append what the history `other` has and `root` lacks, file by file.

    A line is there if its very bytes are, so that doing it again appends nothing. Raises
    HistoryError; what `other` has is read first, and nothing is appended if it cannot be.
    """
    found = {path.relative_to(other): _texts(path) for path in _files(other)}
    return tuple(_append_missing(root, root / name, lines) for name, lines in found.items())


def _append_missing(root: Path, path: Path, lines: Sequence[bytes]) -> Appended:
    with _locked(root, path):
        there = set(_texts(path)) if path.exists() else set()
        missing = [line for line in dict.fromkeys(lines) if line not in there]
        content = b"".join(line + b"\n" for line in missing)
        notes = _append(path, content) if missing else ()
        return Appended(path=path, lines=len(missing), notes=notes)


def _append(path: Path, content: bytes) -> tuple[str, ...]:
    if path.exists():
        # A file that is no file of the history is refused, wherever in it that can be seen.
        _content(path)
    descriptor = os.open(path, os.O_RDWR | _TO_APPEND, 0o666)
    try:
        end = os.fstat(descriptor).st_size
        rest = _rest(descriptor, end)
        first = os.pread(descriptor, _TAIL_BYTES, 0).partition(b"\n")[0]
        for text, number in ((first, "1"), (rest, "last")):
            if _is_whole(text):
                _parsed(path, text, number)
        whole, notes = end, tuple[str, ...]()
        if _is_whole(rest):
            content = b"\n" + content
        elif rest:
            whole, notes = end - len(rest), (_moved(path, rest),)
            os.ftruncate(descriptor, whole)
        try:
            _write(descriptor, content)
            os.fsync(descriptor)
        except OSError:
            # A full disk: what of them is there would be half a session.
            os.ftruncate(descriptor, whole)
            raise
    finally:
        os.close(descriptor)
    return notes


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _rest(descriptor: int, end: int) -> bytes:
    """What of the first `end` bytes stands after the last newline."""
    begin = max(0, end - _TAIL_BYTES)
    return os.pread(descriptor, end - begin, begin).rpartition(b"\n")[2]


def _is_whole(text: bytes) -> bool:
    """Whether it is a line of whatever format, and not the begin of one."""
    try:
        wire.parsed(text)
    except wire.WireError:
        return False
    return True


def _parsed(path: Path, text: bytes, number: str) -> Line:
    try:
        return parsed(text, f"line {number}")
    except wire.WireError as error:
        raise HistoryError(f"{path}: {error}") from error


def _moved(path: Path, torn: bytes) -> str:
    """Move the torn line to a file beside it, and say so. Raises HistoryError for more than one."""
    if torn.count(b'"session"') > 1 or len(torn) == _TAIL_BYTES:
        raise HistoryError(
            f"{path}: after the last newline stand {len(torn)} bytes, which are no single line; "
            "give each session's case a line of its own"
        )
    beside = path.with_name(f"{path.name}.torn")
    descriptor = os.open(beside, os.O_WRONLY | _TO_APPEND, 0o666)
    with os.fdopen(descriptor, "ab") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HistoryError(f"{beside}: expected a file, got a pipe or a device; remove it")
        file.write(torn + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return (
        f"{path}: a torn last line of {len(torn)} bytes, of a session that was killed, is moved "
        f"to {beside.name}"
    )


def check(root: Path) -> None:
    """Raise HistoryError unless files can be made in `root`, which need not be there yet."""
    folder = next(one for one in (root, *root.absolute().parents) if one.exists())
    with _errors(root):
        if not folder.is_dir():
            raise HistoryError(f"{folder} is no folder")
        files.check_folder(folder)


def read(root: Path, key: EnvironmentKey, since: int = 0) -> Read:
    """The lines of one machine from the year `since` on, oldest first. Raises HistoryError."""
    folder = root / key.folder
    _check_links(root, folder)
    return _read_folder(folder, since)


def read_all(root: Path) -> dict[str, Read]:
    """All lines by machine, its folder below `root` as text. Raises HistoryError."""
    return {name: _read_folder(root / name) for name in folders(root)}


def _check_links(root: Path, path: Path) -> None:
    """Raise HistoryError if a part of `path` below `root` is a link, which may lead anywhere."""
    for part in (path, *path.parents):
        if part == root:
            return
        if part.is_symlink():
            raise HistoryError(
                f"{part}: expected a folder or a file of the history itself, got a link, which is "
                "not followed; put in its place what it leads to"
            )


def folders(root: Path) -> tuple[str, ...]:
    """The machines that there is a history of. Raises HistoryError."""
    return tuple(dict.fromkeys(str(path.parent.relative_to(root)) for path in _files(root)))


def _files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise HistoryError(f"there is no folder {root}")
    found = sorted(root.glob("*/*/*.jsonl"))
    for path in found:
        _check_links(root, path)
    return found


def _read_folder(folder: Path, since: int = 0) -> Read:
    lines: list[Line] = []
    notes = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.stem >= f"{since:04d}":
            _check_links(folder, path)
            found, is_torn = _whole_lines(path)
            lines += (line for _, line in found)
            note = "the last line is torn; the next session that measures here moves it away"
            notes += [f"{path}: {note}"] if is_torn else []
    return Read(lines=tuple(sorted(lines, key=lambda line: line.at)), notes=tuple(notes))


def _texts(path: Path) -> list[bytes]:
    return [text for text, _ in _whole_lines(path)[0]]


def _whole_lines(path: Path) -> tuple[list[tuple[bytes, Line]], bool]:
    """The whole lines with their bytes, and whether the last is torn. Raises HistoryError."""
    if not _YEAR.fullmatch(path.name):
        raise HistoryError(f"{path}: expected a file named for a year, such as 2026.jsonl")
    *whole, torn = _content(path).split(b"\n")
    if _is_whole(torn):
        whole, torn = [*whole, torn], b""
    return [(text, _parsed(path, text, str(n))) for n, text in enumerate(whole, 1)], bool(torn)


def _content(path: Path) -> bytes:
    """Read a file of the history. Raises HistoryError, also for what Git left in it."""
    try:
        found = files.content(path, MOST_BYTES)
    except files.InputError as error:
        raise HistoryError(f"{path}: {error}") from error
    left = wire.left_by_git(found)
    if left:
        raise HistoryError(f"{path}:{left}")
    return found


@contextlib.contextmanager
def _locked(root: Path, path: Path) -> Iterator[None]:
    """The only writer in the folder of `path`, which is made. Raises HistoryError."""
    _check_links(root, path)
    with _errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locks.folder(path.parent.resolve(), LOCK_TIMEOUT_S):
            yield


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Errors of the system and of the lock become a HistoryError with `path`."""
    try:
        yield
    except locks.Busy as error:
        raise HistoryError(
            f"{path}: another session ({error}) has been writing for {LOCK_TIMEOUT_S:g} s"
        ) from error
    except OSError as error:
        raise HistoryError(f"{path}: {files.reason(error)}") from error


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
        content = files.content(path)
        raw = tomllib.loads(content.decode())
    except files.InputError as error:
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
