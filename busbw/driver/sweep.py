"""Every case in every pass: fresh processes, one at a time, the order shuffled.

Results are kept as they come, so that an interrupted sweep still has what it measured. A case
whose worker died is a Failure of its launch; a new process, a new launch, takes the rest.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw import wire
from busbw.model import Case, EnvironmentKey, Failure, Measurement, Plan, Run

from .bundle import Bundle
from .endings import Ended, failure_of
from .process import Starter, Worker

START_TIMEOUT_S = 180.0
LARGE_BYTES = 2**30
_FIXED_COST = 2**26


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where the sweep stands, before `case` is measured."""

    pass_number: int
    passes: int
    case: Case
    done: int
    total: int
    elapsed_s: float
    remaining_s: float | None


@dataclass
class Sweep:
    """All launches of all cases, each with the key of the world that it was resolved on.

    `starters` has one Starter per framework. With `handover` a worker that is done ends only when
    the next one is ready, so that the memory it had is there for that one; for devices that two
    processes can have open. `spent_s` grows by phase: seconds of processes starting, of cases
    being measured and of processes ending.
    """

    cases: Mapping[Case, EnvironmentKey]
    plan: Plan
    starters: Mapping[str, Starter]
    bundle: Bundle
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_note: Callable[[str], None] = lambda note: None
    handover: bool = False
    clock: Callable[[], float] = time.monotonic
    spent_s: dict[str, float] = field(default_factory=dict)
    _results: dict[Case, list[Run | Failure]] = field(default_factory=dict)
    _begun_s: float = 0.0
    _leaving: Worker | None = None

    def run(self) -> None:
        """Measure everything. Whatever interrupts it, no worker is left."""
        try:
            self._passes()
            self._let_go()
        finally:
            if self._leaving is not None:
                self._leaving.kill()

    def _passes(self) -> None:
        shuffler = random.Random(self.plan.seed)
        self._begun_s = self.clock()
        large_first = False
        for number in range(1, self.plan.launches + 1):
            frameworks = list(self.starters)
            shuffler.shuffle(frameworks)
            for framework in frameworks:
                cases = [case for case in self.cases if case.framework == framework]
                ordered = _shuffled(cases, shuffler, large_first=large_first)
                self._launches(framework, ordered, number)
                large_first = not large_first

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
            name = f"{number}.{framework}" + (f".{attempt}" if attempt > 1 else "")
            with self._counted("starting"):
                worker = Worker(self.starters[framework], self.bundle, name)
            try:
                left = self._one_launch(worker, left, number)
            except BaseException:
                worker.kill()
                raise
            self._leaving = worker
            if left or not self.handover:
                self._let_go()

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

    def _one_launch(self, worker: Worker, cases: list[Case], number: int) -> list[Case]:
        """Measure `cases` until the worker dies; those that are left."""
        with self._counted("starting"):
            ready = worker.ask(None, START_TIMEOUT_S)
        self._let_go()
        if isinstance(ready, Ended):
            failure = failure_of(ready, worker.launch, "starting")
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
            }
            with self._counted("measuring"):
                answer = worker.ask(request, self.plan.timeout_s)
            if isinstance(answer, Ended):
                self._keep(case, failure_of(answer, worker.launch, f"measuring {case.name}"))
                return cases[place + 1 :]
            self._keep(case, _result(*answer))
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
        elapsed_s = self.clock() - self._begun_s
        spent = sum(_cost(c) * len(results) for c, results in self._results.items())
        whole = sum(map(_cost, self.cases)) * self.plan.launches
        self.on_progress(
            Progress(
                pass_number=number,
                passes=self.plan.launches,
                case=case,
                done=done,
                total=len(self.cases) * self.plan.launches,
                elapsed_s=elapsed_s,
                remaining_s=elapsed_s / spent * (whole - spent) if spent else None,
            )
        )


def _result(name: str, value: Any) -> Run | Failure:
    """The reply to a measure request."""
    if name == "Run":
        return wire.from_json(Run, value, name)
    return wire.from_json(Failure, value, name)


def _shuffled(cases: Sequence[Case], shuffler: random.Random, *, large_first: bool) -> list[Case]:
    """`cases` in random order, but the large ones together at one end, the largest outermost.

    Large ones of one launch and of the next then meet, and each finds what the one before let go
    of. Memory that was in use a moment ago is there at once; what a virtual machine gave back to
    its host in between comes back at half a GiB a second (seen), which would be most of the
    session.
    """
    small = [case for case in cases if _bytes(case) < LARGE_BYTES]
    large = [case for case in cases if _bytes(case) >= LARGE_BYTES]
    shuffler.shuffle(small)
    shuffler.shuffle(large)
    large.sort(key=_bytes, reverse=large_first)
    return large + small if large_first else small + large


def _bytes(case: Case) -> int:
    return case.payload_bytes * case.ranks


def _cost(case: Case) -> int:
    """What a case costs in relation to others: much is fixed, the rest goes with the bytes."""
    return _FIXED_COST + case.payload_bytes
