"""Files: those that busbw ships, bounded reads that cannot block, atomic writes of one file.

A written file is synced to disk under another name in its folder and then renamed, so that a full
disk or a kill leaves the old one. Standard library only: workers cache compiled programs with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

_PACKAGE = Path(__file__).parent

# The results of all cases with a hundred launches each are a fifth of it.
MOST_BYTES = 128 * 2**20
_AT_ONCE = 2**20

_MODE = 0o644
# Leaves room for a suffix; file systems take 255 bytes.
_SHOWN_NAME = 60
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


def shipped_promises() -> Path:
    """The folder with the tests that measure."""
    return _shipped("perf", "perf")


def shipped_baselines() -> Path:
    """Of compiled programs and published figures, which hold on every machine; never written."""
    return _shipped("shipped_baselines", "baselines")


def _shipped(in_wheel: str, in_checkout: str) -> Path:
    installed = _PACKAGE / in_wheel
    return installed if installed.is_dir() else _PACKAGE.parent / in_checkout


class InputError(ValueError):
    """A file that cannot be read; the message says why, without its name."""


class TooLargeError(InputError):
    """A file of more bytes than are read."""


def content(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All bytes of the regular file at `path`; raises InputError for anything else.

    Nothing of a file of more than `most_bytes` is kept, whatever the file system says of its size.
    """
    try:
        # Opening a pipe for reading would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InputError(_reason(error)) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"is {_kind(found.st_mode)}, expected a file")
        if found.st_size > most_bytes:
            raise TooLargeError(f"has {found.st_size} bytes; accepted are {most_bytes}")
        return _read(descriptor, found.st_size, most_bytes)
    except OSError as error:
        raise InputError(_reason(error)) from error
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, most_bytes: int) -> bytes:
    """In one piece if the size is known, so that the content is not held twice."""
    parts, count = [], 0
    while part := os.read(descriptor, max(_AT_ONCE, size - count + 1)):
        count += len(part)
        if count > most_bytes:
            raise TooLargeError(f"has more than {most_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"


class Refused(ValueError):
    """An output that is not written; the message says which, why, and what is accepted."""


def reason(error: OSError) -> str:
    """Return an error of the operating system as ``PATH: what it says``.

    Where a copy or a move failed, PATH is the new file.
    """
    words, path = error.strerror or str(error), error.filename2 or error.filename
    return f"{path}: {words}" if path else words


def check(
    path: Path,
    *,
    what: str,
    ours: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise Refused if `path` cannot be written, or holds something that must not be lost.

    An existing file is replaced if it is empty, or if `ours` says that its text is an earlier
    `what`; never if it is one of the `inputs`, under any name.
    """
    try:
        found = _status(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    if found is None:
        _check_parent(path)
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise Refused(f"{path} is {kind}, expected a file")
    if any(_is_same(path, one) for one in inputs):
        raise Refused(f"{path} is read, too, and would be lost; accepted is another file")
    _check_parent(path)
    if not _may(path, os.W_OK):
        raise Refused(f"{path} cannot be written: no permission")
    if found.st_size and not ours(_text(path)):
        raise Refused(
            f"{path} holds something else than {what}; accepted is a new or an empty file, or "
            f"{what}"
        )


def check_folder(folder: Path) -> None:
    """Raise Refused unless files can be written in `folder`, which need not exist yet."""
    try:
        there = next(one for one in (folder, *folder.parents) if _status(one) is not None)
    except OSError as error:
        raise Refused(f"{folder}: {error.strerror}") from error
    if not there.is_dir():
        raise Refused(f"{there} is no folder")
    if not _may(there, os.W_OK | os.X_OK):
        raise Refused(f"{folder} cannot be written: no permission to write into {there}")


def write(path: Path, content: str | bytes) -> None:
    """Replace the content of `path`, whole or not at all. Raises OSError with the path.

    Missing folders are created. A link is followed; a new file gets mode 644 within the umask.
    """
    target = Path(os.path.realpath(path))
    # A unique name in the same folder: a rename must not cross file systems.
    new = target.with_name(f"{target.name[:_SHOWN_NAME]}.{secrets.token_hex(4)}.new")
    try:
        found = _status(target)
        if found is not None:
            _forbid(target, found.st_mode)
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _MODE)
            undo.callback(new.unlink, missing_ok=True)
            with os.fdopen(handle, "wb") as file:
                if found is not None:
                    os.fchmod(handle, stat.S_IMODE(found.st_mode))
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(handle)
            os.replace(new, target)
    except OSError as error:
        # Errors name the file that was requested, not the one that is written first.
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None
        raise


def _status(path: Path) -> os.stat_result | None:
    """None for a file that does not exist."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _check_parent(path: Path) -> None:
    folder = Path(os.path.realpath(path) if path.is_symlink() else path.absolute()).parent
    if not folder.is_dir():
        raise Refused(f"there is no folder {folder}")
    if not _may(folder, os.W_OK | os.X_OK):
        raise Refused(f"{path} cannot be written: no permission to write into its folder")


def _forbid(path: Path, mode: int) -> None:
    if _KINDS.get(stat.S_IFMT(mode)):
        raise OSError(errno.EINVAL, f"is {_KINDS[stat.S_IFMT(mode)]}, expected a file")
    if not _may(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return content(path).decode(errors="replace")
    except InputError as error:
        raise Refused(f"{path}: {error}") from error
