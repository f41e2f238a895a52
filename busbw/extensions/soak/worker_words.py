"""The inputs of a soak: random words, whose sum has the same bits in every order of summation.

Floating-point numbers are integers times a power of two, small enough that the sum over all ranks
is exact. Integers use all bits. This module needs only numpy.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from busbw.collectives.base import DTYPES
from busbw.worker.backends.base import unavailable
from busbw.worker.backends.chain import Chain
from busbw.worker.backends.values import (
    Array,
    ExactValues,
    chunks_with_exact_values,
    map_ranks,
)

from .worker import SoakProgram, WrongElement

# The elements after which an input repeats. The number is prime, so that no two neighboring chunks
# whose length is a power of two are equal.
_PERIOD = 4093
# The number of powers of two that draws use, from the smallest to the largest normal numbers.
_SCALES = 4


class ChainProgram(SoakProgram):
    """A chain of a single iteration, whose starting values are Words."""

    def __init__(self, chain: Chain) -> None:
        assert isinstance(chain.values, Words)
        self.chain, self.words = chain, chain.values
        self._last_draw = -1
        # The number of the other input, and its buffers in the framework.
        self._other: tuple[int, Any] = -1, None

    def renew_input(self) -> None:
        self.draw = self._last_draw = (self._last_draw + 1) % self.words.draw_count
        self.chain.write_draw(self.draw)

    def swap_inputs(self) -> None:
        current = self.draw, self.chain.inputs
        self.draw, self.chain.inputs = self._other
        self._other = current
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

        return tuple(map_ranks(digest, sorted(results), self.words.case.payload_bytes))

    def find_mismatch(self, iteration: int) -> WrongElement | None:
        return self.words.find_mismatch(self.draw, iteration, self.chain.results_by_rank())


@dataclass(frozen=True)
class Words(ExactValues):
    """The words of `case` in each draw, and the exact result of an iteration."""

    draw_count = 4 * _SCALES

    @cached_property
    def first_calls(self) -> Mapping[str, Any]:
        """Inputs of extensions for a first call: empty, because a soak compares every result."""
        return {}

    def max_exact_iterations(self) -> int:
        """Return 1, the number of iterations that stay exact.

        Raises MeasuringError if no sum over all ranks is exact in the dtype.
        """
        if self._exact_bits < 1:
            ranks = self.case.group_size
            raise unavailable(f"{self.case.dtype} holds no exact sum over {ranks} ranks")
        return 1

    def starting_values(self, rank: int, draw: int) -> Array:
        """Return a period of each block that `rank` puts in, in draw number `draw`."""
        group, position = self.group_and_position(rank)
        shape = self.collective.input_blocks(self.case.group_size), _PERIOD
        generator = np.random.default_rng((draw, group, position))
        if self._is_integer:
            words = generator.integers(
                0, 2 ** (8 * self._word_dtype.itemsize), shape, self._word_dtype
            )
            return np.asarray(words.view(self.dtype))
        most = 2**self._exact_bits - 1
        whole = generator.integers(-most, most, shape, endpoint=True).astype(np.float64)
        return np.asarray(np.ldexp(whole, self._exponent_of_draw(draw)).astype(self.dtype))

    def values_after(self, rank: int, draw: int, iterations: int) -> Array:
        """Return a period of each block that `rank` holds after an iteration with input `draw`."""
        group, position = self.group_and_position(rank)
        inputs = [[*self.starting_values(other, draw)] for other in self.case.rank_groups[group]]
        blocks: list[Any] = self.collective.result_blocks(inputs, position, self._reduce_exactly)
        return np.stack(blocks)

    def find_mismatch(
        self, draw: int, iteration: int, results: Mapping[int, Any]
    ) -> WrongElement | None:
        """Return the first wrong element in the results of this process; None if all are right.

        `draw` is the number of the input, and `results` has the result of each rank.
        """
        for rank, result in results.items():
            for begin, part, exact in chunks_with_exact_values(
                self.values_after(rank, draw, 1), result
            ):
                expected = exact.view(self._word_dtype)
                actual = np.ascontiguousarray(part).view(self._word_dtype)
                for index in np.flatnonzero(expected != actual)[:1]:
                    return WrongElement(
                        draw=draw,
                        rank=rank,
                        element=begin + int(index),
                        iteration=iteration,
                        expected=int(expected[index]),
                        actual=int(actual[index]),
                    )
        return None

    def _reduce_exactly(self, blocks: Sequence[Any]) -> Any:
        """Return the exact reduction of the blocks of all ranks."""
        if self.case.reduce_op != "sum":
            chosen: Any = np.maximum if self.case.reduce_op == "max" else np.minimum
            return chosen.reduce(blocks)
        if self._is_integer:
            # Devices, too, add up words modulo 2^bits.
            words = [block.view(self._word_dtype) for block in blocks]
            return np.sum(words, axis=0, dtype=self._word_dtype).view(self.dtype)
        whole = np.sum([block.astype(np.float64) for block in blocks], axis=0)
        return whole.astype(self.dtype)

    @property
    def _is_integer(self) -> bool:
        return DTYPES[self.case.dtype].least_exponent == 0

    @property
    def _word_dtype(self) -> Any:
        """The unsigned integer type with the same number of bits as the dtype of the case."""
        return np.dtype(f"u{DTYPES[self.case.dtype].size_bytes}")

    @property
    def _exact_bits(self) -> int:
        """The number of bits of the integers, so that their sum over all ranks is exact."""
        added = math.ceil(math.log2(self.case.group_size)) if self.case.reduce_op == "sum" else 0
        return DTYPES[self.case.dtype].significant_bits - added

    def _exponent_of_draw(self, draw: int) -> int:
        """Return the exponent of the power of two by which integers of a draw are multiplied."""
        dtype = DTYPES[self.case.dtype]
        span = dtype.greatest_exponent - dtype.significant_bits - dtype.least_exponent
        return dtype.least_exponent + span * (draw % _SCALES) // (_SCALES - 1)
