"""A line of the history: the times of a case in a session, its verdict, and its stack."""

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
# The outcomes of a session in which many cases together left their expected times.
_SHARED_CHANGES = (SessionOutcome.MACHINE_SHIFT, SessionOutcome.SLOWER, SessionOutcome.DRIFT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line(Record):
    """A line of the history: the record of a case in a session, and its verdict.

    Attributes:
        session: The name of the session.
        device: The class of device.
        case: The case.
        outcome: The outcome of the case; NO_BASELINE for a reference, which is not judged.
        session_outcome: The verdict of the session, the first of `session_outcomes`.
        session_outcomes: All outcomes of the session that apply.
        failure: The reason why there are no times; None with times.
        ratio: The time divided by the time of the reference; None without a comparison.
        injected: The text of the injection; empty without one.
        paired: Whether two stacks were interleaved.
        baseline_date: The date of the baseline; empty without a baseline.
        stack: The digest of the locked reference stack; empty without such a stack.
        is_reference: Whether the times are those of the reference.
        changed: The flags that options changed on purpose, as text; empty without such a flag.

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
        """Whether the times can be compared with times of other sessions.

        They cannot if something was injected, or if the stack was interleaved with a stack that is
        not locked, which may be another stack each time.
        """
        return not self.injected and (bool(self.stack) or not self.paired)

    @property
    def has_change(self) -> bool:
        """Whether the case, or all cases of the session together, left the expected time."""
        return self.outcome in (Outcome.REGRESSED, Outcome.IMPROVED) or any(
            outcome in _SHARED_CHANGES for outcome in self.session_outcomes
        )

    @property
    def text(self) -> str:
        """The line as JSON, without the newline."""
        document = {"document": DOCUMENT, "version": wire.VERSION, **wire.to_json(self)}
        return json.dumps(document, separators=(",", ":"))


def parse_line(text: str | bytes, location: str) -> Line:
    """Parse the text of a line. Raises WireError, beginning with `location`, if it is not valid."""
    try:
        raw = wire.parse_json(text)
        wire.check_document(raw, DOCUMENT, _REMEDY)
    except wire.WireError as error:
        # Each line is a document by itself, so that its error is always in line 1 of the document.
        where = str(error).replace("1:", ", column ", 1) if str(error)[:2] == "1:" else f": {error}"
        raise wire.WireError(f"{location}{where}") from error
    # A Line has fields for the other keys only.
    del raw["document"], raw["version"]
    line = wire.from_json(Line, raw, location)
    return replace(line, extra=extensions.with_declared_types(line.extra, f"{location}.extra"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The key of a series: sessions of a framework whose times can be compared with each other.

    `stack` is the digest of the locked reference stack with which the framework was interleaved. It
    is empty if the framework was measured alone. Times with and without a reference belong to
    different series, because two interleaved stacks slow each other down. `is_reference` says that
    the times are those of the reference.
    """

    framework: str
    stack: str = ""
    is_reference: bool = False

    @classmethod
    def of_line(cls, line: Line) -> Series:
        """Return the series to which a line belongs."""
        return cls(framework=line.case.framework, stack=line.stack, is_reference=line.is_reference)

    @property
    def text(self) -> str:
        """The series as text, such as ``jax interleaved with the reference 0123456789abcdef``."""
        if not self.stack:
            return self.framework
        if self.is_reference:
            return f"the reference {self.stack} of {self.framework}"
        return f"{self.framework} interleaved with the reference {self.stack}"


def wrong_values_text(lines: Iterable[Line]) -> str:
    """Say how often the values of a case were wrong; return "" if all values were correct.

    `lines` are the lines of the case. The text is such as ``wrong in 2 of 31 sessions, last on
    2026-11-20``.
    """
    lines = list(lines)
    dates = [line.date for line in lines if line.failure is FailureKind.WRONG_RESULT]
    sessions = plural(len(lines), "session")
    return f"wrong in {len(dates)} of {sessions}, last on {max(dates)}" if dates else ""


def comparable_sessions(lines: Iterable[Line], series: Series) -> list[Session]:
    """Return the sessions of `series` in `lines`, in the order of their lines.

    Lines without times, and lines whose times cannot be compared, are left out.
    """
    sessions: dict[str, dict[Case, Line]] = {}
    for line in lines:
        if line.times_us and line.is_ordinary and Series.of_line(line) == series:
            sessions.setdefault(line.session, {})[line.case] = line
    return [
        Session.from_records(by_case, has_change=any(line.has_change for line in by_case.values()))
        for by_case in sessions.values()
    ]
