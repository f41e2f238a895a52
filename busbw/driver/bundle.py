"""The private folder that a worker is started from: what it may import, nothing else.

A foreign interpreter must not see our site-packages, or our jax would shadow theirs.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
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
_FILES = ("__init__.py", "wire.py", "writing.py")
_PREFIX = f"busbw-{os.getuid()}."


def _copy_package(source: Path, package: Path) -> None:
    """Copy what a worker may import, and the byte code of it that our own interpreter has kept.

    Else every bundle's first worker compiles all of it again. Each file keeps its time: Python
    takes byte code only of this very version, and only of a source of the same time and size.
    """
    package.mkdir()
    for name in _FILES:
        shutil.copy2(source / name, package / name)
    for name in _ROOMS:
        if not sys.dont_write_bytecode:
            # Nothing in here imports the worker, which would compile it. A package that must not
            # be written to is copied as it is.
            compileall.compile_dir(source / name, quiet=2)
        shutil.copytree(source / name, package / name, ignore=_not_copied)


def _not_copied(folder: str, names: Iterable[str]) -> set[str]:
    """Byte code that our interpreter does not read as it is: of another one, or half written."""
    if Path(folder).name == "__pycache__":
        return {name for name in names if not name.endswith(f".{sys.implementation.cache_tag}.pyc")}
    return {name for name in names if name.endswith(".pyc")}


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
        _copy_package(Path(busbw.__file__).parent, self.path / "busbw")
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
