"""What is known so far, kept after every step, so that a bisection that was cut short goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import storage, wire

from .search import Shown
from .steps import Criterion

DOCUMENT = "busbw bisect 1"


class StateError(ValueError):
    """A file that is no state of this bisection; the message says what is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What one release showed beside `against`, and why or in which words."""

    release: str
    against: str
    shown: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """The file: what was `asked`, what is looked for, and what was tried, in order."""

    document: str = DOCUMENT
    asked: tuple[str, ...]
    criterion: Criterion | None = None
    tried: tuple[Tried, ...] = ()
    launches: int = 0
    answer: str = ""


@dataclass
class State:
    """What is `known` of a bisection at `path`."""

    path: Path
    known: Kept

    @property
    def baselines(self) -> Path:
        """The folder of what its sessions accept, beside it."""
        return self.path.with_suffix(".baselines")

    def read(self) -> None:
        """Raises StateError for what is there and is not of this bisection."""
        if not self.path.exists():
            return
        try:
            kept = wire.from_json(Kept, wire.parsed(storage.read(self.path)), "state")
        except (wire.WireError, storage.InputError) as error:
            raise StateError(f"{self.path}: {error}") from error
        if (kept.document, kept.asked) != (DOCUMENT, self.known.asked):
            raise StateError(
                f"{self.path} is of another bisection ({' '.join(kept.asked)[:200]}); remove it, "
                "or name another --state"
            )
        # What could not be tested may be today: a download that broke off, a disk that was full.
        tested = tuple(one for one in kept.tried if one.shown != Shown.UNTESTABLE.value)
        self.known = replace(kept, tried=tested)

    def keep(self, **changes: Any) -> None:
        self.known = replace(self.known, **changes)
        storage.write(self.path, json.dumps(wire.to_json(self.known), indent=1) + "\n")

    def shown(self, release: str, against: str) -> Shown | None:
        """None for one that was not tried."""
        for one in self.known.tried:
            if (one.release, one.against) == (release, against):
                return Shown(one.shown)
        return None
