"""List the releases of a package with uv, and build an environment with a release.

The resolver of uv chooses the versions of the other packages, so that they fit the release.
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

# For a bisected package, the packages that an environment also needs, in versions that fit.
_DEPENDENT_PACKAGES = {"jaxlib": ("jax",), "libtpu": ("jax",)}
_PLUGIN_PREFIX = "jax-"


def releases_between(package: str, first: str, last: str, python: str) -> tuple[str, ...]:
    """Return the releases of `package` from `first` to `last` that the interpreter can install.

    `python` is the path of the interpreter. Pre-releases are included if `first` or `last` is a
    pre-release. Raises UsageError if a version is invalid or `first` is not older than `last`, and
    StackError if the index does not have `first` or `last`.
    """
    try:
        ends = Version(first), Version(last)
    except InvalidVersion as error:
        raise UsageError(f"{package}: {error}") from error
    if ends[0] >= ends[1]:
        raise UsageError(f"{package}: {first} is not older than {last}")
    allows_prereleases = any(end.is_prerelease for end in ends)
    options = (
        "--resolution=lowest",
        f"--prerelease={'allow' if allows_prereleases else 'disallow'}",
    )
    releases = [_resolve_version(f"{package}=={first}", python)]
    newest = _resolve_version(f"{package}=={last}", python)
    while releases[-1] != newest:
        newer = f"{package}>={releases[-1]},!={releases[-1]},<={newest}"
        releases.append(_resolve_version(newer, python, *options))
    return tuple(releases)


def _resolve_version(requirement: str, python: str, *options: str) -> str:
    """Return the version that uv chooses for `requirement`, which names a single package.

    Raises StackError if no version satisfies the requirement.
    """
    text = uv.resolve_requirements([requirement], python, "--no-deps", *options)
    return next(iter(Requirement(text.strip()).specifier)).version


@dataclass(frozen=True, kw_only=True, slots=True)
class Environments:
    """Environments in the folder `cache`, each with one release of `package`.

    `pins` are requirements of further packages, such as ``jax==0.7.0``. `interpreter` is the path
    of the Python with which the environments are made. An environment takes up to a gigabyte, so
    `remove_unneeded` removes environments that are no longer needed.
    """

    cache: Path
    package: str
    pins: Sequence[str] = ()
    interpreter: str = sys.executable

    def build_interpreter(self, version: str) -> str:
        """Build the environment with the release `version`, unless it exists.

        Returns the path of its interpreter. Raises StackError, with uv's message, if uv fails.
        """
        folder, requirements = self._environment_folder(version), self._requirements(version)

        def build(new: Path) -> None:
            lock = uv.resolve_requirements(requirements, self.interpreter, *uv.PYLOCK)
            uv.install_packages(new, lock, self.interpreter)

        uv.build_once(folder, build)
        return f"{folder}/bin/python"

    def remove_unneeded(self, needed: Collection[str], releases: Collection[str]) -> None:
        """Remove the environments of `releases` that are not `needed`."""
        for version in set(releases).difference(needed):
            shutil.rmtree(self._environment_folder(version), ignore_errors=True)

    def disk_use_sentence(self, releases: Collection[str]) -> str:
        """Return a sentence with the number and the size of the environments of `releases`."""
        folders = [folder for folder in map(self._environment_folder, releases) if folder.exists()]
        size = sum(path.lstat().st_size for folder in folders for path in folder.rglob("*"))
        return (
            f"left on disk: {plural(len(folders), 'environment')} ({bytes_text(size)}) in "
            f"{self.cache / 'releases'}, and what uv downloaded, in its own cache: uv cache clean "
            f"{self.package}"
        )

    def _environment_folder(self, version: str) -> Path:
        """Return the folder of the environment with a release, which need not exist."""
        text = "\n".join([self.interpreter, *self._requirements(version)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _requirements(self, version: str) -> list[str]:
        """Return the requirements of the environment with a release of the package."""
        is_plugin = self.package.startswith(_PLUGIN_PREFIX)
        followers = (f"jax=={version}",) if is_plugin else _DEPENDENT_PACKAGES.get(self.package, ())
        pinned = {Requirement(pin).name for pin in self.pins}
        free = [text for text in followers if Requirement(text).name not in pinned]
        return [f"{self.package}=={version}", *free, *self.pins]
