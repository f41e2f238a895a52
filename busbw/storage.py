"""Files and locks: reads with a size limit, atomic writes, locks of the machine and of folders.

Only the standard library of Python 3.11 is imported, because workers and other hosts run a copy of
this file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import io
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# The limit is five times the size of the results of all cases with a hundred launches each.
MAX_DOCUMENT_BYTES = 128 * 2**20

# Sessions with different values of this variable do not wait for each other. Tests set it.
MACHINE_VARIABLE = "BUSBW_MACHINE"


class InputError(ValueError):
    """The error of a file that cannot be read.

    The message gives the reason, but does not name the file.
    """


class TooLargeError(InputError):
    """The error of a file that has more bytes than its reader accepts."""


class OutputError(ValueError):
    """The error of a file or folder that cannot or must not be written.

    The message names the file or folder.
    """


class LockedError(Exception):
    """The error of a lock that another process held for too long.

    The message names the process or, if it is unknown, the seconds that this process waited.
    """


@contextlib.contextmanager
def reraise_as(
    error_type: type[Exception], *caught_types: type[Exception], where: str = ""
) -> Iterator[None]:
    """Turn exceptions of the types `caught_types` in a ``with`` block into an `error_type`.

    The message of the new exception is `where` and the message of the caught exception.
    """
    try:
        yield
    except caught_types as error:
        raise error_type(f"{where}{error_text(error)}") from error


def read(path: Path, max_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes.

    Raises InputError if the file cannot be read or is not regular, and TooLargeError if it has more
    bytes.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError("is not a regular file")
            # A file can grow while it is read, and files of /proc have a size of 0.
            content = (
                file.read(status.st_size + MAX_DOCUMENT_BYTES)
                if status.st_size <= max_bytes
                else None
            )
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error)) from error
    if content is None or len(content) > min(max_bytes, status.st_size + MAX_DOCUMENT_BYTES - 1):
        raise TooLargeError(f"has more than {max_bytes} bytes")
    return content


def check_readable_folder(path: Path) -> None:
    """Raise InputError if `path` is a file, a folder that cannot be listed, or a dangling link.

    A path that does not exist is accepted.
    """
    try:
        os.listdir(path)
    except FileNotFoundError:
        check_no_dangling_link(path)
    except OSError as error:
        raise InputError(error.strerror or str(error)) from error


def check_no_dangling_link(path: Path) -> None:
    """Raise InputError if `path`, or a folder above it, is a symbolic link without a target."""
    for link in (path, *path.parents):
        if link.is_symlink() and not os.path.exists(link):
            raise InputError(f"{link} is a link to nothing")


def gunzip(content: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the unpacked `content` if it is in the format of gzip, and otherwise `content` itself.

    Raises InputError if the packed content is damaged, and TooLargeError if it unpacks to more than
    `max_bytes` bytes.
    """
    if content[:2] != b"\x1f\x8b":
        return content
    where = "is a damaged file of gzip: "
    with (
        reraise_as(InputError, EOFError, OSError, zlib.error, where=where),
        gzip.open(io.BytesIO(content)) as file,
    ):
        unpacked = file.read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise TooLargeError(f"unpacks to more than {max_bytes} bytes")
    return unpacked


def write(path: Path, content: str | bytes) -> None:
    """Write the file `path` atomically: a reader sees either the old or the new content.

    Missing folders are created, a symbolic link is followed, and an existing file keeps its mode.
    Raises OSError, which has the path, if the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    # File systems limit a name to 255 bytes.
    new = target.with_name(f"{target.name[:60]}.{secrets.token_hex(4)}.new")
    try:
        # A path that is still a link after all links were followed is a link that leads to itself.
        mode = target.stat().st_mode if os.path.lexists(target) else None
        if mode is not None and not (stat.S_ISREG(mode) and os.access(target, os.W_OK)):
            raise OSError(errno.EACCES, "expected a regular file that may be written")
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo, open(new, "xb") as file:
            undo.callback(new.unlink, missing_ok=True)
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(new, target)
    except OSError as error:
        # The user does not know the name of the new file.
        error.filename, error.filename2 = str(path), None
        raise


def remove_half_written_files(folder: Path) -> None:
    """Remove the temporary files below `folder` that killed callers of `write` left.

    The caller must hold the lock of the folder, so that no process is writing such a file now.
    """
    for path in folder.rglob(f"*.{'[0-9a-f]' * 8}.new"):
        path.unlink(missing_ok=True)


def error_text(error: Exception) -> str:
    """Return the message of `error`; for an OSError with a path, ``PATH: REASON``.

    If the error has two paths, such as the error of a copy, the text has the second path.
    """
    if not isinstance(error, OSError):
        return str(error)
    reason, path = error.strerror or str(error), error.filename2 or error.filename
    return f"{path}: {reason}" if path else reason


def check_output_file(
    path: Path, *, kind: str, recognizes_text: Callable[[str], bool], inputs: Iterable[Path] = ()
) -> None:
    """Raise OutputError unless the file `path` can be written without losing other content.

    Args:
        path: The file to write.
        kind: The kind of file that will be written, for messages, such as ``a results file``.
        recognizes_text: Returns whether a text is the content of a file of this kind. Such a file
            may be replaced, and so may an empty file.
        inputs: The files that are read, which must not be replaced.

    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(f"there is no folder {folder}")
    if os.path.lexists(os.path.realpath(path)):
        with reraise_as(OutputError, InputError, where=f"{path}: "):
            text = read(path).decode(errors="replace")
        if any(os.path.exists(other) and path.samefile(other) for other in inputs):
            raise OutputError(f"{path} is also an input and would be lost; name another file")
        if text and not recognizes_text(text):
            raise OutputError(f"{path} is not {kind}; expected {kind}, or a new or empty file")
    if not all(os.access(p, os.W_OK) for p in (path, folder) if os.path.exists(p)):
        raise OutputError(f"{path} cannot be written: no permission")


def check_writable_folder(path: Path) -> None:
    """Raise OutputError unless files can be written in the folder `path`.

    If the folder is missing, the nearest folder above it must be writable.
    """
    nearest = next(p for p in (path, *path.absolute().parents) if os.path.exists(p))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise OutputError(f"{nearest} is not a folder in which you may write")


def lock_machine(
    wait_s: float, on_wait: Callable[[str], None] = lambda holder: None
) -> contextlib.ExitStack:
    """Take the lock of this machine, which all its users share, and return the lock.

    Closing the result releases the lock. The lock is a file in /tmp, so that a container with a
    /tmp of its own counts as a machine.

    Args:
        wait_s: The seconds to wait for the lock.
        on_wait: A function that is called once if another process holds the lock, with a text on
            this process, such as ``pid 1234, started 2026-11-20 03:12:08``.

    Raises:
        LockedError: The lock is still held after `wait_s` seconds.
        OSError: The lock file cannot be opened or locked.

    """
    return _wait_for_lock(_try_lock_machine, _machine_lock_holder, wait_s, on_wait)


def lock_folder(path: Path, wait_s: float = 60.0) -> contextlib.ExitStack:
    """Make the folder `path` if it is missing, take its lock, and return the lock.

    Closing the result releases the lock. Raises LockedError if another process still holds the lock
    after `wait_s` seconds, and OSError if the folder cannot be made or locked.
    """
    path.mkdir(parents=True, exist_ok=True)
    return _wait_for_lock(
        lambda: try_lock_folder(Path(os.path.realpath(path))),
        lambda: f"another session has been writing for {wait_s:g} s",
        wait_s,
    )


def _wait_for_lock(
    try_lock: Callable[[], contextlib.ExitStack | None],
    holder_text: Callable[[], str],
    wait_s: float,
    on_wait: Callable[[str], None] = lambda holder: None,
) -> contextlib.ExitStack:
    """Call `try_lock` again and again until it returns a lock, and return the lock.

    `holder_text` returns a text on the process that holds the lock. `on_wait` is called once with
    this text before waiting. Raises LockedError with this text after `wait_s` seconds.
    """
    end_s, lock = time.monotonic() + wait_s, try_lock()
    if lock is None:
        on_wait(holder_text())
    while lock is None:
        if time.monotonic() >= end_s:
            raise LockedError(holder_text())
        time.sleep(0.05)
        lock = try_lock()
    return lock


def try_lock_folder(path: Path) -> contextlib.ExitStack | None:
    """Take the lock of a folder and return the lock; None if another process holds the lock.

    Closing the result releases the lock.
    """
    return _try_lock(os.open(path, os.O_RDONLY | os.O_DIRECTORY), path)


def _try_lock(descriptor: int, path: Path) -> contextlib.ExitStack | None:
    """Lock the file or folder `path`, which is open as `descriptor`, and return the lock.

    If another process holds the lock, close `descriptor` and return None.
    """
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, descriptor)
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have removed the file since it was opened.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                lock = opened.pop_all()
                # A forked child would keep the lock beyond the end of its parent.
                os.register_at_fork(after_in_child=lock.close)
                return lock
    return None


def _machine_lock_path() -> Path:
    return Path("/tmp", f"{os.environ.get(MACHINE_VARIABLE) or 'busbw-machine'}.lock")


def _open_machine_lock() -> int:
    """Open the lock file of the machine, and return its descriptor.

    A missing file is created for all users. Raises OSError if the file cannot be opened, or is not
    a regular file.
    """
    path = _machine_lock_path()
    # Without O_EXCL, which `touch` sets here, the kernel refuses O_CREAT in /tmp for a file of
    # another user (fs.protected_regular).
    with contextlib.suppress(FileExistsError):
        path.touch(0o666, exist_ok=False)
        # The umask was applied to the mode, so that other users could not open the file.
        path.chmod(0o666)
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EEXIST, "expected a regular file, for the lock of this machine", path)
    return descriptor


def _try_lock_machine() -> contextlib.ExitStack | None:
    """Take the lock of the machine, write this process's id into the lock file, return the lock.

    Returns None if another process holds the lock.
    """
    descriptor = _open_machine_lock()
    lock = _try_lock(descriptor, _machine_lock_path())
    if lock is not None:
        text = f"pid {os.getpid()}, started {time.strftime('%Y-%m-%d %H:%M:%S')}"
        os.pwrite(descriptor, text.ljust(50).encode(), 0)
    return lock


def _machine_lock_holder() -> str:
    """Return the text in the lock file of the machine, which names the process that took the lock.

    For example, ``pid 1234, started 2026-11-20 03:12:08``.
    """
    # All users can write to this file, so that it may have any content.
    match = re.match(rb"pid \d+, started [\d:-]+ [\d:]+", read(_machine_lock_path()))
    return match[0].decode() if match else "an unknown process"


def boot_and_lock_identity() -> str:
    """Return a text that is the same for all processes that share this machine's lock.

    The text identifies the boot of the kernel and the lock file; it is empty if they are unknown.
    """
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        os.close(_open_machine_lock())
        status = _machine_lock_path().stat()
        return f"{kernel} {status.st_dev}:{status.st_ino}"
    except OSError:
        return ""
