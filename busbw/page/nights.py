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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from busbw.history.failing import measured_outcome
from busbw.history.files import Acknowledged, acknowledged, read_all
from busbw.history.levels import CaseHistory, LevelChange, MachineHistory, machine_history
from busbw.history.lines import Line, Series
from busbw.judge.policy import POLICIES
from busbw.model.case import Case, converted

# What changed before a night.
StackChanges: TypeAlias = Mapping[int, tuple[str, ...]]

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
class CaseNights:
    """One case of a series, with its lines and times by the `count` nights of the machine.

    None for those `injected`, in which it was made slower on purpose. `stack_changes` are the
    nights before which versions, flags, the host or our own code changed for them, and how.
    `levels` are oldest first, and `changes` lie between them: with those that all cases of the
    series have in common, which `busbw history` has apart; the figures are those that it has.
    `level_s` and `spread` are as there: the newest level and the relative standard deviation of a
    night about it, without what all cases share in that night.
    """

    case: Case
    series: Series
    level_s: float | None
    spread: float | None
    count: int
    nights: Mapping[int, Line]
    times_s: Mapping[int, float]
    stack_changes: StackChanges
    injected: frozenset[int]
    levels: tuple[Level, ...]
    changes: tuple[NightChange, ...]

    @property
    def without_time_since(self) -> int | None:
        """The first night after its last time; None if the newest has one, or none ever had."""
        last = max(self.times_s, default=self.count)
        return next((at for at in self.nights if at > last), None)

    @property
    def first_s(self) -> float | None:
        """The median of the first nights that have a time; None without any."""
        first = list(itertools.islice(self.times_s.values(), FIRST_NIGHTS))
        return statistics.median(first) if first else None

    @property
    def newest_s(self) -> float | None:
        return list(self.times_s.values())[-1] if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineNights:
    """The history of one machine, oldest first: a night's first line stands for it.

    `shared` are changes of what all cases of a series have in common.
    """

    folder: str
    nights: tuple[Line, ...]
    cases: tuple[CaseNights, ...]
    shared: Mapping[str, tuple[NightChange, ...]]


def machines(
    root: Path, baselines: Path, folders: Collection[str] | None = None
) -> tuple[MachineNights, ...]:
    """The machines of the history `root`, or those of them whose folders are named.

    `baselines` is the folder whose file says which changes are accepted. Raises HistoryError.
    """
    known = acknowledged(baselines)
    return tuple(
        machine(folder, lines, known)
        for folder, lines in read_all(root).items()
        if lines and (folders is None or folder in folders)
    )


def machine(
    folder: str, lines: Sequence[Line], known: Sequence[Acknowledged] = ()
) -> MachineNights:
    """One machine from its lines, of which there is one at least."""
    policy = POLICIES[lines[-1].device]
    found = machine_history(folder, lines, apart=policy.session_apart, known=known)
    sessions: dict[str, Line] = {}
    for line in lines:
        sessions.setdefault(line.session, line)
    made = _Machine(
        found=found,
        began=[line.began for line in sessions.values()],
        at={name: position for position, name in enumerate(sessions)},
        injected=frozenset((line.session, line.case) for line in lines if line.injected),
        # Half of what is flagged: changes of a case and of all cases that cancel out are less.
        least=math.log1p(policy.rule.floor / 2),
    )
    changes = {one.series: made.stack_changes(one.series) for one in found.cases}
    # Those of a series one after another.
    order = list(changes)
    ordered = sorted(found.cases, key=lambda one: order.index(one.series))
    return MachineNights(
        folder=folder,
        nights=tuple(sessions.values()),
        cases=tuple(made.case(one, changes[one.series]) for one in ordered),
        shared={
            series.text: tuple(map(made.change, those))
            for series, those in found.shared.items()
            if those
        },
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Machine:
    """A history; when each session began, and its position by its name."""

    found: MachineHistory
    began: Sequence[datetime]
    at: Mapping[str, int]
    injected: Collection[tuple[str, Case]]
    least: float

    def since(self, began: datetime) -> int:
        """The position of the first session that began then or later."""
        return min(bisect.bisect_left(self.began, began), len(self.began) - 1)

    def change(self, one: LevelChange) -> NightChange:
        return converted(NightChange, one, night=self.since(one.began))

    def stack_changes(self, series: Series) -> StackChanges:
        return {
            self.since(after.began): changes
            for before, after in pairwise(self.found.merged.get(series, ()))
            if (changes := after.changes_since(before, series.framework))
        }

    def case(self, one: CaseHistory, stack_changes: StackChanges) -> CaseNights:
        nights = {
            self.at[name]: replace(line, outcome=outcome)
            for name, line in one.sessions.items()
            if (outcome := measured_outcome(line))
        }
        timed = {at: line.time_s for at, line in nights.items()}
        times_s = {at: time_s for at, time_s in timed.items() if time_s is not None}
        changed = [*one.changes, *self.found.shared.get(one.series, ())]
        rises = [self.change(each) for each in changed if each.monthly is not None]
        steps = self.steps([each for each in changed if each.monthly is None], list(times_s))
        levels = _levels(times_s, steps, None if rises else one.level_s)
        changes = sorted([*_changes(levels, steps), *rises], key=lambda each: each.night)
        return converted(
            CaseNights,
            one,
            count=len(self.at),
            nights=nights,
            times_s=times_s,
            stack_changes=stack_changes,
            injected=frozenset(self.at[name] for name, case in self.injected if case == one.case),
            levels=tuple(levels),
            changes=tuple(changes),
        )

    def steps(
        self, changed: Sequence[LevelChange], timed: Sequence[int]
    ) -> Mapping[int, Sequence[LevelChange]]:
        """By the first of the `timed` nights since then, in their order.

        Without those that cancel out, as of a case that did not do what all others did.
        """
        found: dict[int, list[LevelChange]] = {}
        for one in changed:
            at = bisect.bisect_left(timed, self.since(one.began))
            if 0 < at < len(timed):
                found.setdefault(timed[at], []).append(one)
        return {at: found[at] for at in sorted(found) if abs(_log_ratio(found[at])) >= self.least}


def _log_ratio(changed: Iterable[LevelChange]) -> float:
    return math.fsum(one.log_ratio for one in changed)


def _levels(
    times_s: Mapping[int, float],
    steps: Mapping[int, Sequence[LevelChange]],
    newest_s: float | None,
) -> list[Level]:
    """If all are flat with the figures of `busbw history`: the `newest_s`, how each changed."""
    levels: list[Level] = []
    begins = list(steps)
    for _, of in itertools.groupby(times_s.items(), lambda of: bisect.bisect(begins, of[0])):
        nights, those_s = zip(*of)
        levels.append(
            Level(
                first=nights[0],
                last=nights[-1],
                nights=len(nights),
                level_s=statistics.median(those_s),
            )
        )
    if newest_s is None:
        return levels
    found: list[Level] = []
    for one in reversed(levels):
        found.insert(0, replace(one, level_s=newest_s))
        newest_s /= math.exp(_log_ratio(steps.get(one.first, ())))
    return found


def _changes(
    levels: Sequence[Level], steps: Mapping[int, Sequence[LevelChange]]
) -> Iterator[NightChange]:
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
