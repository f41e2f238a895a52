"""What lay in a baselines folder when its writer began: what changed since is not overwritten.

The lock keeps out other sessions of this machine. It keeps out no editor, no checkout of another
commit, and no session on another host that mounts the same folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .document import BaselineError


@dataclass(frozen=True, slots=True)
class Seen:
    """The contents of all baseline files below a folder, by path."""

    contents: Mapping[Path, bytes]

    @classmethod
    def below(cls, root: Path) -> Seen:
        """What lies below `root` now."""
        return cls({path: path.read_bytes() for path in root.rglob("*.json") if path.is_file()})

    def check(self, paths: Iterable[Path]) -> None:
        """Raises BaselineError for the first of `paths` that is not what it was, or came or went.

        To be called after the last one was read and before the first one is written.
        """
        for path in paths:
            now = path.read_bytes() if path.exists() else None
            if now != self.contents.get(path):
                raise BaselineError(
                    f"{path}: another program changed it while this session was about to write; "
                    "it stays as that program left it"
                )
