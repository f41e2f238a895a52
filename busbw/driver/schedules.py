"""The schedule: the order of cases and of two stacks over launches, and how much is left.

A case whose worker died is a Failure of its launch; a new process, in a new launch, measures the
cases after it. Results are kept as they come, so that an interrupted session still has them.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Measurement, Pace, Plan, Run
from busbw.model.machine import EnvironmentKey

# By the name of a request: the type of its reply, unless that is a Failure.
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
    """How far the schedule is, before `case` is measured."""

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
    processes can have the devices open. `observers` are called with each case that was measured,
    and with None before the first case of a launch.
    """

    executor: Executor
    cases: Mapping[Case, EnvironmentKey]
    plan: Plan
    stacks: Mapping[Side, Stack]
    shared: bool = False
    on_progress: Callable[[Progress], None] = lambda progress: None
    observers: Sequence[Callable[[Case | None], None]] = ()
    _results: dict[tuple[Side, Case], list[Run | Failure]] = field(default_factory=dict)
    _number: int = 0
    _last: int = 0
    _launched: int = 0
    _to_launch: int = 0
    _done: list[Case] = field(default_factory=list)
    _planned: list[Case] = field(default_factory=list)
    _previous: Group | None = None
    _large_first: bool = False
    _shuffler: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._shuffler = random.Random(self.plan.seed)

    def run(self) -> None:
        self.passes(tuple(self.cases), self.plan.launches)

    def passes(self, cases: Sequence[Case], passes: int) -> None:
        """Measure `cases` in `passes` more passes. However that ends, no worker is left."""
        # If only one can have the devices, each side has a launch of its own over the cases.
        times = passes * (1 if self.shared else len(self.stacks))
        self._planned += [*cases] * times
        self._to_launch += len({case.framework for case in cases}) * times
        self._last = self._number + passes
        with self.executor:
            for _ in range(passes):
                self._number += 1
                self._one_pass(cases)
            self._close_previous()

    def measurements(self, side: Side = Side.CANDIDATE) -> tuple[Measurement, ...]:
        results = {case: self._results.get((side, case), []) for case in self.cases}
        return tuple(
            Measurement(
                case=case,
                runs=tuple(result for result in case_results if isinstance(result, Run)),
                failures=tuple(result for result in case_results if isinstance(result, Failure)),
            )
            for case, case_results in results.items()
        )

    @property
    def _is_paired(self) -> bool:
        return len(self.stacks) > 1

    def _one_pass(self, cases: Sequence[Case]) -> None:
        """Measure frameworks one after the other; sides take turns A B, B A, B A, A B, and so on.

        Large cases of a stack by itself are by turns at the beginning and the end of a launch.
        """
        sides = tuple(self.stacks)
        order = sides if self._number % 4 < 2 else sides[::-1]
        frameworks = sorted({case.framework for case in cases})
        self._shuffler.shuffle(frameworks)
        for framework in frameworks:
            selected = [case for case in cases if case.framework == framework]
            ordered = shuffled(selected, self._shuffler, large_first=self._large_first)
            for sides_of_launch in [order] if self.shared else [(side,) for side in order]:
                self._launch(framework, ordered, sides_of_launch)
            self._large_first = not (self._is_paired or self._large_first)

    def _launch(self, framework: str, cases: Sequence[Case], sides: Sequence[Side]) -> None:
        """Measure all `cases`; after a case whose worker died another launch goes on.

        A single stack that shares its devices hands over: a worker exits when the next is ready,
        which gets the memory that the worker had.
        """
        self._launched += 1
        attempt = 0
        while cases:
            attempt += 1
            groups, failed = self._start(framework, sides, attempt)
            self._close_previous()
            for side, failure in failed.items():
                for case in cases:
                    self._keep(side, case, failure)
            if failed:
                self._done += cases
            cases = () if failed else self._measure(groups, cases)
            for group in groups.values():
                if self.shared and not (self._is_paired or cases or group.is_over):
                    self._previous = group
                else:
                    self.executor.close(group)

    def _start(
        self, framework: str, sides: Sequence[Side], attempt: int
    ) -> tuple[Mapping[Side, Group], Mapping[Side, Failure]]:
        """Start both sides together; return what is ready, or the first failure."""
        groups: dict[Side, Group] = {}
        with self.executor.counted("starting"):
            for side in sides:
                launch = LaunchId(
                    pass_number=self._number,
                    framework=framework,
                    part=side.value if self._is_paired else "",
                    attempt=attempt,
                )
                groups[side] = self.executor.start(self.stacks[side].starters[framework], launch)
            for side in sides:
                begun = self.executor.begin(groups[side])
                if isinstance(begun, Failure):
                    return groups, {side: begun}
                groups[side] = begun
        return groups, {}

    def _measure(self, groups: Mapping[Side, Group], cases: Sequence[Case]) -> Sequence[Case]:
        """Measure `cases` until a worker dies; return the cases that are left."""
        self._observe(None)
        for index, case in enumerate(cases):
            self._report(case)
            is_interleaved = len(groups) > 1 and bytes_of(case) < LARGE_BYTES
            measure = self._measure_interleaved if is_interleaved else self._measure_in_a_row
            with self.executor.counted("measuring"):
                measure(groups, case)
            self._observe(case)
            self._done.append(case)
            if any(group.is_over for group in groups.values()):
                return cases[index + 1 :]
        return ()

    def _observe(self, case: Case | None) -> None:
        for observe in self.observers:
            observe(case)

    def _measure_in_a_row(self, groups: Mapping[Side, Group], case: Case) -> None:
        for side, group in groups.items():
            self._ask(side, group, case, "measure")
            if len(groups) > 1 and not any(group.is_over for group in groups.values()):
                self._ask(side, group, case, "release")

    def _measure_interleaved(self, groups: Mapping[Side, Group], case: Case) -> None:
        """Take samples A B B A; a side that fails is dropped, and the other one goes on alone."""
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
            runs = [run for run in self._results.get((side, case), ()) if isinstance(run, Run)]
            values = {
                "case": case,
                "plan": self.plan,
                "key": self.cases[case],
                "injection": self.stacks[side].injection,
                "pace": Pace.from_run(runs[-1]) if runs else None,
            }
        request: Request[Any] = Request(name, _KINDS[name], values)
        answer = group.ask(request, self.plan.timeout_s, f"measuring {case.name}")
        if isinstance(answer, Run | Failure):
            self._keep(side, case, answer)
        return answer

    def _close_previous(self) -> None:
        group, self._previous = self._previous, None
        if group is not None:
            self.executor.close(group)

    def _keep(self, side: Side, case: Case, result: Run | Failure) -> None:
        self._results.setdefault((side, case), []).append(result)

    def _report(self, case: Case) -> None:
        self.on_progress(
            Progress(
                pass_number=self._number,
                passes=self._last,
                case=case,
                done=len(self._done),
                total=len(self._planned),
                remaining_s=self._remaining_s() if self._done else None,
            )
        )

    def _remaining_s(self) -> float:
        """Estimate the time that is left: a launch takes its mean, a case in proportion to cost."""
        spent_s = Counter(self.executor.spent_s)
        done, planned = (sum(map(cost, cases)) for cases in (self._done, self._planned))
        case_s = spent_s["measuring"] / done * (planned - done)
        launch_s = (spent_s["starting"] + spent_s["ending"]) / self._launched
        return case_s + launch_s * (self._to_launch - self._launched)


LARGE_BYTES = 2**30
_FIXED_COST = 2**26


def shuffled(cases: Sequence[Case], shuffler: random.Random, *, large_first: bool) -> list[Case]:
    """Return `cases` in random order, but large ones together at one end, the largest outermost.

    The large cases of one launch are then next to the large cases of the following launch, and each
    reuses the memory that the case before released. Memory that was in use a moment ago is
    available at once; what a virtual machine returned to its host comes back at half a GiB/s
    (observed), which would take most of the session.
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
