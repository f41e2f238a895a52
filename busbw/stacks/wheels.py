"""Wheels: which ones a stack was installed from, by the user's index, and those that are kept.

An index is asked through pip, with the user's configuration. Wheels are fetched when a stack is
built for the first time, and kept by their hashes: what an index has dropped can still be
installed. Nothing is believed of a wheel but its hash, and that it brings the very files that were
measured.
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
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from busbw import files, locks, wire

from .interpreter import Distribution, output
from .listing import record_hash
from .lock import Lock, Package, StackError

_TIMEOUT_S = 3600.0
_CHUNK = 1 << 20
_WHEELS_ONLY = ("--no-deps", "--only-binary=:all:", "--disable-pip-version-check")


def folder_of(cache: Path) -> Path:
    return cache / "wheels"


def path_of(cache: Path, package: Package) -> Path:
    return folder_of(cache) / package.sha256 / package.wheel


def packages_of(stack: Sequence[Distribution], python: str) -> tuple[Package, ...]:
    """Raises StackError where the index has none. Little is fetched: the index says the hashes."""
    with tempfile.TemporaryDirectory(prefix="busbw-lock.") as name:
        wanted, report = Path(name, "requirements.txt"), Path(name, "report.json")
        wanted.write_text("".join(f"{one.name}=={one.version}\n" for one in stack))
        options = ["--dry-run", "--ignore-installed", f"--report={report}"]
        _run_pip(python, "install", *options, f"--requirement={wanted}")
        document = wire.parsed(report.read_bytes())
    found: dict[str, Any] = {
        canonicalize_name(one["metadata"]["name"]): one for one in document["install"]
    }
    return tuple(_package(one, found[one.name]["download_info"]) for one in stack)


def _package(one: Distribution, download: Mapping[str, Any]) -> Package:
    sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    if not sha256:
        raise StackError(
            f"{one.name} {one.version}: the index has no sha256 for it, and a reference is built "
            "by hashes; use an index that has them, or give --no-reference-lock"
        )
    return Package(
        name=one.name,
        version=one.version,
        wheel=PurePosixPath(unquote(urlsplit(download["url"]).path)).name,
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
        if _record(path_of(cache, one)) != one.record:
            raise StackError(
                f"{one.name} {one.version}: {one.wheel} from the index contains other files than "
                "those installed when it was locked, so it is not what was measured"
            )
    return tuple(path_of(cache, one) for one in lock.packages)


def _is_kept(cache: Path, package: Package) -> bool:
    """Whether it is there. Raises StackError if it is there and has another hash."""
    path = path_of(cache, package)
    if not path.exists():
        return False
    found = _sha256(path)
    if found != package.sha256:
        raise StackError(
            f"{path} was changed since it was fetched: its sha256 is {found}; remove it to "
            "fetch it again"
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
    folder = folder_of(cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            new = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix="new.")))
            # So that `prune` leaves it alone until its session has ended.
            undo.enter_context(locks.folder(new.resolve(), 0.0))
            _download(new, packages, python)
            for one in packages:
                _keep(new, path_of(cache, one), one)
    except OSError as error:
        raise StackError(f"wheels cannot be kept: {files.reason(error)}") from error


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
    output(command, problem="pip says", timeout_s=_TIMEOUT_S)


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
