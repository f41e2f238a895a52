"""One line of the history: the times of one case in one session, and with which stack."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from busbw import extensions, wire
from busbw.model.case import Case
from busbw.model.stored import Record, Session
from busbw.model.words import (
    Device,
    FailureKind,
    Outcome,
    SessionOutcome,
    plural,
)

DOCUMENT = "busbw record"
_REMEDY = "move the file away, and the next session begins a new one"
# Outcomes of sessions whose times are not those that were expected.
_SHARED_CHANGES = (SessionOutcome.MACHINE_SHIFT, SessionOutcome.SLOWER, SessionOutcome.DRIFT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line(Record):
    """The record of a case on a `device` in the session that is named `session`.

    Without times `failure` says why. `ratio` is the time over the time that it was compared with,
    and `injected` the requested slowdown. `paired`: two stacks were interleaved. `stack` names the
    locked reference that was interleaved, and `is_reference` says that the line is that of the
    reference: its outcome is NO_BASELINE, since nothing judges it by itself. `changed` is what
    options changed on purpose.
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
        """Whether the line can be compared with others.

        It was not slower on purpose, and was measured by itself or interleaved with a locked stack:
        an unlocked reference may be another stack each time.
        """
        return not self.injected and (bool(self.stack) or not self.paired)

    @property
    def has_change(self) -> bool:
        """Whether the case was slower or faster than expected, or all cases together were."""
        return self.outcome in (Outcome.REGRESSED, Outcome.IMPROVED) or any(
            outcome in _SHARED_CHANGES for outcome in self.session_outcomes
        )

    @property
    def text(self) -> str:
        """The line as JSON, without the newline."""
        document = {"document": DOCUMENT, "version": wire.VERSION, **wire.to_json(self)}
        return json.dumps(document, separators=(",", ":"))


def parse(text: str | bytes, location: str) -> Line:
    """Parse a line. Raises WireError with `location` if no session can have appended it."""
    try:
        raw = wire.parsed(text)
        wire.check_document(raw, DOCUMENT, _REMEDY)
    except wire.WireError as error:
        # Each line is a document of its own, whose first line says nothing.
        where = str(error).replace("1:", ", column ", 1) if str(error)[:2] == "1:" else f": {error}"
        raise wire.WireError(f"{location}{where}") from error
    # The other keys are the fields of a Line.
    del raw["document"], raw["version"]
    line = wire.from_json(Line, raw, location)
    return replace(line, extra=extensions.with_declared_types(line.extra, f"{location}.extra"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The sessions of a `framework` whose times can be compared with each other.

    The framework was measured by itself, or interleaved with the locked reference `stack`, since
    two stacks compete for the machine. `is_reference`: the times are those of the reference.
    """

    framework: str
    stack: str = ""
    is_reference: bool = False

    @classmethod
    def of_line(cls, line: Line) -> Series:
        """Return the series that a line belongs to."""
        return cls(framework=line.case.framework, stack=line.stack, is_reference=line.is_reference)

    @property
    def text(self) -> str:
        """A text such as ``jax``, or ``jax interleaved with the reference 0123456789abcdef``."""
        if not self.stack:
            return self.framework
        if self.is_reference:
            return f"the reference {self.stack} of {self.framework}"
        return f"{self.framework} interleaved with the reference {self.stack}"


def wrong_text(lines: Iterable[Line]) -> str:
    """Return how often the lines of a case had wrong values; empty for never.

    Such as ``wrong in 2 of 31 sessions, last on 2026-11-20``.
    """
    lines = list(lines)
    dates = [line.date for line in lines if line.failure is FailureKind.WRONG_RESULT]
    sessions = plural(len(lines), "session")
    return f"wrong in {len(dates)} of {sessions}, last on {max(dates)}" if dates else ""


def earlier(lines: Iterable[Line], series: Series) -> list[Session]:
    """Return the sessions of `series` with times, in the order of their lines."""
    sessions: dict[str, dict[Case, Line]] = {}
    for line in lines:
        if line.times_us and line.is_ordinary and Series.of_line(line) == series:
            sessions.setdefault(line.session, {})[line.case] = line
    return [
        Session.from_records(by_case, has_change=any(line.has_change for line in by_case.values()))
        for by_case in sessions.values()
    ]
