"""Cases as files store them: baselines, the flat form in results, and the limits of what is read.

Opens no file, and does not decide what may become a baseline. The checks at the end are for values
that were read from a file or a worker; beyond their limits formulas overflow and lists of ranks
fill the memory. Each check raises ValueError with a message that begins with the field.
"""

from __future__ import annotations

import datetime
import functools
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .case import Case
from .launch import Compiled
from .machine import EnvironmentKey, axes_of, names_of

# What surroundings call the machine's name and the hash of our own code that measured. The history
# has them, a baseline does not.
HOST = "host"
OWN_CODE = "busbw's own code"


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
class BaselineSession:
    """The launches that one session added to a baseline, seconds for each.

    `commit` is empty outside of a repository. `surroundings` are the machine's load, its clock
    frequency and the flags of the framework, as far as they are known. `at` is when the session
    began, as `moment_text` has it.
    """

    date: str
    at: str
    commit: str
    versions: Mapping[str, str]
    times_s: tuple[float, ...]
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @property
    def began(self) -> datetime.datetime:
        """When the session began, UTC."""
        return moment_of(self.at)


_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def moment_text(moment: datetime.datetime) -> str:
    """A moment as files have it, such as ``2026-01-31T03:00:00Z``."""
    return moment.astimezone(datetime.timezone.utc).strftime(_MOMENT)


@functools.lru_cache(maxsize=1024)
def moment_of(text: str) -> datetime.datetime:
    """The moment that `text` is. Raises ValueError for another form."""
    return datetime.datetime.strptime(text, _MOMENT).replace(tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """What is stored of a Case on one Environment key: its sessions, oldest first; none if `oom`.

    `date` and `versions` are those of the newest session, or of the entry that says `oom`.
    `pinned_s` is the pinned level in seconds, against which the sum of all accepted small losses
    is bounded, and `pinned_date` when it was pinned; None and empty where it is `oom`.
    `memory_limit_bytes` is the artificial limit that it was `oom` under; None: the machine's own.
    """

    case: Case
    oom: bool
    sessions: tuple[BaselineSession, ...]
    date: str
    versions: Mapping[str, str]
    needed_bytes: int | None = None
    available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    pinned_s: float | None = None
    pinned_date: str = ""

    @property
    def times_s(self) -> tuple[float, ...]:
        return tuple(time_s for session in self.sessions for time_s in session.times_s)

    @property
    def level_s(self) -> float | None:
        """Of sessions' medians: launches of one session are alike. None where it is `oom`."""
        if not self.sessions:
            return None
        return statistics.median(statistics.median(s.times_s) for s in self.sessions)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """What a compiler made of a Case when it was stored; no program if it was out of memory."""

    case: Case
    compiled: Compiled | None
    date: str
    release: str
    needed_bytes: int | None = None
    available_bytes: int | None = None


# What is stored of a case: its times, or its program.
Stored = Baseline | CompiledBaseline

MOST_RANKS = 1_000_000
MOST_BYTES = 10**15
# No clock is finer than the first; the second is eleven days.
LEAST_S, MOST_S = 1e-12, 1e6

_LONGEST_MESH = 60


def check_case(case: Case) -> None:
    _check_count("payload_bytes", case.payload_bytes, MOST_BYTES)
    _check_count("ranks", case.ranks, MOST_RANKS)
    _check_mesh(case.mesh)
    if case.axes:
        _check_axes(case)


def _check_axes(case: Case) -> None:
    if not case.mesh:
        raise ValueError("axes: expected none without a mesh")
    extents, names = axes_of(case.mesh), names_of(case.axes)
    if len(set(names)) != len(names) or not set(names) <= set(extents):
        known = ", ".join(extents)
        raise ValueError(f"axes: expected some of {known}, got {case.axes[:60]!r}")
    if math.prod(extents.values()) != case.ranks:
        raise ValueError(f"mesh: {case.mesh} is not of {case.ranks} ranks")


def check_key(key: EnvironmentKey) -> None:
    for name in ("ranks", "hosts", "processes", "cores"):
        count = getattr(key, name)
        if count is not None:
            _check_count(name, count, MOST_RANKS)
    _check_mesh(key.mesh)


def check_compiled(compiled: Compiled) -> None:
    for name in ("argument", "output", "alias", "temporary", "peak"):
        count = getattr(compiled, f"{name}_bytes")
        if count < 0:
            raise ValueError(f"{name}_bytes: expected 0 or more, got {count}")
    for name in ("collectives", "around", "around_loop"):
        for kind, count in getattr(compiled, name).items():
            if count < 0:
                raise ValueError(f"{name}.{kind[:60]}: expected 0 or more, got {count}")


def check_seconds(name: str, seconds: float) -> None:
    if not LEAST_S <= seconds <= MOST_S:
        raise ValueError(f"{name}: expected {LEAST_S:g} to {MOST_S:g} seconds, got {seconds:g}")


def check_date(name: str, text: str) -> None:
    try:
        datetime.datetime.strptime(text, "%Y-%m-%d")
    except ValueError as error:
        raise ValueError(
            f"{name}: expected a date such as 2026-01-31, got {text[:60]!r}"
        ) from error


def check_moment(name: str, text: str) -> None:
    try:
        moment_of(text)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected a moment such as 2026-01-31T03:00:00Z, got {text[:60]!r}"
        ) from error


def _check_count(name: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise ValueError(f"{name}: expected 1 to {most}, got {count}")


def _check_mesh(mesh: str) -> None:
    if len(mesh) > _LONGEST_MESH:
        raise ValueError(f"mesh: expected one such as 2x4, got {mesh[:60]!r}...")
    if mesh:
        try:
            axes_of(mesh)
        except ValueError as error:
            raise ValueError(f"mesh: {error}") from error
