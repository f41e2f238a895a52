"""The lock of a reference stack: which Python, which packages by the hashes of their wheels, flags.

One file for each framework beside its baselines, of PEP 751: pip and uv install from it, too. What
the standard has no word for is in ``tool.busbw``. The addresses of wheels are for them alone: this
busbw follows none, whatever a pull request says; wheels come from where the user's configuration
says.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from packaging import pylock

from busbw import storage, wire
from busbw.model import variables
from busbw.model.limits import Date
from busbw.model.machine import EnvironmentKey

NAMES = "pylock.*.toml"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PYTHON = re.compile(r"3\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc)\d{1,3})?\+?")
_PLATFORM = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}")
# A lock of TensorFlow for GPUs has 60 packages.
_MOST_BYTES = 2**20
# Printable, without what separates folders.
_WHEEL = re.compile(r"[!-.0-~]+")


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
    url: str
    sha256: str
    record: str

    @property
    def wheel(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    @property
    def requirement(self) -> str:
        """A line that pip and uv read."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n"

    @property
    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "wheels": [{"url": self.url, "hashes": {"sha256": self.sha256}}],
            "tool": {"busbw": {"record": self.record}},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """A stack that can be built again.

    `python` is the version, such as ``3.12.4``, of a CPython, `platform` what `sysconfig` calls it,
    such as ``linux-x86_64``. `flags` are the environment variables that steered it.
    """

    framework: str
    python: str
    platform: str
    date: Date
    flags: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Package, ...]

    @property
    def digest(self) -> str:
        """Names the stack: a hash of all but date and addresses, 16 hexadecimal digits."""
        own = {**self._own, "date": ""}
        packages = [[p.name, p.version, p.wheel, p.sha256, p.record] for p in self.packages]
        text = json.dumps([own, packages], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def minor(self) -> str:
        """The Python that its wheels are for, such as ``3.12``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def _own(self) -> dict[str, Any]:
        return {
            "framework": self.framework,
            "python": self.python,
            "platform": self.platform,
            "date": self.date,
            "flags": {name: wire.printable(text) for name, text in self.flags.items()},
        }

    @property
    def document(self) -> dict[str, Any]:
        return {
            "lock-version": "1.0",
            "created-by": "busbw",
            "requires-python": f"=={self.minor}.*",
            "packages": [one.document for one in self.packages],
            "tool": {"busbw": self._own},
        }

    @property
    def text(self) -> str:
        """TOML, a table of four lines for each package."""
        document = self.document
        packages, own = document.pop("packages"), document.pop("tool")["busbw"]
        tables = [("", document), ("[tool.busbw]\n", own)]
        tables += [("[[packages]]\n", one) for one in packages]
        return "\n".join(head + _lines(table) for head, table in tables)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # A string of JSON is one of TOML, but for this character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def public_url(url: str) -> str:
    """Without a user, a password, a query and a fragment."""
    found = urlsplit(url)
    return urlunsplit((found.scheme, found.netloc.rpartition("@")[2], found.path, "", ""))


def path_of(root: Path, key: EnvironmentKey, framework: str) -> Path:
    return root / key.folder / f"pylock.{framework}.toml"


def paths_below(root: Path, framework: str) -> tuple[Path, ...]:
    return tuple(sorted(root.glob(f"*/*/pylock.{framework}.toml")))


def framework_of(path: Path) -> str:
    return path.name.split(".")[1]


def read(path: Path) -> Lock:
    """The lock at `path`. Raises StackError for anything else than that of its framework."""
    try:
        lock = parsed(storage.read(path, _MOST_BYTES))
        if lock.framework != framework_of(path):
            raise wire.WireError(
                f"lock.framework: expected {framework_of(path)}, as the file's name says, "
                f"got {lock.framework[:60]!r}"
            )
    except (storage.InputError, wire.WireError) as error:
        raise StackError(f"{path}: {error}") from error
    return lock


def parsed(content: bytes) -> Lock:
    """The lock that `content` is. Raises WireError with its location for what no lock says."""
    try:
        document = tomllib.loads(content.decode())
        found = pylock.Pylock.from_dict(document)
    except (ValueError, RecursionError, pylock.PylockValidationError) as error:
        left = wire.left_by_git(content)
        raise wire.WireError(left or f"lock: {str(error)[:200]}") from error
    packages = [_flat(one) for one in found.packages]
    own = (found.tool or {}).get("busbw")
    if not isinstance(own, dict):
        raise wire.WireError("lock.tool.busbw: expected what busbw locks with packages")
    lock = wire.from_json(Lock, {**own, "packages": packages}, "lock")
    _check(lock)
    # What is written in another way, such as with white space around a version, or says more.
    _check_same(document, lock.document, "lock")
    return lock


def _flat(found: pylock.Package) -> dict[str, Any]:
    """What a Package is made of; keys that are not there are empty, others are not looked at."""
    wheel = (*(found.wheels or ()), None)[0]
    own = (found.tool or {}).get("busbw")
    return {
        "name": found.name,
        "version": str(found.version),
        "url": wheel.url or "" if wheel else "",
        "sha256": wheel.hashes.get("sha256", "") if wheel else "",
        "record": own.get("record", "") if isinstance(own, dict) else "",
    }


def _check(lock: Lock) -> None:
    _check_text("lock.python", lock.python, _PYTHON, "a version such as 3.12.4")
    _check_text("lock.platform", lock.platform, _PLATFORM, "a platform such as linux-x86_64")
    for name in sorted(lock.flags.keys() - variables.STACK):
        raise wire.WireError(f"lock.flags.{name[:60]}: no option of a stack")
    for index, one in enumerate(lock.packages):
        where = f"lock.packages[{index}]"
        _check_text(f"{where}: sha256", one.sha256, _SHA256, "64 hexadecimal digits")
        _check_text(f"{where}: record", one.record, _SHA256, "64 hexadecimal digits")
        if not _WHEEL.fullmatch(one.wheel):
            raise wire.WireError(f"{where}: url: expected that of a wheel, got {one.url[:100]!r}")
    names = [package.name for package in lock.packages]
    if not names or names != sorted(set(names)):
        raise wire.WireError("lock.packages: expected one at least, each name once, in order")


def _check_same(found: Any, expected: Any, location: str) -> None:
    """Raise WireError with the first difference."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            where = f"{location}.{key:.60}"
            if key not in expected:
                accepted = ", ".join(expected)
                raise wire.WireError(f"{where}: unknown key; accepted are {accepted}")
            _check_same(found.get(key), expected[key], where)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for index, pair in enumerate(zip(found, expected, strict=True)):
            _check_same(*pair, f"{location}[{index}]")
    elif found != expected:
        raise wire.WireError(f"{location}: expected {expected!r}, got {found!r:.100}")


def _check_text(location: str, text: str, pattern: re.Pattern[str], expected: str) -> None:
    if not pattern.fullmatch(text):
        raise wire.WireError(f"{location}: expected {expected}, got {text[:60]!r}")
