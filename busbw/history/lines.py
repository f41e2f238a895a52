"""One line of the history: what one session measured of one case, and with what.

A value and its text, nothing of files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from busbw import wire
from busbw.model.case import Case
from busbw.model.stored import Record, Session
from busbw.model.words import Device, FailureKind, Outcome, SessionOutcome, plural

DOCUMENT = "busbw record"
_REMEDY = "move the file away, and the next session begins a new one"
# What a line says of itself, and no value of it.
_SAID = ("document", "version")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line(Record):
    """The record of a case on a `device`; `session` tells sessions apart.

    Without times `failure` says why. `ratio` is today's time over the one that it was compared
    with, `injected` what was asked for to make the session slower. `paired`: two stacks were
    measured in turn. `stack` names the locked reference that tonight's stack was measured in turn
    with, and `is_reference` says that the line is the reference's own: its outcome is NO_BASELINE,
    since nothing judges it by itself. `changed` is what options made different on purpose.
    """

    session: str
    device: Device
    case: Case
    outcome: Outcome
    session_outcome: SessionOutcome
    session_outcomes: tuple[SessionOutcome, ...] = ()
    failure: FailureKind | None = None
    ratio: float | None = None
    injected: str = ""
    paired: bool = False
    baseline_date: str = ""
    stack: str = ""
    is_reference: bool = False
    changed: str = ""

    @property
    def is_ordinary(self) -> bool:
        """Whether it says how the case does by itself, or in turn with a locked stack.

        Not slower on purpose, and not side by side with whatever was named, which may be another
        stack each time.
        """
        return not self.injected and (bool(self.stack) or not self.paired)

    @property
    def is_wrong(self) -> bool:
        return self.failure is FailureKind.WRONG_RESULT

    @property
    def is_level(self) -> bool:
        return bool(self.times_us) and self.is_ordinary

    @property
    def text(self) -> str:
        """The line, without its end."""
        document = {"document": DOCUMENT, "version": wire.VERSION, **wire.to_json(self)}
        return json.dumps(document, separators=(",", ":"))


def new_session() -> str:
    return os.urandom(8).hex()


def parsed(text: str | bytes, location: str) -> Line:
    """The Line that `text` is. Raises WireError with `location` for what no session appends."""
    try:
        raw = wire.parsed(text)
        wire.check_document(raw, DOCUMENT, _REMEDY)
    except wire.WireError as error:
        # Each line is a document of its own, whose first line says nothing.
        where = str(error).replace("1:", ", column ", 1) if str(error)[:2] == "1:" else f": {error}"
        raise wire.WireError(f"{location}{where}") from error
    return wire.from_json(Line, {key: raw[key] for key in raw if key not in _SAID}, location)


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Sessions of a `framework` whose times can be compared with each other.

    Measured by itself, or in turn with the locked reference `stack`, since two stacks compete for
    the machine: tonight's of then, or, where it `is_reference`, the reference's own.
    """

    framework: str
    stack: str = ""
    is_reference: bool = False

    @classmethod
    def of(cls, line: Line) -> Series:
        return cls(framework=line.case.framework, stack=line.stack, is_reference=line.is_reference)

    @property
    def text(self) -> str:
        """Such as ``jax``, or ``jax in turn with the reference 0123456789abcdef``."""
        if not self.stack:
            return self.framework
        if self.is_reference:
            return f"the reference {self.stack} of {self.framework}"
        return f"{self.framework} in turn with the reference {self.stack}"


def wrong_text(lines: Iterable[Line]) -> str:
    """Of a case's lines, such as ``wrong in 2 of 31 sessions, last on 2026-11-20``; "" for none."""
    own = list(lines)
    wrong = [line.date for line in own if line.is_wrong]
    sessions = plural(len(own), "session")
    return f"wrong in {len(wrong)} of {sessions}, last on {max(wrong)}" if wrong else ""


def earlier(lines: Iterable[Line], series: Series) -> list[Session]:
    """What the sessions of `series` measured, in the order of their lines.

    Without what was made slower on purpose, and without sides of two stacks of which none is
    locked.
    """
    found: dict[str, dict[Case, Record]] = {}
    for line in lines:
        if line.is_level and Series.of(line) == series:
            found.setdefault(line.session, {})[line.case] = line
    return [Session.of(records) for records in found.values()]
