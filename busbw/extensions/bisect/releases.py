"""List the releases of a package with uv, and build the environment of a release.

The resolver of uv chooses the versions of packages that depend on it.
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
from busbw.session.errors import UsageError

# Packages that an environment needs besides the package, in the versions that fit it.
_FOLLOWS = {"jaxlib": ("jax",), "libtpu": ("jax",)}
_PLUGINS = "jax-"


def releases_between(package: str, first: str, last: str, python: str) -> tuple[str, ...]:
    """Return the releases of `package` that `python` can install, from `first` to `last`.

    Release candidates are among them if an end is one. Raises UsageError for ends that are not in
    order, and StackError for one that the index does not have.
    """
    try:
        ends = Version(first), Version(last)
    except InvalidVersion as error:
        raise UsageError(f"{package}: {error}") from error
    if ends[0] >= ends[1]:
        raise UsageError(f"{package}: {first} is not older than {last}")
    pre = any(end.is_prerelease for end in ends)
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

    They are built with `interpreter`. An environment takes up to a gigabyte: `keep` removes all
    that are not needed any more.
    """

    cache: Path
    package: str
    pins: Sequence[str] = ()
    interpreter: str = sys.executable

    def python(self, version: str) -> str:
        """Return the interpreter that has this release. Raises StackError with uv's words."""
        folder, requirements = self._folder(version), self._requirements(version)

        def build(new: Path) -> None:
            lock = uv.resolve(requirements, self.interpreter, *uv.PYLOCK)
            uv.install(new, lock, self.interpreter)

        uv.build_once(folder, build)
        return f"{folder}/bin/python"

    def keep(self, needed: Collection[str], releases: Collection[str]) -> None:
        """Remove the environments of `releases` that are not `needed`."""
        for version in set(releases).difference(needed):
            shutil.rmtree(self._folder(version), ignore_errors=True)

    def left_on_disk(self, releases: Collection[str]) -> str:
        """Return a sentence with the environments of releases and with their size."""
        folders = [folder for folder in map(self._folder, releases) if folder.exists()]
        size = sum(path.lstat().st_size for folder in folders for path in folder.rglob("*"))
        return (
            f"left on disk: {plural(len(folders), 'environment')} ({bytes_text(size)}) in "
            f"{self.cache / 'releases'}, and what uv downloaded, in its own cache: uv cache clean "
            f"{self.package}"
        )

    def _folder(self, version: str) -> Path:
        text = "\n".join([self.interpreter, *self._requirements(version)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _requirements(self, version: str) -> list[str]:
        is_plugin = self.package.startswith(_PLUGINS)
        followers = (f"jax=={version}",) if is_plugin else _FOLLOWS.get(self.package, ())
        pinned = {Requirement(pin).name for pin in self.pins}
        free = [text for text in followers if Requirement(text).name not in pinned]
        return [f"{self.package}=={version}", *free, *self.pins]
