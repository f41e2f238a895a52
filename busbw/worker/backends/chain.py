"""A chain of rounds as something to measure, as far as it is the same in every framework.

Draws of starting values take turns, rounds are counted, results are compared. A framework says
how values are laid out and what a call runs; a workload, which values these are.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, final

from busbw.model import Case, FailureKind

from .base import AbstractProgram, MeasuringError


class AbstractValues(ABC):
    """What ranks start with, in `draws` draws, and what they must hold after some rounds.

    `unit` is what rounds are called, `lies` begins the sentence that says where a result is.
    """

    draws: int
    unit: str
    lies: str

    @abstractmethod
    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        """Compare results by rank with those after `iterations` rounds from draw `number`.

        How many elements. Raises MeasuringError WRONG_RESULT with the first wrong one.
        """


class AbstractChain(AbstractProgram):
    """The chain of `case`, whose results must be those of `values`."""

    def __init__(self, case: Case, values: AbstractValues) -> None:
        self._case = case
        self._values = values
        self._draw = -1
        self._result: Any = None
        self._counted: Any = None

    @final
    def fresh(self) -> None:
        """The next draw on every rank; the last result is released first."""
        self._draw = (self._draw + 1) % self._values.draws
        self._result = None
        self._lay_out(self._draw)

    @final
    def run(self, iterations: int) -> None:
        """`iterations` rounds in one call, and wait for it."""
        self._result = None
        self._counted, self._result = self._called(iterations)

    @final
    def check(self, iterations: int) -> int:
        """The rounds that the program counted; every element on every rank."""
        counted = int(self._counted) * self.step
        if counted != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {counted} {self._values.unit}, expected {iterations}",
            )
        return self._compared(self._draw, iterations)

    @final
    def anchor(self, passes: int) -> None:
        """In the memory of the chain, which is released first or holds anything afterwards."""
        self._result = None
        self._change_signs(passes)

    @final
    @contextlib.contextmanager
    def _compiling(self) -> Iterator[None]:
        begun_s = time.perf_counter()
        yield
        self.compile_s = time.perf_counter() - begun_s

    @classmethod
    @abstractmethod
    def host_bytes(cls, case: Case) -> int:
        """Peak memory of all ranks of `case` together, where it is the host's."""

    @abstractmethod
    def release(self) -> None:
        """Release all that takes memory."""

    @abstractmethod
    def _lay_out(self, number: int) -> None:
        """Starting values of draw `number` on every rank, and wait for it."""

    @abstractmethod
    def _called(self, iterations: int) -> tuple[Any, Any]:
        """`iterations` rounds in one call, waited for: turns of `step` counted, and the result."""

    @abstractmethod
    def _compared(self, number: int, iterations: int) -> int:
        """Compare the result on every rank; how many elements."""

    @abstractmethod
    def _change_signs(self, passes: int) -> None:
        """Read and write the input buffers `passes` times, and wait for it."""
