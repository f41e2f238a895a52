"""Two stacks measured in turn, so that a machine's moods befall both alike.

A pass is a pair of launches, the reference's and the candidate's. Where two processes can have
the devices open, both are alive at once and take their samples of a case in turn, A B B A;
elsewhere, and for large cases, one launch follows the other, A B B A from pass to pass.
"""

from __future__ import annotations

import enum
import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw import wire
from busbw.model import Case, EnvironmentKey, Failure, Injection, LaunchId, Measurement, Plan, Run

from .bundle import Bundle
from .endings import Ended, failure_of
from .passes import LARGE_BYTES, Progress, bytes_of, result_of, shuffled
from .process import Starter, Worker
from .starting import ready


class Side(str, enum.Enum):
    """Which of the two stacks."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


_Workers = Mapping[Side, Worker]


@dataclass
class Duel:
    """All pairs of launches of all cases, each with the key of the world it was resolved on.

    `starters` has a Starter per framework and side; `injection` befalls the candidate alone.
    `at_once`: both processes may have the devices open.
    """

    cases: Mapping[Case, EnvironmentKey]
    plan: Plan
    starters: Mapping[str, Mapping[Side, Starter]]
    bundle: Bundle
    at_once: bool
    injection: Injection | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_note: Callable[[str], None] = lambda note: None
    clock: Callable[[], float] = time.monotonic
    spent_s: dict[str, float] = field(default_factory=dict)
    _results: dict[tuple[Side, Case], list[Run | Failure]] = field(default_factory=dict)
    _begun_s: float | None = None
    _number: int = 0
    _done: int = 0
    _asked: int = 0
    _shuffler: random.Random | None = None

    def run(self) -> None:
        """Measure everything in all of the plan's launches."""
        self.passes(tuple(self.cases), self.plan.launches)

    def passes(self, cases: Sequence[Case], passes: int) -> None:
        """So many pairs of launches more of `cases`. Whatever interrupts it, no worker is left."""
        # Apart, each side's launch goes over the cases by itself.
        self._asked += len(cases) * passes * (1 if self.at_once else len(Side))
        for _ in range(passes):
            self._pass(cases)

    def measurements(self, side: Side) -> tuple[Measurement, ...]:
        """What has been measured of one side so far, in the order of the cases."""
        found = []
        for case in self.cases:
            results = self._results.get((side, case), [])
            runs = tuple(result for result in results if isinstance(result, Run))
            failures = tuple(result for result in results if isinstance(result, Failure))
            found.append(Measurement(case=case, runs=runs, failures=failures))
        return tuple(found)

    def _pass(self, cases: Sequence[Case]) -> None:
        self._shuffler = self._shuffler or random.Random(self.plan.seed)
        self._begun_s = self.clock() if self._begun_s is None else self._begun_s
        self._number += 1
        # A B, B A, B A, A B, and so on.
        order = tuple(Side) if self._number % 4 < 2 else tuple(reversed(Side))
        frameworks = [name for name in self.starters if any(c.framework == name for c in cases)]
        self._shuffler.shuffle(frameworks)
        for framework in frameworks:
            of_framework = [case for case in cases if case.framework == framework]
            ordered = shuffled(of_framework, self._shuffler, large_first=False)
            if self.at_once:
                self._both(framework, ordered, order)
            else:
                for side in order:
                    self._alone(framework, ordered, side)

    def _alone(self, framework: str, cases: Sequence[Case], side: Side) -> None:
        """One side's launch, over before the other's begins."""
        left, attempt = list(cases), 0
        while left:
            attempt += 1
            left = self._launch(framework, left, (side,), attempt)

    def _both(self, framework: str, cases: Sequence[Case], order: Sequence[Side]) -> None:
        """Both sides' launches, alive at once."""
        left, attempt = list(cases), 0
        while left:
            attempt += 1
            left = self._launch(framework, left, order, attempt)

    def _launch(
        self, framework: str, cases: list[Case], order: Sequence[Side], attempt: int
    ) -> list[Case]:
        """Measure `cases` until a worker dies; those that are left."""
        workers: dict[Side, Worker] = {}
        begun_s = self.clock()
        try:
            for side in order:
                launch = LaunchId(
                    pass_number=self._number,
                    framework=framework,
                    part=side.value,
                    attempt=attempt,
                )
                workers[side] = self._start(framework, side, launch)
            for side in order:
                start = functools.partial(self._start, framework, side)
                workers[side], failure = ready(workers[side], start, self.on_note)
                if failure is not None:
                    left = self._never_started(side, failure, cases)
                    break
            else:
                self._count("starting", begun_s)
                left = self._cases(workers, cases)
        except BaseException:
            for worker in workers.values():
                worker.kill()
            raise
        for worker in workers.values():
            self._end(worker)
        return left

    def _start(self, framework: str, side: Side, launch: LaunchId) -> Worker:
        return Worker(self.starters[framework][side], self.bundle, launch)

    def _never_started(self, side: Side, failure: Failure, cases: Sequence[Case]) -> list[Case]:
        for case in cases:
            self._keep(side, case, failure)
        self._done += len(cases)
        return []

    def _cases(self, workers: _Workers, cases: Sequence[Case]) -> list[Case]:
        for place, case in enumerate(cases):
            self._tell(case)
            begun_s = self.clock()
            in_turn = len(workers) == 2 and bytes_of(case) < LARGE_BYTES
            alive = self._in_turn(workers, case) if in_turn else self._in_a_row(workers, case)
            self._count("measuring", begun_s)
            self._done += 1
            if not alive:
                return list(cases[place + 1 :])
        return []

    def _in_a_row(self, workers: _Workers, case: Case) -> bool:
        """Each side's whole measurement, one after the other; whether all workers live."""
        alive = True
        for side, worker in workers.items():
            alive &= self._ask(side, worker, case, self._request("measure", side, case)) is not None
            if alive and len(workers) == 2:
                alive &= self._ask(side, worker, case, {"request": "let_go"}) is not None
        return alive

    def _in_turn(self, workers: _Workers, case: Case) -> bool:
        """Samples A B B A; what fails is over, and the other side goes on alone."""
        open_sides = {}
        alive = True
        for side, worker in workers.items():
            reply = self._ask(side, worker, case, self._request("open", side, case))
            alive &= reply is not None
            if reply is not None and reply[0] == "enough":
                open_sides[side] = worker
        enough: dict[Side, bool] = dict.fromkeys(open_sides, False)
        order = list(open_sides)
        while open_sides and not all(enough[side] for side in open_sides):
            for side in [side for side in order if side in open_sides]:
                reply = self._ask(side, open_sides[side], case, {"request": "turn"})
                alive &= reply is not None
                if reply is None or reply[0] != "enough":
                    del open_sides[side]
                else:
                    enough[side] = bool(reply[1])
            order.reverse()
        for side, worker in open_sides.items():
            alive &= self._ask(side, worker, case, {"request": "close"}) is not None
        return alive

    def _request(self, name: str, side: Side, case: Case) -> dict[str, Any]:
        injection = self.injection if side is Side.CANDIDATE else None
        return {
            "request": name,
            "case": wire.to_json(case),
            "plan": wire.to_json(self.plan),
            "key": wire.to_json(self.cases[case]),
            "injection": wire.to_json(injection),
        }

    def _ask(
        self, side: Side, worker: Worker, case: Case, request: Mapping[str, Any]
    ) -> tuple[str, Any] | None:
        """The reply, a Run or a Failure kept as the case's; None if the worker is no more."""
        answer = worker.ask(request, self.plan.timeout_s)
        if isinstance(answer, Ended):
            self._keep(side, case, failure_of(answer, worker.launch, f"measuring {case.name}"))
            return None
        if answer[0] in ("Run", "Failure"):
            self._keep(side, case, result_of(*answer))
        return answer

    def _end(self, worker: Worker) -> None:
        begun_s = self.clock()
        if not worker.close():
            name = worker.launch
            self.on_note(f"the worker of launch {name} did not end by itself and was killed")
        self._count("ending", begun_s)

    def _count(self, phase: str, begun_s: float) -> None:
        self.spent_s[phase] = self.spent_s.get(phase, 0.0) + self.clock() - begun_s

    def _keep(self, side: Side, case: Case, result: Run | Failure) -> None:
        self._results.setdefault((side, case), []).append(result)

    def _tell(self, case: Case) -> None:
        elapsed_s = self.clock() - (self._begun_s or 0.0)
        left = self._asked - self._done
        self.on_progress(
            Progress(
                pass_number=self._number,
                passes=max(self._number, self.plan.launches),
                case=case,
                done=self._done,
                total=self._asked,
                elapsed_s=elapsed_s,
                remaining_s=elapsed_s / self._done * left if self._done else None,
            )
        )
