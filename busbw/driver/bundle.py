"""A worker's private folder: a foreign interpreter must not see our site-packages, nor our jax."""

from __future__ import annotations

import hashlib
import shutil
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


def _copy_package(source: Path, package: Path) -> None:
    """Copy what a worker may import; the first worker compiles it."""
    names = [*_FILES, "extensions/__init__.py"]
    for path in (source / "extensions").glob("*/worker*.py"):
        names += [f"extensions/{path.parent.name}/{name}" for name in (path.name, "__init__.py")]
    for name in names:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, package / name)
    for name in _ROOMS:
        try:
            without = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source / name, package / name, ignore=without)
        except shutil.Error as error:
            # It has only the words of each OSError; the same copy again raises the OSError itself.
            for path, copy, _ in error.args[0]:
                shutil.copy2(path, copy)


def worker_hash() -> str:
    """Return a hash of the code that measures: times of other code are not compared.

    Other operations of a worker change no time: their files, and the files of the same names in
    back ends, are left out, as the code of extensions is.
    """
    package = Path(busbw.__file__).parent
    operations = package / "worker" / "operations"
    others = {path.name for path in operations.glob("[a-z]*.py")}
    paths = [package / name for name in _FILES]
    for name in _ROOMS:
        for path in sorted((package / name).rglob("*.py")):
            is_backend = path.parent.parent.name == "backends"
            if path.parent != operations and not (is_backend and path.name in others):
                paths.append(path)
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Bundle(Folder):
    """A folder with what a worker may import, its logs and its temporary files.

    Workers have the core's code, and the files worker*.py of extensions.
    """

    def __init__(self) -> None:
        super().__init__()
        try:
            _copy_package(Path(busbw.__file__).parent, self.path / "busbw")
            (self.path / "__main__.py").write_text(_DOOR)
        except BaseException:
            self.remove()
            raise
