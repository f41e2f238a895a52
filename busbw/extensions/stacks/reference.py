"""Lock the stack of a session, build a locked stack again, and judge the machine by its times.

A lock is the file ``pylock.FRAMEWORK.toml`` in the folder of a machine's baselines. The table
``tool.busbw`` of the file has the values for which the format of PEP 751 has no place. The command
`busbw stack` lists the locks.
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
from busbw.session.judge import todays_session_by_key
from busbw.session.option import as_usage_error, parse_path
from busbw.session.options import LockedStack
from busbw.session.state import MeasuredSession

from .environments import (
    PYLOCK_OPTIONS,
    StackError,
    build_once,
    find_required_packages,
    hash_of_package_files,
    install_packages,
    read_version_and_packages,
    resolve_requirements,
)


def add_subcommand(commands: Subparsers) -> None:
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
    """The values that busbw adds to a lock, the file from which a stack can be built again.

    Attributes:
        digest: A hash of the lock, 16 hexadecimal digits, which serves as the name of the stack.
        python: The version of the interpreter that was measured, such as ``3.12.4``.
        date: The day on which the stack was locked.
        flags: Maps the names of the environment variables that configured the stack to their
            values.
        records: Maps the name of each package to a hash over its installed files.

    """

    digest: str
    python: str
    date: str
    flags: Mapping[str, str]
    records: Mapping[str, str]


def read_lock(path: Path) -> StackLockMetadata:
    """Return the values that busbw added to the lock at `path`.

    The packages in the lock are not read, because only uv needs them. Raises StackError if the file
    cannot be read or is not a valid lock.
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
    """Build a locked stack, unless it is built already, check its files, and return the stack.

    Args:
        folder: The folder with the lock, among the baselines.
        framework: The framework of the stack.
        python: The path of an interpreter. If its minor version, such as 3.12, is that of the lock,
            the stack is built with it. Otherwise uv looks for an interpreter of that version.
        cache: The cache folder of busbw, in which stacks are built.
        report: A function that shows the user a line, and is called before the stack is built.

    Raises:
        StackError: The lock cannot be read, the stack cannot be built, or its files differ from
            the files that were measured.

    """
    path = folder / f"pylock.{framework}.toml"
    stack = read_lock(path)
    report(f"busbw reference: {framework} of {stack.date}, stack {stack.digest}")
    built, minor_version = cache / "stacks" / stack.digest, stack.python.rpartition(".")[0]
    version, _ = read_version_and_packages(python)
    base = python if version.startswith(f"{minor_version}.") else minor_version
    # uv may link files of its cache into environments. An edit of such a file in another
    # environment would also change this stack, so the files are copied.
    build_once(built, lambda new: install_packages(new, path.read_text(), base, "--link-mode=copy"))
    with storage.reraise_as(StackError, StackError, where=f"delete {built} and try again: "):
        _, installed = read_version_and_packages(f"{built}/bin/python")
        records = {name: hash_of_package_files(package) for name, package in installed.items()}
        if different := records.items() ^ stack.records.items():
            raise StackError(f"{min(different)[0]} has other files than the locked package")
    return LockedStack(python=f"{built}/bin/python", digest=stack.digest, flags=stack.flags)


def lock_stack(folder: Path, framework: str, python: str, date: str, *, replaces_lock: bool) -> str:
    """Write a lock for the stack of a framework, and return a note for the user.

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
    """Return the text of the lock of a framework's stack, without the last line, which has a date.

    `python` is the path of the interpreter that has the stack. The text is empty if the framework
    is not an installed package. Raises StackError if the stack cannot be installed again from an
    index of packages, or if an installed file was changed.
    """
    version, installed = read_version_and_packages(python)
    stack = find_required_packages(FRAMEWORKS[framework].packages, version, installed)
    if not stack:
        return ""
    if replaced := os.environ.keys() & set(variables.LIBRARY_VARIABLES):
        raise StackError(f"{', '.join(replaced)} replaces a library; expected that of a package")
    tables: dict[str, Mapping[str, str]] = {
        "tool.busbw.flags": variables.stack_variables(os.environ, os.path.expanduser("~")),
        "tool.busbw.records": {name: hash_of_package_files(stack[name]) for name in stack},
        "tool.busbw": {"python": version},
    }
    pins = [f"{name}=={stack[name].version}" for name in stack]
    packages = resolve_requirements(pins, python, "--no-deps", *PYLOCK_OPTIONS)
    return packages + "".join(f"\n[{name}]\n{_toml_lines(table)}" for name, table in tables.items())


def _toml_lines(table: Mapping[str, str]) -> str:
    """Return `table` as lines of TOML, such as ``python = "3.12.4"``.

    Values are written as JSON strings. These are valid strings of TOML, too, because control
    characters are escaped.
    """
    return "".join(
        f"{name} = {json.dumps(wire.escape_unprintable(text), ensure_ascii=False)}\n"
        for name, text in table.items()
    )


def add_machine_judgements(
    measured_session: MeasuredSession, verdict: SessionVerdict
) -> SessionVerdict:
    """Return the session's `verdict` with a text on whether the machine became slower.

    The software of a locked stack never changes. So if a locked stack is slower than in earlier
    sessions, the machine is slower, and the outcome MACHINE_SHIFT is added. The verdict is returned
    unchanged if the session measured no locked stack. Raises UsageError if the history cannot be
    read.
    """
    options = measured_session.options
    for framework, stack in options.stacks.items():
        series = SeriesKey(framework=framework, stack=stack.digest, is_reference=True)
        for key, session in todays_session_by_key(
            measured_session, measured_session.references
        ).items():
            with as_usage_error(HistoryError):
                lines = read_machine_lines(options.history / key.folder) if options.history else ()
            # Sessions that other code of workers measured cannot be compared with this session.
            earlier = comparable_sessions(
                (line for line in lines if line.worker == worker_hash()), series
            )
            text, is_slower = judge_machine(framework, earlier, session, measured_session.policy)
            verdict = (
                verdict.with_failure(SessionOutcome.MACHINE_SHIFT, text)
                if is_slower
                else replace(verdict, text=f"{verdict.text}; {text}")
            )
    return verdict


def judge_machine(
    framework: str,
    earlier_sessions: Sequence[StoredSession],
    present_session: StoredSession,
    policy: Policy,
) -> tuple[str, bool]:
    """Judge by the times of a locked stack whether the machine is slower than in earlier sessions.

    The machine is slower if all cases of the locked stack together are slower, or if a case has
    been slower over several sessions.

    Args:
        framework: The framework of the locked stack.
        earlier_sessions: The earlier sessions of the locked stack, oldest first.
        present_session: The present session, with the times of all locked stacks.
        policy: The thresholds of the judging rules.

    Returns:
        A text on the machine, and whether the machine is slower. The text says ``unknown`` if too
        few cases have times in earlier sessions.

    """
    sessions = merge_sessions(earlier_sessions, policy.session_merge_time)
    cases = frozenset(case for session in sessions for case in session.records)
    assessment = EarlierSessions(sessions=sessions, cases=cases).assess_session(
        present_session.times_s, policy
    )
    losses = lasting_losses_text(find_lasting_losses(sessions, present_session, assessment))
    count, least = len(assessment.limits), policy.rule.min_shared_case_count
    text, is_slower = f"unknown from fewer than {least} cases of {framework}", bool(losses)
    if count >= least:
        text = slower_framework_text(framework, count, assessment.shared_parts[framework])
        is_slower |= framework in assessment.slower_frameworks
    sessions_text = f"compared with {plural(len(sessions), 'earlier session')} in --history"
    return "; ".join(filter(None, (f"the machine: {text}, {sessions_text}", losses))), is_slower
