"""Measure all cases of a session, in rounds of launches.

In a round each framework is launched once, or once for each of two stacks, and a launch measures
all cases of the framework. If a worker dies, the case that it measured gets a Failure, and a new
process measures the remaining cases. Each result is kept as soon as the result is known, so an
interrupted session has the results so far.
"""

from __future__ import annotations

import enum
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, WorkerSpec
from busbw.model.case import Case
from busbw.model.launch import (
    Failure,
    Injection,
    LaunchId,
    Measurement,
    MeasurementPlan,
    PreviousPace,
    Run,
)
from busbw.model.machine import EnvironmentKey

# The type of the reply by the name of the request. Any request can also be answered by a Failure.
_REPLY_TYPES: Mapping[str, type] = {
    "measure": Run,
    "open": bool,
    "sample": bool,
    "close": Run,
    "release": NoneType,
}


class Side(enum.StrEnum):
    """The role of a measured stack: candidate or reference. A single stack is the candidate."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


@dataclass(frozen=True, kw_only=True, slots=True)
class StackWorkers:
    """The workers that measure a stack (Python, frameworks, packages and flags).

    Attributes:
        worker_specs: How the workers of each framework are started, by the framework.
        injection: A loss to cause on purpose in the workers; None for no loss.

    """

    worker_specs: Mapping[str, WorkerSpec]
    injection: Injection | None = None


@dataclass
class RoundRunner:
    """The rounds of launches that measure the cases of a session, and the results so far.

    Attributes:
        executor: The executor that starts and ends the workers.
        cases: The cases to measure, each with the environment key of its devices.
        plan: The number of rounds and samples, and the seed of the random order.
        stacks: The stacks to measure, by side: the candidate alone, or the reference and the
            candidate, which are interleaved.
        can_overlap: Whether two workers can use the devices at the same time. Otherwise two stacks
            are launched one after the other.
        on_progress: A function that is called before each measurement of a case, with a text on the
            progress: the present and the planned rounds, the present and the planned measurements,
            and the case. A case that is measured with two stacks counts as two measurements.
        observers: Functions that are called with each case after the case was measured, and with
            None before the first case of a launch.
        measured_at_s: The moment at which each case was measured last, in seconds of
            `time.monotonic`.

    """

    executor: Executor
    cases: Mapping[Case, EnvironmentKey]
    plan: MeasurementPlan
    stacks: Mapping[Side, StackWorkers]
    can_overlap: bool = False
    on_progress: Callable[[str], None] = lambda text: None
    observers: Sequence[Callable[[Case | None], None]] = ()
    measured_at_s: dict[Case, float] = field(default_factory=dict)
    _results: dict[tuple[Side, Case], list[Run | Failure]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _round: int = 0
    _last_round: int = 0
    _planned_count: int = 0
    _begin_s: float = -math.inf
    _previous_group: Group | None = None
    _is_largest_first: bool = False
    _shuffler: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._shuffler = random.Random(self.plan.seed)

    def run(self) -> None:
        """Measure all cases in as many rounds as the plan says (`plan.launches`)."""
        self.run_rounds(tuple(self.cases), self.plan.launches)

    def run_rounds(self, cases: Sequence[Case], rounds: int, begin_s: float = -math.inf) -> None:
        """Measure `cases` in additional rounds, whose number is `rounds`.

        The first workers are started at once, but no case is measured before the moment `begin_s`,
        in seconds of `time.monotonic`. At the end no worker is running, even after an error.
        """
        self._begin_s = begin_s
        self._planned_count += len(cases) * rounds * len(self.stacks)
        self._last_round = self._round + rounds
        with self.executor:
            for _ in range(rounds):
                self._round += 1
                self._run_round(cases)
            self._close_previous_group()

    def measurements(self, side: Side = Side.CANDIDATE) -> tuple[Measurement, ...]:
        """Return a Measurement of each case, with the results so far of the stack `side`.

        The Measurements have the order of `cases`. The Measurement of a case that was not measured
        has no Run and no Failure.
        """
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

    def _run_round(self, cases: Sequence[Case]) -> None:
        """Launch each framework once for each stack, one framework after the other.

        With the stacks A and B the orders of successive rounds are A B, B A, B A, A B, and so on.
        With a single stack the large cases are at the end of the first launch, at the beginning of
        the next launch, and so on, so that large cases of successive launches follow each other.
        """
        sides = tuple(self.stacks)
        order = sides if self._round % 4 < 2 else sides[::-1]
        frameworks = sorted({case.framework for case in cases})
        self._shuffler.shuffle(frameworks)
        for framework in frameworks:
            selected = [case for case in cases if case.framework == framework]
            ordered = shuffle_cases(
                selected, self._shuffler, is_largest_first=self._is_largest_first
            )
            for sides_of_launch in [order] if self.can_overlap else [(side,) for side in order]:
                self._run_launches_of_cases(framework, ordered, sides_of_launch)
            self._is_largest_first = not (self._is_paired or self._is_largest_first)

    def _run_launches_of_cases(
        self, framework: str, cases: Sequence[Case], sides: Sequence[Side]
    ) -> None:
        """Measure `cases`, the cases of a framework, in this order with the stacks `sides`.

        If a worker dies, new workers measure the remaining cases. If workers do not become ready,
        each remaining case gets the failure. If a single stack is measured and `can_overlap` is
        true, a worker exits only after the worker of the next launch is ready. A virtual machine
        then has no time to return the released memory to its host.
        """
        attempt = 0
        while cases:
            attempt += 1
            groups, failed = self._start_groups(framework, sides, attempt)
            self._close_previous_group()
            time.sleep(max(0.0, self._begin_s - time.monotonic()))
            for side, failure in failed.items():
                for case in cases:
                    self._results[side, case].append(failure)
            cases = () if failed else self._measure_cases(groups, cases)
            for group in groups.values():
                if self.can_overlap and not (self._is_paired or cases or group.has_ended):
                    self._previous_group = group
                else:
                    self.executor.close_group(group)

    def _start_groups(
        self, framework: str, sides: Sequence[Side], attempt: int
    ) -> tuple[Mapping[Side, Group], Mapping[Side, Failure]]:
        """Start the workers of all `sides` at the same time, and wait until the workers are ready.

        Args:
            framework: The framework of the workers.
            sides: The stacks, whose workers are started in this order.
            attempt: 1, or a larger number if earlier workers of this launch died.

        Returns:
            Two dictionaries: the groups by side, and the failures by side. If all workers become
            ready, the second dictionary is empty. Otherwise it has the failure of the first side
            whose workers did not become ready.

        """
        groups: dict[Side, Group] = {}
        with self.executor.time_phase("starting"):
            for side in sides:
                launch = LaunchId(
                    round_number=self._round,
                    framework=framework,
                    side=side.value if self._is_paired else "",
                    attempt=attempt,
                )
                groups[side] = self.executor.start_group(
                    self.stacks[side].worker_specs[framework], launch
                )
            for side in sides:
                ready_group = self.executor.wait_until_ready(groups[side])
                if isinstance(ready_group, Failure):
                    return groups, {side: ready_group}
                groups[side] = ready_group
        return groups, {}

    def _measure_cases(self, groups: Mapping[Side, Group], cases: Sequence[Case]) -> Sequence[Case]:
        """Measure `cases` until a worker dies, and return the cases that were not begun.

        The result is empty if no worker died.
        """
        self._notify_observers(None)
        for index, case in enumerate(cases):
            count = f"{sum(map(len, self._results.values())) + 1}/{self._planned_count}"
            self.on_progress(f"busbw: round {self._round}/{self._last_round}: {count} {case.name}")
            is_interleaved = len(groups) > 1 and payload_bytes_of_all_ranks(case) < LARGE_BYTES
            measure = (
                self._measure_interleaved if is_interleaved else self._measure_sides_separately
            )
            with self.executor.time_phase("measuring"):
                measure(groups, case)
            self.measured_at_s[case] = time.monotonic()
            self._notify_observers(case)
            if any(group.has_ended for group in groups.values()):
                return cases[index + 1 :]
        return ()

    def _notify_observers(self, measured_case: Case | None) -> None:
        """Call each observer with the case that was just measured.

        Before the first case of a launch, observers get None.
        """
        for observe in self.observers:
            observe(measured_case)

    def _measure_sides_separately(self, groups: Mapping[Side, Group], case: Case) -> None:
        """Measure a case completely with one stack, and then with the other stack, if any.

        The memory of the first measurement is released before the second measurement.
        """
        for side, group in groups.items():
            self._ask_and_store_result(side, group, case, "measure")
            if len(groups) > 1 and not any(group.has_ended for group in groups.values()):
                self._ask_and_store_result(side, group, case, "release")

    def _measure_interleaved(self, groups: Mapping[Side, Group], case: Case) -> None:
        """Measure a case with two stacks A and B: take samples in the order A B, B A, A B, ...

        Both stacks are sampled until each has enough samples. After a failure of one stack, the
        other stack is sampled by itself.
        """
        has_enough = {
            side: False
            for side, group in groups.items()
            if isinstance(self._ask_and_store_result(side, group, case, "open"), bool)
        }
        order = list(has_enough)
        while not all(has_enough.values()):
            for side in [side for side in order if side in has_enough]:
                answer = self._ask_and_store_result(side, groups[side], case, "sample")
                if isinstance(answer, bool):
                    has_enough[side] = answer
                else:
                    del has_enough[side]
            order.reverse()
        for side in has_enough:
            self._ask_and_store_result(side, groups[side], case, "close")

    def _ask_and_store_result(self, side: Side, group: Group, case: Case, name: str) -> Any:
        """Send a request for a case to `group`, store the reply if it is a result, and return it.

        `name` is the name of the request, a key of _REPLY_TYPES such as ``measure``. A Run or a
        Failure is a result: it is added to the results of the case with the stack `side`, to which
        `group` belongs.
        """
        values: dict[str, object] = {}
        if name in ("measure", "open"):
            runs = [run for run in self._results.get((side, case), ()) if isinstance(run, Run)]
            values = {
                "case": case,
                "plan": self.plan,
                "key": self.cases[case],
                "injection": self.stacks[side].injection,
                "pace": PreviousPace.from_run(runs[-1]) if runs else None,
            }
        request: Request[Any] = Request(name, _REPLY_TYPES[name], values)
        answer = group.ask(request, self.plan.timeout_s, f"measuring {case.name}")
        if isinstance(answer, Run | Failure):
            self._results[side, case].append(answer)
        return answer

    def _close_previous_group(self) -> None:
        group, self._previous_group = self._previous_group, None
        if group is not None:
            self.executor.close_group(group)


# A case is large if the payloads of all its ranks have at least this many bytes: allocating its
# memory takes seconds.
LARGE_BYTES = 2**30


def shuffle_cases(
    cases: Sequence[Case], shuffler: random.Random, *, is_largest_first: bool
) -> list[Case]:
    """Return `cases` in the random order of `shuffler`, but with the large cases at one end.

    Large cases have at least LARGE_BYTES on all ranks together, and are sorted by size. With
    `is_largest_first` the order begins with the largest case. Otherwise the order ends with the
    largest case.

    If the orders of successive launches alternate, large cases follow each other, and each large
    case reuses the memory that the previous case released. This memory is available at once. Memory
    that a virtual machine has returned to its host comes back at half a GiB/s (observed), which
    would take most of the time of a session.
    """
    shuffled = shuffler.sample(cases, len(cases))
    # Small cases have equal keys, so that they keep their random order.
    shuffled.sort(
        key=lambda case: max(LARGE_BYTES - 1, payload_bytes_of_all_ranks(case)),
        reverse=is_largest_first,
    )
    return shuffled


def payload_bytes_of_all_ranks(case: Case) -> int:
    """Return the sum of the payloads of all ranks, in bytes."""
    return case.payload_bytes * case.ranks
