"""Read the sessions and histories that commands show from the files that options name."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from busbw import storage
from busbw.history.files import HistoryError, machine_folders, read_acknowledged, read_all_machines
from busbw.history.levels import MachineHistory, build_machine_history
from busbw.judge.policy import POLICIES
from busbw.report.reading import DocumentError, MeasuredSessionRecord, SessionRecord, read_results
from busbw.session.option import UsageError, usage_error


def read_session(path: Path) -> SessionRecord:
    """Read the session in a file of `--results`. Raises UsageError if the file is not valid."""
    with usage_error(DocumentError), usage_error(storage.InputError, where=f"{path}: "):
        return read_results(storage.read(path), str(path))


def read_machine_histories(
    root: Path, baselines: Path, names: Collection[str] | None = None
) -> list[MachineHistory]:
    """Read the history of each machine.

    Args:
        root: The folder of the history.
        baselines: The folder of the file that lists accepted changes.
        names: The folders of the machines to read, such as ``tpu-v5-lite/4r``; None for all.

    Raises:
        HistoryError: A file of the history, or the file of accepted changes, cannot be read.

    """
    known_changes = read_acknowledged(baselines)
    return [
        build_machine_history(
            name,
            lines,
            merge_within=POLICIES[lines[-1].device].session_merge_time,
            acknowledged_changes=known_changes,
        )
        for name, lines in read_all_machines(root).items()
        if lines and (names is None or name in names)
    ]


def select_machine_histories(
    root: Path | None,
    baselines: Path,
    *,
    name: str | None = None,
    sessions: Iterable[SessionRecord] = (),
) -> Sequence[MachineHistory]:
    """Return the histories of the machines that a command shows.

    Args:
        root: The folder of the history; None for no history.
        baselines: The folder of the file that lists accepted changes.
        name: The machine that --machine names; None for the machines of `sessions` or, without
            such sessions, for all machines.
        sessions: The sessions that the command shows.

    Returns:
        The histories. If the history lacks the machines of `sessions`, the list is empty, and a
        note on standard error says so.

    Raises:
        UsageError: The history cannot be read, is empty, or lacks the machine `name`, or there is
            a `name` without a history.

    """
    if root is None and name:
        raise UsageError("--machine: expected --history=DIR with it")
    if root is None:
        return ()
    of_sessions = (
        session.machine_folders
        for session in sessions
        if isinstance(session, MeasuredSessionRecord)
    )
    names = {name} if name else set(itertools.chain(*of_sessions))
    with usage_error(HistoryError):
        machines = read_machine_histories(root, baselines, names or None)
        present = ", ".join(machine_folders(root)) or "nothing"
    text = f"{root} has no {', '.join(sorted(names)) or 'sessions'}; it has {present}"
    if not machines and (name or not names):
        raise UsageError(f"--machine: {text}" if name else text)
    if not machines:
        print(f"note: {text}", file=sys.stderr)
    return machines
