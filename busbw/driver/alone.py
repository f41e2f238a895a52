"""One measuring session per machine: two at once would measure each other."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock


class BusyError(Exception):
    """Another session has been measuring for as long as it was waited for."""


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the machine, after up to `wait_s` for another session's end; then raise BusyError.

    `on_wait` is called before waiting.
    """
    path = Path(tempfile.gettempdir()) / f"busbw-{os.getuid()}-device.lock"
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        on_wait()
        _wait_for(lock, wait_s)
    try:
        yield
    finally:
        lock.release()


def _wait_for(lock: filelock.BaseFileLock, wait_s: float) -> None:
    try:
        lock.acquire(timeout=wait_s)
    except filelock.Timeout as error:
        raise BusyError(
            f"another session has been measuring on this machine for {wait_s:g} s "
            f"(lock {lock.lock_file})"
        ) from error
