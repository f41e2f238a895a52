"""What ranks start with, and what they must hold after any number of rounds, as arrays.

Numpy only; knows no framework. Weights only ever move along the rows, W(k) = W(0) - rate * X^T
(C(0) + ... + C(k-1)), where C are the errors of the predicted chances: so a reference in float64
costs little however long the chain.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES, AbstractCollective, Draw
from busbw.model.case import Case
from busbw.model.words import Placement
from busbw.worker import host
from busbw.workloads.dense_step import LEARNING_RATE, Layer

from .base import unavailable, wrong_result
from .framework import INEXACT, AbstractValues
from .signature import inexact, signature

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

_COMPARED_AT_ONCE = 2**18
_BY_THREADS_BYTES = 2**24

# The reference of a longer chain would take longer than the chain.
MOST_STEPS = 256

# The tolerated relative error of a gradient beyond rounding of the weights; accelerators
# multiply float32 with fewer bits.
_LOOSE, _LOOSE_ON_ACCELERATORS = 1e-4, 3e-2

# Starting weights repeat after this many inputs; draws alternate.
PERIOD = 8
DRAWS = 2

_START = 1e-3
_INPUTS_AT_ONCE = 1024
_ULP = 2.0**-23
_FEW_ROUNDINGS = 16


@dataclass(frozen=True)
class Values(AbstractValues):
    """The exact values of `case` in a dtype of numpy's, for every rank and draw."""

    case: Case
    dtype: Any

    draws = 4
    unit = "rounds"
    located = "the result is"

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
        return found if number != INEXACT else inexact(found.shape, (group, position), self.dtype)

    def after(self, rank: int, number: int, iterations: int) -> Array:
        """The same of what `rank` holds after `iterations` collectives; (blocks, period)."""
        group, position = self._group_and_position(rank)
        chained = self.case.placement == Placement.IN_PLACE.value
        rounds = iterations if chained else 1
        return self._array(self.collective.after(self._draw(group, number), position, rounds))

    @property
    def is_inexact(self) -> bool:  # type: ignore[override]
        return self.case.reduce_op == "sum" and DTYPES[self.case.dtype].least_exponent < 0

    def signature(self, iterations: int, rank: int, got: Any) -> tuple[int, int]:
        group, position = self._group_and_position(rank)
        inputs = [[*self.start(other, INEXACT)] for other in self.case.groups[group]]
        kept: list[Array] = []

        def keep(blocks: Sequence[Array]) -> Array:
            kept.extend(blocks)
            return blocks[0]

        # Only what is added up for this rank.
        self.collective.result(inputs, position, keep)
        rounds = iterations if self.case.placement == Placement.IN_PLACE.value else 1
        return signature(kept, got, rounds)

    def lay_out(self, number: int, memories: Mapping[int, Any]) -> None:
        def write(rank: int) -> None:
            _write(self.start(rank, number), memories[rank])

        each(write, memories, self.case.payload_bytes)

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
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


class StepValues(AbstractValues):
    """Rows, labels, starting weights and the reference of `step`, on CPUs if `virtual`."""

    draws = DRAWS
    unit = "steps"
    located = "the weights are"

    def __init__(self, step: Layer, *, virtual: bool) -> None:
        made = np.random.default_rng(step.inputs)
        count = step.rows * step.ranks
        self._step, self._rate = step, LEARNING_RATE
        self._loose = _LOOSE if virtual else _LOOSE_ON_ACCELERATORS
        # Rows of length 1, whatever the number of inputs: the steps then converge.
        self.rows = made.standard_normal((count, step.inputs), np.float32)
        self.rows /= np.linalg.norm(self.rows, axis=1, keepdims=True)
        self.labels = made.integers(0, step.outputs, count).astype(np.int32)
        self._starts = (_START * made.standard_normal((DRAWS, PERIOD, step.outputs))).astype(
            np.float32
        )
        self._alike = self._products()
        self._sums: dict[tuple[int, int], Array] = {}

    def start(self, number: int) -> Array:
        """The first `PERIOD` rows of the weights in draw `number`, which repeat to the end."""
        found: Array = self._starts[number]
        return found

    def lay_out(self, number: int, memories: Mapping[int, Any]) -> None:
        rows = self.start(number)

        def write(rank: int) -> None:
            _write(rows.reshape(1, -1), memories[rank])

        each(write, memories, self._step.inputs * self._step.outputs * rows.itemsize)

    def check_all(self, number: int, iterations: int, results: Mapping[int, Any]) -> int:
        first, *others = map(np.asarray, results.values())
        for rank, weights in enumerate(others, start=1):
            check_same(rank, first, weights)
        self.check(number, iterations, first)
        self.digest = zlib.crc32(np.ascontiguousarray(first).data)
        return len(results) * int(first.size)

    def check(self, number: int, steps: int, got: Any) -> None:
        """Raises MeasuringError WRONG_RESULT with the worst weight."""
        errors = self._summed_errors(number, steps)
        for begin in range(0, self._step.inputs, _INPUTS_AT_ONCE):
            end = min(begin + _INPUTS_AT_ONCE, self._step.inputs)
            moved = -self._rate * (self.rows[:, begin:end].T.astype(np.float64) @ errors)
            before = self._before(number, begin, end)
            part = np.asarray(got[begin:end])
            off = np.abs(part - (before + moved))
            largest = float(np.abs(before).max() + np.abs(moved).max())
            allowed = self._loose * float(np.abs(moved).max())
            allowed += (steps + _FEW_ROUNDINGS) * _ULP * largest
            if not float(off.max()) <= allowed:
                index = np.unravel_index(int(np.argmax(off)), off.shape)
                raise wrong_result(
                    f"weight {begin + int(index[0])}, {int(index[1])} after {steps} steps: "
                    f"{part[index]}, expected {(before + moved)[index]} within {allowed:.3g}"
                )

    def _before(self, number: int, begin: int, end: int) -> Array:
        """Starting weights of these inputs; stretches begin with a period."""
        repeats = -(-(end - begin) // PERIOD)
        return np.tile(self._starts[number].astype(np.float64), (repeats, 1))[: end - begin]

    def _products(self) -> Array:
        """X X^T."""
        count = self.rows.shape[0]
        found = np.zeros((count, count))
        for begin in range(0, self._step.inputs, _INPUTS_AT_ONCE):
            part = self.rows[:, begin : begin + _INPUTS_AT_ONCE].astype(np.float64)
            found += part @ part.T
        return found

    def _scores(self, number: int) -> Array:
        """X W(0)."""
        inputs = self._step.inputs
        folded = np.zeros((self.rows.shape[0], PERIOD))
        for index in range(min(PERIOD, inputs)):
            folded[:, index] = self.rows[:, index::PERIOD].sum(axis=1, dtype=np.float64)
        return np.asarray(folded @ self._starts[number].astype(np.float64))

    def _summed_errors(self, number: int, steps: int) -> Array:
        """C(0) + ... + C(steps - 1), each known from the one before; kept for other samples."""
        if (number, steps) not in self._sums:
            known = [length for draw, length in self._sums if draw == number and length < steps]
            begun = max(known, default=0)
            sums = self._sums.get(
                (number, begun), np.zeros((self.rows.shape[0], self._step.outputs))
            )
            scores = self._scores(number)
            for _ in range(begun, steps):
                sums = sums + self._errors(scores - self._rate * (self._alike @ sums))
            self._sums[number, steps] = sums
        return self._sums[number, steps]

    def _errors(self, scores: Array) -> Array:
        """C: predicted chances less the true ones, their part in the mean over all rows."""
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(self.labels)), self.labels] -= 1
        return np.asarray(chances / len(self.labels))


def check_same(rank: int, first: Any, weights: Any) -> None:
    """Also where one is not a number. Raises MeasuringError WRONG_RESULT with the first."""
    one, other = first.view(np.uint32), weights.view(np.uint32)
    if not np.array_equal(one, other):
        index = np.unravel_index(int(np.argmax(one != other)), one.shape)
        raise wrong_result(
            f"weight {int(index[0])}, {int(index[1])} is {first[index]} on rank 0 and "
            f"{weights[index]} on rank {rank}: the ranks no longer agree"
        )
