"""A program and a back end that do as they are told and write down what they were asked.

The clock is the program's own: it moves when something is run, laid out or compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from busbw.model import Case, FailureKind, Probe
from busbw.worker.backends.base import (
    AbstractBackend,
    AbstractProgram,
    MeasuringError,
    MemoryNeed,
    World,
)
from tests import build

Event = tuple[str, int]

# Elements that a check compares, and seconds that it and laying out take.
SURE = 3
BESIDE_S = 100.0

WORLD = World(device_kind="AMD EPYC", ranks=4, processes=1)


class Program(AbstractProgram):
    """Takes `seconds(turn)` for an iteration of its chain number `turn`, `call_s` for any call."""

    compile_s = 0.5
    compiled_memory_bytes = 4242

    def __init__(
        self,
        seconds: Callable[[int], float] = lambda _: 1e-3,
        *,
        call_s: Callable[[int], float] = lambda _: 0.0,
        step: int = 1,
        shortest: int = 0,
        most: int = 1000,
        wrong_at: int | None = None,
    ) -> None:
        self.step = step
        self.shortest = shortest
        self.most_iterations = most
        self.proof = build.proof()
        self.events: list[Event] = []
        self.clock_s = 0.0
        self._seconds = seconds
        self._call_s = call_s
        self._wrong_at = wrong_at

    @property
    def calls(self) -> list[int]:
        """How many iterations each call had, empty ones too."""
        return [iterations for name, iterations in self.events if name == "run"]

    @property
    def runs(self) -> list[int]:
        """The same without empty ones."""
        return [iterations for iterations in self.calls if iterations]

    def now_s(self) -> float:
        """The clock."""
        return self.clock_s

    def fresh(self) -> None:
        self.clock_s += BESIDE_S
        self.events.append(("fresh", 0))

    def run(self, iterations: int) -> None:
        self.clock_s += self._call_s(len(self.calls))
        self.clock_s += iterations * self._seconds(len(self.runs)) if iterations else 0.0
        self.events.append(("run", iterations))

    def check(self, iterations: int) -> int:
        self.clock_s += BESIDE_S
        if len(self.runs) - 1 == self._wrong_at:
            raise MeasuringError(FailureKind.WRONG_RESULT, "rank 1, element 7: 3.0, expected 4.0")
        self.events.append(("check", iterations))
        return SURE

    def device_peak_bytes(self) -> int | None:
        return 77


class Backend(AbstractBackend):
    """Prepares its one program for whatever case."""

    framework_path = "/somewhere/scripted"
    versions = build.VERSIONS

    def __init__(
        self, program: Program, need: MemoryNeed | None = None, there: World = WORLD
    ) -> None:
        self.program = program
        self.prepared_cases: list[Case] = []
        self.released = False
        self.recorded_runs: list[int] = []
        self._need = need
        self._world = there

    def probe(self) -> Probe:
        raise NotImplementedError

    def world(self) -> World:
        return replace(self._world)

    def now_s(self) -> float:
        return self.program.clock_s

    def memory_need(self, case: Case) -> MemoryNeed | None:
        return self._need

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[AbstractProgram]:
        self.prepared_cases.append(case)
        try:
            yield self.program
        finally:
            self.released = True

    @contextlib.contextmanager
    def recording(self, folder: Path) -> Iterator[None]:
        begun = len(self.program.calls)
        yield
        self.recorded_runs = self.program.calls[begun:]
