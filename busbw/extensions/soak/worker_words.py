"""The inputs of a soak: random words, of which every order of additions gives the same bits.

Floating-point numbers are whole numbers, small enough that a sum over all ranks is exact, times a
power of two. Integers have all bits. Numpy only.
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
    FirstCall,
    map_ranks,
    parts_with_exact_values,
)

from .worker import SoakProgram, WrongElement

# A prime: no chunk of a power of two is like the next one.
_PERIOD = 4093
# How many powers of two there are, from the smallest normal numbers to the largest.
_SCALES = 4


class ChainProgram(SoakProgram):
    """A chain of one iteration, whose starting values are Words."""

    def __init__(self, chain: Chain) -> None:
        assert isinstance(chain.values, Words)
        self.chain, self.words = chain, chain.values
        self._last_draw = -1
        # The draw of the other input, and the input as the framework holds it.
        self._other: tuple[int, Any] = -1, None

    def renew(self) -> None:
        self.draw = self._last_draw = (self._last_draw + 1) % self.words.draw_count
        self.chain.write_draw(self.draw)

    def swap(self) -> None:
        current = self.draw, self.chain.inputs
        self.draw, self.chain.inputs = self._other
        self._other = current
        self.chain.result = None

    def run(self) -> None:
        self.chain.run(1)

    def digests(self) -> tuple[int, ...]:
        """Return the CRC-32 of each result: many processors have an instruction for it."""
        results = self.chain.results_by_rank()

        def digest(rank: int) -> int:
            return zlib.crc32(np.ascontiguousarray(results[rank]).view(np.uint8).data)

        return tuple(map_ranks(digest, sorted(results), self.words.case.payload_bytes))

    def find_mismatch(self, iteration: int) -> WrongElement | None:
        return self.words.find_mismatch(self.draw, iteration, self.chain.results_by_rank())


@dataclass(frozen=True)
class Words(ExactValues):
    """The words of `case` in each draw, and the exact result of one iteration."""

    draw_count = 4 * _SCALES

    @cached_property
    def first_calls(self) -> Mapping[str, FirstCall]:
        """Return none: a soak compares every result."""
        return {}

    def max_exact_iterations(self) -> int:
        """Return 1. Raises MeasuringError where no sum over all ranks is exact."""
        if self._digits < 1:
            ranks = self.case.group_size
            raise unavailable(f"{self.case.dtype} holds no exact sum over {ranks} ranks")
        return 1

    def starting_values(self, rank: int, number: int) -> Array:
        """Return a period of each block that `rank` puts in, in draw `number`."""
        group, position = self.group_and_position(rank)
        shape = self.collective.input_blocks(self.case.group_size), _PERIOD
        chance = np.random.default_rng((number, group, position))
        if self._is_integer:
            words = chance.integers(0, 2 ** (8 * self._word.itemsize), shape, self._word)
            return np.asarray(words.view(self.dtype))
        most = 2**self._digits - 1
        whole = chance.integers(-most, most, shape, endpoint=True).astype(np.float64)
        return np.asarray(np.ldexp(whole, self._exponent(number)).astype(self.dtype))

    def values_after(self, rank: int, number: int, iterations: int) -> Array:
        """Return a period of each block that `rank` holds after an iteration."""
        group, position = self.group_and_position(rank)
        inputs = [[*self.starting_values(other, number)] for other in self.case.rank_groups[group]]
        blocks: list[Any] = self.collective.result(inputs, position, self._reduce)
        return np.stack(blocks)

    def find_mismatch(
        self, number: int, iteration: int, results: Mapping[int, Any]
    ) -> WrongElement | None:
        """Return the first wrong element of results by rank."""
        for rank, result in results.items():
            for begin, part, exact in parts_with_exact_values(
                self.values_after(rank, number, 1), result
            ):
                expected = exact.view(self._word)
                actual = np.ascontiguousarray(part).view(self._word)
                for index in np.flatnonzero(expected != actual)[:1]:
                    return WrongElement(
                        draw=number,
                        rank=rank,
                        element=begin + int(index),
                        iteration=iteration,
                        expected=int(expected[index]),
                        actual=int(actual[index]),
                    )
        return None

    def _reduce(self, blocks: Sequence[Any]) -> Any:
        if self.case.reduce_op != "sum":
            chosen: Any = np.maximum if self.case.reduce_op == "max" else np.minimum
            return chosen.reduce(blocks)
        if self._is_integer:
            # Devices add up modulo the number of words, too.
            words = [block.view(self._word) for block in blocks]
            return np.sum(words, axis=0, dtype=self._word).view(self.dtype)
        whole = np.sum([block.astype(np.float64) for block in blocks], axis=0)
        return whole.astype(self.dtype)

    @property
    def _is_integer(self) -> bool:
        return DTYPES[self.case.dtype].least_exponent == 0

    @property
    def _word(self) -> Any:
        return np.dtype(f"u{DTYPES[self.case.dtype].size_bytes}")

    @property
    def _digits(self) -> int:
        """The bits of a whole number, of which a sum over all ranks fits."""
        added = math.ceil(math.log2(self.case.group_size)) if self.case.reduce_op == "sum" else 0
        return DTYPES[self.case.dtype].bits - added

    def _exponent(self, number: int) -> int:
        dtype = DTYPES[self.case.dtype]
        span = dtype.greatest_exponent - dtype.bits - dtype.least_exponent
        return dtype.least_exponent + span * (number % _SCALES) // (_SCALES - 1)
