"""Write the progress of a bisection after every release, so that the same command continues it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import storage, wire
from busbw.extensions.bisect.criterion import Criterion
from busbw.extensions.bisect.search import Status
from busbw.session.option import UsageError

DOCUMENT_FORMAT = "busbw bisect 2"


@dataclass(frozen=True, kw_only=True, slots=True)
class TestedRelease:
    """A tested release, its status, and the reason for the status."""

    release: str
    status: Status
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressDocument:
    """The contents of the file with the progress of a bisection.

    `document` is the format of the file. `command` is the command line of the bisection, split into
    words. `criterion` is None until the good and the bad release were compared. `tested` lists the
    releases in the order in which they were tested.
    """

    document: str = DOCUMENT_FORMAT
    command: tuple[str, ...]
    criterion: Criterion | None = None
    tested: tuple[TestedRelease, ...] = ()


@dataclass
class Progress:
    """The progress of a bisection, and the file `path` that keeps it."""

    path: Path
    contents: ProgressDocument

    @property
    def baselines_folder(self) -> Path:
        """The folder with the stored programs of the good release."""
        return self.path.with_suffix(".baselines")

    def read(self) -> None:
        """Continue with the progress in the file, if the file exists.

        Untestable releases are forgotten, so that they are tested again: a download may have
        failed, or a disk may have been full. Raises UsageError if the file cannot be read, or has
        the progress of another command.
        """
        # A symbolic link that leads to itself counts as a file, so that reading it raises an error
        # now: the progress could not be written there later.
        if not os.path.lexists(os.path.realpath(self.path)):
            return
        try:
            document = wire.from_json(
                ProgressDocument, wire.parse_json(storage.read(self.path)), "progress"
            )
        except (wire.WireError, storage.InputError) as error:
            raise UsageError(f"{self.path}: {error}") from error
        if (document.document, document.command) != (DOCUMENT_FORMAT, self.contents.command):
            raise UsageError(
                f"{self.path} is of another bisection ({' '.join(document.command)[:200]}); remove "
                "it, or give another --state"
            )
        tested = (test for test in document.tested if test.status is not Status.UNTESTABLE)
        self.contents = replace(document, tested=tuple(tested))

    def save(self, **changes: Any) -> None:
        """Replace fields of the progress, named by `changes`, and write the file."""
        self.contents = replace(self.contents, **changes)
        storage.write(self.path, json.dumps(wire.to_json(self.contents), indent=1) + "\n")
