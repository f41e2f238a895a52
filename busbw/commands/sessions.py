"""The sessions and histories that commands show, read from the files that options name."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from busbw import storage
from busbw.history.files import HistoryError, folders
from busbw.history.levels import MachineHistory
from busbw.report.reading import DocumentError, Session, SessionRecord, read_results
from busbw.session.histories import read_machines

from . import UsageError, usage_error


def session_in(path: Path) -> SessionRecord:
    """Read the session in a file of `--results`. Raises UsageError."""
    with usage_error(DocumentError), usage_error(storage.InputError, where=f"{path}: "):
        return read_results(storage.read(path), str(path))


def machines_in(
    root: Path | None,
    baselines: Path,
    *,
    named: str | None = None,
    of: Iterable[SessionRecord] = (),
) -> Sequence[MachineHistory]:
    """Return the `named` machine, else those of the sessions `of`, else all of the history.

    `baselines` says which changes are accepted. Raises UsageError where there is none; where it
    only lacks those of sessions, as before their first one, that is said.
    """
    if root is None:
        return ()
    of_sessions = (one.folders for one in of if isinstance(one, Session))
    wanted = {named} if named else set(itertools.chain(*of_sessions))
    with usage_error(HistoryError, where="--history: "):
        found = read_machines(root, baselines, wanted or None)
        known = ", ".join(folders(root)) or "nothing"
    text = f"{root} has no {', '.join(sorted(wanted)) or 'sessions'}; it has {known}"
    if not found and (named or not wanted):
        raise UsageError(f"--{'machine' if named else 'history'}: {text}")
    if not found:
        print(f"note: --history: {text}", file=sys.stderr)
    return found
