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

from busbw.extensions.stacks import environments as uv
from busbw.session.option import UsageError

# For a bisected package, the packages that an environment also needs, in versions that fit.
_DEPENDENT_PACKAGES = {"jaxlib": ("jax",), "libtpu": ("jax",)}
_PLUGIN_PREFIX = "jax-"


def releases_between(
    package: str, first_version: str, last_version: str, python: str
) -> tuple[str, ...]:
    """Return the versions from the first to the last version that the interpreter can install.

    The versions are in order, oldest first, and include the two given versions. `python` is the
    path of the interpreter. Pre-releases are included if one of the two given versions is a
    pre-release. Raises UsageError if a version is invalid, or if the first version is not older
    than the last. Raises StackError if the index of packages lacks one of the two versions.
    """
    try:
        ends = Version(first_version), Version(last_version)
    except InvalidVersion as error:
        raise UsageError(f"{package}: {error}") from error
    if ends[0] >= ends[1]:
        raise UsageError(f"{package}: {first_version} is not older than {last_version}")
    allows_prereleases = any(end.is_prerelease for end in ends)
    options = (
        "--resolution=lowest",
        f"--prerelease={'allow' if allows_prereleases else 'disallow'}",
    )
    releases = [_resolve_version(f"{package}=={first_version}", python)]
    newest = _resolve_version(f"{package}=={last_version}", python)
    while releases[-1] != newest:
        newer = f"{package}>={releases[-1]},!={releases[-1]},<={newest}"
        releases.append(_resolve_version(newer, python, *options))
    return tuple(releases)


def _resolve_version(requirement: str, python: str, *options: str) -> str:
    """Return the version that uv chooses for a requirement of a package, such as ``jax>=0.7``.

    `python` is the path of the interpreter, and `options` are further options of uv. Raises
    StackError if no version satisfies the requirement.
    """
    text = uv.resolve_requirements([requirement], python, "--no-deps", *options)
    return next(iter(Requirement(text.strip()).specifier)).version


@dataclass(frozen=True, kw_only=True, slots=True)
class Environments:
    """The virtual environments of a bisection, each with another release of a package.

    An environment takes up to a gigabyte, so `remove_unneeded` removes environments that are no
    longer needed.

    Attributes:
        cache: The cache folder of busbw, in which the environments are stored.
        package: The name of the package.
        pinned_requirements: Requirements of further packages to install, such as ``jax==0.7.0``.
        interpreter: The path of the Python with which the environments are made.

    """

    cache: Path
    package: str
    pinned_requirements: Sequence[str] = ()
    interpreter: str = sys.executable

    def build_environment(self, version: str) -> str:
        """Return the path of the interpreter in the environment with the release `version`.

        Builds the environment if the environment does not exist. Raises StackError, with uv's
        message, if uv fails.
        """
        folder, requirements = self._environment_folder(version), self._requirements(version)

        def build(new: Path) -> None:
            lock = uv.resolve_requirements(requirements, self.interpreter, *uv.PYLOCK_OPTIONS)
            uv.install_packages(new, lock, self.interpreter)

        uv.build_once(folder, build)
        return f"{folder}/bin/python"

    def remove_unneeded(
        self, needed_versions: Collection[str], all_versions: Collection[str]
    ) -> None:
        """Remove the environments of `all_versions`, but keep those of `needed_versions`."""
        for version in set(all_versions).difference(needed_versions):
            shutil.rmtree(self._environment_folder(version), ignore_errors=True)

    def _environment_folder(self, version: str) -> Path:
        """Return the path of the environment with the release `version`, which need not exist."""
        text = "\n".join([self.interpreter, *self._requirements(version)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.cache / "releases" / f"{self.package}-{version}-{digest}"

    def _requirements(self, version: str) -> list[str]:
        """Return the requirements (PEP 508) of the environment with the release `version`."""
        is_plugin = self.package.startswith(_PLUGIN_PREFIX)
        followers = (f"jax=={version}",) if is_plugin else _DEPENDENT_PACKAGES.get(self.package, ())
        pinned = {Requirement(pin).name for pin in self.pinned_requirements}
        free = [text for text in followers if Requirement(text).name not in pinned]
        return [f"{self.package}=={version}", *free, *self.pinned_requirements]
