"""Soak a case in a worker: run iterations, and compare every result on every rank.

The first result of an input is compared element by element, and its hash is kept. Later results of
the input need only have the same hash. Iterations run in batches. All processes of a group run the
same batches, and tell each other after a batch whether a result was wrong. This module knows no
framework.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.field_types import Natural, NotNegative
from busbw.model.launch import Plan
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Clock, Placement
from busbw.worker.backends.base import (
    AllGather,
    check_devices,
    slowest_process_time_s,
    wrong_result,
)
from busbw.worker.host import host_name
from busbw.worker.serve import request_value

if TYPE_CHECKING:
    from busbw.worker.measure import MeasuringWorker

# The duration that a batch of iterations should have, and its largest number of iterations.
_BATCH_S, _MAX_BATCH_ITERATIONS = 0.2, 2**14

# The frameworks with a module that prepares their programs; `worker_values` prepares all others.
_FRAMEWORKS_WITH_MODULE = ("fake", "jax")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """The amount of results that a soak compared, of a case or of several cases together.

    Attributes:
        iterations: The number of iterations.
        compared_bytes: The number of compared bytes on all ranks together.
        soaked_s: The duration in seconds.

    """

    iterations: Natural = 0
    compared_bytes: Natural = 0
    soaked_s: NotNegative = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            iterations=self.iterations + other.iterations,
            compared_bytes=self.compared_bytes + other.compared_bytes,
            soaked_s=self.soaked_s + other.soaked_s,
        )


class SoakProgram(ABC):
    """The compiled program of a case in a soak, with two inputs that are used alternately.

    The current input is the input of the next iteration. Because the inputs alternate, an old
    result that an iteration did not overwrite is noticed.

    Attributes:
        draw: The number of the current input; -1 before the first input.

    """

    draw: int = -1

    def renew_input(self) -> None:  # noqa: B027 a program of a test has no values
        """Replace the current input with the next draw, which is a set of random numbers."""

    def swap_inputs(self) -> None:  # noqa: B027 a program of a test has no values
        """Make the other of the two inputs the current input."""

    @abstractmethod
    def run_iteration(self) -> None:
        """Run an iteration with the current input, and wait for its result."""

    @abstractmethod
    def result_hashes(self) -> tuple[int, ...]:
        """Return a hash of the last result of each rank of this process."""

    @abstractmethod
    def find_mismatch(self) -> str:
        """Return a text with the first wrong element of the last result; empty if none is wrong."""


def mismatch_text(rank: int, element: int, expected: int, actual: int) -> str:
    """Return a text on a wrong element of a result, with the numbers of its wrong bits.

    Args:
        rank: The rank whose result is wrong.
        element: The index of the wrong element in the result.
        expected: The bits of the expected element, as an integer.
        actual: The bits of the wrong element, as an integer. Bit 0 is the least significant bit.

    """
    changed = expected ^ actual
    bits = [str(bit) for bit in range(changed.bit_length()) if changed >> bit & 1]
    return (
        f"rank {rank} ({host_name()}), element {element}: {actual:#x}, expected {expected:#x} "
        f"(bit{'s' * (len(bits) > 1)} {', '.join(bits)})"
    )


def soak(worker: MeasuringWorker, request: Mapping[str, Any]) -> Tally:
    """Run a case for some seconds, compare each result, and return how much was compared.

    The case runs out of place, so that its input does not change.

    Args:
        worker: The framework of the worker, and the memory of its host.
        request: The request, with the values `case`, `key` (the environment key), `plan`,
            `seconds`, and `iterations`, the number of iterations in earlier requests.

    Raises:
        MeasuringError: A result on this process is wrong, the case does not fit the memory or
            cannot be compiled, or no sum over all ranks is exact.

    """
    case = request_value(request, "case", Case)
    key = request_value(request, "key", EnvironmentKey)
    backend, collective = worker.backend, COLLECTIVES[case.collective]
    protocol = replace(case.protocol, clock=Clock.DISPATCH)
    case = replace(case, placement=Placement.OUT_OF_PLACE.value, protocol=protocol)
    need = backend.memory_need(case)
    if need is not None:
        # The need is for a single input, and a soak has two inputs.
        input_bytes = collective.input_bytes(case.payload_bytes, case.group_size)
        more = case.ranks // key.processes * input_bytes
        need = replace(need, needed_bytes=need.needed_bytes + more)
        limit_bytes = request_value(request, "plan", Plan).memory_limit_bytes
        worker.host_memory.check_fits(need, limit_bytes, key)
    check_devices(backend.current_environment_key(), case, key)
    module = backend.name if backend.name in _FRAMEWORKS_WITH_MODULE else "values"
    framework = importlib.import_module(f"{__name__}_{module}")
    with framework.prepared_program(backend, case) as program:
        iterations = request_value(request, "iterations", int)
        comparison = ResultComparer(program, backend.now_s, backend.all_gather, iterations)
        tally = comparison.run_and_compare(request_value(request, "seconds", float))
    iteration_bytes = case.ranks * collective.output_bytes(case.payload_bytes, case.group_size)
    return replace(tally, compared_bytes=tally.iterations * iteration_bytes)


@dataclass
class ResultComparer:
    """The comparison of each result of a program with the right result.

    Attributes:
        program: The program, whose iterations are run and compared.
        now_s: Returns the time of a clock in seconds.
        all_gather: Exchanges numbers with the other processes of the group.
        iterations: The number of iterations of the case so far, including earlier requests.

    """

    program: SoakProgram
    now_s: Callable[[], float]
    all_gather: AllGather
    iterations: int = 0
    # The hashes of the right result on each rank, by the number of the input.
    _right_hashes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def run_and_compare(self, seconds: float) -> Tally:
        """Run and compare iterations for `seconds`, or until a process finds a wrong element.

        Returns the number and the duration of the iterations, without the compared bytes; equal on
        all processes. Raises MeasuringError WRONG_RESULT if this process finds a wrong element.
        """
        begun_s = self.now_s()
        first_iteration = self.iterations
        batch = 1
        soaked_s = 0.0
        mismatch = ""
        is_wrong = False
        self.program.renew_input()
        while soaked_s < seconds and not is_wrong:
            mismatch = self._run_batch(batch)
            is_wrong = any(row[0] for row in self.all_gather([float(mismatch != "")]))
            before_s = soaked_s
            soaked_s = slowest_process_time_s(self.all_gather, self.now_s() - begun_s)
            if soaked_s - before_s < _BATCH_S / 2:
                batch = min(2 * batch, _MAX_BATCH_ITERATIONS)
        if mismatch:
            raise wrong_result(mismatch)
        return Tally(iterations=self.iterations - first_iteration, soaked_s=soaked_s)

    def _run_batch(self, count: int) -> str:
        """Run and compare `count` iterations, and return a text on the first wrong result.

        The text is empty if no result is wrong. The iterations alternate between a new input and
        the input with which the previous batch began.
        """
        self.program.swap_inputs()
        self.program.renew_input()
        mismatch = ""
        for _ in range(count):
            self.program.run_iteration()
            self.iterations += 1
            # The batch goes on after a wrong element, because other processes run all of it.
            mismatch = mismatch or self._compare_result()
            self.program.swap_inputs()
        return mismatch

    def _compare_result(self) -> str:
        """Return a text if the last result is wrong, and an empty text if the result is right.

        The hashes of the first right result of an input are kept. If all elements of a later result
        are right, but its hashes are different, this result is wrong, too.
        """
        hashes, draw = self.program.result_hashes(), self.program.draw
        if self._right_hashes.get(draw) == hashes:
            return ""
        mismatch = self.program.find_mismatch()
        if not mismatch and draw not in self._right_hashes:
            self._right_hashes[draw] = hashes
            return ""
        hashes_text = f"the hashes of ranks are {hashes} after {self._right_hashes.get(draw)}"
        problem = mismatch or f"every word is right, and yet {hashes_text}"
        return f"iteration {self.iterations}: {problem}"
