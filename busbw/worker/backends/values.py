"""The values that ranks start with, and those that they must hold after a number of iterations.

Uses numpy and knows no framework. Arrays have the shape (blocks, period): a block is repetitions of
one period of values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from busbw import extensions
from busbw.collectives import COLLECTIVES
from busbw.collectives.base import AbstractCollective, Draw
from busbw.model.case import Case
from busbw.model.words import Placement
from busbw.worker import host

from .base import AllGather, unavailable, wrong_result

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

# How many elements are compared at once.
_STRETCH = 2**18
# The payload from which all cores check or write ranks at the same time.
_PARALLEL_BYTES = 2**24


class FirstCall(Protocol):
    """Inputs of an extension for the first call of a program, made of the case's Values."""

    def __init__(self, values: Values) -> None: ...

    @staticmethod
    def applies_to(case: Case) -> bool:
        """Return whether there are inputs for a case."""

    def start(self, rank: int) -> Array:
        """Return the inputs of `rank`, of shape (blocks, period)."""

    def read(self, rank: int, result: Any, iterations: int, all_gather: AllGather) -> object:
        """Read the extra value from the result of `rank`, the first rank of this process."""


@dataclass(frozen=True)
class Values:
    """The exact values of `case` in a dtype of numpy, for every rank and draw.

    A draw is a set of starting values, so that a stale result is noticed.
    """

    case: Case
    dtype: Any

    draws: ClassVar[int] = 4

    @property
    def collective(self) -> AbstractCollective:
        """The collective of the case."""
        return COLLECTIVES[self.case.collective]

    def most_rounds(self) -> int:
        """Return how many iterations of a chain stay exact.

        Raises MeasuringError if a single iteration does not.
        """
        rounds = self.collective.exact_rounds(self._draw(0, 0), self.case.placement)
        if rounds < 1:
            raise unavailable(
                f"{self.case.dtype} holds no exact {self.case.reduce_op} over "
                f"{self.case.group_size} ranks"
            )
        return rounds

    def start(self, rank: int, number: int) -> Array:
        """Return the starting values of `rank` in draw `number`, of shape (blocks, period).

        The draws -1, -2 and so on are the inputs of extensions.
        """
        if number < 0:
            return [*self.first_calls.values()][-1 - number].start(rank)
        group, position = self.group_and_position(rank)
        return self._array(self.collective.start(self._draw(group, number), position))

    def after(self, rank: int, number: int, iterations: int) -> Array:
        """Return the values of `rank` after `iterations`, of shape (blocks, period)."""
        group, position = self.group_and_position(rank)
        draw, rounds = self._draw(group, number), self.rounds_of(iterations)
        return self._array(self.collective.after(draw, position, rounds))

    def rounds_of(self, iterations: int) -> int:
        """Return how many iterations are chained: out of place each has the same input."""
        return iterations if self.case.placement == Placement.IN_PLACE.value else 1

    @cached_property
    def first_calls(self) -> Mapping[str, FirstCall]:
        """The inputs of extensions for this case, by the name of the extra value that they give."""
        kinds = extensions.load_table("FIRST_CALLS").items()
        return {name: kind(self) for name, kind in kinds if kind.applies_to(self.case)}

    def write(self, number: int, buffers: Mapping[int, Any]) -> None:
        """Write draw `number` into the buffer of each rank, a flat array."""

        def write_rank(rank: int) -> None:
            for _, part, exact in pieces(self.start(rank, number), buffers[rank]):
                part[...] = exact

        map_ranks(write_rank, buffers, self.case.payload_bytes)

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        """Check the results of all ranks, as `check` does; return the number of elements."""

        def check_rank(rank: int) -> int:
            return self.check(rank, number, iterations, results[rank])

        return sum(map_ranks(check_rank, results, self.case.payload_bytes))

    def check(self, rank: int, number: int, iterations: int, result: Any) -> int:
        """Compare a result with the exact values after `iterations` from draw `number`.

        Args:
            rank: the rank of the result.
            number: the number of the draw.
            iterations: how many collectives ran.
            result: a flat array, or another value that can be sliced into arrays.

        Returns:
            The number of elements.

        Raises:
            MeasuringError: WRONG_RESULT with the first wrong element, or with the number of
                elements if that is wrong.

        """
        if result.shape[0] != self._count():
            raise wrong_result(
                f"rank {rank} holds {result.shape[0]} elements, expected {self._count()}"
            )
        for begin, part, exact in pieces(self.after(rank, number, iterations), result):
            if not np.array_equal(part, exact):
                index = int(np.argmax(part != exact))
                raise wrong_result(
                    f"rank {rank}, element {begin + index}: {part[index]}, expected {exact[index]}"
                )
        return int(result.shape[0])

    def _count(self) -> int:
        size = self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return size // int(np.dtype(self.dtype).itemsize)

    def group_and_position(self, rank: int) -> tuple[int, int]:
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
        array: Array = np.array(blocks, dtype=np.float64).astype(self.dtype)
        return array


def pieces(blocks: Array, values: Any) -> Iterator[tuple[int, Array, Array]]:
    """Yield (first element, values, exact values) for stretches of every block."""
    length = values.shape[0] // blocks.shape[0]
    for number, period in enumerate(blocks):
        stretch = tiled(period, length)
        for begin in range(number * length, (number + 1) * length, stretch.shape[0]):
            end = min(begin + stretch.shape[0], (number + 1) * length)
            yield begin, np.asarray(values[begin:end]), stretch[: end - begin]


def memory_at(address: int, count: int, dtype: Any) -> Array:
    """Return `count` elements of a framework's own memory as an array that can be written."""
    buffer = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype)


def map_ranks(function: Callable[[int], T], ranks: Iterable[int], payload_bytes: int) -> list[T]:
    """Call `function` for every rank, on all cores if payloads are large.

    numpy releases Python's interpreter lock.
    """
    if payload_bytes < _PARALLEL_BYTES:
        return [function(rank) for rank in ranks]
    with ThreadPoolExecutor(host.cores()) as threads:
        return list(threads.map(function, ranks))


def tiled(period: Array, length: int) -> Array:
    """Repeat a period up to `length` or to a stretch, whichever is shorter, in whole periods."""
    size = period.shape[0]
    repeats = max(1, -(-min(length, _STRETCH) // size))
    return np.tile(period, repeats)
