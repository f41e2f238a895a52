"""Exclusive locks, one per machine and one per folder, without a lock file.

A lock file in a shared folder can be planted, redirected or removed, and differs by TMPDIR and
user. The machine's lock is an abstract socket name, and a folder's is a flock on the
folder itself: the kernel releases both when their process ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# For tests of busbw itself: sessions with different values take their machines to be different.
# The value is the path of a folder.
MACHINE = "BUSBW_MACHINE"
_NAME = "busbw-machine"

_STEP_S = 0.05
# A process that asks for the holder stays in the backlog, which is never accepted.
_BACKLOG = 1024
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The process that holds a lock; 0 and None where the kernel does not say."""

    process: int = 0
    started_s: float | None = None

    @property
    def text(self) -> str:
        """Such as ``pid 1234, started 03:12:08``, with the date unless that is today."""
        if not self.process:
            return "a process that is not visible here"
        if self.started_s is None:
            return f"pid {self.process}"
        begun = time.localtime(self.started_s)
        today = begun[:3] == time.localtime()[:3]
        return f"pid {self.process}, started " + time.strftime(
            "%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", begun
        )


class Busy(Exception):
    """Another process held the lock until the timeout."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder.text)
        self.holder = holder


class Held(Protocol):
    """A lock that this process has until it closes it or ends."""

    def close(self) -> None:
        """Release it. A second call does nothing."""


@contextlib.contextmanager
def machine(
    wait_s: float, on_wait: Callable[[Holder], None] = lambda holder: None
) -> Iterator[None]:
    """Hold the lock of the machine; raises Busy if another process holds it for `wait_s`.

    `on_wait` is called before waiting. Raises OSError where such a lock is impossible.

    The lock is per network namespace: a container with its own network is a machine of
    its own.
    """
    name = _socket_name()
    held = _waited(lambda: _bound(name), lambda: _listener(name), wait_s, on_wait)
    with contextlib.closing(held):
        yield


def _socket_name() -> str:
    asked = os.environ.get(MACHINE, "")
    return f"\0{_NAME}" + (f"-{hashlib.sha256(asked.encode()).hexdigest()[:16]}" if asked else "")


def machine_identity() -> str:
    """What `machine` locks: processes with another one can hold the lock at the same time.

    Of the kernel that runs, the network namespace and the tests' variable; empty where the system
    does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        network = os.readlink("/proc/self/ns/net")
    except OSError:
        return ""
    return f"{boot} {network} {os.environ.get(MACHINE, '')}".strip()


@contextlib.contextmanager
def folder(path: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of the folder `path`; raises Busy if another process holds it for `wait_s`.

    Raises OSError if there is no such folder, or if its file system has no locks.
    """
    with contextlib.closing(
        _waited(lambda: of_folder(path), lambda: _holder_of_folder(path), wait_s)
    ):
        yield


def _waited(
    take: Callable[[], Held | None],
    who: Callable[[], Holder],
    wait_s: float,
    on_wait: Callable[[Holder], None] = lambda holder: None,
) -> Held:
    held = take()
    if held is not None:
        return held
    on_wait(who())
    end_s = time.monotonic() + wait_s
    while held is None:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise Busy(who())
        time.sleep(min(_STEP_S, left_s))
        held = take()
    return held


def _bound(name: str) -> Held | None:
    """A socket that listens at `name`; None if another one already does."""
    found = socket.socket(socket.AF_UNIX)
    try:
        found.bind(name)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return _kept_from_children(found)


def _listener(name: str) -> Holder:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
        except OSError:
            return Holder()
        found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, _, _ = _CREDENTIALS.unpack(found)
    return _holder(process)


class _FolderLock:
    """A locked descriptor of a folder."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def of_folder(path: Path) -> Held | None:
    """The lock of the folder `path`; None if another process holds it. Waits for nothing.

    Raises OSError if `path` is no folder, which a link to one is not, or if it cannot be locked.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may have been replaced since it was opened.
        there = os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except BlockingIOError:
        there = False
    except BaseException:
        os.close(descriptor)
        raise
    if not there:
        os.close(descriptor)
        return None
    return _kept_from_children(_FolderLock(descriptor))


def _holder_of_folder(path: Path) -> Holder:
    """The process that holds the lock of the folder `path`, from the kernel's table of locks."""
    try:
        folder = os.stat(path)
        table = Path("/proc/locks").read_text()
    except OSError:
        return Holder()
    inode = f"{os.major(folder.st_dev):02x}:{os.minor(folder.st_dev):02x}:{folder.st_ino}"
    for words in map(str.split, table.splitlines()):
        # 1: FLOCK ADVISORY WRITE 1234 fe:00:5678 0 EOF; one that waits has an arrow before FLOCK.
        if words[1] == "FLOCK" and words[5] == inode:
            return _holder(int(words[4]))
    return Holder()


def _kept_from_children(held: Held) -> Held:
    """`held`, closed in forked children; started programs do not inherit it anyway."""
    os.register_at_fork(after_in_child=held.close)
    return held


def _holder(process: int) -> Holder:
    """The holder; a process of another PID namespace has the number 0 here, or a negative one."""
    if process <= 0:
        return Holder()
    return Holder(process=process, started_s=_started_s(process))


def _started_s(process: int) -> float | None:
    """When `process` began, in seconds since 1970; None where that cannot be read."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The name is in parentheses and may have any characters.
    ticks = int(text.rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s
