"""The private folder that workers are started from: their files, their logs, what they leave.

It is locked while its session or its agent lives, and removed at the end; that of one which was
killed is removed by the next. Knows nothing of what is put into it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from busbw import locks

_PREFIX = f"busbw-{os.getuid()}."


class Folder:
    """A new folder that only this user can read, with an empty `temporary` one in it."""

    def __init__(self) -> None:
        _remove_orphans(Path(tempfile.gettempdir()))
        self._folder, self._held = _locked_folder()
        self.path = Path(self._folder.name)
        self.temporary = self.path / "temporary"
        self.temporary.mkdir()

    def log_path(self, name: str) -> Path:
        """The file for a worker's stdout and stderr."""
        return self.path / f"{name}.log"

    def remove(self) -> None:
        """Remove the folder, even if Ctrl-C interrupts this."""
        try:
            self._folder.cleanup()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            self._held.close()


def _remove_orphans(parent: Path) -> None:
    """Remove this user's folders whose sessions have ended: those that are not locked."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_orphan(folder)


def _remove_orphan(folder: Path) -> None:
    if folder.lstat().st_uid != os.getuid():
        return
    held = locks.of_folder(folder)
    if held is not None:
        with contextlib.closing(held):
            shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], locks.Held]:
    """A new folder, locked so that no other session takes it for an orphan.

    A session that does so before it is locked removes it: then another one is created.
    """
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        with contextlib.suppress(FileNotFoundError):
            held = locks.of_folder(Path(folder.name))
            if held is not None:
                return folder, held
        folder.cleanup()
