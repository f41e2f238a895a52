"""The starting values of ranks, and the exact values after a number of iterations.

This module uses numpy and knows no framework. The values of a rank are arrays of the shape (blocks,
period). A rank's buffer consists of blocks of equal size, and each block repeats its period, a few
values, up to its size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from busbw import extensions
from busbw.collectives import COLLECTIVES
from busbw.collectives.base import AbstractCollective, Draw
from busbw.model.case import Case
from busbw.model.words import Placement
from busbw.worker import host

from .base import unavailable, wrong_result

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

# The number of elements that are compared at once.
_CHUNK_ELEMENTS = 2**18
# From this payload on, ranks are checked or written on all cores at the same time.
_PARALLEL_BYTES = 2**24


@dataclass(frozen=True)
class ExactValues:
    """The starting values and the exact results of `case` on every rank, in the numpy type `dtype`.

    A draw is a set of starting values for all ranks. There are `draw_count` draws, numbered from 0.
    Successive chains use successive draws, so that the result of an earlier chain is noticed.
    """

    case: Case
    dtype: Any

    draw_count: ClassVar[int] = 4

    @property
    def collective(self) -> AbstractCollective:
        """The collective of the case."""
        return COLLECTIVES[self.case.collective]

    def max_exact_iterations(self) -> int:
        """Return the largest number of iterations whose chain gives exact values.

        Raises MeasuringError UNAVAILABLE if even a single iteration gives inexact values.
        """
        iterations = self.collective.max_exact_iterations(
            self._make_draw(0, 0), self.case.placement
        )
        if iterations < 1:
            raise unavailable(
                f"{self.case.dtype} holds no exact {self.case.reduce_op} over "
                f"{self.case.group_size} ranks"
            )
        return iterations

    def starting_values(self, rank: int, draw: int) -> Array:
        """Return the starting values of `rank` in a draw, of the shape (blocks, period).

        `draw` is the number of the draw. The numbers -1, -2 and so on are the inputs of the first,
        the second and the following extensions in `first_calls`.
        """
        if draw < 0:
            return np.asarray([*self.first_calls.values()][-1 - draw].start(rank))
        group, position = self.group_and_position(rank)
        return self._to_array(
            self.collective.starting_blocks(self._make_draw(group, draw), position)
        )

    def values_after(self, rank: int, draw: int, iterations: int) -> Array:
        """Return the exact values of `rank` after a chain, of the shape (blocks, period).

        The chain begins with the starting values of the draw number `draw`, and has `iterations`
        collectives.
        """
        group, position = self.group_and_position(rank)
        group_draw, chained = self._make_draw(group, draw), self.chained_iterations(iterations)
        return self._to_array(self.collective.blocks_after(group_draw, position, chained))

    def chained_iterations(self, iterations: int) -> int:
        """Return the number of iterations that change the values, out of `iterations`.

        In place it is `iterations`. Out of place it is 1: each iteration has the same input, so
        that the result is the result of a single iteration.
        """
        return iterations if self.case.placement == Placement.IN_PLACE.value else 1

    @cached_property
    def first_calls(self) -> Mapping[str, Any]:
        """The extensions that have inputs for the first call of a program, by their value's name.

        An extension declares a class in its table FIRST_CALLS, by the name of the value:

        - `applies_to(case)` returns whether the extension has inputs for a case.
        - The class is then called with these ExactValues.
        - `start(rank)` returns the inputs of a rank, of the shape (blocks, period).
        - `read(rank, result, iterations, all_gather)` reads the value from the result of the call
          and returns it. `rank` is the first rank of this process, `result` its result as a flat
          array, and `iterations` the number of iterations of the call.
        """
        kinds = extensions.load_table("FIRST_CALLS").items()
        return {name: kind(self) for name, kind in kinds if kind.applies_to(self.case)}

    def write_ranks(self, draw: int, buffers: Mapping[int, Any]) -> None:
        """Write the starting values of the draw number `draw` into `buffers`.

        `buffers` has a flat array for each rank, by the rank.
        """

        def write_rank(rank: int) -> None:
            for _, chunk, exact in chunks_with_exact_values(
                self.starting_values(rank, draw), buffers[rank]
            ):
                chunk[...] = exact

        map_ranks(write_rank, buffers, self.case.payload_bytes)

    def check_ranks(self, draw: int, iterations: int, results: Mapping[int, Any]) -> int:
        """Compare the result of each rank in `results` with its exact values, as `check_rank` does.

        Returns the number of compared elements on all ranks in `results`.
        """
        return sum(
            map_ranks(
                lambda rank: self.check_rank(rank, draw, iterations, results[rank]),
                results,
                self.case.payload_bytes,
            )
        )

    def check_rank(self, rank: int, draw: int, iterations: int, result: Any) -> int:
        """Compare the result of a rank with the exact values.

        Args:
            rank: the rank.
            draw: the number of the draw with which the chain began.
            iterations: the number of collectives that ran.
            result: a flat array, or another value that can be sliced into arrays.

        Returns:
            The number of compared elements.

        Raises:
            MeasuringError: WRONG_RESULT with the first wrong element, or with the number of
                elements if that number is wrong.

        """
        if result.shape[0] != self.result_element_count:
            raise wrong_result(
                f"rank {rank} holds {result.shape[0]} elements, "
                f"expected {self.result_element_count}"
            )
        for begin, chunk, exact in chunks_with_exact_values(
            self.values_after(rank, draw, iterations), result
        ):
            if not np.array_equal(chunk, exact):
                index = int(np.argmax(chunk != exact))
                raise wrong_result(
                    f"rank {rank}, element {begin + index}: {chunk[index]}, expected {exact[index]}"
                )
        return int(result.shape[0])

    @property
    def result_element_count(self) -> int:
        """The number of elements of a rank's result."""
        size = self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return size // int(np.dtype(self.dtype).itemsize)

    def group_and_position(self, rank: int) -> tuple[int, int]:
        """Return the index of the group that `rank` belongs to, and its position in the group."""
        return next(
            (number, group.index(rank))
            for number, group in enumerate(self.case.rank_groups)
            if rank in group
        )

    def _make_draw(self, group: int, number: int) -> Draw:
        """Return the draw `number` of the group of ranks with the index `group`.

        With the same `number`, the draws of different groups differ.
        """
        case = self.case
        return Draw(
            dtype=case.dtype,
            reduce_op=case.reduce_op,
            ranks=case.group_size,
            number=number + group,
        )

    def _to_array(self, blocks: Any) -> Array:
        array: Array = np.array(blocks, dtype=np.float64).astype(self.dtype)
        return array


def chunks_with_exact_values(blocks: Array, values: Any) -> Iterator[tuple[int, Array, Array]]:
    """Divide the flat array of a rank into chunks, and yield each chunk with its exact values.

    A chunk is small enough that its exact values take little memory.

    Args:
        blocks: the exact values of the rank, of the shape (blocks, period).
        values: the flat array, or another value that can be sliced into arrays.

    Yields:
        The index of the first element of the chunk, the chunk, and its exact values.

    """
    length = values.shape[0] // blocks.shape[0]
    for number, period in enumerate(blocks):
        chunk = repeat_period(period, length)
        for begin in range(number * length, (number + 1) * length, chunk.shape[0]):
            end = min(begin + chunk.shape[0], (number + 1) * length)
            yield begin, np.asarray(values[begin:end]), chunk[: end - begin]


def array_at(address: int, count: int, dtype: Any) -> Array:
    """Return the `count` elements at a memory address of the framework, as a writable array."""
    buffer = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype)


def map_ranks(function: Callable[[int], T], ranks: Iterable[int], payload_bytes: int) -> list[T]:
    """Call `function` with each rank, and return the results in the order of `ranks`.

    If the payload is large, the calls run on a thread for each core. Threads help because numpy
    releases Python's interpreter lock.
    """
    if payload_bytes < _PARALLEL_BYTES:
        return [function(rank) for rank in ranks]
    with ThreadPoolExecutor(host.usable_cores()) as threads:
        return list(threads.map(function, ranks))


def repeat_period(values_of_period: Array, length: int) -> Array:
    """Repeat `values_of_period` until the array has `length` or `_CHUNK_ELEMENTS` elements.

    The smaller of the two counts. The last period is not cut, so the array may be a little longer.
    """
    size = values_of_period.shape[0]
    repeats = max(1, -(-min(length, _CHUNK_ELEMENTS) // size))
    return np.tile(values_of_period, repeats)
