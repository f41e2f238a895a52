"""The private folder that a worker is started from: what it may import, nothing else.

A foreign interpreter must not see our site-packages, or our jax would shadow theirs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import busbw
from busbw import locks

# Any Python can read this, so that one that is too old says so and no more.
_DOOR = """
import sys

if sys.version_info < (3, 10):
    sys.exit("Python " + sys.version.split()[0] + " is too old: the oldest is 3.10")

from busbw.worker.__main__ import main

main()
"""
_ROOMS = ("model", "collectives", "workloads", "traces", "worker")
_NEVER_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc")
_PREFIX = f"busbw-{os.getuid()}."


def _remove_orphans(parent: Path) -> None:
    """Remove the bundles of this user whose sessions are no more: those that nobody has locked."""
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
    """A new folder that no other session takes for an orphan.

    One that does so before it is locked removes it empty: then there will be another.
    """
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        with contextlib.suppress(FileNotFoundError):
            held = locks.of_folder(Path(folder.name))
            if held is not None:
                return folder, held
        folder.cleanup()


class Bundle:
    """A folder with what a worker may import, and room for logs and temporary files.

    It is locked while its session lives, wherever that runs. What a session that was killed had to
    leave behind is removed by the next one.
    """

    def __init__(self) -> None:
        _remove_orphans(Path(tempfile.gettempdir()))
        self._folder, self._held = _locked_folder()
        self.path = Path(self._folder.name)
        source = Path(busbw.__file__).parent
        package = self.path / "busbw"
        package.mkdir()
        for name in ("__init__.py", "wire.py", "writing.py"):
            shutil.copy(source / name, package / name)
        for name in _ROOMS:
            shutil.copytree(source / name, package / name, ignore=_NEVER_COPIED)
        (self.path / "__main__.py").write_text(_DOOR)
        self.temporary = self.path / "temporary"
        self.temporary.mkdir()

    def log_path(self, name: str) -> Path:
        """Where a worker's stdout and stderr go."""
        return self.path / f"{name}.log"

    def remove(self) -> None:
        """Leave nothing behind, even if Ctrl-C comes while it is removed."""
        try:
            self._folder.cleanup()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            self._held.close()
