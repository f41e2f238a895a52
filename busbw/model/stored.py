"""Stored times: records of a case in a session, whole sessions, and baselines.

This module opens no file, and does not decide which times may become a baseline.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .case import Case
from .field_types import Microseconds, Moment, parse_moment

# The names of the machine and of the hash of busbw's worker code when setups are compared. Only the
# history records them: a baseline is for all machines of a kind.
HOST = "host"
OWN_CODE = "busbw's own code"
# A baseline keeps its newest sessions, up to this number: enough launches to know the noise, and
# few enough that the level follows the machine and a line can still be read.
MOST_SESSIONS = 10
# A file keeps a year of weekly updates. Version control has older updates.
MOST_UPDATES = 50


def round_us(time_us: float) -> float:
    """Return `time_us` with six significant digits.

    No clock is more exact, and shorter numbers are easier to review.
    """
    return float(f"{time_us:.6g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The software and the flags with which a session measured.

    `commit` is the commit of the working directory, empty outside of a repository. `versions` maps
    packages to their versions. `surroundings` maps the names of the framework's flags to their
    values.
    """

    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Stack):
    """The times of a case in a session, one for each launch, and the stack that was measured.

    `moment` is the time at which the session began (UTC). `times_us` is empty if the case ran out
    of memory or failed. `host` is the name of the machine, and `worker` the hash of busbw's worker
    code; both are empty in a baseline. `extra` maps the names of extensions' extra values to the
    values, if they were equal in all launches.
    """

    moment: Moment
    times_us: tuple[Microseconds, ...] = ()
    host: str = ""
    worker: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def began(self) -> datetime.datetime:
        return parse_moment(self.moment)

    @property
    def date(self) -> str:
        """The day on which the session began (UTC), such as ``2026-01-31``."""
        return self.moment[: len("2026-01-31")]

    @property
    def times_s(self) -> tuple[float, ...]:
        """The time of each launch in seconds (the p25 of its samples)."""
        return tuple(time_us / 1e6 for time_us in self.times_us)

    @property
    def time_s(self) -> float | None:
        """The median of the launches, in seconds; None without times."""
        return statistics.median(self.times_s) if self.times_us else None

    @property
    def setup(self) -> Mapping[str, str]:
        """Maps names to values: versions, flags, host and worker code."""
        names = {HOST: self.host, OWN_CODE: self.worker}
        known_names = {name: text for name, text in names.items() if text}
        return {**self.versions, **self.surroundings, **known_names}


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """The records of a session by case; a case has several records if sessions were merged.

    `has_change` says that the session found a case, or all cases together, slower or faster.
    """

    began: datetime.datetime
    records: Mapping[Case, tuple[Record, ...]]
    has_change: bool = False

    @classmethod
    def from_records(cls, records: Mapping[Case, Record], *, has_change: bool = False) -> Session:
        """Make a session of its records, one or more, which all have the same moment."""
        began = next(iter(records.values())).began
        by_case = {case: (record,) for case, record in records.items()}
        return cls(began=began, records=by_case, has_change=has_change)

    @property
    def times_s(self) -> dict[Case, tuple[float, ...]]:
        """The time of each launch in seconds (the p25 of its samples), by case."""
        return {case: self.case_times_s(case) for case in self.records}

    def case_times_s(self, case: Case) -> tuple[float, ...]:
        """Return the time of each launch of `case` in seconds."""
        return tuple(time_s for record in self.records[case] for time_s in record.times_s)

    def stack_changes_since(self, earlier_session: Session, framework: str) -> tuple[str, ...]:
        """Return how a framework's setup changed since the session `earlier_session`.

        A change is a text such as ``jax 0.10.1 -> 0.10.2``.
        """
        return setup_changes(earlier_session._setup(framework), self._setup(framework))

    def _setup(self, framework: str) -> Mapping[str, str]:
        of_framework = (
            records[0].setup
            for case, records in self.records.items()
            if case.framework == framework
        )
        return next(of_framework, {})


def setup_changes(
    earlier_setup: Mapping[str, str], present_setup: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the changes between two setups, as texts such as ``jax 0.10.1 -> 0.10.2``.

    A setup maps names to values: packages to versions, flags to their values, HOST to the host, and
    OWN_CODE to the hash of worker code. A version or flag that only one setup contains is a change,
    too, such as ``XLA_FLAGS none -> --x``. A host or a hash counts only if both setups contain it.
    There are no changes if `earlier_setup` is empty, because then the earlier setup is unknown.
    """
    names = [
        name
        for name in dict.fromkeys((*present_setup, *earlier_setup))
        if name not in (HOST, OWN_CODE) or (name in present_setup and name in earlier_setup)
    ]
    pairs = [
        (name, earlier_setup.get(name, "none"), present_setup.get(name, "none")) for name in names
    ]
    return tuple(
        f"{name} {old} -> {new}" for name, old, new in pairs if earlier_setup and old != new
    )


def merge_sessions(
    sessions: Iterable[Session], merge_within: datetime.timedelta
) -> tuple[Session, ...]:
    """Return sessions in the order of time, with sessions that began near each other merged.

    Sessions are merged if they began less than `merge_within` after the first of them, because they
    share the state of the machine. A session that found a change is merged only with records of
    other cases of the same moment: launches of other sessions would hide the change.
    """
    merged: list[Session] = []
    for session in sorted(sessions, key=lambda session: session.began):
        if not merged or not _may_merge(merged[-1], session, merge_within):
            merged.append(session)
            continue
        records = dict(merged[-1].records)
        has_change = merged[-1].has_change or session.has_change
        for case, more in session.records.items():
            records[case] = (*records.get(case, ()), *more)
        merged[-1] = replace(merged[-1], records=records, has_change=has_change)
    return tuple(merged)


def _may_merge(
    first_session: Session, later_session: Session, merge_within: datetime.timedelta
) -> bool:
    """Return whether `later_session` is merged with `first_session` and the sessions between."""
    if first_session.has_change or later_session.has_change:
        return (
            first_session.began == later_session.began
            and first_session.records.keys().isdisjoint(later_session.records)
        )
    return later_session.began - first_session.began < merge_within


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The stored records of a case on a machine, oldest first.

    A single record without times means that the case ran out of memory: `needed_bytes` was the
    memory that the case needed, and `available_bytes` the memory that was free, each None if
    unknown. `memory_limit_bytes` is the artificial limit under which it ran out of memory, None
    without a limit.

    `pinned_us` is the pinned time, which bounds the sum of all small losses that are accepted: the
    level may exceed it by at most the budget. `pinned_date` is the date on which it was pinned.
    Both are None if the case ran out of memory.
    """

    case: Case
    records: tuple[Record, ...]
    needed_bytes: int | None = None
    available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    pinned_us: float | None = None
    pinned_date: str | None = None

    @property
    def is_out_of_memory(self) -> bool:
        return not self.records[-1].times_us

    @property
    def sessions(self) -> tuple[Record, ...]:
        """The records that have times; empty if the case ran out of memory."""
        return () if self.is_out_of_memory else self.records

    @property
    def date(self) -> str:
        """The day of the newest session (UTC), such as ``2026-01-31``."""
        return self.records[-1].date

    @property
    def times_s(self) -> tuple[float, ...]:
        """The time of each launch of all records, in seconds."""
        return tuple(time_s for record in self.records for time_s in record.times_s)

    @property
    def level_us(self) -> float | None:
        """The median of the medians of sessions; None if the case ran out of memory.

        It is not the median of all launches, because launches of the same session are alike.
        """
        if self.is_out_of_memory:
            return None
        return statistics.median(statistics.median(record.times_us) for record in self.records)

    @property
    def level_s(self) -> float | None:
        return None if self.level_us is None else self.level_us / 1e6

    @property
    def pinned_s(self) -> float | None:
        return None if self.pinned_us is None else self.pinned_us / 1e6

    @property
    def line_id(self) -> tuple[object, ...]:
        """The key of the baseline's line in its file: the case, and the limit of memory or 0."""
        return (self.case.line_key, self.memory_limit_bytes or 0)
