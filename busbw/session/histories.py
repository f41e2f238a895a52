"""The histories of machines, read with the changes that somebody accepted."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from busbw.history.files import acknowledged, read_all
from busbw.history.levels import MachineHistory, machine_history
from busbw.judge.policy import POLICIES


def read_machines(
    root: Path, baselines: Path, folders: Collection[str] | None = None
) -> list[MachineHistory]:
    """Read the machines of the history `root`, or those whose folders are named.

    The folder `baselines` has the file that says which changes are accepted. Raises HistoryError.
    """
    known_changes = acknowledged(baselines)
    return [
        machine_history(
            folder,
            lines,
            apart=POLICIES[lines[-1].device].session_apart,
            acknowledged=known_changes,
        )
        for folder, lines in read_all(root).items()
        if lines and (folders is None or folder in folders)
    ]
