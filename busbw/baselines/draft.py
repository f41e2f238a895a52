"""Baselines as they will stand: read under the lock, changed in memory, written at the end.

One session may update, rebase and prune. All of it is written, each file once, or nothing is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Generic

from busbw import writing
from busbw.model import Case, EnvironmentKey

from . import files
from .files import Codec, D
from .seen import Seen


class Draft(Generic[D]):
    """The files of a baselines folder that somebody asked for, with what was done to them.

    The folder is locked, through `held`, when the first of them is opened.
    """

    def __init__(self, codec: Codec[D], root: Path, held: contextlib.ExitStack) -> None:
        self._codec = codec
        self._root = root
        self._held = held
        self._seen: Seen | None = None
        self._documents: dict[Path, D | None] = {}
        self._changed: dict[Path, None] = {}

    def find(self, key: EnvironmentKey, case: Case) -> tuple[Path, D | None]:
        """Where the file of `case` on `key` lies, and what stands in it; None: there is none.

        Raises BaselineError for a bad file.
        """
        path = files.path_of(self._root, key, case, self._codec.folder)
        # Without a folder there is nothing to lock, and none is made to look into it.
        if path not in self._documents and files.there(self._root):
            self._begin()
            self._documents[path] = files.stored(self._codec, path, key, case)
        return path, self._documents.get(path)

    def opened(self, key: EnvironmentKey, case: Case) -> tuple[Path, D]:
        """The same, with an empty document where there is no file."""
        self._begin()
        path, document = self.find(key, case)
        return path, self._codec.empty(key, case) if document is None else document

    def _begin(self) -> None:
        if self._seen is None:
            self._seen = self._held.enter_context(files.locked(self._root))

    def put(self, path: Path, document: D) -> None:
        """Let `document` be what `path` will hold; one without entries: the file will be gone."""
        self._documents[path] = None if self._codec.is_empty(document) else document
        self._changed[path] = None

    def write(self) -> None:
        """Write every file that changed, or none."""
        if self._seen is None:
            return
        self._seen.check(self._documents)
        found = {path: self._documents[path] for path in self._changed}
        writing.write_all(
            {
                path: self._codec.text(one) if one is not None else None
                for path, one in found.items()
            }
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
