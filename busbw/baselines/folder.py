"""The folder of baselines as somebody names it: what it must be before anything is measured.

Looks at names and permissions; opens no file and makes none. Raises BaselineError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from busbw import writing
from busbw.model import Case, EnvironmentKey

from . import files
from .compiled import COMPILED
from .document import BaselineError
from .timed import TIMED


def check_folder(
    root: Path, *, may_be_missing: bool = False, is_written: bool = False, hint: str = ""
) -> None:
    """Raise BaselineError unless `root` is a folder that can be read, and written if that is asked.

    One that may be missing is made when the first baseline is written; else `hint` says what helps.
    """
    if files.there(root):
        if not root.is_dir():
            raise BaselineError(f"{root} is no folder; accepted is one")
        if not os.access(root, os.R_OK | os.X_OK):
            raise BaselineError(f"{root}: no permission to read it")
    elif not may_be_missing:
        raise BaselineError(f"there is no folder {root}{hint}")
    if is_written:
        _check_writable(root)


def check_writable(
    root: Path, cases: Iterable[tuple[EnvironmentKey, Case]], *, compiled: bool = False
) -> None:
    """Raise BaselineError unless the file of each case can be written, or made."""
    below = COMPILED.folder if compiled else TIMED.folder
    for path in dict.fromkeys(files.path_of(root, key, case, below) for key, case in cases):
        _check_writable(path.parent)
        if files.there(path) and not os.access(path, os.W_OK):
            raise BaselineError(f"{path} cannot be written: no permission")


def _check_writable(folder: Path) -> None:
    try:
        writing.check_folder(folder)
    except writing.Refused as error:
        raise BaselineError(str(error)) from error
