"""Environments that are built from locks, each whole or not at all, and kept by the lock's digest.

A build holds the lock of its folder, so that a second session waits for it; a mark is written last,
so that one that was cut short is found and done again. Installed offline, from wheels whose hashes
are those of the lock: by uv if it is there, by pip else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import locks, writing

from . import wheels
from .interpreter import installed
from .lock import Lock, StackError

_MARK = "complete"
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """An environment in the cache; a torn one was cut short while it was built."""

    digest: str
    folder: Path
    is_torn: bool

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "venv" / "bin" / "python")


def folder_of(cache: Path) -> Path:
    """Where environments are kept in `cache`."""
    return cache / "stacks"


def all_built(cache: Path) -> tuple[Built, ...]:
    """What is there, by digest."""
    found = sorted(one for one in folder_of(cache).glob("*") if one.is_dir())
    return tuple(_built(one) for one in found)


def _built(folder: Path) -> Built:
    return Built(digest=folder.name, folder=folder, is_torn=not (folder / _MARK).exists())


def built(cache: Path, lock: Lock, pythons: Sequence[str], wait_s: float = _TIMEOUT_S) -> Built:
    """The environment of `lock`, built unless it is kept, with the first of `pythons` that fits.

    Raises StackError with what is wrong and what to do; nothing else is built in its place.
    """
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
        raise StackError(f"{folder} cannot be built: {writing.reason(error)}") from error


def _build(cache: Path, lock: Lock, pythons: Sequence[str], found: Built) -> Built:
    python = _fitting(lock, pythons)
    paths = wheels.fetched(cache, lock, python)
    venv = found.folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    try:
        _install(found.folder, lock, python, paths)
    except BaseException:
        # What is left would only fill the disk.
        shutil.rmtree(venv, ignore_errors=True)
        raise
    writing.write(found.folder / "lock.json", lock.text)
    writing.write(found.folder / _MARK, "")
    return _built(found.folder)


def _fitting(lock: Lock, pythons: Sequence[str]) -> str:
    """An interpreter of the lock's Python and platform."""
    there = []
    for python in dict.fromkeys([*pythons, *_named(lock)]):
        with contextlib.suppress(StackError):
            one = installed(python)
            if (_minor(one.python), one.platform) == (lock.minor, lock.platform):
                return python
            there.append(f"{python} is {one.python} for {one.platform}")
    raise StackError(
        f"the reference needs Python {lock.minor} for {lock.platform}, and {'; '.join(there)}; "
        f"install Python {lock.minor}, or accept tonight's stack with --update-baselines"
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _named(lock: Lock) -> list[str]:
    """What the lock's Python is called on this machine, by its usual name or by uv."""
    found = [shutil.which(f"python{lock.minor}")]
    uv = uv_command()
    if uv:
        done = subprocess.run(
            [*uv, "python", "find", "--no-project", lock.minor],
            capture_output=True,
            check=False,
            text=True,
            timeout=_TIMEOUT_S,
        )
        found.append(done.stdout.strip() if done.returncode == 0 else None)
    return [one for one in found if one]


def _install(folder: Path, lock: Lock, python: str, paths: Sequence[Path]) -> None:
    venv, requirements = folder / "venv", folder / "requirements.txt"
    requirements.write_text("".join(one.requirement for one in lock.packages))
    offline = ["--no-deps", "--no-index", "--only-binary=:all:", "--require-hashes"]
    offline += [f"--find-links={path.parent}" for path in paths]
    offline += ["--requirement", str(requirements)]
    there, uv = str(venv / "bin" / "python"), uv_command()
    if uv:
        _run(
            [*uv, "venv", "--quiet", "--no-project", "--no-config", f"--python={python}", str(venv)]
        )
        _run([*uv, "pip", "install", "--quiet", "--no-config", f"--python={there}", *offline])
        return
    _run([python, "-m", "venv", "--without-pip", str(venv)])
    _run([*wheels.pip_command(), "--python", there, "install", "--quiet", *offline])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{command[0]} did not end within {_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        name = Path(command[0]).name
        raise StackError(f"{name} could not build the reference: {wheels.last_words(done.stderr)}")


def uv_command() -> list[str]:
    """uv, from the PATH or from beside this interpreter; empty if it is not there."""
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or (str(beside) if os.access(beside, os.X_OK) else None)
    return [found] if found else []


def prune(cache: Path, kept: Collection[Lock], wait_s: float = 0.0) -> tuple[Path, ...]:
    """Remove torn environments, and environments and wheels of none of the locks; what is gone.

    One that is being built is left alone. Raises StackError for what cannot be removed.
    """
    digests = {lock.digest for lock in kept}
    needed = {package.sha256 for lock in kept for package in lock.packages}
    gone = [one.folder for one in all_built(cache) if one.is_torn or one.digest not in digests]
    gone += [one for one in wheels.folder_of(cache).glob("*") if one.name not in needed]
    return tuple(folder for folder in gone if _removed(folder, wait_s))


def _removed(folder: Path, wait_s: float) -> bool:
    """Whether nobody was building it, and it is gone."""
    try:
        with locks.folder(folder.resolve(), wait_s):
            # First what says that it is whole.
            (folder / _MARK).unlink(missing_ok=True)
            shutil.rmtree(folder)
    except locks.Busy:
        return False
    except OSError as error:
        raise StackError(f"{folder} cannot be removed: {writing.reason(error)}") from error
    return True
