"""The private folder of a session, with a copy of busbw's code for workers, logs, temporary files.

Workers import busbw from a copy, because another interpreter must not import the packages that are
installed beside this busbw, such as another version of JAX. The folder is locked while the process
that made the folder runs: the session, or the process of busbw on another host. The folder is
removed at the end, even if a signal ends the process. If the process is killed (SIGKILL), the next
session removes the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import busbw
from busbw import storage

PACKAGE_FOLDER = Path(busbw.__file__).parent

# Names of private folders begin with this text, so that a user's sessions find only their own.
_FOLDER_PREFIX = f"busbw-{os.getuid()}."

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)
# A user who presses Ctrl-C several times within this time interrupts the session once.
_ONE_INTERRUPT_S = 1.0

# The file __main__.py of a bundle. A Python of any version can compile it, so that a Python that is
# too old ends with a sentence instead of a syntax error.
MAIN_CODE = """
import sys

if sys.version_info < (3, 11):
    sys.exit("Python " + sys.version.split()[0] + " is too old: expected 3.11 or newer")

from busbw.worker.__main__ import main

main()
"""
_CORE_FILES = ("__init__.py", "wire.py", "storage.py")
_CORE_PACKAGES = ("model", "collectives", "worker")


def _core_files() -> Iterator[Path]:
    """Yield the paths of the files that workers may import, without the files of extensions."""
    yield from (PACKAGE_FOLDER / name for name in _CORE_FILES)
    for name in _CORE_PACKAGES:
        yield from sorted((PACKAGE_FOLDER / name).rglob("*.py"))


def worker_hash() -> str:
    """Return a hash of the code that workers run, as 16 hexadecimal digits.

    Times that were measured by code with different hashes are not compared. The code of extensions
    is left out of the hash, because extensions do not change times.
    """
    digest = hashlib.sha256()
    for path in _core_files():
        digest.update(f"{path.relative_to(PACKAGE_FOLDER)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _SignalHandlers:
    """Handlers that raise KeyboardInterrupt for signals that would end this process.

    The constructor replaces the default handlers of SIGINT, SIGTERM, SIGHUP and SIGQUIT, and leaves
    handlers that other code has set. Outside of the main thread no handler is replaced.
    """

    def __init__(self) -> None:
        self._ignored_until_s, self._ending_signal = -math.inf, 0
        # Only the main thread may set handlers.
        is_main = threading.current_thread() is threading.main_thread()
        self._handlers = {
            number: signal.signal(number, self._handle_signal)
            for number in _SIGNALS
            if is_main and signal.getsignal(number) in _DEFAULT_HANDLERS
        }

    def _handle_signal(self, signal_number: int, frame: FrameType | None) -> None:
        self._ending_signal = (
            self._ending_signal if signal_number == signal.SIGINT else signal_number
        )
        now_s = time.monotonic()
        if now_s >= self._ignored_until_s:
            self._ignored_until_s = now_s + _ONE_INTERRUPT_S
            raise KeyboardInterrupt

    def defer(self) -> None:
        """Let later signals raise no KeyboardInterrupt until `restore` is called."""
        self._ignored_until_s = math.inf

    def restore(self) -> None:
        """Restore the previous handlers of signals.

        If a signal other than SIGINT arrived since the handlers were replaced, the signal is then
        raised again, and ends this process.
        """
        while self._handlers:
            signal.signal(*self._handlers.popitem())
        if self._ending_signal:
            signal.raise_signal(self._ending_signal)


class PrivateFolder:
    """A new, locked folder that only this user can read.

    The constructor also removes the folders of processes of this user that were killed. While the
    folder exists, signals that would end this process raise KeyboardInterrupt instead.

    Attributes:
        path: The path of the folder.
        temporary_folder: An empty folder in the folder, for the temporary files of workers.

    """

    def __init__(self) -> None:
        _remove_orphaned_folders(Path(tempfile.gettempdir()))
        self.path, self._lock = _make_locked_folder()
        self.temporary_folder = self.path / "temporary"
        self.temporary_folder.mkdir()
        # Only `remove` restores the handlers, and nothing calls it after an error above.
        self._signal_handlers = _SignalHandlers()

    def remove(self) -> None:
        """Remove the folder, release its lock, and restore the previous handlers of signals.

        A signal does not interrupt the removal. If a signal other than SIGINT arrived while the
        folder existed, the signal is raised again after the removal, and ends this process.
        """
        self._signal_handlers.defer()
        try:
            shutil.rmtree(self.path, ignore_errors=True)
            if self.path.exists():
                # `shutil.rmtree` opens a file descriptor for each level, and fails if this process
                # may open no more files. A Ctrl-C does not reach another process group.
                subprocess.run(["rm", "-rf", self.path], check=False, process_group=0)
        finally:
            self._lock.close()
            self._signal_handlers.restore()


def _remove_orphaned_folders(parent: Path) -> None:
    """Remove the private folders of this user in `parent` that no running process has locked."""
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid()
            lock = storage.try_lock_folder(folder) if is_ours else None
            if lock is not None:
                with lock:
                    shutil.rmtree(folder, ignore_errors=True)


def _make_locked_folder() -> tuple[Path, contextlib.ExitStack]:
    """Make a private folder, lock the folder, and return its path and the lock.

    Closing the lock releases it. If another session removes the new folder before it is locked,
    another folder is made.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = storage.try_lock_folder(folder)
            if lock is not None:
                return folder, lock
        shutil.rmtree(folder, ignore_errors=True)


class Bundle(PrivateFolder):
    """A private folder with a copy of busbw's code for workers, which ``python FOLDER`` runs.

    Byte code is not copied: the first worker that imports a file compiles the file.

    Attributes:
        files: The paths of the files that were copied. From an extension, the files ``worker*.py``
            and `__init__.py` are copied.

    """

    def __init__(self) -> None:
        super().__init__()
        self.files = {*_core_files(), PACKAGE_FOLDER / "extensions" / "__init__.py"}
        for path in PACKAGE_FOLDER.glob("extensions/*/worker*.py"):
            self.files |= {path, path.with_name("__init__.py")}
        try:
            for path in self.files:
                copy = self.path / path.relative_to(PACKAGE_FOLDER.parent)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
            (self.path / "__main__.py").write_text(MAIN_CODE)
        except BaseException:
            self.remove()
            raise
