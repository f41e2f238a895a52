"""The nights of a machine as charts need them: each case's launches, outcomes, levels and changes.

Values, and what follows from them alone: reads no history, finds no change and draws nothing. A
*night* is a session that a history kept, whenever it began; places in time are positions in the
nights of the machine.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from busbw.model.case import Case
from busbw.model.words import Outcome, plural

# A case's first nights, which its later ones are compared with.
FIRST_NIGHTS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """A session: its name, when it began, its verdict, its host and the commit that measured."""

    session: str
    began: datetime
    outcome: str
    host: str = ""
    commit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNight:
    """A case in a night: seconds of each launch; FAILED and OUT_OF_MEMORY may have none."""

    times_s: tuple[float, ...]
    outcome: Outcome

    @property
    def time_s(self) -> float | None:
        return statistics.median(self.times_s) if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """The nights `first` to `last`, of which `nights` have a time; `level_s` is their median."""

    first: int
    last: int
    nights: int
    level_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChange:
    """A level that changed at `night`, by `log_ratio` in log time, for `nights` so far.

    `changes` are what changed there, such as ``jaxlib 0.10.1 -> 0.10.2``. `monthly` is how much of
    it is in a month, where it is a steady change. `reason` says why somebody accepts it, empty
    where nobody has.
    """

    night: int
    began: datetime
    log_ratio: float
    nights: int
    changes: tuple[str, ...] = ()
    monthly: float | None = None
    reason: str = ""

    @property
    def ratio(self) -> float:
        return math.exp(self.log_ratio)

    @property
    def text(self) -> str:
        """Such as ``+8.1 % since 2026-03-04``, or ``+1.5 % a month since 2026-03-04``."""
        if self.monthly is not None:
            return f"{_percent(math.exp(self.monthly))} a month since {self.began:%Y-%m-%d}"
        return f"{_percent(self.ratio)} since {self.began:%Y-%m-%d}"

    @property
    def sentence(self) -> str:
        return f"{self.text} ({plural(self.nights, 'night')}); {self.cause}"

    @property
    def cause(self) -> str:
        """What changed there, and why somebody accepts it."""
        there = ", ".join(self.changes) or "nothing that is known"
        accepted = f"; accepted: {self.reason}" if self.reason else ""
        return f"changed there: {there}{accepted}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StackChange:
    """A night before which versions, flags, the host or our own code changed, and how."""

    night: int
    changes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNights:
    """One case of a series, with an entry for each night of the machine, None where it has none.

    None, too, for those `injected`, in which it was made slower on purpose.
    `levels` are oldest first, and `changes` lie between them: with those that all cases of the
    series have in common, which `busbw history` has apart; the figures are those that it has.
    `level_s` and `spread` are as there: the newest level and the relative standard deviation of a
    night about it, without what all cases share in that night.
    """

    case: Case
    series: str
    nights: tuple[CaseNight | None, ...]
    injected: frozenset[int] = frozenset()
    levels: tuple[Level, ...] = ()
    changes: tuple[LevelChange, ...] = ()
    level_s: float | None = None
    spread: float | None = None

    @property
    def times_s(self) -> dict[int, float]:
        """The time of each night that has one, by its position."""
        found = ((at, None if one is None else one.time_s) for at, one in enumerate(self.nights))
        return {at: time_s for at, time_s in found if time_s is not None}

    @property
    def without_time_since(self) -> int | None:
        """The first night after its last time; None if the newest has one, or none ever had."""
        there = [at for at, one in enumerate(self.nights) if one is not None]
        timed = list(self.times_s)
        if not timed or timed[-1] == there[-1]:
            return None
        return next(at for at in there if at > timed[-1])

    @property
    def first_s(self) -> float | None:
        """The median of the first nights that have a time; None without any."""
        first = list(itertools.islice(self.times_s.values(), FIRST_NIGHTS))
        return statistics.median(first) if first else None

    @property
    def newest_s(self) -> float | None:
        return next(reversed(self.times_s.values()), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesNights:
    """Cases whose times can be compared over the nights, such as those of one framework.

    `in_turn`: measured in turn with a locked reference. `shared` are changes of what all its cases
    have in common.
    """

    name: str
    in_turn: bool
    cases: tuple[CaseNights, ...]
    stack_changes: tuple[StackChange, ...] = ()
    shared: tuple[LevelChange, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineNights:
    """The history of one machine, oldest first; `notes` say what is wrong with its files' ends."""

    folder: str
    nights: tuple[Night, ...]
    series: tuple[SeriesNights, ...]
    notes: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[CaseNights, ...]:
        return tuple(case for one in self.series for case in one.cases)

    def series_of(self, case: CaseNights) -> SeriesNights:
        return next(one for one in self.series if one.name == case.series)


def level_of(times_s: Sequence[tuple[int, float]]) -> Level:
    return Level(
        first=times_s[0][0],
        last=times_s[-1][0],
        nights=len(times_s),
        level_s=statistics.median(time_s for _, time_s in times_s),
    )


def _percent(ratio: float) -> str:
    """A ratio as a signed change: two digits after the point below 1 %, one below 10 %."""
    percent = 100 * (ratio - 1)
    decimals = 2 if abs(percent) < 0.995 else 1 if abs(percent) < 9.95 else 0
    return f"{percent:+.{decimals}f} %"
