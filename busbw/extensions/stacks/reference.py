"""Read the packages of a stack, write its lock with the baselines, and build it from the lock.

A lock is the file ``pylock.FRAMEWORK.toml`` in the folder of a machine's baselines. Its table
``tool.busbw`` has the values for which the format of PEP 751 has no place. The command `busbw
stack` lists the locks.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from busbw import storage, wire
from busbw.cli import Subparsers, add_command, command_error
from busbw.frameworks import FRAMEWORKS
from busbw.model import variables
from busbw.model.field_types import Date
from busbw.model.words import plural
from busbw.session.option import UsageError, parse_path
from busbw.session.options import LockedStack

from . import uv
from .uv import StackError, run_command

_DATE_LINE_PATTERN = re.compile("^date = .*$", re.MULTILINE)
_REMEDY = "--update-baselines locks the stack that it accepts"


def add_to(commands: Subparsers) -> None:
    """Add the command `stack` and its options to `commands`."""
    parser = add_command(
        commands,
        "stack",
        run,
        help="List locked reference stacks",
        description="List reference stacks. busbw run --update-baselines locks the Python, "
        "packages and flags that it measured; --against=baseline builds that environment again "
        "with uv, and keeps it in a cache.",
        example="busbw stack",
    )
    parser.add_argument(
        "--baselines",
        type=parse_path,
        default=Path("baselines"),
        metavar="DIR",
        help="Read the locks beside the baselines in DIR (default: baselines)",
    )


def run(options: argparse.Namespace) -> int:
    """Print a line for each lock in the folder of baselines, and return the exit code 0.

    Raises UsageError if the folder does not exist.
    """
    if not options.baselines.is_dir():
        raise UsageError(f"--baselines: there is no folder {options.baselines}")
    paths = sorted(options.baselines.glob("*/*/pylock.*.toml"))
    if not paths:
        print("no stack is locked: busbw run --update-baselines locks what it measures")
    for path in paths:
        with command_error(StackError):
            stack = read_lock(path)
        print(
            f"{stack.digest}  {path}: Python {stack.python}, "
            f"{plural(len(stack.records), 'package')}, locked {stack.date}"
        )
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StackLock:
    """The values of busbw in a lock, which is a file from which a stack can be built again.

    Attributes:
        python: The version of the interpreter that was measured, such as ``3.12.4``.
        date: The day on which the stack was locked.
        flags: The values of the environment variables that configured the stack, by variable.
        records: A hash over the installed files of each package, by the name of the package.
        hashes: All SHA-256 hashes in the lock, sorted, including the hashes of the wheels.

    """

    python: str
    date: Date
    flags: Mapping[str, str]
    records: Mapping[str, str]
    hashes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The name of the stack: a hash of `python`, `flags`, `hashes`, 16 hexadecimal digits."""
        text = json.dumps([self.python, dict(self.flags), self.hashes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_lock(path: Path) -> StackLock:
    """Read the values of busbw in the lock at `path`; only uv reads the packages in the lock.

    Raises StackError if the file cannot be read or is not a valid lock.
    """
    try:
        text = storage.read(path).decode()
        table = tomllib.loads(text).get("tool", {}).get("busbw", {})
        hashes = sorted(re.findall(r"\b[0-9a-f]{64}\b", text))
        return wire.from_json(StackLock, {**table, "hashes": hashes}, "tool.busbw")
    except (ValueError, TypeError) as error:
        raise StackError(f"{path}: {wire.escape_unprintable(str(error))}; {_REMEDY}") from error


def build_stack(
    folder: Path, framework: str, python: str, cache: Path, report: Callable[[str], None]
) -> LockedStack:
    """Build the stack of a lock, unless the stack is built already, and check its files.

    Args:
        folder: The folder with the lock, among the baselines.
        framework: The framework of the stack.
        python: The path of the interpreter to build with, if its minor version is the locked minor
            version. Otherwise uv looks for an interpreter of the locked minor version.
        cache: The cache folder of busbw, in which stacks are built.
        report: A function that is called with a sentence before the stack is built.

    Raises:
        StackError: The lock cannot be read, the stack cannot be built, or its files differ from
            the files that were measured.

    """
    path = folder / f"pylock.{framework}.toml"
    stack = read_lock(path)
    report(f"busbw reference: {framework} of {stack.date}, stack {stack.digest}")
    locked_minor_version, built = minor_version(stack.python), cache / "stacks" / stack.digest
    base = (
        python
        if minor_version(read_interpreter(python).version) == locked_minor_version
        else locked_minor_version
    )
    # uv may link files of its cache into environments. An edit of such a file in another
    # environment would also change this stack, so the files are copied.
    uv.build_once(
        built, lambda new: uv.install_packages(new, path.read_text(), base, "--link-mode=copy")
    )
    _check_files(built, stack)
    return LockedStack(python=f"{built}/bin/python", digest=stack.digest, flags=stack.flags)


def _check_files(folder: Path, stack: StackLock) -> None:
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
        python: The path of the interpreter that has the stack.
        date: The day of the session, such as ``2026-11-20``.
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
        with storage.reraise_as(StackError, storage.InputError, where=f"{path} "):
            before = storage.read(path).decode(errors="replace") if path.exists() else ""
        text = _lock_text(framework, python, date)
    except ValueError as error:
        return f"{framework}: its stack is not locked as a reference: {error}"
    if not text or _DATE_LINE_PATTERN.sub("", before) == _DATE_LINE_PATTERN.sub("", text):
        return ""
    storage.write(path, text)
    packages = plural(text.count("[[packages]]"), "package")
    return f"{framework}: its stack is the reference now, {packages} in {path}"


def _lock_text(framework: str, python: str, date: str) -> str:
    """Return the text of the lock of a framework's stack in the interpreter `python`.

    `date` is the day of the session. The text is empty for a scripted framework that is not
    installed as a package. Raises StackError if the stack cannot be installed again from an index
    of packages, or if an installed file was changed.
    """
    interpreter = read_interpreter(python)
    stack = interpreter.find_required_packages(FRAMEWORKS[framework].packages)
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
    packages = uv.resolve_requirements(pins, python, "--no-deps", *uv.PYLOCK_OPTIONS)
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


_DESCRIBE_CODE = (
    "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"
)

# The installer writes or changes these files, or the files are outside the folder of packages, so
# they can differ from the files of the wheel.
_INSTALLER_FILE_PATTERN = re.compile(
    r"\.\./|/|.*\.pyc$"
    r"|[^/]*\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json|uv_cache\.json)$"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """An interpreter on this machine, and its installed packages.

    Attributes:
        version: The version of the interpreter, such as ``3.12.4``.
        distributions: The packages that the interpreter would import, by normalized name.

    """

    version: str
    distributions: Mapping[str, Distribution]

    def find_required_packages(self, names: Sequence[str]) -> dict[str, Distribution]:
        """Return the installed packages `names` and all packages that these need, by name.

        The packages of an extra (a group of optional requirements) belong to the stack if all
        packages of the extra are installed. Extras matter, because JAX's plugins for chips are
        extras of JAX, and CUDA's libraries are extras of these plugins.
        """
        stack: dict[str, Distribution] = {}
        candidates = list(names)
        while candidates:
            name = candidates.pop()
            if name in self.distributions and name not in stack:
                stack[name] = self.distributions[name]
                candidates += self._required_names(stack[name])
        return dict(sorted(stack.items()))

    def _required_names(self, distribution: Distribution) -> Iterator[str]:
        """Yield the names of packages that a package requires, by itself or for an extra.

        The requirements of an extra count only if all of its packages are installed.
        """
        requirements = [Requirement(text) for text in distribution.requires or ()]
        for extra in ("", *(distribution.metadata.get_all("Provides-Extra") or ())):
            environment = {"python_version": minor_version(self.version), "extra": extra}
            needed = {
                canonicalize_name(requirement.name)
                for requirement in requirements
                if not requirement.marker or requirement.marker.evaluate(environment)
            }
            if not extra or needed <= self.distributions.keys():
                yield from needed


def minor_version(version: str) -> str:
    """Return the minor version of a version of Python, such as ``3.12`` for ``3.12.4``."""
    return version.rpartition(".")[0]


def read_interpreter(python: str) -> Interpreter:
    """Read the version and the packages of the interpreter at the path `python`.

    Raises StackError if the interpreter cannot be started.
    """
    version, folders = json.loads(run_command([python, "-I", "-c", _DESCRIBE_CODE]))
    return Interpreter(
        version=version,
        # If several distributions have the same name, Python imports the first of them.
        distributions={
            canonicalize_name(distribution.name): distribution
            for distribution in reversed(list(distributions(path=folders)))
            if distribution.metadata["Name"]
        },
    )


def hash_of_files(distribution: Distribution) -> str:
    """Return a SHA-256 hash over the files that the wheel of an installed package brought.

    The hash covers the names and the contents of the files. The text is empty if the package has no
    record of its files. Raises StackError if a file was changed after the installation.
    """
    lines = []
    record = distribution.read_text("RECORD") or ""
    for name, recorded, *_ in csv.reader(filter(None, record.splitlines())):
        if recorded and not _INSTALLER_FILE_PATTERN.match(name):
            path = Path(str(distribution.locate_file(name)))
            if not path.is_file() or recorded != _hash_in_record_format(
                path, recorded.partition("=")[0]
            ):
                raise StackError(f"{path} is not the file of its wheel")
            lines.append(f"{name},{recorded}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _hash_in_record_format(path: Path, algorithm: str) -> str:
    """Return the hash of a file in the form of a RECORD, such as ``sha256=47DEQpj8HBSa``."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def reason_not_lockable(distribution: Distribution) -> str:
    """Return the reason why a package cannot be installed again from an index of packages.

    The reason is the end of a sentence, such as ``was installed from URL``. The reason is empty if
    the package can perhaps be installed again.
    """
    if origin := distribution.read_text("direct_url.json"):
        return f"was installed from {wire.escape_unprintable(str(json.loads(origin).get('url')))}"
    return "" if distribution.read_text("RECORD") else "has no record of its files"
