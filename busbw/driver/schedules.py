"""The schedule: the order of cases and of two stacks over launches, and how much is left.

A case whose worker died is a Failure of its launch; a new process, in a new launch, takes the rest.
Results are kept as they come, so that an interrupted session still has what it measured.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

from busbw.driver.counters import Counters
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter
from busbw.model.case import Case
from busbw.model.counters import Counted
from busbw.model.launch import (
    Failure,
    Injection,
    LaunchId,
    Measurement,
    Pace,
    Plan,
    Run,
)
from busbw.model.machine import EnvironmentKey

# By the name of a request: what answers it, or a Failure.
_KINDS: Mapping[str, type] = {
    "measure": Run,
    "open": bool,
    "turn": bool,
    "close": Run,
    "release": NoneType,
}


class Side(enum.StrEnum):
    """Which of two stacks; a stack by itself is the candidate."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """How workers are started, by framework, and what is injected into them, if anything."""

    starters: Mapping[str, Starter]
    injection: Injection | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where the schedule stands, before `case` is measured."""

    pass_number: int
    passes: int
    case: Case
    done: int
    total: int
    remaining_s: float | None


@dataclass
class Schedule:
    """All launches of all cases, each with the Environment key that it was resolved on.

    One of `stacks` is measured by itself, two are measured in pairs of launches. `shared`: two
    processes can have the devices open. `counted` is what `counters` say of each case.
    """

    executor: Executor
    cases: Mapping[Case, EnvironmentKey]
    plan: Plan
    stacks: Mapping[Side, Stack]
    shared: bool = False
    on_progress: Callable[[Progress], None] = lambda progress: None
    counters: Counters | None = None
    counted: dict[Case, Counted] = field(default_factory=dict)
    _results: dict[tuple[Side, Case], list[Run | Failure]] = field(default_factory=dict)
    _number: int = 0
    _last: int = 0
    _launched: int = 0
    _to_launch: int = 0
    _done: list[Case] = field(default_factory=list)
    _asked: list[Case] = field(default_factory=list)
    _previous: Group | None = None
    _large_first: bool = False
    _shuffler: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._shuffler = random.Random(self.plan.seed)

    def run(self) -> None:
        self.passes(tuple(self.cases), self.plan.launches)

    def passes(self, cases: Sequence[Case], passes: int) -> None:
        """`passes` more passes over `cases`. However it ends, no worker is left."""
        # If only one can have the devices, each side has a launch of its own over the cases.
        times = passes * (1 if self.shared else len(self.stacks))
        self._asked += [*cases] * times
        self._to_launch += len({case.framework for case in cases}) * times
        self._last = self._number + passes
        with self.executor:
            for _ in range(passes):
                self._number += 1
                self._one_pass(cases)
            self._close_previous()

    def measurements(self, side: Side = Side.CANDIDATE) -> tuple[Measurement, ...]:
        kept = {case: self._results.get((side, case), []) for case in self.cases}
        return tuple(
            Measurement(
                case=case,
                runs=tuple(one for one in results if isinstance(one, Run)),
                failures=tuple(one for one in results if isinstance(one, Failure)),
            )
            for case, results in kept.items()
        )

    def _one_pass(self, cases: Sequence[Case]) -> None:
        """Frameworks one after the other; sides by turns A B, B A, B A, A B, and so on.

        Large cases of a stack by itself are by turns at the beginning and the end of a launch.
        """
        sides = tuple(self.stacks)
        paired = len(sides) > 1
        order = sides if self._number % 4 < 2 else sides[::-1]
        for framework, of_framework in self._frameworks(cases).items():
            ordered = shuffled(of_framework, self._shuffler, large_first=self._large_first)
            for at_once in [order] if self.shared else [(side,) for side in order]:
                self._launches(framework, ordered, at_once, handover=self.shared and not paired)
            self._large_first = not (paired or self._large_first)

    def _frameworks(self, cases: Sequence[Case]) -> dict[str, list[Case]]:
        """Their cases, in random order."""
        found: dict[str, list[Case]] = {}
        for name in (name for stack in self.stacks.values() for name in stack.starters):
            of_framework = [case for case in cases if case.framework == name]
            found |= {name: of_framework} if of_framework else {}
        names = list(found)
        self._shuffler.shuffle(names)
        return {name: found[name] for name in names}

    def _launches(
        self, framework: str, cases: Sequence[Case], sides: Sequence[Side], *, handover: bool
    ) -> None:
        """With `handover` a worker exits when the next is ready, which finds the memory it had."""
        left, attempt = list(cases), 0
        self._launched += 1
        while left:
            attempt += 1
            left = self._launch(framework, left, sides, attempt, handover=handover)

    def _launch(
        self,
        framework: str,
        cases: list[Case],
        sides: Sequence[Side],
        attempt: int,
        *,
        handover: bool,
    ) -> list[Case]:
        """Measure `cases` until a worker dies; returns those that are left."""
        starters = {side: self.stacks[side].starters[framework] for side in sides}
        groups: dict[Side, Group] = {}
        with self.executor.counted("starting"):
            for side, starter in starters.items():
                part = side.value if len(self.stacks) > 1 else ""
                launch = replace(self._launch_id(framework, part), attempt=attempt)
                groups[side] = self.executor.start(starter, launch)
            for side, starter in starters.items():
                begun = self.executor.begun(groups[side], starter)
                if isinstance(begun, Failure):
                    for case in cases:
                        self._keep(side, case, begun)
                        self._done.append(case)
                    break
                groups[side] = begun
        self._close_previous()
        left = [] if isinstance(begun, Failure) else self._cases(groups, cases)
        for group in groups.values():
            if handover and not left and not group.is_over:
                self._previous = group
            else:
                self.executor.close(group)
        return left

    def _launch_id(self, framework: str, part: str) -> LaunchId:
        return LaunchId(pass_number=self._number, framework=framework, part=part)

    def _cases(self, groups: Mapping[Side, Group], cases: Sequence[Case]) -> list[Case]:
        # What changes while nothing is measured is of no case.
        self._count(None)
        for index, case in enumerate(cases):
            self._tell(case)
            in_turn = len(groups) > 1 and bytes_of(case) < LARGE_BYTES
            with self.executor.counted("measuring"):
                measure = self._in_turn if in_turn else self._in_a_row
                measure(groups, case)
            self._count(case)
            self._done.append(case)
            if any(group.is_over for group in groups.values()):
                return list(cases[index + 1 :])
        return []

    def _count(self, case: Case | None) -> None:
        since = self.counters.since() if self.counters is not None else None
        if since and case:
            self.counted[case] = self.counted.get(case, Counted()).plus(since)

    def _in_a_row(self, groups: Mapping[Side, Group], case: Case) -> None:
        for side, group in groups.items():
            self._ask(side, group, case, "measure")
            if len(groups) > 1 and not any(one.is_over for one in groups.values()):
                self._ask(side, group, case, "release")

    def _in_turn(self, groups: Mapping[Side, Group], case: Case) -> None:
        """Samples A B B A; a side that fails is dropped, and the other one goes on alone."""
        enough = {
            side: False
            for side, group in groups.items()
            if isinstance(self._ask(side, group, case, "open"), bool)
        }
        order = list(enough)
        while not all(enough.values()):
            for side in [side for side in order if side in enough]:
                answer = self._ask(side, groups[side], case, "turn")
                if isinstance(answer, bool):
                    enough[side] = answer
                else:
                    del enough[side]
            order.reverse()
        for side in enough:
            self._ask(side, groups[side], case, "close")

    def _ask(self, side: Side, group: Group, case: Case, name: str) -> Any:
        """Return the answer; a Run or a Failure is kept as the case's."""
        values: dict[str, object] = {}
        if name in ("measure", "open"):
            injection = self.stacks[side].injection
            key = self.cases[case]
            values = {"case": case, "plan": self.plan, "key": key, "injection": injection}
            values["pace"] = self._pace(side, case)
        doing = f"measuring {case.name}"
        answer = group.ask(Request(name, _KINDS[name], values), self.plan.timeout_s, doing)
        if isinstance(answer, (Run, Failure)):
            self._keep(side, case, answer)
        return answer

    def _pace(self, side: Side, case: Case) -> Pace | None:
        runs = [one for one in self._results.get((side, case), ()) if isinstance(one, Run)]
        return Pace.of(runs[-1]) if runs else None

    def _close_previous(self) -> None:
        group, self._previous = self._previous, None
        if group is not None:
            self.executor.close(group)

    def _keep(self, side: Side, case: Case, result: Run | Failure) -> None:
        self._results.setdefault((side, case), []).append(result)

    def _tell(self, case: Case) -> None:
        self.on_progress(
            Progress(
                pass_number=self._number,
                passes=self._last,
                case=case,
                done=len(self._done),
                total=len(self._asked),
                remaining_s=self._remaining_s() if self._done else None,
            )
        )

    def _remaining_s(self) -> float:
        """What is left takes as long as what is done: a launch to start and end, a case by cost."""
        spent_s = self.executor.spent_s
        measured_s, launched_s = (
            sum(spent_s.get(phase, 0.0) for phase in phases)
            for phases in (("measuring",), ("starting", "ending"))
        )
        done, asked = (sum(map(cost, cases)) for cases in (self._done, self._asked))
        to_launch = self._to_launch - self._launched
        return measured_s / done * (asked - done) + launched_s / self._launched * to_launch


LARGE_BYTES = 2**30
_FIXED_COST = 2**26


def shuffled(cases: Sequence[Case], shuffler: random.Random, *, large_first: bool) -> list[Case]:
    """`cases` in random order, but the large ones together at one end, the largest outermost.

    The large cases of one launch are then next to those of the following one, and each reuses the
    memory that the one before released. Memory that was in use a moment ago is available at once;
    what a virtual machine returned to its host comes back at half a GiB/s (observed), which would
    take most of the session.
    """
    small = [case for case in cases if bytes_of(case) < LARGE_BYTES]
    large = [case for case in cases if bytes_of(case) >= LARGE_BYTES]
    shuffler.shuffle(small)
    shuffler.shuffle(large)
    large.sort(key=bytes_of, reverse=large_first)
    return large + small if large_first else small + large


def bytes_of(case: Case) -> int:
    return case.payload_bytes * case.ranks


def cost(case: Case) -> int:
    return _FIXED_COST + case.payload_bytes
