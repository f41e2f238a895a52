"""A worker's private folder: a foreign interpreter must not see our site-packages, nor our jax."""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import busbw

from .folder import Folder

# Any Python can compile this, so that one that is too old says so in one line.
_DOOR = """
import sys

if sys.version_info < (3, 11):
    sys.exit("Python " + sys.version.split()[0] + " is too old: expected 3.11 or newer")

from busbw.worker.__main__ import main

main()
"""
_ROOMS = ("model", "collectives", "program", "worker")
_FILES = ("__init__.py", "wire.py", "storage.py")
_CACHE = "__pycache__"


def _copy_package(source: Path, package: Path) -> None:
    """Copy what a worker may import, with the byte code of this interpreter.

    Else the first worker of every bundle compiles all of it again. Files keep their modification
    times: Python uses byte code only if its version and the source's time and size match.
    """
    (package / _CACHE).mkdir(parents=True)
    for name in _FILES:
        if not sys.dont_write_bytecode:
            compileall.compile_file(source / name, quiet=2)
        shutil.copy2(source / name, package / name)
        byte_code = Path(importlib.util.cache_from_source(str(source / name)))
        if byte_code.is_file():
            shutil.copy2(byte_code, package / _CACHE / byte_code.name)
    for name in _ROOMS:
        if not sys.dont_write_bytecode:
            # This process never imports the worker, which would compile it. A read-only package is
            # copied as it is.
            compileall.compile_dir(source / name, quiet=2)
        try:
            shutil.copytree(source / name, package / name, ignore=_not_copied)
        except shutil.Error as error:
            # It has only the words of each OSError; the same copy again raises the OSError itself.
            for path, copy, _ in error.args[0]:
                shutil.copy2(path, copy)


def _not_copied(folder: str, names: Iterable[str]) -> set[str]:
    """Byte code that this interpreter cannot use: that of another one, or incomplete files."""
    if Path(folder).name == _CACHE:
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


class Bundle(Folder):
    """A folder with what a worker may import, its logs and its temporary files."""

    def __init__(self) -> None:
        super().__init__()
        try:
            _copy_package(Path(busbw.__file__).parent, self.path / "busbw")
            (self.path / "__main__.py").write_text(_DOOR)
        except BaseException:
            self.remove()
            raise
