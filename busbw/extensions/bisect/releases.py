"""The releases of a package between two, as uv finds them, and environments of single releases.

What depends on the package follows it, by uv's own resolver.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from busbw.extensions.stacks import uv
from busbw.model.words import bytes_text, plural

# What an environment needs besides the package, which follows it.
_FOLLOWS = {"jaxlib": ("jax",), "libtpu": ("jax",)}
_PLUGINS = "jax-"


class ReleaseError(ValueError):
    """Two releases that nothing lies between; the message says why."""


def releases_between(
    package: str, first: str, last: str, python: str, *, pre: bool = False
) -> tuple[str, ...]:
    """Return the releases of `package` that `python` can install, from `first` to `last`.

    With `pre`, or where an end is a release candidate, candidates are among them. Raises
    ReleaseError for ends that are not in order, and StackError for one that is not there.
    """
    try:
        ends = Version(first), Version(last)
    except InvalidVersion as error:
        raise ReleaseError(f"{package}: {error}") from error
    if ends[0] >= ends[1]:
        raise ReleaseError(f"{package}: {first} is not older than {last}")
    pre = pre or any(end.is_prerelease for end in ends)
    options = ("--resolution=lowest", f"--prerelease={'allow' if pre else 'disallow'}")
    releases = [_release(f"{package}=={first}", python)]
    newest = _release(f"{package}=={last}", python)
    while releases[-1] != newest:
        newer = f"{package}>={releases[-1]},!={releases[-1]},<={newest}"
        releases.append(_release(newer, python, *options))
    return tuple(releases)


def _release(requirement: str, python: str, *options: str) -> str:
    """Return the version of a single package that satisfies `requirement`."""
    text = uv.resolve([requirement], python, "--no-deps", *options)
    return next(iter(Requirement(text.strip()).specifier)).version


@dataclass(frozen=True, kw_only=True, slots=True)
class Environments:
    """Environments in `cache`, each with a release of `package` and with `pins`.

    `python` makes them. An environment takes up to a gigabyte: `keep` removes all but those that
    are still needed.
    """

    cache: Path
    package: str
    pins: Sequence[str] = ()
    python: str = sys.executable

    def of(self, version: str) -> str:
        """Return the interpreter that has this release. Raises StackError with uv's words."""
        folder, requirements = self._folder(version), self._requirements(version)
        uv.build_once(
            folder,
            lambda new: uv.install(
                new, uv.resolve(requirements, self.python, *uv.PYLOCK), self.python
            ),
        )
        return f"{folder}/bin/python"

    def keep(self, versions: Collection[str], among: Collection[str]) -> None:
        """Remove the environments of those `among` the releases that are not in `versions`."""
        for version in set(among).difference(versions):
            shutil.rmtree(self._folder(version), ignore_errors=True)

    def left(self, among: Collection[str]) -> str:
        """Return what is left on the disk, in a sentence."""
        folders = [folder for folder in map(self._folder, among) if folder.exists()]
        size = sum(path.lstat().st_size for folder in folders for path in folder.rglob("*"))
        return (
            f"left on disk: {plural(len(folders), 'environment')} ({bytes_text(size)}) in "
            f"{self.cache / 'releases'}, and what uv downloaded, in its own cache: uv cache clean "
            f"{self.package}"
        )

    def _folder(self, version: str) -> Path:
        text = "\n".join([self.python, *self._requirements(version)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _requirements(self, version: str) -> list[str]:
        is_plugin = self.package.startswith(_PLUGINS)
        followers = (f"jax=={version}",) if is_plugin else _FOLLOWS.get(self.package, ())
        pinned = {Requirement(pin).name for pin in self.pins}
        free = [text for text in followers if Requirement(text).name not in pinned]
        return [f"{self.package}=={version}", *free, *self.pins]
