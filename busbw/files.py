"""Files: those that busbw ships, bounded reads that cannot block, atomic writes of one or several.

A written file is synced to disk under another name in its folder and then renamed, so that a full
disk or a kill leaves the old one. Standard library only: workers cache compiled programs with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parent

# The results of all cases with a hundred launches each are a fifth of it.
MOST_BYTES = 128 * 2**20
_AT_ONCE = 2**20

_MODE = 0o644
# Leaves room for a suffix; file systems take 255 bytes.
_SHOWN_NAME = 60
_MOST_LINKS = 40
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
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
            raise InputError(f"is {_kind(found.st_mode)}; accepted is a file")
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


class PartlyWrittenError(OSError):
    """Some of several files were written, and could not be put back; the message says which."""


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
    `what`; never if it is one of the `inputs`, under any name. Names of this process's own
    descriptors, such as ``/dev/stdout``, and character devices are written directly.
    """
    descriptor = _descriptor(path)
    if descriptor is not None:
        _check_descriptor(path, descriptor)
        return
    try:
        found = _status(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    if found is None:
        _check_parent(path)
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise Refused(f"{path} is {kind}; accepted is a file")
    if any(_is_same(path, one) for one in inputs):
        raise Refused(f"{path} is read, too, and would be lost; accepted is another file")
    if stat.S_ISREG(found.st_mode):
        _check_parent(path)
    if not _may(path, os.W_OK):
        raise Refused(f"{path} cannot be written: no permission")
    if stat.S_ISREG(found.st_mode) and found.st_size and not ours(_text(path)):
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
    """Replace the content of `path`, whole or not at all. Raises OSError."""
    write_all({path: content})


def write_all(contents: Mapping[Path, str | bytes | None]) -> None:
    """Write every file, or, if one of them cannot be, none; None removes a file.

    Missing folders are created. A link is followed; a new file gets mode 644 within the umask.
    Raises OSError with the path, PartlyWrittenError if what was done cannot be undone.
    """
    staged: list[_Staged] = []
    with contextlib.ExitStack() as undo:
        for path, content in contents.items():
            if _is_written_directly(path):
                assert content is not None
                _write_directly(path, _bytes(content))
                continue
            staged.append(_Staged(path=path, target=Path(os.path.realpath(path))))
            undo.callback(staged[-1].clean)
            with _named(path):
                staged[-1].stage(content, backup=len(contents) > 1)
        _replace_all(staged)
        undo.pop_all()
    for one in staged:
        one.forget()


@dataclass(kw_only=True)
class _Staged:
    """A file that is about to be replaced: `new` is the new file, `before` a link to the old one.

    Without `new` it is removed.
    """

    path: Path
    target: Path
    new: Path | None = None
    before: Path | None = None
    made: tuple[Path, ...] = ()
    replaced: bool = False

    def stage(self, content: str | bytes | None, *, backup: bool) -> None:
        found = _status(self.target)
        if found is not None:
            _forbid(self.target, found.st_mode)
        if content is not None:
            self._write(_bytes(content), stat.S_IMODE(found.st_mode) if found else None)
        if found is not None and backup:
            self._keep()

    def _write(self, content: bytes, mode: int | None) -> None:
        folder = self.target.parent
        self.made = tuple(one for one in (folder, *folder.parents) if not one.exists())
        folder.mkdir(parents=True, exist_ok=True)
        new = self._temporary_path("new")
        handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _MODE)
        self.new = new
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, mode)
            file.write(content)
            file.flush()
            os.fsync(handle)

    def _keep(self) -> None:
        before = self._temporary_path("old")
        try:
            os.link(self.target, before)
        except OSError:
            # A file system without hard links; a copy that fails is an error.
            shutil.copy2(self.target, before)
        self.before = before

    def _temporary_path(self, suffix: str) -> Path:
        """A unique name in the same folder: a rename must not cross file systems."""
        name = f"{self.target.name[:_SHOWN_NAME]}.{secrets.token_hex(4)}.{suffix}"
        return self.target.with_name(name)

    def replace(self) -> None:
        """The one step that other processes see."""
        with _named(self.path):
            if self.new is None:
                self.target.unlink(missing_ok=True)
            else:
                os.replace(self.new, self.target)
        self.replaced = True

    def undo(self) -> None:
        if self.before is not None:
            os.replace(self.before, self.target)
        else:
            self.target.unlink()
        self.replaced = False

    def clean(self) -> None:
        """Remove what was created for a file that is not replaced."""
        self.forget()
        if self.new is not None and not self.replaced:
            self.new.unlink(missing_ok=True)
        for folder in self.made:
            with contextlib.suppress(OSError):
                # Not if another process has put something in it.
                folder.rmdir()

    def forget(self) -> None:
        if self.before is not None:
            self.before.unlink(missing_ok=True)


def _replace_all(staged: list[_Staged]) -> None:
    try:
        for one in staged:
            one.replace()
    except BaseException as error:
        left = [one for one in staged if one.replaced and not _undone(one)]
        if left:
            names = ", ".join(str(one.path) for one in left)
            words = reason(error) if isinstance(error, OSError) else repr(error)
            raise PartlyWrittenError(f"{words}; written before that: {names}") from error
        raise


def _undone(one: _Staged) -> bool:
    try:
        one.undo()
    except OSError:
        return False
    return True


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that was asked for, not the one it is written in first."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None
        raise


def _is_written_directly(path: Path) -> bool:
    if _descriptor(path) is not None:
        return True
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _write_directly(path: Path, content: bytes) -> None:
    descriptor = _descriptor(path)
    with _named(path):
        if descriptor is None:
            path.write_bytes(content)
            return
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # Opened by its name, a file that the shell redirects it to would be truncated.
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)


def _descriptor(path: Path) -> int | None:
    """The descriptor of this process that `path` names, as /dev/stdout does; None if none."""
    at = path.absolute()
    for _ in range(_MOST_LINKS):
        if str(at.parent) in _DESCRIPTORS and at.name.isdecimal():
            return int(at.name)
        if not os.path.islink(at):
            return None
        at = at.parent / at.readlink()
    return None


def _check_descriptor(path: Path, descriptor: int) -> None:
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    except OSError as error:
        raise Refused(f"{path} is not open in this process") from error
    if flags & os.O_ACCMODE == os.O_RDONLY:
        raise Refused(f"{path} is not open for writing")


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
        raise OSError(errno.EINVAL, f"is {_KINDS[stat.S_IFMT(mode)]}; accepted is a file")
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
