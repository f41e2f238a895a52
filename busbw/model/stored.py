"""What is kept of cases: records of launches, baselines with their pins, sessions before today.

Opens no file, and does not decide what may become a baseline.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .case import Case
from .launch import Compiled
from .limits import Date, Microseconds, Moment, Natural, moment_of

# What surroundings call the machine's name and the hash of our own code that measured. The history
# has them, a baseline does not.
HOST = "host"
OWN_CODE = "busbw's own code"
# What differs from one session to the next though nothing changed.
_PASSING = {"load", "clock MHz"}


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierSession:
    """What one session measured before today: seconds of each launch, by case.

    `regressed` are the cases that it found slower, `improved` those faster.
    `surroundings` are versions, flags, the host and the code of ours that measured. `parts` are the
    sessions that were joined to this one, none if it is one.
    """

    began: datetime.datetime
    times_s: Mapping[Case, tuple[float, ...]]
    regressed: frozenset[Case] = frozenset()
    improved: frozenset[Case] = frozenset()
    surroundings: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[EarlierSession, ...] = ()

    def joined(self, other: EarlierSession) -> EarlierSession:
        times_s = dict(self.times_s)
        for case, more in other.times_s.items():
            times_s[case] = times_s.get(case, ()) + more
        return replace(
            self,
            times_s=times_s,
            regressed=self.regressed | other.regressed,
            improved=self.improved | other.improved,
            parts=(*(self.parts or (self,)), other),
        )

    def changes_since(self, before: EarlierSession) -> tuple[str, ...]:
        """What changed, such as ``jax 0.10.1 -> 0.10.2``, of what was known before."""
        return changes(before.surroundings, self.surroundings)


def changes(known: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    both = [name for name in now if name in known]
    gone = [name for name in known if name not in now and name not in (HOST, OWN_CODE)]
    return tuple(
        f"{name} {known[name]} -> {now.get(name, 'none')}"
        for name in both + gone
        if known[name] != now.get(name)
    )


def merged(
    sessions: Iterable[EarlierSession], apart: datetime.timedelta
) -> tuple[EarlierSession, ...]:
    """In the order of time; those that began less than `apart` after the first are one."""
    found: list[EarlierSession] = []
    for session in sorted(sessions, key=lambda one: one.began):
        if found and session.began - found[-1].began < apart:
            found[-1] = found[-1].joined(session)
        else:
            found.append(session)
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What the launches of a case took in one session, and with what.

    `at` is when the session began, UTC; without times the case was out of memory, or failed.
    `commit` is that of the working directory, empty outside of a repository. `surroundings` are
    flags of the framework and, as far as they are known, the machine's load and clock frequency.
    """

    at: Moment
    commit: str = ""
    times_us: tuple[Microseconds, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @property
    def began(self) -> datetime.datetime:
        return moment_of(self.at)

    @property
    def date(self) -> str:
        """The day, UTC."""
        return self.at[: len("2026-01-31")]

    @property
    def times_s(self) -> tuple[float, ...]:
        return tuple(time_us / 1e6 for time_us in self.times_us)

    @property
    def lasting(self) -> Mapping[str, str]:
        """Versions and surroundings, without what differs though nothing changed."""
        kept = {name: self.surroundings[name] for name in self.surroundings.keys() - _PASSING}
        return {**self.versions, **kept}


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
        """Its records with times."""
        return () if self.oom else self.records

    @property
    def date(self) -> str:
        return self.records[-1].date

    @property
    def versions(self) -> Mapping[str, str]:
        return self.records[-1].versions

    @property
    def times_s(self) -> tuple[float, ...]:
        return tuple(time_s for record in self.records for time_s in record.times_s)

    @property
    def level_us(self) -> float | None:
        """Of sessions' medians: launches of one session are alike. None where it is `oom`."""
        if self.oom:
            return None
        return statistics.median(statistics.median(one.times_us) for one in self.records)

    @property
    def level_s(self) -> float | None:
        if self.oom:
            return None
        return statistics.median(statistics.median(one.times_s) for one in self.records)

    @property
    def pinned_s(self) -> float | None:
        return None if self.pinned_us is None else self.pinned_us / 1e6

    @property
    def line(self) -> tuple[object, ...]:
        """What is unique in its file: its case, and the limit that it was out of memory under."""
        return (self.case.key.line_key, self.memory_limit_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """What a compiler made of a Case when it was stored; no program if it was out of memory."""

    case: Case
    compiled: Compiled | None
    date: Date
    release: str
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None

    @property
    def line(self) -> tuple[object, ...]:
        return (self.case.key.line_key, 0)


# What is stored of a case: its times, or its program.
Stored = Baseline | CompiledBaseline
