"""A chain of collectives: draws alternate, iterations are counted, results are compared.

Which values a chain begins with and must end with is in `values`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from busbw.model.case import Case

from .base import AllGather, Program, wrong_result

if TYPE_CHECKING:
    from .values import Values


class Chain(Program):
    """The chain of `case`, whose results must be those of `values`.

    `inputs` are the starting values as the framework holds them, None before the first draw is
    written. `result` is that of the last call.
    """

    def __init__(self, case: Case, values: Values) -> None:
        self._case = case
        self.values = values
        self.first_calls = values.first_calls
        self.inputs: Any = None
        self.result: Any = None
        self._draw = -1
        self._counted: Any = None

    @final
    def initialize(self, first_call: str = "") -> None:
        if first_call:
            self.write(-1 - [*self.first_calls].index(first_call))
            return
        self._draw = (self._draw + 1) % self.values.draws
        self.write(self._draw)

    @final
    def read_first_call(self, name: str, iterations: int, all_gather: AllGather) -> object:
        rank, result = self._first_result()
        return self.values.first_calls[name].read(rank, result, iterations, all_gather)

    @final
    def write(self, draw: int) -> None:
        """Write the starting values of a draw on every rank, and wait until they are written."""
        self.result = None
        self._write(draw)

    @final
    def run(self, iterations: int) -> None:
        self.result = None
        self._counted, self.result = self._run(iterations)

    @final
    def check(self, iterations: int) -> int:
        counted = int(self._counted) * self.step
        if counted != iterations:
            raise wrong_result(f"the program ran {counted} rounds, expected {iterations}")
        return self._compare(self._draw, iterations)

    @abstractmethod
    def release(self) -> None:
        """Release all memory of the program."""

    @abstractmethod
    def results_by_rank(self) -> Mapping[int, Any]:
        """Return the result of each rank of this process, flat."""

    @abstractmethod
    def _write(self, draw: int) -> None:
        """Write the starting values, as `write` does."""

    @abstractmethod
    def _run(self, iterations: int) -> tuple[Any, Any]:
        """Run `iterations` in one call and wait; return the number of steps, and the result."""

    def _first_result(self) -> tuple[int, Any]:
        """Return the first rank of this process, and its result."""
        return next(iter(self.results_by_rank().items()))

    def _compare(self, draw: int, iterations: int) -> int:
        """Compare the result on every rank; return the number of elements."""
        return self.values.check_all(draw, iterations, self.results_by_rank())
