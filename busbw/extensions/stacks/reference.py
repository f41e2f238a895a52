"""Write the lock of a reference stack with the baselines, and build the stack from the lock.

A lock is the file ``pylock.FRAMEWORK.toml`` in the folder of a machine's baselines. Its table
``tool.busbw`` has the values for which the format of PEP 751 has no place.
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
from busbw.model.field_types import Date
from busbw.model.words import plural
from busbw.session.options import LockedStack

from . import uv
from .packages import hash_of_files, minor_version, read_interpreter, reason_not_lockable
from .uv import StackError

LOCK_PATTERN = "*/*/pylock.{}.toml"
_DATE_LINE = re.compile("^date = .*$", re.MULTILINE)
_REMEDY = "--update-baselines locks the stack that it accepts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """The values of busbw in a lock, which is a file from which a stack can be built again.

    Args:
        python: The version of the interpreter that was measured, such as ``3.12.4``.
        date: The day on which the stack was locked.
        flags: Maps the environment variables that configured the stack to their values.
        records: Maps each package to a hash over its files.
        hashes: All SHA-256 hashes in the file, which include the hashes of the wheels.

    """

    python: str
    date: Date
    flags: Mapping[str, str]
    records: Mapping[str, str]
    hashes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The name of the stack: a hash of its Python, flags and hashes, 16 hexadecimal digits."""
        text = json.dumps([self.python, dict(self.flags), self.hashes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_lock(path: Path) -> Lock:
    """Read the values of busbw in the lock at `path`. uv reads the packages.

    Raises StackError if the file cannot be read or is not a valid lock.
    """
    try:
        text = storage.read(path).decode()
        table = tomllib.loads(text).get("tool", {}).get("busbw", {})
        hashes = sorted(re.findall(r"\b[0-9a-f]{64}\b", text))
        return wire.from_json(Lock, {**table, "hashes": hashes}, "tool.busbw")
    except (ValueError, TypeError) as error:
        raise StackError(f"{path}: {wire.escape_unprintable(str(error))}; {_REMEDY}") from error


def build_stack(
    folder: Path, framework: str, python: str, cache: Path, report: Callable[[str], None]
) -> LockedStack:
    """Build the stack of a lock, unless it is built already, and check its files.

    Args:
        folder: The folder with the lock, among the baselines.
        framework: The framework of the stack.
        python: The interpreter to build with, if its minor version is the locked minor version.
            Otherwise uv looks for an interpreter of the locked version.
        cache: The folder in which stacks are built.
        report: A function that is called with a sentence before the stack is built.

    Raises:
        StackError: The lock cannot be read, the stack cannot be built, or its files differ from
            the files that were measured.

    """
    path = folder / f"pylock.{framework}.toml"
    stack = read_lock(path)
    report(f"busbw reference: {framework} of {stack.date}, stack {stack.digest}")
    minor, built = minor_version(stack.python), cache / "stacks" / stack.digest
    base = python if minor_version(read_interpreter(python).version) == minor else minor
    # uv may link files of its cache into environments. An edit of such a file in another
    # environment would also change this stack, so the files are copied.
    uv.build_once(
        built, lambda new: uv.install_packages(new, path.read_text(), base, "--link-mode=copy")
    )
    _check_files(built, stack)
    return LockedStack(python=f"{built}/bin/python", digest=stack.digest, flags=stack.flags)


def _check_files(folder: Path, stack: Lock) -> None:
    """Raise StackError if the files of the environment in `folder` differ from the lock `stack`."""
    try:
        installed = read_interpreter(f"{folder}/bin/python").distributions
        records = {name: hash_of_files(distribution) for name, distribution in installed.items()}
        if different := records.items() ^ stack.records.items():
            raise StackError(f"{min(different)[0]} has other files than those that were measured")
    except StackError as error:
        raise StackError(f"{error}; delete {folder} to build it again; {_REMEDY}") from error


def lock_stack(folder: Path, framework: str, python: str, date: str, *, replaces_lock: bool) -> str:
    """Write the lock of a framework's stack, and return a note for the user.

    Args:
        folder: The folder for the lock, among the baselines.
        framework: The framework of the stack.
        python: The interpreter that has the stack.
        date: The day of the session.
        replaces_lock: Whether to replace an existing lock.

    Returns:
        A note on the new lock, or on the reason why the stack cannot be locked, such as a package
        that no index has. The note is empty if the lock stays as it is.

    Raises:
        OSError: The file cannot be written.

    """
    path = folder / f"pylock.{framework}.toml"
    if path.exists() and not replaces_lock:
        return ""
    try:
        before = storage.read(path).decode(errors="replace") if path.exists() else ""
        text = _lock_text(framework, python, date)
    except storage.InputError as error:
        return f"{framework}: its stack is not locked as a reference: {path} {error}"
    except ValueError as error:
        return f"{framework}: its stack is not locked as a reference: {error}"
    if not text or _DATE_LINE.sub("", before) == _DATE_LINE.sub("", text):
        return ""
    storage.write(path, text)
    packages = plural(text.count("[[packages]]"), "package")
    return f"{framework}: its stack is the reference now, {packages} in {path}"


def _lock_text(framework: str, python: str, date: str) -> str:
    """Return the text of the lock of a framework's stack, as `python` has it on the day `date`.

    Returns an empty text for a scripted framework that is not installed as a package. Raises
    StackError if the stack cannot be installed again from an index of packages, or if an installed
    file was changed.
    """
    interpreter = read_interpreter(python)
    stack = interpreter.find_stack(FRAMEWORKS[framework].packages)
    if not stack and FRAMEWORKS[framework].is_scripted:
        return ""
    problems = [
        f"{name} replaces a library" for name in variables.LIBRARY_VARIABLES if name in os.environ
    ]
    problems += [f"{name} {text}" for name in stack if (text := reason_not_lockable(stack[name]))]
    problems += [] if stack else [f"it is no package of {python}"]
    if problems:
        raise StackError(f"{problems[0]}; expected packages as an index has them")
    tables: dict[str, Mapping[str, str]] = {
        "tool.busbw": {"python": interpreter.version, "date": date},
        "tool.busbw.flags": variables.stack_variables(os.environ, os.path.expanduser("~")),
        "tool.busbw.records": {name: hash_of_files(stack[name]) for name in stack},
    }
    pins = [f"{name}=={stack[name].version}" for name in stack]
    packages = uv.resolve_requirements(pins, python, "--no-deps", *uv.PYLOCK)
    return packages + "".join(f"\n[{name}]\n{_toml_lines(table)}" for name, table in tables.items())


def _toml_lines(table: Mapping[str, str]) -> str:
    """Return `table` as lines of TOML.

    Values are written as JSON strings, which are valid TOML strings if they contain no control
    characters.
    """
    return "".join(
        f"{name} = {json.dumps(wire.escape_unprintable(text), ensure_ascii=False)}\n"
        for name, text in table.items()
    )
