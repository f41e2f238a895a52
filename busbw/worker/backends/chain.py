"""The common part of all frameworks' programs: a chain of collectives with exact values.

Each chain begins with the next draw, the program counts the turns of its loop, and the result is
compared with the exact result. A draw is a set of starting values for all ranks; the module
`values` makes draws and exact results.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, final

from busbw.model.case import Case
from busbw.model.words import Clock

from .base import AllGather, Program, unavailable, wrong_result
from .values import ExactValues


class Chain(Program):
    """The program of `case` in a worker, which can run a chain of many iterations in one call.

    `values` makes the starting values and the exact results. `inputs` are the starting values in
    the framework's own type, None before a draw is written. `result` is the result of the last
    call, None if there was no call since a draw was written.
    """

    def __init__(self, case: Case, values: ExactValues) -> None:
        self._case = case
        self.values = values
        self.first_calls = values.first_calls
        self.inputs: Any = None
        self.result: Any = None
        self._draw = -1
        self._counted_turns: Any = None

    @final
    def initialize_values(self, first_call: str = "") -> None:
        if first_call:
            self.write_draw(-1 - [*self.first_calls].index(first_call))
            return
        self._draw = (self._draw + 1) % self.values.draw_count
        self.write_draw(self._draw)

    @final
    def read_extra_value(self, name: str, iterations: int, all_gather: AllGather) -> object:
        rank, result = self._first_rank_result()
        return self.values.first_calls[name].read(rank, result, iterations, all_gather)

    @final
    def write_draw(self, draw: int) -> None:
        """Write the draw with the number `draw` on every rank of this process, and wait.

        A negative number means the inputs of an extension for a first call.
        """
        self.result = None
        self._write_draw(draw)

    @final
    def run(self, iterations: int) -> None:
        self.result = None
        self._counted_turns, self.result = self._run_and_count_turns(iterations)

    @final
    def check_result(self, iterations: int) -> int:
        counted = int(self._counted_turns) * self.iterations_per_turn
        if counted != iterations:
            raise wrong_result(f"the program ran {counted} iterations, expected {iterations}")
        return self._compare_results(self._draw, iterations)

    def longest_chain(self, max_exact_iterations: int) -> int:
        """Return the largest number of iterations of a call: whole turns of the loop, and exact.

        It is 1 if a sample is a single call. Raises MeasuringError UNAVAILABLE if no chain is exact
        that is longer than the shortest chain.
        """
        if self._case.clock is Clock.DISPATCH:
            return 1
        longest = max_exact_iterations // self.iterations_per_turn * self.iterations_per_turn
        if longest <= self.shortest_chain:
            raise unavailable(
                f"{self._case.dtype} holds no exact chain of "
                f"{self.shortest_chain + self.iterations_per_turn} over "
                f"{self._case.group_size} ranks"
            )
        return longest

    @abstractmethod
    def release_memory(self) -> None:
        """Release all memory of the program."""

    @abstractmethod
    def results_by_rank(self) -> Mapping[int, Any]:
        """Return the results of this process, a flat array for each rank, by the rank."""

    @abstractmethod
    def _write_draw(self, draw: int) -> None:
        """Write the random inputs with the number `draw` to all ranks of this process.

        The inputs are written when this method returns.
        """

    @abstractmethod
    def _run_and_count_turns(self, iterations: int) -> tuple[Any, Any]:
        """Run `iterations` in a single call, and wait for the result.

        Returns the number of turns that the program's loop counted, and the result.
        """

    def _first_rank_result(self) -> tuple[int, Any]:
        """Return the number of the first rank of this process, and the result of this rank."""
        return next(iter(self.results_by_rank().items()))

    def _compare_results(self, draw: int, iterations: int) -> int:
        """Compare the result on each rank of this process with the exact result after `iterations`.

        Returns the number of compared elements.
        """
        return self.values.check_ranks(draw, iterations, self.results_by_rank())
