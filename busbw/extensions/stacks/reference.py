"""The lock of a reference stack: written with baselines, and built again to measure with.

A lock is ``pylock.FRAMEWORK.toml`` in the folder of a machine's baselines. What PEP 751 has no
word for is in its table ``tool.busbw``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import storage, wire
from busbw.frameworks import FRAMEWORKS
from busbw.model import variables
from busbw.model.limits import Date
from busbw.model.words import plural
from busbw.session.options import LockedStack

from . import uv
from .packages import interpreter_of, minor_of, record_of, why_not_locked
from .uv import StackError

PATTERN = "*/*/pylock.{}.toml"
_DATE = re.compile("^date = .*$", re.MULTILINE)
_LOCK_ONE = "--update-baselines locks the stack that it accepts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """A stack that can be built again.

    `python` is the version of the interpreter that was measured, such as ``3.12.4``, `flags` are
    the environment variables that configured it. `records` has the `record_of` each package, by
    its name. `hashes` are all SHA-256 in the file, those of the wheels among them.
    """

    python: str
    date: Date
    flags: Mapping[str, str]
    records: Mapping[str, str]
    hashes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The stack's name, 16 hexadecimal digits: a hash of all but date and addresses."""
        text = json.dumps([self.python, dict(self.flags), self.hashes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> Lock:
    """Read what is ours of the lock at `path`; uv reads the packages. Raises StackError."""
    try:
        text = storage.read(path).decode()
        table = tomllib.loads(text).get("tool", {}).get("busbw", {})
        hashes = sorted(re.findall(r"\b[0-9a-f]{64}\b", text))
        return wire.from_json(Lock, {**table, "hashes": hashes}, "tool.busbw")
    except (ValueError, TypeError) as error:
        raise StackError(f"{path}: {wire.printable(str(error))}; {_LOCK_ONE}") from error


def build(
    folder: Path, framework: str, python: str, cache: Path, say: Callable[[str], None]
) -> LockedStack:
    """Build the stack whose lock is in `folder`, or find it in `cache`, and check its files.

    `python` is used where it is of the version that was locked. Raises StackError.
    """
    path = folder / f"pylock.{framework}.toml"
    stack = read(path)
    say(f"busbw reference: {framework} of {stack.date}, stack {stack.digest}")
    minor, built = minor_of(stack.python), cache / "stacks" / stack.digest
    base = python if minor_of(interpreter_of(python).version) == minor else minor
    # A link would change with an edit of the same file in any other environment that uv made.
    uv.build_once(built, lambda new: uv.install(new, path.read_text(), base, "--link-mode=copy"))
    _check_files(built, stack)
    return LockedStack(python=f"{built}/bin/python", digest=stack.digest, flags=stack.flags)


def _check_files(folder: Path, stack: Lock) -> None:
    """Raise StackError if the environment in `folder` has other files than were measured."""
    try:
        installed = interpreter_of(f"{folder}/bin/python").distributions
        records = {name: record_of(distribution) for name, distribution in installed.items()}
        if different := records.items() ^ stack.records.items():
            raise StackError(f"{min(different)[0]} has other files than those that were measured")
    except StackError as error:
        raise StackError(f"{error}; delete {folder} to build it again; {_LOCK_ONE}") from error


def lock(folder: Path, framework: str, python: str, date: str, *, replace: bool) -> str:
    """Lock the stack of `framework` that `python` has; return a note, or "" if nothing is new.

    A stack that no index can provide again is not locked, and the note says why. Unless `replace`,
    an existing lock stays. Raises OSError.
    """
    path = folder / f"pylock.{framework}.toml"
    if path.exists() and not replace:
        return ""
    try:
        before = storage.read(path).decode(errors="replace") if path.exists() else ""
        text = _lock_text(framework, python, date)
    except storage.InputError as error:
        return f"{framework}: its stack is not locked as a reference: {path} {error}"
    except ValueError as error:
        return f"{framework}: its stack is not locked as a reference: {error}"
    if not text or _DATE.sub("", before) == _DATE.sub("", text):
        return ""
    storage.write(path, text)
    packages = plural(text.count("[[packages]]"), "package")
    return f"{framework}: its stack is the reference now, {packages} in {path}"


def _lock_text(framework: str, python: str, date: str) -> str:
    """Return the lock of a stack; "" for a simulated framework that is no package."""
    interpreter = interpreter_of(python)
    stack = interpreter.stack(FRAMEWORKS[framework].packages)
    if not stack and FRAMEWORKS[framework].scripted:
        return ""
    problems = [f"{name} replaces a library" for name in variables.REPLACES if name in os.environ]
    problems += [f"{name} {text}" for name in stack if (text := why_not_locked(stack[name]))]
    problems += [] if stack else [f"it is no package of {python}"]
    if problems:
        raise StackError(f"{problems[0]}; expected packages as an index has them")
    tables: dict[str, Mapping[str, str]] = {
        "tool.busbw": {"python": interpreter.version, "date": date},
        "tool.busbw.flags": variables.of_stack(os.environ, os.path.expanduser("~")),
        "tool.busbw.records": {name: record_of(stack[name]) for name in stack},
    }
    pins = [f"{name}=={stack[name].version}" for name in stack]
    packages = uv.resolve(pins, python, "--no-deps", *uv.PYLOCK)
    return packages + "".join(f"\n[{name}]\n{_toml(table)}" for name, table in tables.items())


def _toml(table: Mapping[str, str]) -> str:
    """Return lines of TOML; a string of JSON without control characters is one of TOML."""
    return "".join(
        f"{name} = {json.dumps(wire.printable(text), ensure_ascii=False)}\n"
        for name, text in table.items()
    )
