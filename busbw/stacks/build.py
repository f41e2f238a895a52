"""Environments that are built from locks, each whole or not at all, and kept by the lock's digest.

A build holds the lock of its folder, so that a second session waits for it. A mark is written last
and says what the files were, so that one that was cut short, or that somebody changed, is found and
done again. Installed offline, from wheels whose hashes are those of the lock: by uv if it is there,
by pip else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import files, locks

from . import wheels
from .interpreter import installed, output
from .lock import Lock, StackError

_MARK = "complete"
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """An environment in the cache; a torn one was cut short or changed, and is built again."""

    digest: str
    folder: Path
    is_torn: bool

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")


def folder_of(cache: Path) -> Path:
    return cache / "stacks"


def all_built(cache: Path) -> tuple[Built, ...]:
    found = sorted(one for one in folder_of(cache).glob("*") if one.is_dir())
    return tuple(_built(one) for one in found)


def _built(folder: Path) -> Built:
    mark = folder / _MARK
    is_whole = mark.exists() and mark.read_text() == _files_hash(folder / "venv")
    return Built(digest=folder.name, folder=folder, is_torn=not is_whole)


def _files_hash(venv: Path) -> str:
    """A hash of the names, sizes and times of all files but those that running Python writes."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(venv):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            # Of what a link leads to: the interpreter may be another one now, or gone.
            with contextlib.suppress(OSError):
                state = os.stat(path)
                found.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return found.hexdigest()


def built(cache: Path, lock: Lock, pythons: Sequence[str], wait_s: float = _TIMEOUT_S) -> Built:
    """Raises StackError with what is wrong and what to do; nothing else is built in its place."""
    folder = folder_of(cache) / lock.digest
    found = _built(folder)
    if not found.is_torn:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.folder(folder.resolve(), wait_s):
            found = _built(folder)
            return _build(cache, lock, pythons, found) if found.is_torn else found
    except locks.Busy as error:
        raise StackError(
            f"{folder}: another session ({error}) has been building it for {wait_s:g} s"
        ) from error
    except OSError as error:
        raise StackError(f"{folder} cannot be built: {files.reason(error)}") from error


def check_buildable(cache: Path, lock: Lock, pythons: Sequence[str]) -> None:
    """Raise StackError if there is no interpreter to build `lock` with, nor what was built."""
    if not (folder_of(cache) / lock.digest / _MARK).exists():
        _fitting(lock, pythons)


def _build(cache: Path, lock: Lock, pythons: Sequence[str], found: Built) -> Built:
    python = _fitting(lock, pythons)
    paths = wheels.fetched(cache, lock, python)
    venv = found.folder / "venv"
    _clear(found.folder)
    try:
        _install(found.folder, lock, python, paths)
    except BaseException:
        # What is left would only fill the disk.
        _clear(found.folder)
        raise
    files.write(found.folder / "lock.json", lock.text)
    files.write(found.folder / _MARK, _files_hash(venv))
    return _built(found.folder)


def _clear(folder: Path) -> None:
    """Remove what a build left in `folder`, first what says that it is whole."""
    (folder / _MARK).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _fitting(lock: Lock, pythons: Sequence[str]) -> str:
    there, advice = [], ""
    for python in dict.fromkeys([*pythons, *_named(lock)]):
        with contextlib.suppress(StackError):
            one = installed(python)
            if (_minor(one.python), one.platform) == (lock.minor, lock.platform):
                return python
            there.append(f"{python} is {one.python} for {one.platform}")
            if one.platform == lock.platform:
                advice = f"install Python {lock.minor}, or "
    raise StackError(
        f"the reference needs Python {lock.minor} for {lock.platform}, and {'; '.join(there)}; "
        f"{advice}accept tonight's stack with --update-baselines"
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _named(lock: Lock) -> list[str]:
    """What the lock's Python is called on this machine, by its usual name or by uv."""
    found = [shutil.which(f"python{lock.minor}")]
    uv = uv_command()
    if uv:
        asked = [*uv, "python", "find", "--no-project", lock.minor]
        with contextlib.suppress(StackError):
            said = output(asked, problem="uv finds none", timeout_s=_TIMEOUT_S)
            found.append(said.strip())
    return [one for one in found if one]


def _install(folder: Path, lock: Lock, python: str, paths: Sequence[Path]) -> None:
    venv, requirements = folder / "venv", folder / "requirements.txt"
    requirements.write_text("".join(one.requirement for one in lock.packages))
    offline = ["--no-deps", "--no-index", "--only-binary=:all:", "--require-hashes"]
    offline += [f"--find-links={path.parent}" for path in paths]
    offline += ["--requirement", str(requirements)]
    there, uv = str(venv / "bin" / "python"), uv_command()
    if uv:
        made = ["venv", "--quiet", "--no-project", "--no-config", f"--python={python}", str(venv)]
        _run("uv", [*uv, *made])
        # A cache of its own: uv links files to the user's, where an edit would be in all of them.
        with tempfile.TemporaryDirectory(dir=folder, prefix="uv.") as unpacked:
            own = [f"--cache-dir={unpacked}", "--link-mode=hardlink", f"--python={there}"]
            _run("uv", [*uv, "pip", "install", "--quiet", "--no-config", *own, *offline])
        return
    _run("venv", [python, "-m", "venv", "--without-pip", str(venv)])
    _run("pip", [*wheels.pip_command(), "--python", there, "install", "--quiet", *offline])


def _run(name: str, command: Sequence[str]) -> None:
    problem = f"{name} could not build the reference"
    output(command, problem=problem, timeout_s=_TIMEOUT_S)


def uv_command() -> list[str]:
    """uv, from the PATH or from beside this interpreter; empty if it is not there."""
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or (str(beside) if os.access(beside, os.X_OK) else None)
    return [found] if found else []


def prune(cache: Path, kept: Collection[Lock], wait_s: float = 0.0) -> tuple[Path, ...]:
    """What is being built is left alone. Raises StackError for what cannot be removed."""
    digests = {lock.digest for lock in kept}
    needed = {package.sha256 for lock in kept for package in lock.packages}
    gone = [one.folder for one in all_built(cache) if one.is_torn or one.digest not in digests]
    gone += [one for one in wheels.folder_of(cache).glob("*") if one.name not in needed]
    return tuple(folder for folder in gone if _removed(folder, wait_s))


def _removed(folder: Path, wait_s: float) -> bool:
    """Whether nobody was building it, and it is gone."""
    try:
        with locks.folder(folder.resolve(), wait_s):
            _clear(folder)
            folder.rmdir()
    except locks.Busy:
        return False
    except OSError as error:
        raise StackError(f"{folder} cannot be removed: {files.reason(error)}") from error
    return True
