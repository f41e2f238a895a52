"""The folder of baselines: paths of files, one writer at a time, each file written at the end.

`document` reads and writes the content of a file. Files are read under a lock, changed in memory
and written at the end, each once, so that one session may update and prune. The lock excludes other
sessions on this machine. It does not exclude an editor, a checkout or a session on another host
that mounts the same folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from busbw import storage
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey

from .document import BaselineError, BaselineFile, StoredFile, dumps, read

# The name that `storage.write` gives a file before the file replaces another one.
_HALF_WRITTEN = f"*.{'[0-9a-f]' * 8}.new"


def path_of(root: Path, key: EnvironmentKey, case: Case) -> Path:
    """Return the path of the file of `case` on `key` below `root`."""
    return root / key.folder / case.file_name


def exists(path: Path) -> bool:
    """Return whether `path` exists. Raises BaselineError if that cannot be determined."""
    try:
        path.stat()
    except FileNotFoundError:
        with storage.raised_as(BaselineError, storage.InputError):
            storage.check_no_dangling_link(path)
        return False
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    return True


def read_stored(path: Path, key: EnvironmentKey, case: Case) -> BaselineFile | None:
    """Read the file `path`; None if there is no file.

    Raises BaselineError for a bad file, and for a file of another case or environment.
    """
    if not exists(path):
        return None
    file = read(path)
    check_place(path, file, key, case)
    return file


def check_place(path: Path, file: StoredFile, key: EnvironmentKey, case: Case) -> None:
    """Raise BaselineError for a file that is about another environment or kind of case."""
    names = (file.framework, file.collective, file.strategy)
    if file.environment != key or names != (case.framework, case.collective, case.strategy):
        # Folders of different keys may have the same name.
        actual, expected = (f"{k.device_kind} in {k.folder}" for k in (file.environment, key))
        raise BaselineError(
            f"{path}: document.environment: the file says {actual} and {'.'.join(names)}, its "
            f"place says {expected} and {case.file_name}"
        )


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Make the folder and lock it, so that it has one writer. Raises BaselineError."""
    where = f"{root}: it cannot be locked for writing: "
    with storage.raised_as(BaselineError, storage.LockedError, OSError, where=where):
        lock = storage.folder_lock(root)
    with lock:
        yield


def check_folder(
    root: Path, *, may_be_missing: bool = False, is_written: bool = False, hint: str = ""
) -> None:
    """Raise BaselineError unless `root` is a folder that can be read.

    With `is_written` raise OutputError unless it can be written. A folder that `may_be_missing`
    is made when the first baseline is written; otherwise the message ends with `hint`.
    """
    if exists(root):
        if not root.is_dir():
            raise BaselineError(f"{root}: expected a folder, got something else")
        if not os.access(root, os.R_OK | os.X_OK):
            raise BaselineError(f"{root}: no permission to read it")
    elif not may_be_missing:
        raise BaselineError(f"there is no folder {root}{hint}")
    if is_written:
        storage.check_folder(root)


def check_writable(root: Path, cases: Iterable[tuple[EnvironmentKey, Case]]) -> None:
    """Raise BaselineError or OutputError unless the file of each case can be written or created."""
    for path in dict.fromkeys(path_of(root, key, case) for key, case in cases):
        storage.check_folder(path.parent)
        if exists(path) and not os.access(path, os.W_OK):
            raise BaselineError(f"{path} cannot be written: no permission")


class Draft:
    """The opened files of a baselines folder, with the changes to them in memory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, BaselineFile | None] = {}
        self._changed: dict[Path, None] = {}

    def find(self, key: EnvironmentKey, case: Case) -> tuple[Path, BaselineFile | None]:
        """Return the path of the file of `case` on `key`, and its content; None without a file.

        Raises BaselineError for a bad file.
        """
        path = path_of(self._root, key, case)
        if path not in self._files:
            self._files[path] = read_stored(path, key, case)
        return path, self._files[path]

    def put(self, path: Path, file: BaselineFile) -> None:
        """Write `file` to `path` at the end; without baselines, the file is removed."""
        self._files[path] = file if file.baselines else None
        self._changed[path] = None

    def write(self) -> None:
        """Write every file that changed."""
        if self._changed:
            tidy_up(self._root)
        for path in self._changed:
            if file := self._files[path]:
                storage.write(path, dumps(file))
            else:
                path.unlink(missing_ok=True)


def tidy_up(root: Path) -> None:
    """Remove half-written files of killed writers: under the lock no other writer is alive."""
    for path in root.rglob(_HALF_WRITTEN):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def drafted(root: Path) -> Iterator[Draft]:
    """Open a Draft of the files in the folder `root`; write it at the end, unless it raises.

    Other sessions wait meanwhile. Raises OSError if a file cannot be written, and BaselineError if
    another session holds the lock for too long.
    """
    with locked(root):
        draft = Draft(root)
        yield draft
        draft.write()
