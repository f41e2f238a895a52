"""Measurements as entries of a file, entries as Baselines, and how a session joins an entry.

Values to values: only here seconds become microseconds of six digits. Opens no file; refusals are
worded in `updates`.

A level may creep: each step is too small for a verdict, and each is accepted. So an entry has a
pin, a level that later ones are compared with. The level may exceed its pin by a budget, no more;
the pin rises only when somebody accepts a loss with a reason. An improvement beyond the budget
lowers the pin, or it could be lost again unseen; a smaller one does not, or noise would ratchet the
pin down.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busbw.model.case import Case
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, BaselineSession, converted
from busbw.model.words import payload_text

from .document import Status
from .timed import Entry, StoredSession

# Enough launches to know the noise, and few enough that the level follows the machine and a line
# can still be read.
MOST_SESSIONS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """When baselines are written, at which commit (may be empty), and why (may be empty).

    `at` is when the session began, as a moment's text. `surroundings` is what else is recorded of
    the machine.
    """

    at: str
    commit: str = ""
    reason: str = ""
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """The day, UTC."""
        return self.at[: len("2026-01-31")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What a session measured of a case and wants stored, seconds for each launch.

    No times: it was out of memory. With `append` the level did not change, and the session joins
    those that are stored; without it the session replaces them. `memory_limit_bytes` is the
    session's artificial limit, if it had one. `why` says in a word or two why it is stored; with
    `takes_loss` also if it loses more than the budget.
    """

    key: EnvironmentKey
    measurement: Measurement
    times_s: tuple[float, ...]
    append: bool = False
    memory_limit_bytes: int | None = None
    why: str = ""
    takes_loss: bool = False


def baseline_of(case: Case, entry: Entry) -> Baseline:
    """What is stored, with the protocol that it was measured with."""
    newest = entry.sessions[-1] if entry.sessions else entry
    return Baseline(
        case=replace(case, protocol=entry.protocol),
        oom=entry.status is Status.OOM,
        sessions=tuple(_session_of(stored) for stored in entry.sessions),
        date=newest.date,
        versions=newest.versions,
        needed_bytes=entry.needed_bytes,
        available_bytes=entry.available_bytes,
        memory_limit_bytes=entry.memory_limit_bytes,
        pinned_s=entry.pinned_us / 1e6 if entry.pinned_us is not None else None,
        pinned_date=entry.pinned_date,
    )


def _session_of(stored: StoredSession) -> BaselineSession:
    return converted(
        BaselineSession,
        stored,
        times_s=tuple(time_us / 1e6 for time_us in stored.times_us),
    )


def entry_of(accepted: Accepted, occasion: Occasion) -> Entry:
    """The entry with this session alone; its pin is not set yet."""
    case, measurement = accepted.measurement.case, accepted.measurement
    versions = measurement.runs[0].versions if measurement.runs else {}
    failure = measurement.failures[0] if measurement.failures else None
    oom = not accepted.times_s
    return Entry(
        dtype=case.dtype,
        reduce_op=case.reduce_op,
        placement=case.placement,
        axes=case.axes,
        payload=payload_text(case.payload_bytes),
        payload_bytes=case.payload_bytes,
        status=Status.OOM if oom else Status.OK,
        sessions=() if oom else (_stored(accepted, occasion, versions),),
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
        memory_limit_bytes=accepted.memory_limit_bytes if oom else None,
        protocol=case.protocol,
        date=occasion.date if oom else "",
        versions=versions if oom else {},
    )


def _stored(accepted: Accepted, occasion: Occasion, versions: Mapping[str, str]) -> StoredSession:
    return StoredSession(
        date=occasion.date,
        at=occasion.at,
        commit=occasion.commit,
        times_us=tuple(rounded_us(1e6 * time_s) for time_s in accepted.times_s),
        versions=versions,
        surroundings=occasion.surroundings,
    )


def rounded_us(time_us: float) -> float:
    """Rounded to six significant digits: no clock gives more, and a review has less to read."""
    return float(f"{time_us:.6g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The entry as it would be written; `lost`: it loses so much that this takes a reason."""

    entry: Entry
    lost: bool = False


def level_us(entry: Entry) -> float | None:
    """The median over sessions of each session's median launch; None without sessions."""
    if not entry.sessions:
        return None
    return statistics.median(statistics.median(s.times_us) for s in entry.sessions)


def beyond(level: float, pinned: float, budget: float) -> bool:
    """Whether `level` is slower than `pinned`, in the same unit, by more than the fraction."""
    return level > pinned * (1 + budget)


def joined(old: Entry | None, new: Entry, *, append: bool, budget: float) -> Joined:
    """`new`, with one session and no pin, instead of `old` or, with `append`, joined to it.

    Times of another protocol are not comparable: they replace the old ones and pin their own level.
    Running out of memory where there was a time is a loss beyond any budget.
    """
    if old is None or old.status is Status.OOM or old.protocol != new.protocol:
        return Joined(entry=pinned_at_level(new))
    if new.status is Status.OOM:
        return Joined(entry=new, lost=True)
    sessions = (*old.sessions, *new.sessions)[-MOST_SESSIONS:] if append else new.sessions
    entry = replace(new, sessions=sessions, pinned_us=old.pinned_us, pinned_date=old.pinned_date)
    level, pinned = level_us(entry), old.pinned_us
    assert level is not None and pinned is not None
    lost = beyond(level, pinned, budget)
    if lost or beyond(pinned, level, budget):
        entry = pinned_at_level(entry)
    return Joined(entry=entry, lost=lost)


def pinned_at_level(entry: Entry, date: str = "") -> Entry:
    """`entry` pinned at its level, if it has one, on `date` or that of its newest session."""
    level = level_us(entry)
    if level is None:
        return entry
    return replace(entry, pinned_us=rounded_us(level), pinned_date=date or entry.sessions[-1].date)
