"""The folder of baselines: the paths of its files, its lock, and changes that are not yet written.

`document` converts the content of a file. Files are read under a lock, changed in memory, and
written once at the end, so that a session can both update and prune a file. The lock excludes other
sessions on this machine. It does not exclude an editor, a checkout, or a session on another host
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

from .document import BaselineError, BaselineFile, StoredFile, baselines_text, read_baselines

# `storage.write` writes a file under a name of this pattern before it replaces the old file. A
# killed writer leaves such a file.
_HALF_WRITTEN = f"*.{'[0-9a-f]' * 8}.new"


def baseline_path(root: Path, key: EnvironmentKey, case: Case) -> Path:
    """Return the path of the baseline file of `case` on the machine `key`, below `root`."""
    return root / key.folder / case.file_name


def path_exists(path: Path) -> bool:
    """Return whether `path` exists. Raises BaselineError if that cannot be determined."""
    try:
        path.stat()
    except FileNotFoundError:
        with storage.reraise_as(BaselineError, storage.InputError):
            storage.check_no_dangling_link(path)
        return False
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    return True


def read_matching_file(path: Path, key: EnvironmentKey, case: Case) -> BaselineFile | None:
    """Read the baseline file `path`, which must be for the machine `key` and the kind of `case`.

    Returns None if there is no file. Raises BaselineError if the file is not valid, or is for
    another machine or kind of case.
    """
    if not path_exists(path):
        return None
    file = read_baselines(path)
    check_matches_path(path, file, key, case)
    return file


def check_matches_path(path: Path, file: StoredFile, key: EnvironmentKey, case: Case) -> None:
    """Raise BaselineError unless the content of `file` says that it is for `key` and `case`.

    The machine and the framework, collective and strategy are compared. `path` is the path of the
    file, which follows from `key` and `case`.
    """
    names = (file.framework, file.collective, file.strategy)
    if file.environment != key or names != (case.framework, case.collective, case.strategy):
        # Folders of different keys may have the same name.
        actual, expected = (f"{k.device_kind} in {k.folder}" for k in (file.environment, key))
        raise BaselineError(
            f"{path}: document.environment: the file says {actual} and {'.'.join(names)}, its "
            f"place says {expected} and {case.file_name}"
        )


@contextlib.contextmanager
def lock_for_writing(root: Path) -> Iterator[None]:
    """Create the baselines folder and lock it, so that only one session writes at a time.

    Raises BaselineError if the folder cannot be locked, or another session holds the lock for too
    long.
    """
    where = f"{root}: it cannot be locked for writing: "
    with storage.reraise_as(BaselineError, storage.LockedError, OSError, where=where):
        lock = storage.lock_folder(root)
    with lock:
        yield


def check_folder(
    root: Path, *, may_be_missing: bool = False, is_written: bool = False, missing_hint: str = ""
) -> None:
    """Raise BaselineError unless `root` is a folder that can be read.

    Args:
        root: The folder of baselines.
        may_be_missing: Whether the folder may be missing, because writing a baseline makes it.
        is_written: Whether the session writes baselines. Then raise OutputError unless the folder
            can be written.
        missing_hint: The end of the message if the folder is missing.

    """
    if path_exists(root):
        if not root.is_dir():
            raise BaselineError(f"{root}: expected a folder, got something else")
        if not os.access(root, os.R_OK | os.X_OK):
            raise BaselineError(f"{root}: no permission to read it")
    elif not may_be_missing:
        raise BaselineError(f"there is no folder {root}{missing_hint}")
    if is_written:
        storage.check_writable_folder(root)


def check_writable(root: Path, cases: Iterable[tuple[EnvironmentKey, Case]]) -> None:
    """Raise BaselineError or OutputError unless the file of each case can be written or created."""
    for path in dict.fromkeys(baseline_path(root, key, case) for key, case in cases):
        storage.check_writable_folder(path.parent)
        if path_exists(path) and not os.access(path, os.W_OK):
            raise BaselineError(f"{path} cannot be written: no permission")


class Draft:
    """The opened baseline files of a folder, whose changes are in memory until `write`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, BaselineFile | None] = {}
        self._changed: dict[Path, None] = {}

    def find(self, key: EnvironmentKey, case: Case) -> tuple[Path, BaselineFile | None]:
        """Return the path of the baseline file of `case` on the machine `key`, and its content.

        The content is None if there is no file. Raises BaselineError if the file is not valid, or
        is for another machine or kind of case.
        """
        path = baseline_path(self._root, key, case)
        if path not in self._files:
            self._files[path] = read_matching_file(path, key, case)
        return path, self._files[path]

    def put(self, path: Path, file: BaselineFile) -> None:
        """Set the new content of the file `path`. A file without baselines will be removed."""
        self._files[path] = file if file.baselines else None
        self._changed[path] = None

    def write(self) -> None:
        """Write every file that changed, and remove every file without baselines."""
        if self._changed:
            remove_half_written_files(self._root)
        for path in self._changed:
            if file := self._files[path]:
                storage.write(path, baselines_text(file))
            else:
                path.unlink(missing_ok=True)


def remove_half_written_files(root: Path) -> None:
    """Remove the files that killed writers left, if the caller holds the lock of `root`."""
    for path in root.rglob(_HALF_WRITTEN):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_draft(baselines_folder: Path) -> Iterator[Draft]:
    """Yield a Draft of the files in `baselines_folder`, and write it after the ``with`` block.

    Nothing is written if the block raises an exception. Other sessions wait for the lock until
    then. Raises OSError if a file cannot be written, and BaselineError if another session holds the
    lock for too long.
    """
    with lock_for_writing(baselines_folder):
        draft = Draft(baselines_folder)
        yield draft
        draft.write()
