"""The nights of a machine: each case's launches, outcomes, levels and changes, as charts need them.

A *night* is a session that a history kept, whenever it began; places in time are positions in the
nights of the machine. A history has the changes of a case apart from those that all cases share. A
chart shows times as they were measured, in which both are: here a level changes by their sum.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from busbw.history.files import Acknowledged, Read, acknowledged, read_all
from busbw.history.levels import CaseHistory, LevelChange, MachineHistory, machine_history
from busbw.history.lines import Line, Series
from busbw.judge.policy import POLICIES
from busbw.model.case import Case, converted
from busbw.model.words import FailureKind, Outcome

# A case's first nights, which its later ones are compared with.
FIRST_NIGHTS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """The nights `first` to `last`, of which `nights` have a time; `level_s` is their median."""

    first: int
    last: int
    nights: int
    level_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NightChange(LevelChange):
    """A level that changed at `night`."""

    night: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StackChange:
    """A night before which versions, flags, the host or our own code changed, and how."""

    night: int
    changes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseNights:
    """One case of a series, with its line of each night of the machine, None where it has none.

    None, too, for those `injected`, in which it was made slower on purpose.
    `levels` are oldest first, and `changes` lie between them: with those that all cases of the
    series have in common, which `busbw history` has apart; the figures are those that it has.
    `level_s` and `spread` are as there: the newest level and the relative standard deviation of a
    night about it, without what all cases share in that night.
    """

    case: Case
    series: str
    nights: tuple[Line | None, ...]
    injected: frozenset[int] = frozenset()
    levels: tuple[Level, ...] = ()
    changes: tuple[NightChange, ...] = ()
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
    shared: tuple[NightChange, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineNights:
    """The history of one machine, oldest first: a night's first line stands for it.

    `notes` say what is wrong with the files' ends.
    """

    folder: str
    nights: tuple[Line, ...]
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


def machines(
    root: Path, baselines: Path, folders: Collection[str] | None = None
) -> tuple[MachineNights, ...]:
    """The machines of the history `root`, or those of them whose folders are named.

    `baselines` is the folder whose file says which changes are accepted. Raises HistoryError.
    """
    known = acknowledged(baselines)
    return tuple(
        machine(folder, read, known)
        for folder, read in read_all(root).items()
        if read.lines and (folders is None or folder in folders)
    )


def machine(folder: str, read: Read, known: Sequence[Acknowledged] = ()) -> MachineNights:
    """One machine from its lines, of which there is one at least."""
    policy = POLICIES[read.lines[-1].device]
    found = machine_history(folder, read.lines, apart=policy.session_apart, known=known)
    lines: dict[str, Line] = {}
    for line in read.lines:
        lines.setdefault(line.session, line)
    return _Machine(
        found=found,
        lines=lines,
        injected=frozenset((line.session, line.case) for line in read.lines if line.injected),
        began=[line.began for line in lines.values()],
        at={name: position for position, name in enumerate(lines)},
        # Half of what is flagged: changes of a case and of all cases that cancel out are less.
        least=math.log1p(policy.rule.floor / 2),
    ).nights(read.notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Machine:
    """A history; the first line of each session, when it began, and its position, by its name."""

    found: MachineHistory
    lines: Mapping[str, Line]
    injected: Collection[tuple[str, Case]]
    began: Sequence[datetime]
    at: Mapping[str, int]
    least: float

    def since(self, began: datetime) -> int:
        """The position of the first session that began then or later."""
        return min(bisect.bisect_left(self.began, began), len(self.began) - 1)

    def nights(self, notes: tuple[str, ...]) -> MachineNights:
        cases: dict[Series, list[CaseHistory]] = {}
        for one in self.found.cases:
            cases.setdefault(one.series, []).append(one)
        return MachineNights(
            folder=self.found.folder,
            nights=tuple(self.lines.values()),
            series=tuple(self._series(series, those) for series, those in cases.items()),
            notes=notes,
        )

    def _series(self, series: Series, cases: Sequence[CaseHistory]) -> SeriesNights:
        shared = self.found.shared.get(series, ())
        return SeriesNights(
            name=series.text,
            in_turn=bool(series.stack),
            cases=tuple(self._case(one, shared) for one in cases),
            stack_changes=tuple(self._stack_changes(series)),
            shared=tuple(map(self._change, shared)),
        )

    def _stack_changes(self, series: Series) -> Iterable[StackChange]:
        for before, after in pairwise(self.found.merged.get(series, ())):
            changes = after.changes_since(before, series.framework)
            if changes:
                yield StackChange(night=self.since(after.began), changes=changes)

    def _case(self, one: CaseHistory, shared: Sequence[LevelChange]) -> CaseNights:
        found = CaseNights(
            case=one.case,
            series=one.series.text,
            nights=self._nights(one),
            injected=frozenset(self.at[name] for name, case in self.injected if case == one.case),
            level_s=one.level_s,
            spread=one.spread,
        )
        changed = [*one.changes, *shared]
        rises = [self._change(change) for change in changed if change.monthly is not None]
        steps = self._steps([one for one in changed if one.monthly is None], list(found.times_s))
        nights = itertools.groupby(
            found.times_s.items(), lambda of: bisect.bisect(list(steps), of[0])
        )
        levels = [level_of(list(those)) for _, those in nights]
        if one.level_s is not None and not rises:
            levels = _as_found(levels, steps, one.level_s)
        changes = sorted([*_changes(levels, steps), *rises], key=lambda one: one.night)
        return replace(found, levels=tuple(levels), changes=tuple(changes))

    def _steps(
        self, changed: Sequence[LevelChange], timed: Sequence[int]
    ) -> Mapping[int, Sequence[LevelChange]]:
        """By the first night with a time since then, in their order.

        Without those that cancel out, as of a case that did not do what all others did.
        """
        found: dict[int, list[LevelChange]] = {}
        for one in changed:
            at = bisect.bisect_left(timed, self.since(one.began))
            if 0 < at < len(timed):
                found.setdefault(timed[at], []).append(one)
        return {at: found[at] for at in sorted(found) if abs(_log_ratio(found[at])) >= self.least}

    def _change(self, one: LevelChange) -> NightChange:
        return converted(NightChange, one, night=self.since(one.began))

    def _nights(self, one: CaseHistory) -> tuple[Line | None, ...]:
        nights: list[Line | None] = [None] * len(self.at)
        for name, line in one.sessions.items():
            outcome = _outcome(line)
            if outcome is not None:
                nights[self.at[name]] = replace(line, outcome=outcome)
        return tuple(nights)


def _log_ratio(changed: Iterable[LevelChange]) -> float:
    return math.fsum(one.log_ratio for one in changed)


def _changes(
    levels: Sequence[Level], steps: Mapping[int, Sequence[LevelChange]]
) -> Iterable[NightChange]:
    for before, after in pairwise(levels):
        there = steps[after.first]
        yield NightChange(
            night=after.first,
            began=there[0].began,
            log_ratio=math.log(after.level_s / before.level_s),
            sessions=after.nights,
            changes=tuple(dict.fromkeys(text for one in there for text in one.changes)),
            reason=next((one.reason for one in there if one.reason), ""),
        )


def _as_found(
    levels: Sequence[Level], steps: Mapping[int, Sequence[LevelChange]], level_s: float
) -> list[Level]:
    """With the figures of `busbw history`: the newest level, and by how much each changed."""
    found: list[Level] = []
    for one in reversed(levels):
        found.insert(0, replace(one, level_s=level_s))
        level_s /= math.exp(_log_ratio(steps.get(one.first, ())))
    return found


def _outcome(line: Line) -> Outcome | None:
    """The verdict; None for a case that was not measured.

    The reference's own lines have none, and what failed instead.
    """
    if line.times_us or line.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY):
        return line.outcome
    if line.failure in (None, FailureKind.OTHER_DTYPE):
        return None
    is_memory = line.failure is FailureKind.OUT_OF_MEMORY
    return Outcome.OUT_OF_MEMORY if is_memory else Outcome.FAILED
