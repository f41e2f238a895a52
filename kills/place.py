"""Where sessions run: on this machine, or on one of several hosts.

What is started there, what of it is still there when a session is over, and how the place becomes
again what it was. Knows no session and no hit.
"""

from __future__ import annotations

import contextlib
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class Place(ABC):
    """Where sessions run. What they started has `soon_s` to end after them."""

    soon_s: float
    # What every session here is given, and no page shows.
    options: tuple[str, ...] = ()

    @abstractmethod
    def start(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """A process; its id is that of the command."""

    @abstractmethod
    def processes(self) -> set[int]:
        """Those that can only be a session's, whatever their command lines say."""

    @abstractmethod
    def locks(self) -> list[str]:
        """Locks of a machine that somebody still holds, but for that of the session's own."""

    @abstractmethod
    def resume(self) -> None:
        """Continue what was stopped for as long as the session lasted."""

    @abstractmethod
    def restore(self) -> None:
        """Undo all that was done to the place itself."""


class Here(Place):
    """The machine itself, which other processes share and nobody changes."""

    soon_s = 5.0

    def start(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """A process of this machine."""
        return subprocess.Popen(command, **how)

    def processes(self) -> set[int]:
        """None: others run here too."""
        return set()

    def locks(self) -> list[str]:
        """None: there is the session's own."""
        return []

    def resume(self) -> None:
        """Nothing is stopped for that long."""

    def restore(self) -> None:
        """Nothing was done."""


@contextlib.contextmanager
def here(folder: Path) -> Iterator[Place]:
    """The machine itself; nothing has to be made."""
    yield Here()
