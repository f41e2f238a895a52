"""What a soak puts in: whole words at random, of kinds that a collective must pass unchanged.

Sums are of whole numbers small enough that every order of additions gives the same bits, times a
power of two; maxima and moves compute nothing, and take all words there are. Numpy only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from busbw.collectives.base import DTYPES
from busbw.model.soak import Wrong

from .base import unavailable
from .values import Array, Values, map_ranks, pieces

WHOLE, BITS, FINITE = "whole numbers", "all bits", "finite words"
# NaN, infinities, -0.0 and denormals: some back ends change them.
SPECIAL = "special words"

# A prime: no chunk of a power of two is like the next one.
_PERIOD = 4093
# How often a kind comes, each time with other words: sums with larger ones.
_VARIATIONS = 4


@dataclass(frozen=True)
class Words(Values):
    """The words of `case` in each draw, and those that must come of one round."""

    draws = 4 * _VARIATIONS
    is_inexact = False

    @property
    def kinds(self) -> tuple[str, ...]:
        is_whole = self._is_whole
        if self.case.reduce_op == "sum":
            return (BITS if is_whole else WHOLE,)
        if is_whole:
            return (BITS,)
        return (FINITE, SPECIAL) if self.case.reduce_op == "none" else (FINITE,)

    @property
    def special(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind == SPECIAL)

    def kind(self, number: int) -> str:
        return self.kinds[number % len(self.kinds)]

    def most_rounds(self) -> int:
        """Raises MeasuringError where no sum over all ranks is exact."""
        if WHOLE in self.kinds and self._digits < 1:
            ranks = self.case.group_size
            raise unavailable(f"{self.case.dtype} holds no exact sum over {ranks} ranks")
        return 1

    def start(self, rank: int, number: int) -> Array:
        group, position = self._group_and_position(rank)
        shape = self.collective.input_blocks(self.case.group_size), _PERIOD
        chance = np.random.default_rng((number, group, position))
        kind = self.kind(number)
        if kind == WHOLE:
            most = 2**self._digits - 1
            whole = chance.integers(-most, most, shape, endpoint=True).astype(np.float64)
            return np.asarray(np.ldexp(whole, self._exponent(number)).astype(self.dtype))
        words = chance.integers(0, 2**self._width, shape, self._word)
        if kind == FINITE:
            words = self._finite(words)
        elif kind == SPECIAL:
            words = self._special(words, chance.integers(0, 4, shape))
        return np.asarray(words.view(self.dtype))

    def after(self, rank: int, number: int, iterations: int) -> Array:
        group, position = self._group_and_position(rank)
        inputs = [[*self.start(other, number)] for other in self.case.groups[group]]
        blocks: list[Any] = self.collective.result(inputs, position, self._reduced)
        return np.stack(blocks)

    def digests(self, results: Mapping[int, Any]) -> tuple[int, ...]:
        """CRC-32, of many bytes a second where the processor has an instruction for it."""

        def digest(rank: int) -> int:
            return zlib.crc32(np.ascontiguousarray(results[rank]).view(np.uint8).data)

        return tuple(map_ranks(digest, sorted(results), self.case.payload_bytes))

    def wrong(self, number: int, at: int, results: Mapping[int, Any]) -> Wrong | None:
        """The first wrong word of results by rank, in round `at`, and how many there are."""
        for rank, got in results.items():
            exact = self.after(rank, number, 1)
            found = list(_wrong(exact, got, self._word))
            if found:
                element, expected, word = found[0]
                return Wrong(
                    rank=rank,
                    element=element,
                    number=at,
                    values=self.kind(number),
                    expected=expected,
                    found=word,
                    elements=len(found),
                    last=found[-1][0],
                )
        return None

    def _reduced(self, blocks: Sequence[Any]) -> Any:
        if self.case.reduce_op != "sum":
            chosen: Any = np.maximum if self.case.reduce_op == "max" else np.minimum
            return chosen.reduce(blocks)
        if self._is_whole:
            # As devices do, modulo the words there are.
            words = [block.view(self._word) for block in blocks]
            return np.sum(words, axis=0, dtype=self._word).view(self.dtype)
        whole = np.sum([block.astype(np.float64) for block in blocks], axis=0)
        return whole.astype(self.dtype)

    @property
    def _is_whole(self) -> bool:
        return DTYPES[self.case.dtype].least_exponent == 0

    @property
    def _width(self) -> int:
        return 8 * DTYPES[self.case.dtype].size_bytes

    @property
    def _word(self) -> Any:
        return np.dtype(f"u{DTYPES[self.case.dtype].size_bytes}")

    @property
    def _digits(self) -> int:
        """Bits of a whole number of which the sum of all ranks' fits."""
        return DTYPES[self.case.dtype].bits - math.ceil(math.log2(self.case.group_size))

    def _exponent(self, number: int) -> int:
        """From the least with which all are normal numbers to the greatest that a sum fits."""
        dtype = DTYPES[self.case.dtype]
        room = dtype.greatest_exponent - dtype.bits - dtype.least_exponent
        turn = number // len(self.kinds) % _VARIATIONS
        return dtype.least_exponent + room * turn // (_VARIATIONS - 1)

    @property
    def _fraction(self) -> int:
        """How many bits follow the exponent."""
        return DTYPES[self.case.dtype].bits - 1

    @property
    def _exponents(self) -> int:
        """The word whose exponent has all its bits, and nothing else."""
        return int(2 ** (self._width - 1) - 2**self._fraction)

    def _finite(self, words: Array) -> Array:
        """Without those whose exponent is the first or the last."""
        exponents = words & self._exponents
        odd = (exponents == 0) | (exponents == self._exponents)
        one = self._exponents & self._exponents >> 1
        return np.where(odd, words & ~self._word.type(self._exponents) | one, words)

    def _special(self, words: Array, which: Array) -> Array:
        signs = words & 2 ** (self._width - 1)
        denormal = words & ~self._word.type(self._exponents)
        # Quiet: with the first bit of the fraction.
        nan = words | self._exponents | 2 ** (self._fraction - 1)
        return np.choose(which, [signs, denormal, nan, signs | self._exponents])


def _wrong(exact: Array, got: Any, word: Any) -> Iterator[tuple[int, int, int]]:
    """Every element that is not what it must be, and both words."""
    for begin, part, wanted in pieces(exact, got):
        ours, theirs = wanted.view(word), np.ascontiguousarray(part).view(word)
        for at in np.flatnonzero(ours != theirs):
            yield begin + int(at), int(ours[at]), int(theirs[at])
