"""The releases of a package, as the user's index has them, and environments of single ones.

An environment is built whole or not at all, in the cache of stacks: what depends on the package
follows it, by pip's own resolver.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from busbw import storage
from busbw.stacks.build import pip_command
from busbw.stacks.interpreter import output
from busbw.stacks.lock import StackError

# What an environment needs besides the package, which follows it.
_FOLLOWS = {"jaxlib": ("jax",), "libtpu": ("jax",)}
_PLUGINS = "jax-"
_INDEX_TIMEOUT_S, _BUILD_TIMEOUT_S, _WAIT_S = 120.0, 3600.0, 3600.0
_MARK = "complete"
# Whose releases are named where the one that is used has them not.
_PYTHONS = ("3.11", "3.12", "3.14")
_SHOWN = 8


class ReleaseError(ValueError):
    """Releases that the index does not have; the message says which it has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Releases:
    """Of a package, in order, those that can be installed, and those for another Python alone."""

    package: str
    versions: tuple[str, ...]
    foreign: tuple[str, ...] = ()

    def between(self, first: str, last: str, *, pre: bool = False) -> tuple[str, ...]:
        """From the first to the last, both among them. Raises ReleaseError."""
        for version in (first, last):
            if version not in self.versions:
                raise ReleaseError(f"{self.package} {version}: {self._why_not(version)}")
        if Version(first) >= Version(last):
            raise ReleaseError(f"{self.package}: {first} is not older than {last}")
        return _between(self.versions, first, last, pre)

    def elsewhere(self, first: str, last: str, *, pre: bool = False) -> tuple[str, ...]:
        """Those between them that are for another Python alone."""
        return _between(self.foreign, first, last, pre)

    def _why_not(self, version: str) -> str:
        if version in self.foreign:
            return "it needs another Python; --python=PYTHON builds with that one"
        near = sorted(self.versions, key=lambda one: _distance(one, version))[:_SHOWN]
        listed = ", ".join(sorted(near, key=Version))
        return f"the index has no such release; the nearest ones are {listed or 'none'}"


def _between(versions: Iterable[str], first: str, last: str, pre: bool) -> tuple[str, ...]:
    return tuple(
        one
        for one in versions
        if Version(first) <= Version(one) <= Version(last)
        and (pre or not Version(one).is_prerelease or one in (first, last))
    )


def _distance(one: str, version: str) -> tuple[int, ...]:
    try:
        wanted = Version(version).release
    except InvalidVersion:
        return (0,)
    found = Version(one).release
    length = max(len(found), len(wanted))
    rows = (*found, *[0] * length)[:length], (*wanted, *[0] * length)[:length]
    return tuple(abs(a - b) for a, b in zip(*rows))


def releases_of(package: str, python: str) -> Releases:
    """Raises StackError with pip's words where it has none."""
    own = _listed(package, python)
    others = {one for wanted in _PYTHONS for one in _others(package, python, wanted)}
    foreign = sorted(others.difference(own), key=Version)
    return Releases(package=package, versions=own, foreign=tuple(foreign))


def _others(package: str, python: str, wanted: str) -> tuple[str, ...]:
    try:
        return _listed(package, python, f"--python-version={wanted}")
    except StackError:
        return ()


def _listed(package: str, python: str, *options: str) -> tuple[str, ...]:
    command = [*pip_command(), "--python", python, "index", "versions", package, "--pre", *options]
    said = output(
        [*command, "--disable-pip-version-check"],
        problem=f"{package}: pip says",
        timeout_s=_INDEX_TIMEOUT_S,
    )
    _, _, rest = said.partition("Available versions:")
    found = [word.strip() for word in rest.partition("\n")[0].split(",")]
    return tuple(sorted(filter(None, found), key=Version))


@dataclass(frozen=True, kw_only=True, slots=True)
class Environments:
    """Of single releases of `package`, each with `pins`, below `cache`, made by `python`.

    One takes up to a gigabyte: `keep` removes all but those that are still needed.
    """

    cache: Path
    package: str
    pins: Sequence[str] = ()
    python: str = sys.executable

    def of(self, version: str) -> str:
        """The interpreter that has this release. Raises StackError with pip's words."""
        folder = self._folder(version)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with storage.folder_lock(folder.parent.resolve(), _WAIT_S):
                if not (folder / _MARK).exists():
                    _build(folder, self._wanted(version), self.python)
        except storage.LockedError as error:
            raise StackError(f"{folder.parent}: another session builds there") from error
        except OSError as error:
            raise StackError(f"{folder} cannot be built: {storage.error_text(error)}") from error
        return str(folder / "bin" / "python")

    def keep(self, versions: Collection[str], among: Iterable[str]) -> None:
        for version in set(among).difference(versions):
            shutil.rmtree(self._folder(version), ignore_errors=True)

    def _folder(self, version: str) -> Path:
        wanted = "\n".join([self.python, *self._wanted(version)])
        digest = hashlib.sha256(wanted.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _wanted(self, version: str) -> list[str]:
        following = _following(self.package, version, self.pins)
        return [f"{self.package}=={version}", *following, *self.pins]


def _following(package: str, version: str, pins: Sequence[str]) -> list[str]:
    found = list(_FOLLOWS.get(package, ()))
    if package.startswith(_PLUGINS):
        found = [f"jax=={version}"]
    pinned = {pin.split("=")[0].split("<")[0].split(">")[0].strip() for pin in pins}
    return [one for one in found if one.split("=")[0] not in pinned]


def _build(folder: Path, wanted: Sequence[str], python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        problem = "an environment cannot be made"
        output([python, "-m", "venv", "--without-pip", str(folder)], problem=problem, timeout_s=120)
        command = [*pip_command(), "--python", str(folder / "bin" / "python"), "install"]
        options = ["-qq", "--only-binary=:all:", "--disable-pip-version-check"]
        output([*command, *options, *wanted], problem="pip says", timeout_s=_BUILD_TIMEOUT_S)
        storage.write(folder / _MARK, "\n".join(wanted) + "\n")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
