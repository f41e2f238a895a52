"""The starting values of ranks, and the exact values after a number of iterations.

This module uses numpy and no framework. A rank's buffer consists of blocks of equal size, and each
block repeats its period, a few values, up to its end. So the values of a rank are stored as a small
array of the shape (blocks, period): a row for each block, with the values of its period.
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
# From this payload in bytes on, ranks are checked or written on all cores at the same time.
_MIN_PARALLEL_PAYLOAD_BYTES = 2**24


@dataclass(frozen=True)
class CaseValues:
    """The starting values and the exact results of a case on every rank.

    A draw is a set of starting values for all ranks. Successive chains use successive draws, so
    that the result of an earlier chain is noticed.

    Attributes:
        dtype: The numpy type of the values.
        draw_count: The number of different draws, whose numbers begin with 0.

    """

    case: Case
    dtype: Any

    draw_count: ClassVar[int] = 4

    @property
    def collective(self) -> AbstractCollective:
        """The collective of the case."""
        return COLLECTIVES[self.case.collective]

    def max_exact_iterations(self) -> int:
        """Return the largest number of iterations in a chain whose values are still exact.

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

    def starting_values(self, rank: int, draw_number: int) -> Array:
        """Return the starting values of `rank` in a draw, of the shape (blocks, period).

        `draw_number` is the number of the draw. With a negative number, return the special inputs
        of an extension instead: -1 stands for the first reader in `first_call_readers`, -2 for the
        second, and so on.
        """
        if draw_number < 0:
            return np.asarray([*self.first_call_readers.values()][-1 - draw_number].start(rank))
        group, position = self.group_and_position(rank)
        return self._to_array(
            self.collective.starting_blocks(self._make_draw(group, draw_number), position)
        )

    def exact_values_after(self, rank: int, draw_number: int, iterations: int) -> Array:
        """Return the exact values of `rank` after a chain, of the shape (blocks, period).

        The chain begins with the starting values of the draw with the number `draw_number`, and has
        `iterations` collectives.
        """
        group, position = self.group_and_position(rank)
        group_draw, chained = (
            self._make_draw(group, draw_number),
            self.applications_in_a_row(iterations),
        )
        return self._to_array(self.collective.exact_blocks_after(group_draw, position, chained))

    def applications_in_a_row(self, iterations: int) -> int:
        """Return how often the collective is applied in a row to give the result of a chain.

        The chain has `iterations` collectives. In place, each collective gets the result of the
        previous collective, so the number is `iterations`. Out of place, each collective gets the
        same input, so the number is 1.
        """
        return iterations if self.case.placement == Placement.IN_PLACE.value else 1

    @cached_property
    def first_call_readers(self) -> Mapping[str, Any]:
        """The readers of extensions that use the first call of a program, by name of their value.

        For the first call, a reader replaces the starting values by inputs of its own. The reader
        reads a value from the result of this call, such as the order in which a sum was added up.
        The dictionary is empty if no reader applies to the case. An extension declares the class of
        a reader in its table FIRST_CALLS, by the name of the value. The class has these methods:

        - `applies_to(case)` returns whether the reader has inputs for a case.
        - The constructor takes these CaseValues.
        - `start(rank)` returns the inputs of a rank, of the shape (blocks, period).
        - `read(rank, result, iterations, all_gather)` returns the value. `rank` is the first rank
          of this process, `result` the rank's result of the call as a flat array, and `iterations`
          the number of iterations of the call.
        """
        kinds = extensions.load_table("FIRST_CALLS").items()
        return {name: kind(self) for name, kind in kinds if kind.applies_to(self.case)}

    def write_starting_values(self, draw_number: int, buffers: Mapping[int, Any]) -> None:
        """Write the starting values of the draw with the number `draw_number` into `buffers`.

        `buffers` maps the number of each rank of this process to the rank's buffer, a flat array.
        """

        def write_rank(rank: int) -> None:
            for _, chunk, exact in chunks_with_exact_values(
                self.starting_values(rank, draw_number), buffers[rank]
            ):
                chunk[...] = exact

        map_ranks(write_rank, buffers, self.case.payload_bytes)

    def check_results(self, draw_number: int, iterations: int, results: Mapping[int, Any]) -> int:
        """Compare the results of ranks with their exact values, as `check_result_of_rank` does.

        Args:
            draw_number: the number of the draw with which the chain began.
            iterations: the number of collectives that ran.
            results: maps the number of each rank to the rank's result, a flat array.

        Returns:
            The number of compared elements on all these ranks.

        Raises:
            MeasuringError: WRONG_RESULT, as in `check_result_of_rank`.

        """
        return sum(
            map_ranks(
                lambda rank: self.check_result_of_rank(
                    rank, draw_number, iterations, results[rank]
                ),
                results,
                self.case.payload_bytes,
            )
        )

    def check_result_of_rank(
        self, rank: int, draw_number: int, iterations: int, result: Any
    ) -> int:
        """Compare the result of a rank with the exact values.

        Args:
            rank: the number of the rank.
            draw_number: the number of the draw with which the chain began.
            iterations: the number of collectives that ran.
            result: a flat array, or another value that can be sliced into arrays.

        Returns:
            The number of compared elements.

        Raises:
            MeasuringError: WRONG_RESULT with the first wrong element, or with the number of
                elements if that number is wrong.

        """
        if result.shape[0] != self.elements_per_result:
            raise wrong_result(
                f"rank {rank} holds {result.shape[0]} elements, expected {self.elements_per_result}"
            )
        for begin, chunk, exact in chunks_with_exact_values(
            self.exact_values_after(rank, draw_number, iterations), result
        ):
            if not np.array_equal(chunk, exact):
                index = int(np.argmax(chunk != exact))
                raise wrong_result(
                    f"rank {rank}, element {begin + index}: {chunk[index]}, expected {exact[index]}"
                )
        return int(result.shape[0])

    @property
    def elements_per_result(self) -> int:
        """The number of elements in the result of a rank."""
        size = self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return size // int(np.dtype(self.dtype).itemsize)

    def group_and_position(self, rank: int) -> tuple[int, int]:
        """Return the index of the rank's group in `Case.rank_groups`, and the rank's position.

        The position is the index of `rank` in its group.
        """
        return next(
            (number, group.index(rank))
            for number, group in enumerate(self.case.rank_groups)
            if rank in group
        )

    def _make_draw(self, group: int, number: int) -> Draw:
        """Return the draw with the number `number` for the group of ranks with the index `group`.

        With the same `number`, different groups get different starting values.
        """
        case = self.case
        return Draw(
            dtype=case.dtype,
            reduce_op=case.reduce_op,
            ranks=case.group_size,
            number=number + group,
        )

    def _to_array(self, exact_blocks: Any) -> Array:
        """Return blocks as an array of the case's dtype, of the shape (blocks, period).

        A block is a tuple of the values of a period.
        """
        array: Array = np.array(exact_blocks, dtype=np.float64).astype(self.dtype)
        return array


def chunks_with_exact_values(
    exact_blocks: Array, buffer: Any
) -> Iterator[tuple[int, Array, Array]]:
    """Divide the buffer of a rank into chunks, and yield each chunk with its exact values.

    A chunk is small enough that its exact values take little memory.

    Args:
        exact_blocks: the exact values of the rank, of the shape (blocks, period).
        buffer: the buffer of the rank: a flat array, or another value that can be sliced into
            arrays.

    Yields:
        The index of the first element of the chunk in the buffer, the chunk, and its exact values.

    """
    length = buffer.shape[0] // exact_blocks.shape[0]
    for number, period in enumerate(exact_blocks):
        chunk = repeat_period(period, length)
        for begin in range(number * length, (number + 1) * length, chunk.shape[0]):
            end = min(begin + chunk.shape[0], (number + 1) * length)
            yield begin, np.asarray(buffer[begin:end]), chunk[: end - begin]


def array_at_address(address: int, count: int, dtype: Any) -> Array:
    """Return the memory at `address`, such as a framework's buffer, as a writable array.

    `count` is the number of elements, and `dtype` their numpy type. No memory is copied.
    """
    buffer = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype)


def map_ranks(function: Callable[[int], T], ranks: Iterable[int], payload_bytes: int) -> list[T]:
    """Call `function` with each rank, and return the results in the order of `ranks`.

    If the payload of `payload_bytes` is large, the calls run in as many threads as the process has
    cores. Threads help because numpy releases Python's interpreter lock.
    """
    if payload_bytes < _MIN_PARALLEL_PAYLOAD_BYTES:
        return [function(rank) for rank in ranks]
    with ThreadPoolExecutor(host.usable_cores()) as threads:
        return list(threads.map(function, ranks))


def repeat_period(values_of_period: Array, length: int) -> Array:
    """Return a flat array that repeats the values of a period until the array is long enough.

    The array has `length` elements, or about `_CHUNK_ELEMENTS` elements if `length` is larger. The
    last repetition is not cut, so the array may be a little longer.
    """
    size = values_of_period.shape[0]
    repeats = max(1, -(-min(length, _CHUNK_ELEMENTS) // size))
    return np.tile(values_of_period, repeats)
