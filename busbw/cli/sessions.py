"""The sessions and histories that commands show, read from the files that options name."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from busbw import storage
from busbw.history.files import HistoryError, machine_folders, read_acknowledged, read_all_machines
from busbw.history.levels import MachineHistory, machine_history
from busbw.judge.policy import POLICIES
from busbw.report.reading import DocumentError, Session, SessionRecord, read_results
from busbw.session.errors import UsageError, usage_error


def read_session(path: Path) -> SessionRecord:
    """Read the session in a file of `--results`. Raises UsageError."""
    with usage_error(DocumentError), usage_error(storage.InputError, where=f"{path}: "):
        return read_results(storage.read(path), str(path))


def read_machines(
    root: Path, baselines: Path, names: Collection[str] | None = None
) -> list[MachineHistory]:
    """Read the machines of the history `root`, or those whose folders are `names`.

    The folder `baselines` has the file that says which changes are accepted. Raises HistoryError.
    """
    known_changes = read_acknowledged(baselines)
    return [
        machine_history(
            name,
            lines,
            merge_within=POLICIES[lines[-1].device].session_merge_time,
            acknowledged=known_changes,
        )
        for name, lines in read_all_machines(root).items()
        if lines and (names is None or name in names)
    ]


def select_machines(
    root: Path | None,
    baselines: Path,
    *,
    name: str | None = None,
    sessions: Iterable[SessionRecord] = (),
) -> Sequence[MachineHistory]:
    """Return the machine `name`, else the machines of `sessions`, else all of the history `root`.

    `baselines` says which changes are accepted. Raises UsageError if there is no machine. If
    the history only lacks the machines of `sessions`, a note says so.
    """
    if root is None and name:
        raise UsageError("--machine: expected --history=DIR with it")
    if root is None:
        return ()
    of_sessions = (session.folders for session in sessions if isinstance(session, Session))
    names = {name} if name else set(itertools.chain(*of_sessions))
    with usage_error(HistoryError):
        machines = read_machines(root, baselines, names or None)
        present = ", ".join(machine_folders(root)) or "nothing"
    text = f"{root} has no {', '.join(sorted(names)) or 'sessions'}; it has {present}"
    if not machines and (name or not names):
        raise UsageError(f"--machine: {text}" if name else text)
    if not machines:
        print(f"note: {text}", file=sys.stderr)
    return machines
