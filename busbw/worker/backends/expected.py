"""A collective's exact values as arrays: what a rank starts with, and whether its result is right.

numpy only. The values are those of `busbw.collectives`; a rank's place in its group decides
which, and so does the group, so that one group's data in another one's place shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from busbw.collectives import COLLECTIVES, AbstractCollective, Draw
from busbw.model import Case, FailureKind, Placement
from busbw.worker import host

from .base import MeasuringError
from .chain import AbstractValues

Array = np.ndarray[Any, np.dtype[Any]]

_COMPARED_AT_ONCE = 2**18
_CHECKED_BY_THREADS = 2**24


@dataclass(frozen=True)
class Values(AbstractValues):
    """The exact values of `case` in a dtype of numpy's, for every rank and draw."""

    case: Case
    dtype: Any

    draws = 4
    unit = "rounds"
    lies = "the result lies"

    @property
    def collective(self) -> AbstractCollective:
        """What is known of the case's collective."""
        return COLLECTIVES[self.case.collective]

    def most_rounds(self) -> int:
        """How long a chain stays exact. Raises MeasuringError where not even a call does."""
        rounds = self.collective.exact_rounds(self._draw(0, 0), self.case.placement)
        if rounds < 1:
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"{self.case.dtype} holds no exact {self.case.reduce_op} over "
                f"{self.case.group_size} ranks",
            )
        return rounds

    def start(self, rank: int, number: int) -> Array:
        """One period of each block that `rank` puts in, in draw `number`; (blocks, period)."""
        group, position = self._place(rank)
        return self._array(self.collective.start(self._draw(group, number), position))

    def after(self, rank: int, number: int, iterations: int) -> Array:
        """The same of what `rank` holds after `iterations` collectives; (blocks, period)."""
        group, position = self._place(rank)
        chained = self.case.placement == Placement.IN_PLACE.value
        rounds = iterations if chained else 1
        return self._array(self.collective.after(self._draw(group, number), position, rounds))

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        """`check` every rank's result, large ones on all cores; how many elements."""

        def check(rank: int) -> int:
            return self.check(rank, number, iterations, results[rank])

        if self.case.payload_bytes < _CHECKED_BY_THREADS:
            return sum(map(check, results))
        with ThreadPoolExecutor(host.cores()) as threads:
            return sum(threads.map(check, results))

    def check(self, rank: int, number: int, iterations: int, got: Any) -> int:
        """Compare all of `rank`'s result, whatever can be sliced into arrays; how many elements.

        Raises MeasuringError WRONG_RESULT with the first wrong one, or where there are not as many
        as there should be.
        """
        if got.shape[0] != self._count():
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"rank {rank} holds {got.shape[0]} elements, expected {self._count()}",
            )
        for begin, part, exact in self._pieces(self.after(rank, number, iterations), got):
            if not np.array_equal(part, exact):
                place = int(np.argmax(part != exact))
                raise MeasuringError(
                    FailureKind.WRONG_RESULT,
                    f"rank {rank}, element {begin + place}: {part[place]}, expected {exact[place]}",
                )
        return int(got.shape[0])

    def _count(self) -> int:
        """How many elements a rank gets."""
        size = self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return size // int(np.dtype(self.dtype).itemsize)

    @staticmethod
    def _pieces(blocks: Array, got: Any) -> Any:
        """(first element, values got, exact values) for stretches of every block."""
        length = got.shape[0] // blocks.shape[0]
        for number, period in enumerate(blocks):
            stretch = tiled(period, length)
            for begin in range(number * length, (number + 1) * length, stretch.shape[0]):
                end = min(begin + stretch.shape[0], (number + 1) * length)
                yield begin, np.asarray(got[begin:end]), stretch[: end - begin]

    def _place(self, rank: int) -> tuple[int, int]:
        for number, group in enumerate(self.case.groups):
            if rank in group:
                return number, group.index(rank)
        raise ValueError(f"rank {rank} is in no group of {self.case.groups}")

    def _draw(self, group: int, number: int) -> Draw:
        case = self.case
        return Draw(
            dtype=case.dtype,
            reduce_op=case.reduce_op,
            ranks=case.group_size,
            number=number + group,
        )

    def _array(self, blocks: Any) -> Array:
        found: Array = np.array(blocks, dtype=np.float64).astype(self.dtype)
        return found


def tiled(period: Array, length: int) -> Array:
    """A stretch of whole periods, not much longer than `length` and than is compared at once."""
    size = period.shape[0]
    repeats = max(1, -(-min(length, _COMPARED_AT_ONCE) // size))
    return np.tile(period, repeats)
