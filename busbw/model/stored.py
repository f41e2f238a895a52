"""What is kept of cases: records of launches, by session and as baselines with accepted times.

Opens no file, and does not decide what may become a baseline.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .case import Case
from .limits import Microseconds, Moment, moment_of

# What surroundings call the machine's name and the hash of our own code that measured. The history
# has them, a baseline does not.
HOST = "host"
OWN_CODE = "busbw's own code"
# A baseline keeps its newest sessions, up to this number: enough launches to know the noise, and
# few enough that the level follows the machine and a line can still be read.
MOST_SESSIONS = 10
# A file keeps a year of weekly updates; more is what version control is for.
MOST_UPDATES = 50
# What differs from one session to the next though nothing changed.
PASSING = {"load", "clock MHz"}


def rounded_us(time_us: float) -> float:
    """Round to six significant digits: no clock gives more, and a review has less to read."""
    return float(f"{time_us:.6g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """What all times of a session were measured with.

    `commit` is that of the working directory, empty outside of a repository. `surroundings` are
    flags of the framework and, as far as they are known, the machine's load and clock frequency.
    """

    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Stack):
    """What the launches of a case took in one session, and with what.

    `moment` is when the session began, UTC; without times the case was out of memory, or failed.
    `worker` is the hash of our own code that measured. A baseline has no host.
    `extra` has the values of extensions by name, those that all launches had in common.
    """

    moment: Moment
    times_us: tuple[Microseconds, ...] = ()
    host: str = ""
    worker: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def began(self) -> datetime.datetime:
        return moment_of(self.moment)

    @property
    def date(self) -> str:
        """The day, UTC."""
        return self.moment[: len("2026-01-31")]

    @property
    def times_s(self) -> tuple[float, ...]:
        return tuple(time_us / 1e6 for time_us in self.times_us)

    @property
    def time_s(self) -> float | None:
        """The median over its launches; None without times."""
        return statistics.median(self.times_s) if self.times_us else None

    @property
    def lasting(self) -> Mapping[str, str]:
        """Versions, surroundings, host and code, without what differs though nothing changed."""
        lasting = {name: text for name, text in self.surroundings.items() if name not in PASSING}
        lasting |= {HOST: self.host} if self.host else {}
        return {**self.versions, **lasting, **({OWN_CODE: self.worker} if self.worker else {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What one session measured: its records by case, several where sessions were merged.

    `has_change`: the session found a case, or all cases together, slower or faster.
    """

    began: datetime.datetime
    records: Mapping[Case, tuple[Record, ...]]
    has_change: bool = False

    @classmethod
    def from_records(cls, records: Mapping[Case, Record], *, has_change: bool = False) -> Session:
        """Make a session of one record or more, all of the same moment."""
        began = next(iter(records.values())).began
        by_case = {case: (record,) for case, record in records.items()}
        return cls(began=began, records=by_case, has_change=has_change)

    @property
    def times_s(self) -> dict[Case, tuple[float, ...]]:
        """Seconds of each launch."""
        return {case: self.times_of(case) for case in self.records}

    def times_of(self, case: Case) -> tuple[float, ...]:
        return tuple(time_s for record in self.records[case] for time_s in record.times_s)

    def changes_since(self, before: Session, framework: str) -> tuple[str, ...]:
        """Return what changed in a framework's stack, such as ``jax 0.10.1 -> 0.10.2``."""
        return changes(before._lasting(framework), self._lasting(framework))

    def _lasting(self, framework: str) -> Mapping[str, str]:
        of_framework = (
            records[0].lasting
            for case, records in self.records.items()
            if case.framework == framework
        )
        return next(of_framework, {})


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what differs, such as ``jax 0.10.1 -> 0.10.2`` and ``XLA_FLAGS none -> --x``.

    A setting that only one side has differs, too; a host or a hash of our code that only one side
    names does not. Where nothing is known of before, nothing can differ.
    """
    names = [
        name
        for name in dict.fromkeys((*now, *before))
        if name not in (HOST, OWN_CODE) or (name in now and name in before)
    ]
    pairs = [(name, before.get(name, "none"), now.get(name, "none")) for name in names]
    return tuple(f"{name} {old} -> {new}" for name, old, new in pairs if before and old != new)


def merge_sessions(sessions: Iterable[Session], apart: datetime.timedelta) -> tuple[Session, ...]:
    """Return the sessions in the order of time, with those near each other as one.

    Sessions that began less than `apart` after the first share the state of the machine. A session
    that found a change is merged only with other cases of its moment, which are of the same
    session: launches of other sessions would hide the change.
    """
    merged: list[Session] = []
    for session in sorted(sessions, key=lambda session: session.began):
        if not merged or not _is_one(merged[-1], session, apart):
            merged.append(session)
            continue
        records, has_change = dict(merged[-1].records), merged[-1].has_change or session.has_change
        for case, more in session.records.items():
            records[case] = (*records.get(case, ()), *more)
        merged[-1] = replace(merged[-1], records=records, has_change=has_change)
    return tuple(merged)


def _is_one(first: Session, later: Session, apart: datetime.timedelta) -> bool:
    if first.has_change or later.has_change:
        return first.began == later.began and first.records.keys().isdisjoint(later.records)
    return later.began - first.began < apart


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """What is stored of a Case on one Environment key: its records, oldest first.

    A record without times, which is then the only one, says that it was out of memory, under the
    artificial limit `memory_limit_bytes` if that is not None. `pinned_us` is the pinned level,
    against which the sum of all accepted small losses is bounded, and `pinned_date` when it was
    pinned; both None where it is out of memory.
    """

    case: Case
    records: tuple[Record, ...]
    needed_bytes: int | None = None
    available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    pinned_us: float | None = None
    pinned_date: str | None = None

    @property
    def oom(self) -> bool:
        return not self.records[-1].times_us

    @property
    def sessions(self) -> tuple[Record, ...]:
        """The records, which have times; none where the case is out of memory."""
        return () if self.oom else self.records

    @property
    def date(self) -> str:
        return self.records[-1].date

    @property
    def times_s(self) -> tuple[float, ...]:
        return tuple(time_s for record in self.records for time_s in record.times_s)

    @property
    def level_us(self) -> float | None:
        """The median of sessions' medians: launches of a session are alike. None where `oom`."""
        if self.oom:
            return None
        return statistics.median(statistics.median(record.times_us) for record in self.records)

    @property
    def level_s(self) -> float | None:
        return None if self.level_us is None else self.level_us / 1e6

    @property
    def pinned_s(self) -> float | None:
        return None if self.pinned_us is None else self.pinned_us / 1e6

    @property
    def line(self) -> tuple[object, ...]:
        """What is unique in its file: its case, and the limit that it was out of memory under."""
        return (self.case.line_key, self.memory_limit_bytes or 0)
