"""Environments that are built from locks, each whole or not at all, and the wheels that they need.

A build holds the lock of its folder, so that a second session waits for it; its mark is written
last and says what the files were, so that one that was cut short or changed is built again. Wheels
come from the user's index by hash, and are kept: what it has dropped can still be installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from busbw import storage, wire

from .interpreter import Distribution, installed, output
from .listing import record_hash
from .lock import Lock, Package, StackError, public_url

_MARK, _MOST_MARK_BYTES = "complete", 64
_TIMEOUT_S = 1800.0
_FETCH_TIMEOUT_S = 3600.0
_CHUNK = 1 << 20
_WHEELS_ONLY = ("--no-deps", "--only-binary=:all:", "--disable-pip-version-check")


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
    mark = _mark(folder)
    is_whole = bool(mark) and mark == _files_hash(folder / "venv").encode()
    return Built(digest=folder.name, folder=folder, is_torn=not is_whole)


def _mark(folder: Path) -> bytes:
    """Empty where none can be read: something else than a build may have left it."""
    try:
        return storage.read(folder / _MARK, _MOST_MARK_BYTES)
    except storage.InputError:
        return b""


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
        with storage.folder_lock(folder.resolve(), wait_s):
            found = _built(folder)
            return _build(cache, lock, pythons, found) if found.is_torn else found
    except storage.LockedError as error:
        raise StackError(
            f"{folder}: another session has been building it for {wait_s:g} s"
        ) from error
    except OSError as error:
        raise StackError(f"{folder} cannot be built: {storage.error_text(error)}") from error


def check_buildable(cache: Path, lock: Lock, pythons: Sequence[str]) -> None:
    """Raise StackError if there is no interpreter to build `lock` with, nor what was built."""
    if not (folder_of(cache) / lock.digest / _MARK).exists():
        _fitting(lock, pythons)


def _build(cache: Path, lock: Lock, pythons: Sequence[str], found: Built) -> Built:
    python = _fitting(lock, pythons)
    paths = fetched(cache, lock, python)
    venv = found.folder / "venv"
    _clear(found.folder)
    try:
        _install(found.folder, lock, python, paths)
    except BaseException:
        # What is left would only fill the disk.
        _clear(found.folder)
        raise
    storage.write(found.folder / "pylock.toml", lock.text)
    storage.write(found.folder / _MARK, _files_hash(venv))
    return _built(found.folder)


def _clear(folder: Path) -> None:
    """Remove what a build left in `folder`, first what says that it is whole."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name != _MARK):
        if path.is_dir() and not path.is_symlink():
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
        f"{advice}accept this stack with --update-baselines"
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
    _run("pip", [*pip_command(), "--python", there, "install", "--quiet", *offline])


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
    gone += [one for one in wheels_of(cache).glob("*") if one.name not in needed]
    return tuple(folder for folder in gone if _removed(folder, wait_s))


def _removed(folder: Path, wait_s: float) -> bool:
    """Whether nobody was building it, and it is gone."""
    try:
        with storage.folder_lock(folder.resolve(), wait_s):
            _clear(folder)
            folder.rmdir()
    except storage.LockedError:
        return False
    except OSError as error:
        raise StackError(f"{folder} cannot be removed: {storage.error_text(error)}") from error
    return True


def wheels_of(cache: Path) -> Path:
    return cache / "wheels"


def wheel_of(cache: Path, package: Package) -> Path:
    return wheels_of(cache) / package.sha256 / package.wheel


def packages_of(stack: Sequence[Distribution], python: str) -> tuple[Package, ...]:
    """Raises StackError where the index has none. Little is fetched: the index says the hashes."""
    with tempfile.TemporaryDirectory(prefix="busbw-lock.") as name:
        wanted, report = Path(name, "requirements.txt"), Path(name, "report.json")
        wanted.write_text("".join(f"{one.name}=={one.version}\n" for one in stack))
        options = ["--dry-run", "--ignore-installed", f"--report={report}"]
        _run_pip(python, "install", *options, f"--requirement={wanted}")
        document = wire.parsed(storage.read(report))
    found: dict[str, Any] = {
        canonicalize_name(one["metadata"]["name"]): one for one in document["install"]
    }
    return tuple(_package(one, found[one.name]["download_info"]) for one in stack)


def _package(one: Distribution, download: Mapping[str, Any]) -> Package:
    sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    if not sha256:
        raise StackError(
            f"{one.name} {one.version}: the index has no sha256 for it, and a reference is built "
            "by hashes; use an index that has them"
        )
    return Package(
        name=one.name,
        version=str(Version(one.version)),
        url=public_url(download["url"]),
        sha256=sha256,
        record=one.record,
    )


def fetched(cache: Path, lock: Lock, python: str) -> tuple[Path, ...]:
    """The wheels of `lock`, in order; those that are not kept are fetched for `python`.

    Raises StackError for what cannot be had, for a kept wheel that is not what it was, and for one
    that brings other files than were measured.
    """
    missing = [one for one in lock.packages if not _is_kept(cache, one)]
    if missing:
        _fetch(cache, missing, python)
    for one in lock.packages:
        if _record(wheel_of(cache, one)) != one.record:
            raise StackError(
                f"{one.name} {one.version}: {one.wheel} from the index contains other files than "
                "those installed when it was locked, so it is not what was measured"
            )
    return tuple(wheel_of(cache, one) for one in lock.packages)


def _is_kept(cache: Path, package: Package) -> bool:
    """Whether it is there. Raises StackError if it is there and has another hash."""
    path = wheel_of(cache, package)
    if not path.exists():
        return False
    # A pipe and a device have no end to hash.
    found = f"its sha256 is {_sha256(path)}" if path.is_file() else "it is no file"
    if found != f"its sha256 is {package.sha256}":
        raise StackError(
            f"{path} was changed since it was fetched: {found}; remove it to fetch it again"
        )
    return True


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _record(path: Path) -> str:
    """The hash of what the wheel brings. Raises StackError for what is no wheel."""
    try:
        with zipfile.ZipFile(path) as wheel:
            name = next(one for one in wheel.namelist() if one.endswith(".dist-info/RECORD"))
            return record_hash(wheel.read(name).decode())
    except (zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as error:
        raise StackError(f"{path} is no wheel") from error


def _fetch(cache: Path, packages: Sequence[Package], python: str) -> None:
    """Fetch all of `packages` or none, and keep them. Raises StackError."""
    folder = wheels_of(cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            new = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix="new.")))
            # So that `prune` leaves it alone until its session has ended.
            undo.enter_context(storage.folder_lock(new.resolve(), 0.0))
            _download(new, packages, python)
            for one in packages:
                _keep(new, wheel_of(cache, one), one)
    except OSError as error:
        raise StackError(f"wheels cannot be kept: {storage.error_text(error)}") from error


def _download(folder: Path, packages: Sequence[Package], python: str) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(one.requirement for one in packages))
    options = ["--require-hashes", f"--dest={folder}", f"--requirement={requirements}"]
    _run_pip(python, "download", *options)


def _keep(new: Path, kept: Path, package: Package) -> None:
    if not (new / package.wheel).exists():
        raise StackError(f"{package.name} {package.version}: the index has no {package.wheel}")
    kept.parent.mkdir(exist_ok=True)
    os.replace(new / package.wheel, kept)


def _run_pip(python: str, command_name: str, *options: str) -> None:
    """Run pip for the interpreter `python`, of wheels alone. Raises StackError with its words."""
    command = [*pip_command(), "--python", python, command_name, "--quiet", *_WHEELS_ONLY, *options]
    output(command, problem="pip says", timeout_s=_FETCH_TIMEOUT_S)


def pip_command() -> list[str]:
    """Pip of this interpreter, else one that uv gets. Raises StackError if there is neither."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is None:
        raise StackError(
            "neither pip nor uv is installed here; one of them is needed to fetch wheels"
        )
    return [uv, "run", "--no-project", "--isolated", "--with", "pip", "python", "-m", "pip"]
