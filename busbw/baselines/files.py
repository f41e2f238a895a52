"""The folder of baselines: where a file lies, one writer at a time, all of it written or nothing.

Knows names, permissions and locks; what stands in a file, its Codec says. One session may update,
rebase and prune: files are read under the lock, changed in memory and written at the end, each
once. The lock keeps out other sessions of this machine. It keeps out no editor, no checkout of
another commit and no session on another host that mounts the same folder: what changed since then
is not overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from busbw import locks, wire, writing
from busbw.model import Case, EnvironmentKey

from .document import BaselineError, StoredFile, dumps, read_json

LOCK_TIMEOUT_S = 60.0

# Where files of programs lie; those of times lie beside it.
COMPILED_FOLDER = "compiled"

D = TypeVar("D", bound=StoredFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Codec(Generic[D]):
    """What files of times and files of programs differ by; all else is the same for both.

    `kind` is what one holds, of today's `schema`; `folder` is where they lie below that of the
    baselines. `checked` is the document that JSON is, and raises WireError.
    """

    kind: type[D]
    schema: int
    folder: str
    checked: Callable[[Any], D]

    def empty(self, key: EnvironmentKey, case: Case) -> D:
        """The file of `case` on `key` before anything is in it."""
        return self.kind(
            schema=self.schema,
            environment=key,
            framework=case.framework,
            collective=case.collective,
            strategy=case.strategy,
            entries=(),
        )


def slug(text: str) -> str:
    """`text` as a file name: lower case, everything but letters, digits and dots is one hyphen."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def folder_of(key: EnvironmentKey) -> PurePosixPath:
    """Such as ``amd-epyc-2c/4r`` or ``tpu-v5-lite/16r-4x4-4h4p``."""
    kind = slug(key.device_kind) + (f"-{key.cores}c" if key.cores is not None else "")
    ranks = f"{key.ranks}r" + (f"-{key.mesh}" if key.mesh else "")
    if (key.hosts, key.processes) != (1, 1):
        ranks += f"-{key.hosts}h{key.processes}p"
    return PurePosixPath(kind, ranks)


def path_of(root: Path, key: EnvironmentKey, case: Case, folder: str = "") -> Path:
    """The file of `case` on `key` below `root`; `folder` is a codec's, by default that of times."""
    return root / folder / folder_of(key) / case.key.file_name


def there(path: Path) -> bool:
    """Whether there is something at `path`. Raises BaselineError where that cannot be told."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    return True


def read(codec: Codec[D], path: Path) -> D:
    """The checked document in `path`. Raises BaselineError."""
    try:
        return codec.checked(read_json(path))
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error


def stored(codec: Codec[D], path: Path, key: EnvironmentKey, case: Case) -> D | None:
    """The document in `path`, which must be the one of its place; None where there is no file.

    Raises BaselineError.
    """
    if not there(path):
        return None
    document = read(codec, path)
    names = (document.framework, document.collective, document.strategy)
    if document.environment != key or names != (case.framework, case.collective, case.strategy):
        raise BaselineError(
            f"{path}: document.environment: the file says {document.environment} and "
            f"{'.'.join(names)}, its place says {key} and {case.key.file_name}"
        )
    return document


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One writer per baselines folder, however it is reached. Raises BaselineError."""
    with contextlib.ExitStack() as held:
        try:
            root.mkdir(parents=True, exist_ok=True)
            held.enter_context(locks.folder(root.resolve(), LOCK_TIMEOUT_S))
        except locks.Busy as error:
            raise BaselineError(
                f"{root}: another session has been writing for {LOCK_TIMEOUT_S:g} s "
                f"({error.holder.text})"
            ) from error
        except OSError as error:
            raise BaselineError(f"{root}: it cannot be locked for writing: {error}") from error
        yield


def check_folder(
    root: Path, *, may_be_missing: bool = False, is_written: bool = False, hint: str = ""
) -> None:
    """Raise BaselineError unless `root` is a folder that can be read, and written if that is asked.

    One that may be missing is made when the first baseline is written; else `hint` says what helps.
    """
    if there(root):
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
    below = COMPILED_FOLDER if compiled else ""
    for path in dict.fromkeys(path_of(root, key, case, below) for key, case in cases):
        _check_writable(path.parent)
        if there(path) and not os.access(path, os.W_OK):
            raise BaselineError(f"{path} cannot be written: no permission")


def _check_writable(folder: Path) -> None:
    try:
        writing.check_folder(folder)
    except writing.Refused as error:
        raise BaselineError(str(error)) from error


class Draft(Generic[D]):
    """The files of a baselines folder that somebody asked for, with what was done to them.

    The folder is locked, through `held`, when the first of them is opened.
    """

    def __init__(self, codec: Codec[D], root: Path, held: contextlib.ExitStack) -> None:
        self._codec = codec
        self._root = root
        self._held = held
        self._before: dict[Path, bytes] | None = None
        self._documents: dict[Path, D | None] = {}
        self._changed: dict[Path, None] = {}

    def find(self, key: EnvironmentKey, case: Case) -> tuple[Path, D | None]:
        """Where the file of `case` on `key` lies, and what stands in it; None: there is none.

        Raises BaselineError for a bad file.
        """
        path = path_of(self._root, key, case, self._codec.folder)
        # Without a folder there is nothing to lock, and none is made to look into it.
        if path not in self._documents and there(self._root):
            self._begin()
            self._documents[path] = stored(self._codec, path, key, case)
        return path, self._documents.get(path)

    def opened(self, key: EnvironmentKey, case: Case) -> tuple[Path, D]:
        """The same, with an empty document where there is no file."""
        self._begin()
        path, document = self.find(key, case)
        return path, self._codec.empty(key, case) if document is None else document

    def _begin(self) -> None:
        """Lock the folder, and keep what lies in it now."""
        if self._before is None:
            self._held.enter_context(_locked(self._root))
            paths = (path for path in self._root.rglob("*.json") if path.is_file())
            self._before = {path: path.read_bytes() for path in paths}

    def put(self, path: Path, document: D) -> None:
        """Let `document` be what `path` will hold; one without entries: the file will be gone."""
        self._documents[path] = document if document.entries else None
        self._changed[path] = None

    def write(self) -> None:
        """Write every file that changed, or none: none if another program changed one of them."""
        if self._before is None:
            return
        for path in self._documents:
            now = path.read_bytes() if path.exists() else None
            if now != self._before.get(path):
                raise BaselineError(
                    f"{path}: another program changed it while this session was about to write; "
                    "it stays as that program left it"
                )
        found = {path: self._documents[path] for path in self._changed}
        writing.write_all(
            {path: dumps(one) if one is not None else None for path, one in found.items()}
        )


@contextlib.contextmanager
def drafted(root: Path, codec: Codec[D]) -> Iterator[Draft[D]]:
    """A Draft of those files in the folder `root` that `codec` is for, written when all went well.

    Others wait meanwhile, so that two sessions lose nothing. Raises OSError if a file cannot be
    written, and then none is, and BaselineError if another session does not end or changed a file.
    """
    with contextlib.ExitStack() as held:
        draft = Draft(codec, root, held)
        yield draft
        draft.write()
