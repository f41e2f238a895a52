"""A chain of collectives: draws alternate, iterations are counted, results are compared.

Which values a chain begins with and must end with is in `values`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from busbw.model.case import Case
from busbw.model.soak import Wrong

from .base import Program, wrong_result

if TYPE_CHECKING:
    from .values import Values


class Chain(Program):
    """The chain of `case`, whose results must be those of `values`."""

    def __init__(self, case: Case, values: Values) -> None:
        self._case = case
        self._values = values
        self.draw = self._drawn = self._other = -1
        self.special = values.special
        self._result: Any = None
        self._counted: Any = None

    @final
    def initialize(self) -> None:
        self.draw = self._drawn = (self._drawn + 1) % self._values.draws
        self.kind = self._values.kind(self.draw)
        self._result = None
        self._initialize(self.draw)

    @final
    def initialize_inexact(self) -> bool:
        if self._values.is_inexact:
            self._result = None
            self._initialize(self._values.INEXACT)
        return self._values.is_inexact

    @final
    def signature(self, iterations: int) -> tuple[int, int]:
        return self._values.signature(iterations, *self._first_result())

    @final
    def run(self, iterations: int) -> None:
        self._result = None
        self._counted, self._result = self._run(iterations)

    @final
    def check(self, iterations: int) -> int:
        counted = int(self._counted) * self.step
        if counted != iterations:
            raise wrong_result(f"the program ran {counted} rounds, expected {iterations}")
        return self._compare(self.draw, iterations)

    @final
    def swap(self) -> None:
        self.draw, self._other = self._other, self.draw
        self.kind = self._values.kind(self.draw)
        self._result = None
        self._swap()

    @final
    def digests(self) -> tuple[int, ...]:
        return self._digests()

    @final
    def wrong(self, number: int) -> Wrong | None:
        return self._values.wrong(self.draw, number, self._results())

    @abstractmethod
    def release(self) -> None:
        """Release all memory of the program."""

    @abstractmethod
    def _initialize(self, draw: int) -> None:
        """Write the starting values of a draw on every rank, and wait until they are written."""

    @abstractmethod
    def _run(self, iterations: int) -> tuple[Any, Any]:
        """Run `iterations` in one call and wait; return the number of steps, and the result."""

    @abstractmethod
    def _results(self) -> Mapping[int, Any]:
        """Return the result of each rank of this process, flat."""

    def _first_result(self) -> tuple[int, Any]:
        """Return the first rank of this process, and its result."""
        return next(iter(self._results().items()))

    def _compare(self, draw: int, iterations: int) -> int:
        """Compare the result on every rank; return the number of elements."""
        return self._values.check_all(draw, iterations, self._results())

    def _swap(self) -> None:
        """Of what is soaked: put starting values aside, and take those that were, if any."""
        raise NotImplementedError

    def _digests(self) -> tuple[int, ...]:
        """Of what is soaked: a hash of each, in their order."""
        return self._values.digests(self._results())
