"""What ranks start with, and what they must hold after any number of rounds, as arrays.

Numpy only; knows no framework.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, AbstractCollective, Draw
from busbw.model.case import Case
from busbw.model.soak import Wrong
from busbw.model.words import Placement
from busbw.worker import host

from .base import unavailable, wrong_result
from .signature import inexact, signature

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

_COMPARED_AT_ONCE = 2**18
_BY_THREADS_BYTES = 2**24


@dataclass(frozen=True)
class Values:
    """The exact values of `case` in a dtype of numpy's, for every rank and draw.

    With `is_inexact` there is also the draw `INEXACT`, whose sum depends on the order of
    additions. Of what is soaked, the kinds in `special` need not be passed unchanged.
    """

    case: Case
    dtype: Any

    # The number of the draw whose sum depends on the order of additions.
    INEXACT: ClassVar[int] = -1
    draws: ClassVar[int] = 4

    @property
    def special(self) -> tuple[str, ...]:
        return ()

    @property
    def collective(self) -> AbstractCollective:
        return COLLECTIVES[self.case.collective]

    def most_rounds(self) -> int:
        """How long a chain stays exact. Raises MeasuringError where not even a call does."""
        rounds = self.collective.exact_rounds(self._draw(0, 0), self.case.placement)
        if rounds < 1:
            raise unavailable(
                f"{self.case.dtype} holds no exact {self.case.reduce_op} over "
                f"{self.case.group_size} ranks"
            )
        return rounds

    def start(self, rank: int, number: int) -> Array:
        """One period of each block that `rank` puts in, in draw `number`; (blocks, period)."""
        group, position = self._group_and_position(rank)
        found = self._array(self.collective.start(self._draw(group, max(0, number)), position))
        return (
            found if number != self.INEXACT else inexact(found.shape, (group, position), self.dtype)
        )

    def after(self, rank: int, number: int, iterations: int) -> Array:
        """The same of what `rank` holds after `iterations` collectives; (blocks, period)."""
        group, position = self._group_and_position(rank)
        chained = self.case.placement == Placement.IN_PLACE.value
        rounds = iterations if chained else 1
        return self._array(self.collective.after(self._draw(group, number), position, rounds))

    @property
    def is_inexact(self) -> bool:
        return self.case.reduce_op == "sum" and DTYPES[self.case.dtype].least_exponent < 0

    def signature(self, iterations: int, rank: int, got: Any) -> tuple[int, int]:
        """Of what `rank` has after `iterations` rounds from the draw `INEXACT`, if there is one."""
        group, position = self._group_and_position(rank)
        inputs = [[*self.start(other, self.INEXACT)] for other in self.case.groups[group]]
        kept: list[Array] = []

        def keep(blocks: Sequence[Array]) -> Array:
            kept.extend(blocks)
            return blocks[0]

        # Only what is added up for this rank.
        self.collective.result(inputs, position, keep)
        rounds = iterations if self.case.placement == Placement.IN_PLACE.value else 1
        return signature(kept, got, rounds)

    def lay_out(self, number: int, memories: Mapping[int, Any]) -> None:
        """Write draw `number` into the memory of each rank, a flat array."""

        def write(rank: int) -> None:
            _write(self.start(rank, number), memories[rank])

        each(write, memories, self.case.payload_bytes)

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        """Compare results by rank with those after `iterations` rounds from draw `number`.

        Returns how many elements there are. Raises MeasuringError WRONG_RESULT with the first
        wrong one.
        """

        def check(rank: int) -> int:
            return self.check(rank, number, iterations, results[rank])

        return sum(each(check, results, self.case.payload_bytes))

    def check(self, rank: int, number: int, iterations: int, got: Any) -> int:
        """Compare all of `rank`'s result, which can be sliced into arrays; how many elements.

        Raises MeasuringError WRONG_RESULT with the first wrong one, or where there are not as many
        as there should be.
        """
        if got.shape[0] != self._count():
            raise wrong_result(
                f"rank {rank} holds {got.shape[0]} elements, expected {self._count()}"
            )
        for begin, part, exact in pieces(self.after(rank, number, iterations), got):
            if not np.array_equal(part, exact):
                index = int(np.argmax(part != exact))
                raise wrong_result(
                    f"rank {rank}, element {begin + index}: {part[index]}, expected {exact[index]}"
                )
        return int(got.shape[0])

    def kind(self, number: int) -> str:
        """Return what the values of draw `number` are called, if they are soaked."""
        return ""

    def digests(self, results: Mapping[int, Any]) -> tuple[int, ...]:
        """Hash each result, in the order of ranks, if they are soaked."""
        raise unavailable("only collectives by themselves are soaked")

    def wrong(self, number: int, at: int, results: Mapping[int, Any]) -> Wrong | None:
        """Return the first wrong word of results by rank in round `at`, if they are soaked."""
        raise unavailable("only collectives by themselves are soaked")

    def _count(self) -> int:
        size = self.collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return size // int(np.dtype(self.dtype).itemsize)

    def _group_and_position(self, rank: int) -> tuple[int, int]:
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


def pieces(blocks: Array, got: Any) -> Iterator[tuple[int, Array, Array]]:
    """(first element, values got, exact values) for stretches of every block."""
    length = got.shape[0] // blocks.shape[0]
    for number, period in enumerate(blocks):
        stretch = tiled(period, length)
        for begin in range(number * length, (number + 1) * length, stretch.shape[0]):
            end = min(begin + stretch.shape[0], (number + 1) * length)
            yield begin, np.asarray(got[begin:end]), stretch[: end - begin]


def _write(blocks: Array, memory: Array) -> None:
    for _, part, exact in pieces(blocks, memory):
        part[...] = exact


def memory_at(address: int, count: int, dtype: Any) -> Array:
    """`count` elements of a framework's own memory, which can be written."""
    held = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(held, dtype)


def each(do: Callable[[int], T], ranks: Iterable[int], payload_bytes: int) -> list[T]:
    """For every rank; large ones at the same time, numpy leaving the interpreter to others."""
    if payload_bytes < _BY_THREADS_BYTES:
        return [do(rank) for rank in ranks]
    with ThreadPoolExecutor(host.cores()) as threads:
        return list(threads.map(do, ranks))


def tiled(period: Array, length: int) -> Array:
    """Whole periods, not much longer than `length` and than is compared at once."""
    size = period.shape[0]
    repeats = max(1, -(-min(length, _COMPARED_AT_ONCE) // size))
    return np.tile(period, repeats)
