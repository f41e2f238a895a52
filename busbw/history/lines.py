"""One line of the history: what one session measured of one case, and with what.

A value and its text, nothing of files. Schema history:
1  the first.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from busbw import wire
from busbw.model import (
    LEAST_S,
    MOST_S,
    FailureKind,
    Outcome,
    SessionOutcome,
    StoredCase,
    check_case,
)

SCHEMA = 1
_AT = "%Y-%m-%dT%H:%M:%SZ"
_SESSION = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A case in a session, which began `at`, UTC; `session` tells sessions apart.

    `times_us` and `anchors_us` are one for each launch, in microseconds; without times `failure`
    says why. `ratio` is today's time over the one that it was compared with, `injected` what made
    the session slower on purpose. `paired`: two stacks were measured in turn. `worker` is the hash
    of our own code that measured, `commit` the commit of the working directory.
    """

    schema: int = SCHEMA
    session: str
    at: str
    case: StoredCase
    outcome: Outcome
    session_outcome: SessionOutcome
    times_us: tuple[float, ...] = ()
    anchors_us: tuple[float, ...] = ()
    failure: FailureKind | None = None
    ratio: float | None = None
    injected: str = ""
    paired: bool = False
    baseline_date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    commit: str = ""
    worker: str = ""

    @property
    def began(self) -> datetime:
        """When the session began."""
        return _moment(self.at)

    @property
    def text(self) -> str:
        """The line, without its end."""
        return json.dumps(wire.to_json(self), separators=(",", ":"), sort_keys=False)


@functools.lru_cache(maxsize=1024)
def _moment(text: str) -> datetime:
    """The same for all lines of a session, of which there are many."""
    return datetime.strptime(text, _AT).replace(tzinfo=timezone.utc)


def new_session() -> str:
    """A name that no other session has."""
    return os.urandom(8).hex()


def at_text(moment: datetime) -> str:
    """A moment as lines have it."""
    return moment.astimezone(timezone.utc).strftime(_AT)


def parsed(text: str | bytes, location: str) -> Line:
    """The Line that `text` is. Raises WireError with `location` for what no session appends."""
    raw = wire.parsed(text)
    schema = raw.get("schema", SCHEMA) if isinstance(raw, dict) else SCHEMA
    if type(schema) is not int or schema != SCHEMA:
        raise wire.WireError(f"{location}.schema: this version reads {SCHEMA}, got {schema!r}")
    line = wire.from_json(Line, raw, location)
    _check(line, location)
    return line


def _check(line: Line, location: str) -> None:
    if not _SESSION.fullmatch(line.session):
        raise wire.WireError(
            f"{location}.session: expected 16 hexadecimal digits, got {line.session[:60]!r}"
        )
    try:
        _ = line.began
    except ValueError as error:
        raise wire.WireError(
            f"{location}.at: expected a moment such as 2026-01-31T03:00:00Z, got {line.at[:60]!r}"
        ) from error
    try:
        check_case(line.case.case)
    except ValueError as error:
        raise wire.WireError(f"{location}.case.{error}") from error
    for name, times_us in (("times_us", line.times_us), ("anchors_us", line.anchors_us)):
        for index, time_us in enumerate(times_us):
            if not 1e6 * LEAST_S <= time_us <= 1e6 * MOST_S:
                raise wire.WireError(
                    f"{location}.{name}[{index}]: expected {1e6 * LEAST_S:g} to "
                    f"{1e6 * MOST_S:g} microseconds, got {time_us:g}"
                )
    if line.anchors_us and len(line.anchors_us) != len(line.times_us):
        raise wire.WireError(
            f"{location}.anchors_us: expected none, or one for each of {len(line.times_us)} times"
        )
