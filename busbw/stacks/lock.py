"""The lock of a reference stack: which Python, which packages by the hashes of their wheels, flags.

One file for each framework beside its baselines, one line per package, made for a review. It names
no index: wheels come from where the user's configuration says, whatever a pull request says.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from busbw import files, wire
from busbw.model import variables
from busbw.model.limits import Date
from busbw.model.machine import EnvironmentKey

SCHEMA = 1
SUFFIX = ".reference.lock"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PYTHON = re.compile(r"3\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc)\d{1,3})?\+?")
_PLATFORM = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}")
# A lock of TensorFlow for GPUs has 60 packages.
_MOST_BYTES = 2**20


class StackError(ValueError):
    """A stack that cannot be locked, read or built; the message says which, why, and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One package: its normalized name, its version, and the wheel for the lock's platform.

    `sha256` is the wheel's, `record` that of the list of files that it brings, as they were
    installed where it was measured.
    """

    name: str
    version: str
    wheel: str
    sha256: str
    record: str

    @property
    def requirement(self) -> str:
        """A line that pip and uv read."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """A stack that can be built again.

    `python` is the version, such as ``3.12.4``, of a CPython, `platform` what `sysconfig` calls it,
    such as ``linux-x86_64``. `flags` are the environment variables that steered it.
    """

    schema: int = SCHEMA
    framework: str
    python: str
    platform: str
    date: Date
    flags: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Package, ...]

    @property
    def digest(self) -> str:
        """Names the stack: a hash of all but the date, 16 hexadecimal digits."""
        document = wire.to_json(self)
        del document["date"]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def minor(self) -> str:
        """The Python that its wheels are for, such as ``3.12``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def text(self) -> str:
        document = wire.to_json(self)
        lines = ",\n".join(f"  {json.dumps(one)}" for one in document.pop("packages"))
        head = json.dumps(document, indent=1).removesuffix("\n}")
        return f'{head},\n "packages": [\n{lines}\n ]\n}}\n'


def path_of(root: Path, key: EnvironmentKey, framework: str) -> Path:
    return root / key.folder / f"{framework}{SUFFIX}"


def paths_below(root: Path, framework: str) -> tuple[Path, ...]:
    return tuple(sorted(root.glob(f"*/*/{framework}{SUFFIX}")))


def read(path: Path, framework: str) -> Lock:
    """The lock at `path`. Raises StackError for anything else than a lock of `framework`."""
    try:
        lock = parsed(files.content(path, _MOST_BYTES))
        if lock.framework != framework:
            raise wire.WireError(
                f"lock.framework: expected {framework}, as the file's name says, "
                f"got {lock.framework[:60]!r}"
            )
    except (files.InputError, wire.WireError) as error:
        raise StackError(f"{path}: {error}") from error
    return lock


def parsed(content: bytes | str) -> Lock:
    """The lock that `content` is. Raises WireError with its location for what no lock says."""
    lock = wire.from_json(Lock, wire.parsed(content), "lock")
    if lock.schema != SCHEMA:
        raise wire.WireError(f"lock.schema: this version reads {SCHEMA}, got {lock.schema}")
    _check_text("lock.python", lock.python, _PYTHON, "a version such as 3.12.4")
    _check_text("lock.platform", lock.platform, _PLATFORM, "a platform such as linux-x86_64")
    for name in sorted(lock.flags.keys() - variables.STACK):
        raise wire.WireError(f"lock.flags.{name[:60]}: no option of a stack")
    if not lock.packages:
        raise wire.WireError("lock.packages: expected one at least")
    for index, package in enumerate(lock.packages):
        _check_package(package, f"lock.packages[{index}]")
    names = [package.name for package in lock.packages]
    if names != sorted(set(names)):
        raise wire.WireError("lock.packages: expected each name once, in order")
    return lock


def _check_package(package: Package, location: str) -> None:
    """Names, versions and hashes only: an index or an address is none of them."""
    if canonicalize_name(package.name) != package.name or not _is_name(package.name):
        raise wire.WireError(
            f"{location}.name: expected a normalized name such as ml-dtypes, "
            f"got {package.name[:60]!r}"
        )
    try:
        # `Version` takes white space around it, which would be a line of its own for pip.
        Version(re.sub(r"\s", "?", package.version))
    except InvalidVersion as error:
        raise wire.WireError(
            f"{location}.version: expected a version, got {package.version[:60]!r}"
        ) from error
    for key in ("sha256", "record"):
        digits = getattr(package, key)
        _check_text(f"{location}.{key}", digits, _SHA256, "64 hexadecimal digits")
    try:
        name, version, _, _ = parse_wheel_filename(package.wheel)
    except InvalidWheelFilename as error:
        raise wire.WireError(
            f"{location}.wheel: expected the name of a wheel, got {package.wheel[:60]!r}"
        ) from error
    if "/" in package.wheel or (name, version) != (package.name, Version(package.version)):
        raise wire.WireError(
            f"{location}.wheel: expected a wheel of {package.name} {package.version}, "
            f"got {package.wheel[:100]!r}"
        )


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", text) is not None


def _check_text(location: str, text: str, pattern: re.Pattern[str], expected: str) -> None:
    if not pattern.fullmatch(text):
        raise wire.WireError(f"{location}: expected {expected}, got {text[:60]!r}")
