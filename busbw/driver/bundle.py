"""The private folder that workers are started from: their files, their logs, their temporary files.

It is locked while its session or its Host lives, and removed at the end, also if that is a signal;
the folder of a session that was killed is removed by the next session. A foreign interpreter must
not see our site-packages, nor our jax.
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

_PREFIX = f"busbw-{os.getuid()}."

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
# Keys that are hit again and again in less than this are one interrupt.
_ONE_INTERRUPT_S = 1.0

# Any Python can compile this, so that a Python that is too old says so in one line.
MAIN = """
import sys

if sys.version_info < (3, 11):
    sys.exit("Python " + sys.version.split()[0] + " is too old: expected 3.11 or newer")

from busbw.worker.__main__ import main

main()
"""
_CORE = ("__init__.py", "wire.py", "storage.py")
_PACKAGES = ("model", "collectives", "worker")


def package_folder() -> Path:
    return Path(busbw.__file__).parent


def _core_files() -> Iterator[Path]:
    """Yield the files that every worker may import."""
    package = package_folder()
    yield from (package / name for name in _CORE)
    for name in _PACKAGES:
        yield from sorted((package / name).rglob("*.py"))


def worker_hash() -> str:
    """Return a hash of the code that measures: times of other code are not compared.

    The code of extensions changes no time, and is left out.
    """
    package = package_folder()
    digest = hashlib.sha256()
    for path in _core_files():
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _Signals:
    """Signals that would end this process interrupt it; handlers of other code are left alone."""

    def __init__(self) -> None:
        self._ignored_until_s, self._killed_by = -math.inf, 0
        # Only the main thread may set handlers.
        is_main = threading.current_thread() is threading.main_thread()
        self._handlers = {
            number: signal.signal(number, self._interrupt)
            for number in _SIGNALS
            if is_main and signal.getsignal(number) in _DEFAULTS
        }

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._killed_by = self._killed_by if number == signal.SIGINT else number
        now_s = time.monotonic()
        if now_s >= self._ignored_until_s:
            self._ignored_until_s = now_s + _ONE_INTERRUPT_S
            raise KeyboardInterrupt

    def hold(self) -> None:
        self._ignored_until_s = math.inf

    def release(self) -> None:
        """Handle signals as before, and end by the signal that came unless it was an interrupt."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())
        if self._killed_by:
            signal.raise_signal(self._killed_by)


class Folder:
    """A new folder that only this user can read, with an empty `temporary` folder in it."""

    def __init__(self) -> None:
        self._signals = _Signals()
        _remove_orphans(Path(tempfile.gettempdir()))
        self._folder, self._lock = _locked_folder()
        self.path = Path(self._folder.name)
        self.temporary = self.path / "temporary"
        self.temporary.mkdir()

    def log_path(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def remove(self) -> None:
        """Remove the folder, even if signals interrupt this; then end by such a signal."""
        self._signals.hold()
        try:
            self._folder.cleanup()
        finally:
            if self.path.exists():
                # `cleanup` opens a descriptor for each level, which fails without descriptors.
                subprocess.run(["rm", "-rf", self.path], check=False)
            self._lock.close()
            self._signals.release()


def _remove_orphans(parent: Path) -> None:
    """Remove this user's folders whose sessions have ended: those that are not locked."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid()
            lock = storage.try_lock_folder(folder) if is_ours else None
            if lock is not None:
                with lock:
                    shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], contextlib.ExitStack]:
    """Make a folder and lock it; another session may remove it before it is locked."""
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        with contextlib.suppress(FileNotFoundError):
            lock = storage.try_lock_folder(Path(folder.name))
            if lock is not None:
                return folder, lock
        folder.cleanup()


class Bundle(Folder):
    """A folder with `files` of busbw that a worker may import, its logs and its temporary files.

    Workers have the core's code, and the files worker*.py of extensions. The first worker compiles
    them.
    """

    def __init__(self) -> None:
        super().__init__()
        package = package_folder()
        self.files = {*_core_files(), package / "extensions" / "__init__.py"}
        for path in package.glob("extensions/*/worker*.py"):
            self.files |= {path, path.with_name("__init__.py")}
        try:
            for path in self.files:
                copy = self.path / path.relative_to(package.parent)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
            (self.path / "__main__.py").write_text(MAIN)
        except BaseException:
            self.remove()
            raise
