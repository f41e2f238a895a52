"""Lock the stack of a session, build it from its lock, and judge the machine by it.

A lock is the file ``pylock.FRAMEWORK.toml`` in the folder of a machine's baselines. Its table
``tool.busbw`` has the values for which the format of PEP 751 has no place. The command `busbw
stack` lists the locks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import storage, wire
from busbw.cli import Subparsers, add_command, command_error
from busbw.driver.bundle import worker_hash
from busbw.frameworks import FRAMEWORKS
from busbw.history.files import HistoryError, SeriesKey, comparable_sessions, read_machine_lines
from busbw.judge.levels import EarlierSessions, find_lasting_losses, lasting_losses_text
from busbw.judge.policy import Policy
from busbw.judge.session import slower_framework_text
from busbw.model import variables
from busbw.model.stored import StoredSession, merge_sessions
from busbw.model.verdict import SessionVerdict
from busbw.model.words import SessionOutcome, plural
from busbw.session.judge import present_session_by_key
from busbw.session.option import as_usage_error, parse_path
from busbw.session.options import LockedStack
from busbw.session.state import MeasuredSession

from .environments import (
    PYLOCK_OPTIONS,
    StackError,
    build_once,
    find_required_packages,
    hash_of_files,
    install_packages,
    read_interpreter,
    resolve_requirements,
)


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

    Raises CommandError if a lock cannot be read.
    """
    paths = sorted(options.baselines.glob("*/*/pylock.*.toml"))
    if not paths:
        print(f"{options.baselines} has no locked stack: busbw run --update-baselines locks stacks")
    for path in paths:
        with command_error(StackError):
            stack = read_lock(path)
        print(
            f"{stack.digest}  {path}: Python {stack.python}, "
            f"{plural(len(stack.records), 'package')}, locked {stack.date}"
        )
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StackLockMetadata:
    """The values of busbw in a lock, which is a file from which a stack can be built again.

    Attributes:
        digest: The name of the stack: a hash of the lock, 16 hexadecimal digits.
        python: The version of the interpreter that was measured, such as ``3.12.4``.
        date: The day on which the stack was locked.
        flags: The values of the environment variables that configured the stack, by variable.
        records: A hash over the installed files of each package, by the name of the package.

    """

    digest: str
    python: str
    date: str
    flags: Mapping[str, str]
    records: Mapping[str, str]


def read_lock(path: Path) -> StackLockMetadata:
    """Read the values of busbw in the lock at `path`; only uv reads the packages in the lock.

    Raises StackError if the file cannot be read or is not a valid lock.
    """
    where = f"expected a lock, which --update-baselines writes: {path}: "
    with storage.reraise_as(StackError, ValueError, TypeError, where=where):
        content = storage.read(path)
        values = tomllib.loads(content.decode()).get("tool", {}).get("busbw", {})
        digest = hashlib.sha256(content).hexdigest()[:16]
        return wire.from_json(StackLockMetadata, {**values, "digest": digest}, "tool.busbw")


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
    built, minor_version = cache / "stacks" / stack.digest, stack.python.rpartition(".")[0]
    version, _ = read_interpreter(python)
    base = python if version.startswith(f"{minor_version}.") else minor_version
    # uv may link files of its cache into environments. An edit of such a file in another
    # environment would also change this stack, so the files are copied.
    build_once(built, lambda new: install_packages(new, path.read_text(), base, "--link-mode=copy"))
    with storage.reraise_as(StackError, StackError, where=f"delete {built} and try again: "):
        _, installed = read_interpreter(f"{built}/bin/python")
        records = {name: hash_of_files(package) for name, package in installed.items()}
        if different := records.items() ^ stack.records.items():
            raise StackError(f"{min(different)[0]} has other files than the locked package")
    return LockedStack(python=f"{built}/bin/python", digest=stack.digest, flags=stack.flags)


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
        before = storage.read(path).decode(errors="replace") if path.exists() else ""
        text = _lock_text_without_date(framework, python)
    except ValueError as error:
        return f"{framework}: its stack is not locked in {path}: {error}"
    # A stack that was locked on an earlier day keeps its date.
    if before.startswith(text):
        return ""
    storage.write(path, f'{text}date = "{date}"\n')
    return f"{framework}: its stack is the reference now: {path}"


def _lock_text_without_date(framework: str, python: str) -> str:
    """Return the lock of a framework's stack in the interpreter `python`, up to the line of a date.

    The text is empty for a framework that is not installed as a package. Raises StackError if the
    stack cannot be installed again from an index of packages, or if an installed file was changed.
    """
    version, installed = read_interpreter(python)
    stack = find_required_packages(FRAMEWORKS[framework].packages, version, installed)
    if not stack:
        return ""
    if replaced := os.environ.keys() & set(variables.LIBRARY_VARIABLES):
        raise StackError(f"{', '.join(replaced)} replaces a library; expected that of a package")
    tables: dict[str, Mapping[str, str]] = {
        "tool.busbw.flags": variables.stack_variables(os.environ, os.path.expanduser("~")),
        "tool.busbw.records": {name: hash_of_files(stack[name]) for name in stack},
        "tool.busbw": {"python": version},
    }
    pins = [f"{name}=={stack[name].version}" for name in stack]
    packages = resolve_requirements(pins, python, "--no-deps", *PYLOCK_OPTIONS)
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


def add_reference_judgements(
    measured_session: MeasuredSession, verdict: SessionVerdict
) -> SessionVerdict:
    """Return the session's `verdict`, with the judgement on the machine added.

    The verdicts on the cases judge the present stack, and the locked stacks judge the machine: if a
    locked stack is slower than in earlier sessions, the machine is slower, and the outcome
    MACHINE_SHIFT is added. The verdict is unchanged if the session measured no locked stack. Raises
    UsageError if the history cannot be read.
    """
    options = measured_session.options
    for framework, stack in options.stacks.items():
        series = SeriesKey(framework=framework, stack=stack.digest, is_reference=True)
        for key, session in present_session_by_key(
            measured_session, measured_session.references
        ).items():
            with as_usage_error(HistoryError):
                lines = read_machine_lines(options.history / key.folder) if options.history else ()
            # Sessions that other code of workers measured cannot be compared with this session.
            earlier = comparable_sessions(
                (line for line in lines if line.worker == worker_hash()), series
            )
            text, is_slower = judge_reference(framework, earlier, session, measured_session.policy)
            verdict = (
                verdict.with_failure(SessionOutcome.MACHINE_SHIFT, text)
                if is_slower
                else replace(verdict, text=f"{verdict.text}; {text}")
            )
    return verdict


def judge_reference(
    framework: str, earlier: Sequence[StoredSession], present: StoredSession, policy: Policy
) -> tuple[str, bool]:
    """Judge by a locked stack whether a machine is slower than in earlier sessions.

    Args:
        framework: The framework of the locked stack.
        earlier: The earlier sessions of the locked stack, oldest first.
        present: The times of all locked stacks in the present session.
        policy: The thresholds of the judging rules.

    Returns:
        A text on the machine, and whether the machine is slower: the cases of the locked stack
        together are slower, or a case has been slower over several sessions. The text says
        ``unknown`` if too few cases have earlier times to judge all cases together.

    """
    sessions = merge_sessions(earlier, policy.session_merge_time)
    cases = frozenset(case for session in sessions for case in session.records)
    assessment = EarlierSessions(sessions=sessions, cases=cases).assess_session(
        present.times_s, policy
    )
    losses = lasting_losses_text(find_lasting_losses(sessions, present, assessment))
    count, least = len(assessment.limits), policy.rule.min_shared_case_count
    text, is_slower = f"unknown from fewer than {least} cases of {framework}", bool(losses)
    if count >= least:
        text = slower_framework_text(framework, count, assessment.shared_parts[framework])
        is_slower |= framework in assessment.slower_frameworks
    sessions_text = f"compared with {plural(len(sessions), 'earlier session')} in --history"
    return "; ".join(filter(None, (f"the machine: {text}, {sessions_text}", losses))), is_slower
