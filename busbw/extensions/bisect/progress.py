"""Keep the progress of a bisection after every release, so that the same command continues it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import storage, wire
from busbw.extensions.bisect.criterion import Criterion
from busbw.extensions.bisect.search import Status
from busbw.session.errors import UsageError

DOCUMENT = "busbw bisect 2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tested:
    """A release, its status and the reason."""

    release: str
    status: Status
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The file: the words of the command, the criterion, and the tested releases in order."""

    document: str = DOCUMENT
    command: tuple[str, ...]
    criterion: Criterion | None = None
    tested: tuple[Tested, ...] = ()


@dataclass
class Progress:
    """The progress of a bisection, kept at `path`."""

    path: Path
    contents: Document

    @property
    def baselines(self) -> Path:
        """The folder of the programs of the good release."""
        return self.path.with_suffix(".baselines")

    def read(self) -> None:
        """Continue with the file, if it exists. Raises UsageError for one of another command.

        Untestable releases are tested again: a download may have failed, or a disk been full.
        """
        # A link that leads back to itself is no file that could be written later.
        if not os.path.lexists(os.path.realpath(self.path)):
            return
        try:
            document = wire.from_json(Document, wire.parsed(storage.read(self.path)), "progress")
        except (wire.WireError, storage.InputError) as error:
            raise UsageError(f"{self.path}: {error}") from error
        if (document.document, document.command) != (DOCUMENT, self.contents.command):
            raise UsageError(
                f"{self.path} is of another bisection ({' '.join(document.command)[:200]}); remove "
                "it, or give another --state"
            )
        tested = (test for test in document.tested if test.status is not Status.UNTESTABLE)
        self.contents = replace(document, tested=tuple(tested))

    def keep(self, **changes: Any) -> None:
        """Change fields of the document, and write it."""
        self.contents = replace(self.contents, **changes)
        storage.write(self.path, json.dumps(wire.to_json(self.contents), indent=1) + "\n")
