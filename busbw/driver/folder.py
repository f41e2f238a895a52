"""The private folder that workers are started from: their files, their logs, what they leave.

It is locked while its session or its Host lives, and removed at the end, also if that is a signal;
that of one which was killed is removed by the next. Knows nothing of what is put into it.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from busbw import storage

_PREFIX = f"busbw-{os.getuid()}."

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULT = (signal.SIG_DFL, signal.default_int_handler)
# Keys that are hit again and again in less than this are one interrupt.
_ONE_INTERRUPT_S = 1.0


class _Endings:
    """Signals that would end this process interrupt it, to tidy up; others' are left alone."""

    def __init__(self) -> None:
        self._deaf_until_s, self._killed_by = -math.inf, 0
        self._before: dict[int, Callable[..., Any] | int | None] = {}
        if threading.current_thread() is threading.main_thread():
            for one in _ENDING:
                if signal.getsignal(one) in _DEFAULT:
                    self._before[one] = signal.signal(one, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._killed_by = self._killed_by if number == signal.SIGINT else number
        now_s = time.monotonic()
        if now_s >= self._deaf_until_s:
            self._deaf_until_s = now_s + _ONE_INTERRUPT_S
            raise KeyboardInterrupt

    def hold(self) -> None:
        self._deaf_until_s = math.inf

    def release(self) -> None:
        """Handle signals as before, and end of the one that came, which is no mere interrupt."""
        while self._before:
            signal.signal(*self._before.popitem())
        if self._killed_by:
            signal.raise_signal(self._killed_by)


class Folder:
    """A new folder that only this user can read, with an empty `temporary` one in it."""

    def __init__(self) -> None:
        self._endings = _Endings()
        _remove_orphans(Path(tempfile.gettempdir()))
        self._folder, self._held = _locked_folder()
        self.path = Path(self._folder.name)
        self.temporary = self.path / "temporary"
        self.temporary.mkdir()

    def log_path(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def remove(self) -> None:
        """Remove the folder, even if signals interrupt this; of one of them this process ends."""
        self._endings.hold()
        try:
            self._folder.cleanup()
        finally:
            _remove_bottom_up(self.path)
            self._held.close()
            self._endings.release()


def _remove_bottom_up(folder: Path) -> None:
    """Remove as much of a folder as can be removed, with one open descriptor at a time.

    `shutil.rmtree` opens one for each level, which fails if the session ended for want of them.
    """
    for parent, folders, names in os.walk(folder, topdown=False):
        for name in (*names, *folders):
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):
                # A link to a folder is listed as a folder, and is not followed.
                (os.unlink if name in names or os.path.islink(path) else os.rmdir)(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _remove_orphans(parent: Path) -> None:
    """Remove this user's folders whose sessions have ended: those that are not locked."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            held = storage.try_lock_folder(folder) if folder.lstat().st_uid == os.getuid() else None
            if held is not None:
                with contextlib.closing(held):
                    shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], contextlib.ExitStack]:
    """One that is taken for an orphan before it is locked is removed: another one is made."""
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        with contextlib.suppress(FileNotFoundError):
            held = storage.try_lock_folder(Path(folder.name))
            if held is not None:
                return folder, held
        folder.cleanup()
