"""The inputs of a soak: random numbers, whose sum has the same bits in every order of summation.

Floating-point inputs are integers times a power of two. These integers are small enough that the
sum over all ranks is exact. Inputs of an integer dtype use all bits. This module needs only numpy.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.worker.backends.base import unavailable
from busbw.worker.backends.framework import ChainProgram, FrameworkBackend
from busbw.worker.backends.values import (
    Array,
    ExactValues,
    chunks_with_exact_values,
    map_ranks,
)

from .worker import SoakProgram, mismatch_text

# The elements after which an input repeats. The number is prime, so that no two neighboring chunks
# whose length is a power of two are equal.
_PERIOD_LENGTH = 4093
# The number of powers of two that draws use, from the smallest to the largest normal numbers.
_SCALE_COUNT = 4


@contextlib.contextmanager
def prepared_program(backend: FrameworkBackend, case: Case) -> Iterator[SoakProgram]:
    """Yield the compiled program of `case`, after a check that it contains the case's collective.

    Raises MeasuringError if the program cannot be compiled or does not contain the collective.
    """
    with backend.prepare_program(case, values_type=SoakValues) as chain:
        yield FrameworkSoakProgram(chain)


class FrameworkSoakProgram(SoakProgram):
    """The program of a case that a framework compiled for a soak, with two random inputs.

    Attributes:
        chain: The program in the framework, which runs a single iteration in a call.
        values: The random inputs and the exact results.

    """

    def __init__(self, chain: ChainProgram) -> None:
        assert isinstance(chain.values, SoakValues)
        self.chain, self.values = chain, chain.values
        self._last_draw = -1
        # The draw of the other input, and its buffers in the framework.
        self._other_input: tuple[int, Any] = -1, None

    def renew_input(self) -> None:
        self.draw = self._last_draw = (self._last_draw + 1) % self.values.draw_count
        self.chain.write_draw(self.draw)

    def swap_inputs(self) -> None:
        current_input = self.draw, self.chain.inputs
        self.draw, self.chain.inputs = self._other_input
        self._other_input = current_input
        self.chain.result = None

    def run_iteration(self) -> None:
        self.chain.run(1)

    def result_hashes(self) -> tuple[int, ...]:
        """Return the CRC-32 of the last result of each rank of this process.

        Many processors have an instruction for CRC-32.
        """
        results = self.chain.results_by_rank()

        def digest(rank: int) -> int:
            return zlib.crc32(np.ascontiguousarray(results[rank]).view(np.uint8).data)

        return tuple(map_ranks(digest, sorted(results), self.values.case.payload_bytes))

    def find_mismatch(self) -> str:
        return self.values.find_mismatch(self.draw, self.chain.results_by_rank())


@dataclass(frozen=True)
class SoakValues(ExactValues):
    """The random inputs of a case in a soak, and the exact results of an iteration.

    A draw is a set of random inputs for all ranks. There are 16 draws, numbered from 0.
    """

    draw_count = 4 * _SCALE_COUNT

    @cached_property
    def first_call_readers(self) -> Mapping[str, Any]:
        """The extensions with inputs for the first call: none, because a soak compares results."""
        return {}

    def max_exact_iterations(self) -> int:
        """Return 1: a call of the program runs a single iteration, whose result is exact.

        Raises MeasuringError UNAVAILABLE if no sum over all ranks is exact in the dtype.
        """
        if self._max_summand_bits < 1:
            ranks = self.case.group_size
            raise unavailable(f"{self.case.dtype} holds no exact sum over {ranks} ranks")
        return 1

    def starting_values(self, rank: int, draw_number: int) -> Array:
        """Return the inputs of `rank` in the draw `draw_number`, of the shape (blocks, period)."""
        group, position = self.group_and_position(rank)
        shape = self.collective.input_blocks(self.case.group_size), _PERIOD_LENGTH
        generator = np.random.default_rng((draw_number, group, position))
        if self._is_integer:
            words = generator.integers(
                0, 2 ** (8 * self._word_dtype.itemsize), shape, self._word_dtype
            )
            return np.asarray(words.view(self.dtype))
        largest = 2**self._max_summand_bits - 1
        integers = generator.integers(-largest, largest, shape, endpoint=True).astype(np.float64)
        return np.asarray(
            np.ldexp(integers, self._exponent_of_draw(draw_number)).astype(self.dtype)
        )

    def values_after(self, rank: int, draw_number: int, iterations: int) -> Array:
        """Return the exact result of `rank` after an iteration, of the shape (blocks, period).

        `draw_number` is the number of the draw. `iterations` is not used: the result does not
        depend on it, because the iterations of a soak run out of place.
        """
        group, position = self.group_and_position(rank)
        inputs = [
            [*self.starting_values(other, draw_number)] for other in self.case.rank_groups[group]
        ]
        blocks: list[Any] = self.collective.result_blocks(inputs, position, self._reduce_exactly)
        return np.stack(blocks)

    def find_mismatch(self, draw_number: int, results: Mapping[int, Any]) -> str:
        """Describe the first wrong element in `results`; return "" if no element is wrong.

        `draw_number` is the number of the draw with which the program was called. `results` maps
        each rank of this process to its result, a flat array.
        """
        for rank, result in results.items():
            for begin, part, exact in chunks_with_exact_values(
                self.values_after(rank, draw_number, 1), result
            ):
                expected = exact.view(self._word_dtype)
                actual = np.ascontiguousarray(part).view(self._word_dtype)
                for index in np.flatnonzero(expected != actual)[:1]:
                    words = int(expected[index]), int(actual[index])
                    return mismatch_text(rank, begin + int(index), *words)
        return ""

    def _reduce_exactly(self, blocks: Sequence[Any]) -> Any:
        """Return the exact reduction (sum, maximum or minimum) of the blocks of all ranks."""
        if self.case.reduce_op != "sum":
            reduction: Any = np.maximum if self.case.reduce_op == "max" else np.minimum
            return reduction.reduce(blocks)
        if self._is_integer:
            # Devices, too, add up words modulo 2^bits.
            words = [block.view(self._word_dtype) for block in blocks]
            return np.sum(words, axis=0, dtype=self._word_dtype).view(self.dtype)
        total = np.sum([block.astype(np.float64) for block in blocks], axis=0)
        return total.astype(self.dtype)

    @property
    def _is_integer(self) -> bool:
        """Whether the dtype of the case is an integer type."""
        return DTYPES[self.case.dtype].least_exponent == 0

    @property
    def _word_dtype(self) -> Any:
        """The unsigned integer type with the same number of bits as the dtype of the case."""
        return np.dtype(f"u{DTYPES[self.case.dtype].size_bytes}")

    @property
    def _max_summand_bits(self) -> int:
        """The largest number of bits of a summand such that the sum over all ranks is exact."""
        carry_bits = (
            math.ceil(math.log2(self.case.group_size)) if self.case.reduce_op == "sum" else 0
        )
        return DTYPES[self.case.dtype].significant_bits - carry_bits

    def _exponent_of_draw(self, draw_number: int) -> int:
        """Return the exponent of the power of two by which the integers of a draw are multiplied.

        Successive draws have different exponents.
        """
        dtype = DTYPES[self.case.dtype]
        span = dtype.greatest_exponent - dtype.significant_bits - dtype.least_exponent
        return dtype.least_exponent + span * (draw_number % _SCALE_COUNT) // (_SCALE_COUNT - 1)
