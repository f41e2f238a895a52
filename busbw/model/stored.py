"""Stored times: the records of cases in sessions, whole sessions, and baselines.

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
HOST_SETUP_NAME = "host"
OWN_CODE_SETUP_NAME = "busbw's own code"
# A baseline keeps its newest sessions, up to this number: enough launches to know the noise, and
# few enough that the level follows the machine and a line can still be read.
MAX_BASELINE_SESSIONS = 10
# A file keeps a year of weekly updates. Version control has older updates.
MAX_KEPT_UPDATES = 50


def round_microseconds(time_us: float) -> float:
    """Return `time_us`, in microseconds, rounded to six significant digits.

    No clock is more exact, and shorter numbers are easier to review.
    """
    return float(f"{time_us:.6g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The software and the flags with which a session measured.

    Attributes:
        commit: The commit of the working directory; empty outside of a repository.
        versions: The versions of packages, by the name of the package.
        surroundings: The values of environment variables (flags), by the name of the variable.

    """

    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Stack):
    """The times of a case in a session, and the stack that was measured.

    Attributes:
        moment: The time (UTC) at which the session began, such as ``2026-01-31T03:00:00Z``.
        times_us: The time of each launch in microseconds (the p25 of its samples); empty if the
            case ran out of memory or failed.
        host: The name of the machine; empty in a baseline.
        worker: The hash of busbw's worker code; empty in a baseline.
        extra: The extra values of extensions that were equal in all launches, by name.

    """

    moment: Moment
    times_us: tuple[Microseconds, ...] = ()
    host: str = ""
    worker: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def began(self) -> datetime.datetime:
        """The time (UTC) at which the session began."""
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
        """The median of the times of all launches, in seconds; None without times."""
        return statistics.median(self.times_s) if self.times_us else None

    @property
    def setup(self) -> Mapping[str, str]:
        """The versions, the flags, the host and the hash of worker code, by name.

        The name of the host is HOST_SETUP_NAME, and the name of the hash is OWN_CODE_SETUP_NAME. A
        host or a hash that is unknown is left out.
        """
        names = {HOST_SETUP_NAME: self.host, OWN_CODE_SETUP_NAME: self.worker}
        known_names = {name: text for name, text in names.items() if text}
        return {**self.versions, **self.surroundings, **known_names}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """The records of a stored session, or of several merged sessions, by case.

    Attributes:
        began: The time (UTC) at which the (first) session began.
        records: The records of each case, several if sessions were merged.
        has_change: Whether the session judged a case, or all cases together, slower or faster.

    """

    began: datetime.datetime
    records: Mapping[Case, tuple[Record, ...]]
    has_change: bool = False

    @classmethod
    def from_records(
        cls, records: Mapping[Case, Record], *, has_change: bool = False
    ) -> StoredSession:
        """Return the session of `records`, which are not empty and all have the same moment."""
        began = next(iter(records.values())).began
        by_case = {case: (record,) for case, record in records.items()}
        return cls(began=began, records=by_case, has_change=has_change)

    @property
    def times_s(self) -> dict[Case, tuple[float, ...]]:
        """The times of all launches of each case, in seconds."""
        return {case: self.case_times_s(case) for case in self.records}

    def case_times_s(self, case: Case) -> tuple[float, ...]:
        """Return the time of each launch of `case` in seconds.

        Raises KeyError if the session has no record of `case`.
        """
        return tuple(time_s for record in self.records[case] for time_s in record.times_s)

    def setup_changes_since(
        self, earlier_session: StoredSession, framework: str
    ) -> tuple[str, ...]:
        """Return how the setup of `framework` changed from `earlier_session` to this session.

        Each change is a text such as ``jax 0.10.1 -> 0.10.2``. A setup has the versions, the flags,
        the host and the hash of worker code.
        """
        return setup_changes(earlier_session._setup(framework), self._setup(framework))

    def _setup(self, framework: str) -> Mapping[str, str]:
        """Return the setup of the first record of `framework`; empty without such a record."""
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

    A setup maps names to values: packages to versions, flags to their values, HOST_SETUP_NAME to
    the host, and OWN_CODE_SETUP_NAME to the hash of worker code. A version or flag that only one
    setup contains is a change, too, such as ``XLA_FLAGS none -> --x``. Hosts are compared only if
    both setups contain a host, and hashes only if both contain a hash. If `earlier_setup` is empty,
    the earlier setup is unknown, and the result is empty.
    """
    names = [
        name
        for name in dict.fromkeys((*present_setup, *earlier_setup))
        if name not in (HOST_SETUP_NAME, OWN_CODE_SETUP_NAME)
        or (name in present_setup and name in earlier_setup)
    ]
    pairs = [
        (name, earlier_setup.get(name, "none"), present_setup.get(name, "none")) for name in names
    ]
    return tuple(
        f"{name} {old} -> {new}" for name, old, new in pairs if earlier_setup and old != new
    )


def merge_sessions(
    sessions: Iterable[StoredSession], merge_within: datetime.timedelta
) -> tuple[StoredSession, ...]:
    """Merge sessions that began near each other, and return the sessions in the order of time.

    Sessions are merged if they began less than `merge_within` after the first of them, because the
    state of the machine was then the same. A session with `has_change` is an exception, because
    launches of other sessions would hide the change. Such a session is merged only with a session
    of other cases that began at the same moment.
    """
    merged: list[StoredSession] = []
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
    first_session: StoredSession, later_session: StoredSession, merge_within: datetime.timedelta
) -> bool:
    """Return whether `later_session` may be merged into `first_session`.

    `later_session` must have begun less than `merge_within` after `first_session`. If either
    session has a change, both must have begun at the same moment, and have no case in common.
    """
    if first_session.has_change or later_session.has_change:
        return (
            first_session.began == later_session.began
            and first_session.records.keys().isdisjoint(later_session.records)
        )
    return later_session.began - first_session.began < merge_within


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The accepted times of a case on a machine, as a record for each stored session.

    A baseline can also say that the case ran out of memory. Then it has a single record, which has
    no times.

    Attributes:
        case: The case.
        records: A record for each stored session, the oldest first.
        needed_bytes: The memory that the case needed; None if unknown, or if the case has times.
        available_bytes: The memory that was free; None if unknown, or if the case has times.
        memory_limit_bytes: The artificial limit under which the case ran out of memory; None
            without a limit.
        pinned_us: The pinned time in microseconds, which the level may exceed only by the budget.
            So the sum of all small accepted losses is bounded. None if the case ran out of memory.
        pinned_date: The date on which that time was pinned; None if the case ran out of memory.

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
        """Whether the baseline says that the case ran out of memory."""
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
        """The times of all launches of all records, in seconds; empty if the case has no times."""
        return tuple(time_s for record in self.records for time_s in record.times_s)

    @property
    def level_us(self) -> float | None:
        """The median of the medians of sessions, in microseconds; None if the case has no times.

        The median of all launches would be less exact, because launches of a session are alike.
        """
        if self.is_out_of_memory:
            return None
        return statistics.median(statistics.median(record.times_us) for record in self.records)

    @property
    def level_s(self) -> float | None:
        """The median of the medians of sessions, in seconds; None if the case has no times."""
        return None if self.level_us is None else self.level_us / 1e6

    @property
    def pinned_s(self) -> float | None:
        """The pinned time in seconds; None if the case ran out of memory."""
        return None if self.pinned_us is None else self.pinned_us / 1e6

    @property
    def line_id(self) -> tuple[object, ...]:
        """The key of the baseline's line in its file: the case's `line_key` and the memory limit.

        The memory limit is in bytes; 0 without a limit.
        """
        return (self.case.line_key, self.memory_limit_bytes or 0)
