"""Files and locks: bounded reads, atomic writes, one session at a time on a machine or in a folder.

Standard library only, Python 3.11: workers and hosts run a copy of this file.
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

# Five times the results of all cases with a hundred launches each.
MOST_BYTES = 128 * 2**20

# Tests set this variable: sessions with different values do not wait for each other.
MACHINE = "BUSBW_MACHINE"


class InputError(ValueError):
    """A file that cannot be read; the message gives the reason without the name of the file."""


class TooLargeError(InputError):
    """A file with more bytes than its reader accepts."""


class OutputError(ValueError):
    """A file or folder that must not or cannot be written; the message names it."""


class LockedError(Exception):
    """Another process held a lock until the timeout; the message says which, or for how long."""


@contextlib.contextmanager
def raised_as(
    error_type: type[Exception], *kinds: type[Exception], where: str = ""
) -> Iterator[None]:
    """Turn exceptions of `kinds` into `error_type`, with a message that begins with `where`."""
    try:
        yield
    except kinds as error:
        text = error_text(error) if isinstance(error, OSError) else error
        raise error_type(f"{where}{text}") from error


def read(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most_bytes`. Raises InputError."""
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError("is not a regular file")
            # A file can grow while it is read, and files of /proc have a size of 0.
            content = (
                file.read(status.st_size + MOST_BYTES) if status.st_size <= most_bytes else None
            )
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error)) from error
    if content is None or len(content) > min(most_bytes, status.st_size + MOST_BYTES - 1):
        raise TooLargeError(f"has more than {most_bytes} bytes")
    return content


def check_is_folder(path: Path) -> None:
    """Raise InputError for something else than a folder of which the names can be read.

    Nothing at all is a folder that will be made.
    """
    try:
        os.listdir(path)
    except FileNotFoundError:
        check_no_dangling_link(path)
    except OSError as error:
        raise InputError(error.strerror or str(error)) from error


def check_no_dangling_link(path: Path) -> None:
    """Raise InputError if `path` or a folder of it is a link to nothing, and not just missing."""
    for link in (path, *path.parents):
        if link.is_symlink() and not os.path.exists(link):
            raise InputError(f"{link} is a link to nothing")


def unpacked(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what gzip packed, or `content` itself. Raises InputError, also for too many bytes."""
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(most_bytes + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"is a damaged file of gzip: {error}") from error
    if len(unpacked) > most_bytes:
        raise TooLargeError(f"unpacks to more than {most_bytes} bytes")
    return unpacked


def write(path: Path, content: str | bytes) -> None:
    """Replace the content of a file atomically. Raises OSError with the path.

    Missing folders are created, a symbolic link is followed, and an existing file keeps its mode.
    """
    target = Path(os.path.realpath(path))
    # File systems limit a name to 255 bytes.
    new = target.with_name(f"{target.name[:60]}.{secrets.token_hex(4)}.new")
    try:
        # What is a link to its end is one that leads back to itself.
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


def error_text(error: OSError) -> str:
    """Return an operating system error as ``PATH: REASON``, with the target's path for a copy."""
    reason, path = error.strerror or str(error), error.filename2 or error.filename
    return f"{path}: {reason}" if path else reason


def check_output(
    path: Path, *, kind: str, is_kind: Callable[[str], bool], inputs: Iterable[Path] = ()
) -> None:
    """Raise OutputError unless `path` can be written without losing an input or other content.

    An existing file is replaced if it is empty or if `is_kind` recognizes its text as `kind`.
    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(f"there is no folder {folder}")
    if os.path.lexists(os.path.realpath(path)):
        try:
            text = read(path).decode(errors="replace")
        except InputError as error:
            raise OutputError(f"{path}: {error}") from error
        if any(os.path.exists(other) and path.samefile(other) for other in inputs):
            raise OutputError(f"{path} is also an input and would be lost; name another file")
        if text and not is_kind(text):
            raise OutputError(f"{path} is not {kind}; expected {kind}, or a new or empty file")
    if not all(os.access(p, os.W_OK) for p in (path, folder) if os.path.exists(p)):
        raise OutputError(f"{path} cannot be written: no permission")


def check_folder(path: Path) -> None:
    """Raise OutputError unless files can be written in a folder, which need not exist yet."""
    nearest = next(p for p in (path, *path.absolute().parents) if os.path.exists(p))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise OutputError(f"{nearest} is not a folder in which you may write")


def machine_lock(
    wait_s: float, on_wait: Callable[[str], None] = lambda holder: None
) -> contextlib.ExitStack:
    """Take the lock that all users of this machine share. Raises LockedError after `wait_s`.

    The lock is a file in /tmp, so a container with a /tmp of its own counts as a machine. `on_wait`
    is called before waiting, with the holder, such as ``pid 1234, started 2026-11-20 03:12:08``.
    Raises OSError where the file cannot be locked.
    """
    return _wait_for(_try_lock_machine, _machine_holder, wait_s, on_wait)


def folder_lock(path: Path, wait_s: float = 60.0) -> contextlib.ExitStack:
    """Make a folder, and take its lock. Raises LockedError after `wait_s`, and OSError."""
    path.mkdir(parents=True, exist_ok=True)
    return _wait_for(
        lambda: try_lock_folder(Path(os.path.realpath(path))),
        lambda: f"another session has been writing for {wait_s:g} s",
        wait_s,
    )


def _wait_for(
    try_lock: Callable[[], contextlib.ExitStack | None],
    holder: Callable[[], str],
    wait_s: float,
    on_wait: Callable[[str], None] = lambda holder: None,
) -> contextlib.ExitStack:
    end_s, lock = time.monotonic() + wait_s, try_lock()
    if lock is None:
        on_wait(holder())
    while lock is None:
        if time.monotonic() >= end_s:
            raise LockedError(holder())
        time.sleep(0.05)
        lock = try_lock()
    return lock


def try_lock_folder(path: Path) -> contextlib.ExitStack | None:
    """Take the lock of a folder without waiting; return None where another process holds it."""
    return _try_lock(os.open(path, os.O_RDONLY | os.O_DIRECTORY), path)


def _try_lock(descriptor: int, path: Path) -> contextlib.ExitStack | None:
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


def _machine_path() -> Path:
    return Path("/tmp", f"{os.environ.get(MACHINE) or 'busbw-machine'}.lock")


def _open_machine() -> int:
    """Open the lock file of the machine, which is created for all users where it is missing."""
    path = _machine_path()
    # Without O_EXCL, which `touch` sets here, the kernel refuses O_CREAT in /tmp for a file of
    # another user (fs.protected_regular).
    with contextlib.suppress(FileExistsError):
        path.touch(0o666, exist_ok=False)
        # Less the umask, the file could not be opened by other users.
        path.chmod(0o666)
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EEXIST, "expected a regular file, for the lock of this machine", path)
    return descriptor


def _try_lock_machine() -> contextlib.ExitStack | None:
    descriptor = _open_machine()
    lock = _try_lock(descriptor, _machine_path())
    if lock is not None:
        text = f"pid {os.getpid()}, started {time.strftime('%Y-%m-%d %H:%M:%S')}"
        os.pwrite(descriptor, text.ljust(50).encode(), 0)
    return lock


def _machine_holder() -> str:
    # All users can write to this file.
    match = re.match(rb"pid \d+, started [\d:-]+ [\d:]+", read(_machine_path()))
    return match[0].decode() if match else "an unknown process"


def machine_identity() -> str:
    """Return what tells this machine from others, the kernel and the lock file; "" if unknown.

    Processes with different identities can hold the lock of their machine at the same time.
    """
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        os.close(_open_machine())
        status = _machine_path().stat()
        return f"{kernel} {status.st_dev}:{status.st_ino}"
    except OSError:
        return ""
