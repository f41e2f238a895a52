"""Soak a case in a worker: run iterations, and compare every result on every rank.

The first result of an input is compared element by element, and its hash is kept. Later results of
the input need only have the same hash. All processes of a group run the same iterations, and tell
each other after a batch whether a result was wrong. This module knows no framework.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.field_types import AtLeast1, Natural, NotNegative
from busbw.model.launch import LaunchId, Plan
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Clock, Placement
from busbw.worker.backends.base import AllGather, check_devices, wrong_result
from busbw.worker.serve import request_value

if TYPE_CHECKING:
    from busbw.worker.measure import MeasureSession

# The duration that a batch of iterations should have, and its largest number of iterations.
_BATCH_S, _MAX_BATCH_ITERATIONS = 0.2, 2**14


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongElement:
    """An element of a result that differs from the expected element.

    `expected` and `actual` are the bits of both elements as integers. It is the first wrong element
    of `rank` in `iteration`.
    """

    rank: Natural
    element: Natural
    iteration: AtLeast1
    expected: Natural
    actual: Natural

    @property
    def bits(self) -> tuple[int, ...]:
        """The numbers of the bits that differ; bit 0 is the least significant."""
        changed = self.expected ^ self.actual
        return tuple(bit for bit in range(changed.bit_length()) if changed >> bit & 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SoakRun:
    """The reply of a process: how much it compared on its ranks in `seconds`.

    `mismatch` is the wrong element that ended the run; None if all elements were right.
    """

    launch: LaunchId
    iterations: Natural
    compared_bytes: Natural
    seconds: NotNegative
    mismatch: WrongElement | None = None


class SoakProgram(ABC):
    """A compiled case that reads two inputs alternately: the current input and the other input.

    Because the inputs alternate, a result that was not overwritten is noticed. `draw` is the number
    of the current input.
    """

    draw: int = -1

    @abstractmethod
    def renew_input(self) -> None:
        """Replace the current input with new random numbers."""

    @abstractmethod
    def swap_inputs(self) -> None:
        """Make the other input the current input."""

    @abstractmethod
    def run_iteration(self) -> None:
        """Run an iteration with the current input, and wait for its result."""

    @abstractmethod
    def result_hashes(self) -> tuple[int, ...]:
        """Return a hash of the last result of each rank of this process."""

    @abstractmethod
    def find_mismatch(self, iteration: int) -> WrongElement | None:
        """Return the first wrong element of the last result; None if all elements are right.

        `iteration` is the number of the iteration that gave the result.
        """


def soak(session: MeasureSession, request: Mapping[str, Any]) -> SoakRun:
    """Run iterations of the case in the request for `seconds`, and compare their results.

    The case runs out of place, so that its input does not change. Raises MeasuringError if the case
    does not fit the memory, cannot be compiled, or no sum over all ranks is exact.
    """
    case, key = request_value(request, "case", Case), request_value(request, "key", EnvironmentKey)
    backend, collective = session.backend, COLLECTIVES[case.collective]
    protocol = replace(case.protocol, clock=Clock.DISPATCH)
    case = replace(case, placement=Placement.OUT_OF_PLACE.value, protocol=protocol)
    ranks, need = case.ranks // key.processes, backend.memory_need(case)
    if need is not None:
        # The need is for a single input, and a soak has two inputs.
        more = ranks * collective.input_bytes(case.payload_bytes, case.group_size)
        need = replace(need, needed_bytes=need.needed_bytes + more)
        limit_bytes = request_value(request, "plan", Plan).memory_limit_bytes
        session.host_memory.check_fits(need, limit_bytes, key)
    check_devices(backend.reachable_devices(), case, key)
    result_bytes = ranks * collective.output_bytes(case.payload_bytes, case.group_size)
    framework = importlib.import_module(f"{__name__}_{backend.name}")
    with framework.prepared_program(backend, case) as program:
        comparison = ResultComparison(program, result_bytes, backend.now_s, backend.all_gather)
        return comparison.compare_results(request_value(request, "seconds", float), session.launch)


@dataclass
class ResultComparison:
    """Compares the results of `program`.

    `result_bytes` are the bytes of a result on all ranks of this process, `now_s` is a clock, and
    `all_gather` exchanges numbers with the other processes.
    """

    program: SoakProgram
    result_bytes: int
    now_s: Callable[[], float]
    all_gather: AllGather
    iterations: int = 0
    # The hashes of the right result on each rank, by the number of the input.
    _right_hashes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def compare_results(self, seconds: float, launch: LaunchId) -> SoakRun:
        """Run and compare iterations for `seconds`, or until a process finds a wrong element."""
        begun_s, batch, left_s = self.now_s(), 1, seconds
        mismatch, is_wrong = None, False
        self.program.renew_input()
        while left_s > 0 and not is_wrong:
            batch_begun_s = self.now_s()
            mismatch = self._run_batch(batch)
            is_wrong = self._max_over_processes(float(mismatch is not None)) > 0
            left_s = seconds - self._max_over_processes(self.now_s() - begun_s)
            if self._max_over_processes(self.now_s() - batch_begun_s) < _BATCH_S / 2:
                batch = min(2 * batch, _MAX_BATCH_ITERATIONS)
        return SoakRun(
            launch=launch,
            iterations=self.iterations,
            compared_bytes=self.iterations * self.result_bytes,
            seconds=self.now_s() - begun_s,
            mismatch=mismatch,
        )

    def _run_batch(self, count: int) -> WrongElement | None:
        """Run `count` iterations, and return their first wrong element; None if all are right.

        The iterations use a new input and the current input of the last batch alternately.
        """
        self.program.swap_inputs()
        self.program.renew_input()
        mismatch = None
        for _ in range(count):
            self.program.run_iteration()
            self.iterations += 1
            # The batch goes on after a wrong element, because other processes run all of it.
            mismatch = mismatch or self._compare_result()
            self.program.swap_inputs()
        return mismatch

    def _compare_result(self) -> WrongElement | None:
        """Return the first wrong element of the last result; None if all elements are right.

        The hashes of the first right result of an input are kept. Raises MeasuringError
        WRONG_RESULT if the hashes differ from them although all elements are right.
        """
        hashes, draw = self.program.result_hashes(), self.program.draw
        if self._right_hashes.get(draw) == hashes:
            return None
        mismatch = self.program.find_mismatch(self.iterations)
        if mismatch is None and draw in self._right_hashes:
            raise wrong_result(
                f"iteration {self.iterations}: every word is right, and yet the hashes of ranks "
                f"are {hashes} after {self._right_hashes[draw]}"
            )
        if mismatch is None:
            self._right_hashes[draw] = hashes
        return mismatch

    def _max_over_processes(self, value: float) -> float:
        """Return the largest `value` over all processes of the group, each of which calls this."""
        return max(row[0] for row in self.all_gather([value]))
