"""Every case in every pass: fresh processes, one at a time, the order shuffled.

Results are kept as they come, so that an interrupted sweep still has what it measured. A case
whose worker died is a Failure of its launch; a new process, a new launch, takes the rest. A worker
that is cut short while it starts is started once more.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busbw import wire
from busbw.model import Case, EnvironmentKey, Failure, Injection, LaunchId, Measurement, Plan, Run

from .bundle import Bundle
from .endings import Ended, failure_of
from .passes import Progress, cost, is_of_group, result_of, shuffled
from .process import Starter, Worker
from .starting import ready
from .training import TrainingLaunch


@dataclass
class Sweep:
    """All launches of all cases, each with the key of the world that it was resolved on.

    `starters` has one Starter per framework. With `handover` a worker that is done ends only when
    the next one is ready, so that the memory it had is there for that one; for devices that two
    processes can have open. `spent_s` grows by phase: seconds of processes starting, of cases
    being measured and of processes ending. `examples` is the file that training under a strategy
    learns from; each of its cases is measured by a group of processes of its own.
    """

    cases: Mapping[Case, EnvironmentKey]
    plan: Plan
    starters: Mapping[str, Starter]
    bundle: Bundle
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_note: Callable[[str], None] = lambda note: None
    handover: bool = False
    injection: Injection | None = None
    examples: str = ""
    clock: Callable[[], float] = time.monotonic
    spent_s: dict[str, float] = field(default_factory=dict)
    _results: dict[Case, list[Run | Failure]] = field(default_factory=dict)
    _begun_s: float | None = None
    _number: int = 0
    _asked: int = 0
    _asked_cost: int = 0
    _large_first: bool = False
    _shuffler: random.Random | None = None
    _leaving: Worker | None = None

    def run(self) -> None:
        """Measure everything in all of the plan's launches."""
        self.passes(tuple(self.cases), self.plan.launches)

    def passes(self, cases: Sequence[Case], passes: int) -> None:
        """So many passes more over `cases`. Whatever interrupts it, no worker is left."""
        self._asked += len(cases) * passes
        self._asked_cost += sum(map(cost, cases)) * passes
        try:
            for _ in range(passes):
                self._pass(cases)
            self._let_go()
        finally:
            if self._leaving is not None:
                self._leaving.kill()

    def _pass(self, cases: Sequence[Case]) -> None:
        self._shuffler = self._shuffler or random.Random(self.plan.seed)
        self._begun_s = self.clock() if self._begun_s is None else self._begun_s
        self._number += 1
        frameworks = [name for name in self.starters if any(c.framework == name for c in cases)]
        self._shuffler.shuffle(frameworks)
        for framework in frameworks:
            of_framework = [case for case in cases if case.framework == framework]
            ordered = shuffled(of_framework, self._shuffler, large_first=self._large_first)
            alone = [case for case in ordered if not is_of_group(case)]
            self._launches(framework, alone, self._number)
            self._groups([case for case in ordered if is_of_group(case)], self._number)
            self._large_first = not self._large_first

    def _groups(self, cases: Sequence[Case], number: int) -> None:
        """One pass over cases that take a group of processes each."""
        if cases:
            self._let_go()
        for case in cases:
            self._tell(case, number)
            launch = TrainingLaunch(
                starter=self.starters[case.framework],
                bundle=self.bundle,
                name=LaunchId(pass_number=number, framework=case.framework, part=case.strategy),
                examples=self.examples,
                on_note=self.on_note,
            )
            with self._counted("training"):
                self._keep(case, launch.measure(case, self.plan.timeout_s))

    def measurements(self) -> tuple[Measurement, ...]:
        """What has been measured so far, in the order of the cases."""
        found = []
        for case in self.cases:
            results = self._results.get(case, [])
            runs = tuple(result for result in results if isinstance(result, Run))
            failures = tuple(result for result in results if isinstance(result, Failure))
            found.append(Measurement(case=case, runs=runs, failures=failures))
        return tuple(found)

    def _launches(self, framework: str, cases: Sequence[Case], number: int) -> None:
        """One pass over a framework's cases, in as many processes as it takes."""
        left, attempt = list(cases), 0
        while left:
            attempt += 1
            launch = LaunchId(pass_number=number, framework=framework, attempt=attempt)
            worker, failure = self._started(framework, launch)
            try:
                self._let_go()
                left = self._one_launch(worker, left, number, failure)
            except BaseException:
                worker.kill()
                raise
            self._leaving = worker
            if left or not self.handover:
                self._let_go()

    def _started(self, framework: str, launch: LaunchId) -> tuple[Worker, Failure | None]:
        def start(launch: LaunchId) -> Worker:
            return Worker(self.starters[framework], self.bundle, launch)

        with self._counted("starting"):
            return ready(start(launch), start, self.on_note)

    def _let_go(self) -> None:
        """End the worker that is done, if there is one."""
        worker = self._leaving
        if worker is None:
            return
        with self._counted("ending"):
            ended = worker.close()
        self._leaving = None
        if not ended:
            name = worker.launch
            self.on_note(f"the worker of launch {name} did not end by itself and was killed")

    def _one_launch(
        self, worker: Worker, cases: list[Case], number: int, failure: Failure | None
    ) -> list[Case]:
        """Measure `cases` until the worker dies; those that are left. `failure`: it never began."""
        if failure is not None:
            for case in cases:
                self._keep(case, failure)
            return []
        for place, case in enumerate(cases):
            self._tell(case, number)
            request = {
                "request": "measure",
                "case": wire.to_json(case),
                "plan": wire.to_json(self.plan),
                "key": wire.to_json(self.cases[case]),
                "injection": wire.to_json(self.injection),
            }
            with self._counted("measuring"):
                answer = worker.ask(request, self.plan.timeout_s)
            if isinstance(answer, Ended):
                self._keep(case, failure_of(answer, worker.launch, f"measuring {case.name}"))
                return cases[place + 1 :]
            self._keep(case, result_of(*answer))
        return []

    @contextlib.contextmanager
    def _counted(self, phase: str) -> Iterator[None]:
        begun_s = self.clock()
        try:
            yield
        finally:
            self.spent_s[phase] = self.spent_s.get(phase, 0.0) + self.clock() - begun_s

    def _keep(self, case: Case, result: Run | Failure) -> None:
        self._results.setdefault(case, []).append(result)

    def _tell(self, case: Case, number: int) -> None:
        done = sum(len(results) for results in self._results.values())
        elapsed_s = self.clock() - (self._begun_s or 0.0)
        spent = sum(cost(c) * len(results) for c, results in self._results.items())
        self.on_progress(
            Progress(
                pass_number=number,
                passes=max(number, self.plan.launches),
                case=case,
                done=done,
                total=self._asked,
                elapsed_s=elapsed_s,
                remaining_s=elapsed_s / spent * (self._asked_cost - spent) if spent else None,
            )
        )
