"""A program and a back end that follow a script and record their calls.

The clock is the program's own: it moves when the program runs, is initialized or is checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import FailureKind
from busbw.worker.backends.base import (
    AllGather,
    Backend,
    MeasuringError,
    MemoryNeed,
    Program,
    RecordingReader,
    TimedCollective,
    single_process_gather,
)
from busbw.worker.sampling import PhaseTimer, Sampler, Samples
from tests.helpers import build

Event = tuple[str, int]

# Elements that a check compares, and seconds that checking and initializing take.
SURE = 3
BESIDE_S = 100.0

# A delay of a quarter of the time of a collective.
QUARTER = Injection(share=0.25)

WORLD = EnvironmentKey(device_kind="AMD EPYC", ranks=4, processes=1)


class ScriptedProgram(Program):
    """Takes `seconds(turn)` for an iteration of its chain number `turn`, `call_s` for any call.

    `calls` are the iterations of each call, `runs` of those that were not empty.
    """

    compile_s = 0.5
    end_by_begin_instruction = MappingProxyType({"all-reduce": "all-reduce"})
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
        self.iterations_per_turn = step
        self.shortest_chain_iterations = shortest
        self.max_iterations = most
        self.proof = build.proof()
        self.events: list[Event] = []
        self.calls: list[int] = []
        self.runs: list[int] = []
        self.clock_s = 0.0
        self._seconds = seconds
        self._call_s = call_s
        self._wrong_at = wrong_at

    def now_s(self) -> float:
        """Return the time of the program's clock."""
        return self.clock_s

    def initialize_values(self, first_call_name: str = "") -> None:
        self.clock_s += BESIDE_S
        self.events.append(("initialize", 0))

    def run(self, iterations: int) -> None:
        self.clock_s += self._call_s(len(self.calls))
        self.clock_s += iterations * self._seconds(len(self.runs)) if iterations else 0.0
        self.events.append(("run", iterations))
        self.calls.append(iterations)
        self.runs += [iterations] if iterations else []

    def check_result(self, iterations: int) -> int:
        self.clock_s += BESIDE_S
        if len(self.runs) - 1 == self._wrong_at:
            raise MeasuringError(FailureKind.WRONG_RESULT, "rank 1, element 7: 3.0, expected 4.0")
        self.events.append(("check", iterations))
        return SURE

    def device_peak_bytes(self) -> int | None:
        return 77


class DelayedProgram(ScriptedProgram):
    """Takes `more(turn)` times as long while it is injecting.

    `with_work` tells for each call whether it was injecting.
    """

    def __init__(self, more: Callable[[int], float], **options: Any) -> None:
        super().__init__(lambda turn: 1.0 if not self.is_injecting else more(turn), **options)
        self.with_work: list[bool] = []

    def run(self, iterations: int) -> None:
        self.with_work.append(self.is_injecting)
        super().run(iterations)


class ScriptedBackend(Backend):
    """Prepares its program for every case."""

    framework_path = "/somewhere/scripted"
    versions = build.VERSIONS

    def __init__(
        self,
        program: ScriptedProgram,
        need: MemoryNeed | None = None,
        world: EnvironmentKey = WORLD,
    ) -> None:
        self.program = program
        self.released = False
        self.recorded_runs: list[int] = []
        self.recorded_into = Path()
        self.lost = 0
        self._need = need
        self._world = world

    def probe(self) -> Probe:
        return build.probe(build.device_set())

    def current_environment_key(self) -> EnvironmentKey:
        return replace(self._world)

    def now_s(self) -> float:
        return self.program.clock_s

    def memory_need(self, case: Case) -> MemoryNeed | None:
        return self._need

    @contextlib.contextmanager
    def prepare_program(self, case: Case, injection: Injection | None = None) -> Iterator[Program]:
        self.released = False
        try:
            yield self.program
        finally:
            self.released = True

    @contextlib.contextmanager
    def record_profile(self, folder: Path) -> Iterator[RecordingReader]:
        assert folder.is_dir()
        self.recorded_into = folder
        begun = len(self.program.calls)
        yield self.read
        self.recorded_runs = self.program.calls[begun:]

    def read(self, timed: Mapping[str, str]) -> Sequence[TimedCollective]:
        """Return a collective of each recorded call and iteration but the `lost` last ones."""
        return [
            TimedCollective(rank, "all-reduce", float(place), 0.125 * (1 + rank))
            for rank in range(WORLD.ranks)
            for place in range(sum(self.recorded_runs) - self.lost)
        ]


def make_sampler(
    program: ScriptedProgram, *, all_gather: AllGather = single_process_gather, **options: Any
) -> Sampler:
    """Return a sampler with time for four samples; `options` are the plan's."""
    ordinary = {"samples": 4, "min_sample_s": 0.01, "budget_s": 1e6}
    return Sampler(
        program,
        build.plan(**{**ordinary, **options}),
        program.now_s,
        PhaseTimer(program.now_s),
        all_gather=all_gather,
    )


def take_samples(sampler: Sampler, *, single: bool = False) -> Samples:
    """Take samples until there are enough."""
    sampler.warm_up_and_calibrate(times_single_calls=single)
    while not sampler.has_enough_samples:
        sampler.take_sample()
    return sampler.finish()
