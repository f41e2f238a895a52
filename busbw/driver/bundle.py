"""The private folder that a worker is started from: what it may import, and nothing else.

A foreign interpreter must not see our site-packages, or our jax would shadow its own.
"""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import busbw
from busbw import locks

# Any Python can compile this, so that one that is too old says so in one line.
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
    """Copy what a worker may import, with the byte code of this interpreter.

    Else the first worker of every bundle compiles all of it again. Files keep their modification
    times: Python uses byte code only if its version and the source's time and size match.
    """
    package.mkdir()
    for name in _FILES:
        shutil.copy2(source / name, package / name)
    for name in _ROOMS:
        if not sys.dont_write_bytecode:
            # This process never imports the worker, which would compile it. A read-only package is
            # copied as it is.
            compileall.compile_dir(source / name, quiet=2)
        shutil.copytree(source / name, package / name, ignore=_not_copied)


def _not_copied(folder: str, names: Iterable[str]) -> set[str]:
    """Byte code that this interpreter cannot use: that of another one, or incomplete files."""
    if Path(folder).name == "__pycache__":
        return {name for name in names if not name.endswith(f".{sys.implementation.cache_tag}.pyc")}
    return {name for name in names if name.endswith(".pyc")}


def worker_hash() -> str:
    """A hash of all that is copied: times of different code of ours are told apart by it."""
    package = Path(busbw.__file__).parent
    paths = [package / name for name in _FILES]
    paths += sorted(path for name in _ROOMS for path in (package / name).rglob("*.py"))
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path.relative_to(package)}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _remove_orphans(parent: Path) -> None:
    """Remove this user's bundles whose sessions have ended: those that are not locked."""
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


class Bundle:
    """A folder with what a worker may import, its logs and its temporary files.

    It is locked while its session lives. The bundle of a session that was killed is removed by the
    next session.
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
