"""Iterations of one case, of which every result on every rank is compared; knows no framework.

The first result of an input is compared element by element, and then hashed. Later results of the
input need only have the same hash. All processes of a group run the same iterations, and exchange
what they found after a batch.
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
from busbw.worker.backends.base import AllGather, wrong_result
from busbw.worker.serve import request_value

if TYPE_CHECKING:
    from busbw.worker.measure import MeasureSession

# How long the iterations of one input take, and how many there are at most.
_BATCH_S, _MAX_BATCH = 0.2, 2**14
# How often an input whose result was wrong is tried again.
RETRIES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongElement:
    """An element of a result that differs from the exact one, as words of its dtype.

    It is the first wrong element of `rank` in `iteration`, whose input was that of number `draw`.
    The result of the same input was wrong, in any element of a rank of the process, in `repeats` of
    `retries` more iterations.
    """

    draw: Natural
    rank: Natural
    element: Natural
    iteration: AtLeast1
    expected: Natural
    actual: Natural
    repeats: Natural = 0
    retries: Natural = 0

    @property
    def bits(self) -> tuple[int, ...]:
        """The bits that differ; 0 is the least significant."""
        changed = self.expected ^ self.actual
        return tuple(bit for bit in range(changed.bit_length()) if changed >> bit & 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SoakRun:
    """What a process compared of its ranks' results in `seconds`; a `mismatch` ended it."""

    launch: LaunchId
    iterations: Natural
    compared_bytes: Natural
    seconds: NotNegative
    mismatch: WrongElement | None = None


class SoakProgram(ABC):
    """A compiled case with two inputs: a result that is still that of the other input is wrong.

    `draw` is the number of the current input.
    """

    draw: int = -1

    @abstractmethod
    def renew(self) -> None:
        """Replace the current input by the next one."""

    @abstractmethod
    def swap(self) -> None:
        """Make the other input the current one."""

    @abstractmethod
    def run(self) -> None:
        """Run an iteration, and wait for its result."""

    @abstractmethod
    def digests(self) -> tuple[int, ...]:
        """Hash the last result of each rank of this process."""

    @abstractmethod
    def find_mismatch(self, iteration: int) -> WrongElement | None:
        """Return the first wrong element of the last result, which is that of `iteration`."""


def soak(session: MeasureSession, request: Mapping[str, Any]) -> SoakRun:
    """Run iterations of a case, out of place, so that the input stays as it was.

    Raises MeasuringError.
    """
    case, key = request_value(request, "case", Case), request_value(request, "key", EnvironmentKey)
    backend, collective = session.backend, COLLECTIVES[case.collective]
    protocol = replace(case.protocol, clock=Clock.DISPATCH)
    case = replace(case, placement=Placement.OUT_OF_PLACE.value, protocol=protocol)
    ranks, need = case.ranks // key.processes, backend.memory_need(case)
    if need is not None:
        # There are two inputs.
        more = ranks * collective.input_bytes(case.payload_bytes, case.group_size)
        need = replace(need, needed_bytes=need.needed_bytes + more)
        limit_bytes = request_value(request, "plan", Plan).memory_limit_bytes
        session.host_memory.check_fits(need, limit_bytes, key)
    backend.reachable_devices().check_matches(case, key)
    result_bytes = ranks * collective.output_bytes(case.payload_bytes, case.group_size)
    framework = importlib.import_module(f"{__name__}_{backend.name}")
    with framework.program_of(backend, case) as program:
        comparison = Comparison(program, result_bytes, backend.now_s, backend.all_gather)
        return comparison.run(request_value(request, "seconds", float), session.launch)


@dataclass
class Comparison:
    """Compares the results of `program`, `result_bytes` on all ranks of this process."""

    program: SoakProgram
    result_bytes: int
    now_s: Callable[[], float]
    all_gather: AllGather
    iterations: int = 0
    # The hashes of the right result, by the number of the input.
    _digests: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def run(self, seconds: float, launch: LaunchId) -> SoakRun:
        """Compare for so long, or until a process finds a wrong element."""
        begun_s, batch, left_s = self.now_s(), 1, seconds
        mismatch, is_wrong = None, False
        self.program.renew()
        while left_s > 0 and not is_wrong:
            batch_begun_s = self.now_s()
            mismatch = self._run_batch(batch)
            is_wrong = self._max(float(mismatch is not None)) > 0
            left_s = seconds - self._max(self.now_s() - begun_s)
            if self._max(self.now_s() - batch_begun_s) < _BATCH_S / 2:
                batch = min(2 * batch, _MAX_BATCH)
        if is_wrong:
            repeats = self._retry(self._max(mismatch.draw if mismatch else -1))
            mismatch = mismatch and replace(mismatch, repeats=repeats, retries=RETRIES)
        return SoakRun(
            launch=launch,
            iterations=self.iterations,
            compared_bytes=self.iterations * self.result_bytes,
            seconds=self.now_s() - begun_s,
            mismatch=mismatch,
        )

    def _run_batch(self, count: int) -> WrongElement | None:
        """Return the first wrong element of `count` iterations.

        A new input and the input of the batch before alternate.
        """
        self.program.swap()
        self.program.renew()
        mismatch = None
        for _ in range(count):
            self.program.run()
            self.iterations += 1
            # Other processes run the whole batch, too.
            mismatch = mismatch or self._compare()
            self.program.swap()
        return mismatch

    def _compare(self) -> WrongElement | None:
        """Compare the last result, and keep the hashes of the first right result of an input."""
        digests, draw = self.program.digests(), self.program.draw
        if self._digests.get(draw) == digests:
            return None
        mismatch = self.program.find_mismatch(self.iterations)
        if mismatch is None and draw in self._digests:
            raise wrong_result(
                f"iteration {self.iterations}: every word is right, and yet the hashes of ranks "
                f"are {digests} after {self._digests[draw]}"
            )
        if mismatch is None:
            self._digests[draw] = digests
        return mismatch

    def _retry(self, draw: float) -> int:
        """Return how often the result of an input is wrong again, alternating with the other."""
        if self.program.draw != draw:
            self.program.swap()
        repeats = 0
        for _ in range(RETRIES):
            self.program.run()
            repeats += self._compare() is not None
            self.program.swap()
            self.program.run()
            self.program.swap()
        return repeats

    def _max(self, value: float) -> float:
        """Return the largest value of all processes."""
        return max(row[0] for row in self.all_gather([value]))
