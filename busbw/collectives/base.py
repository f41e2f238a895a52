"""What describes a collective: bytes, rates, names, values that are known exactly.

A buffer is some equal blocks, and a block is one period of values, repeated to its end. n is the
size of the group that one collective runs over, a position is a rank's index in it. Also which
numbers a dtype represents exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Dtype:
    """Bytes of an element, significant bits, and the exponents of its powers of two.

    Integers have no negative exponents: their least is 0.
    """

    size_bytes: int
    bits: int
    least_exponent: int
    greatest_exponent: int


DTYPES: Mapping[str, Dtype] = {
    "float32": Dtype(size_bytes=4, bits=24, least_exponent=-126, greatest_exponent=127),
    "bfloat16": Dtype(size_bytes=2, bits=8, least_exponent=-126, greatest_exponent=127),
    "float16": Dtype(size_bytes=2, bits=11, least_exponent=-14, greatest_exponent=15),
    "int32": Dtype(size_bytes=4, bits=31, least_exponent=0, greatest_exponent=30),
}

# One tuple of values per block: a period of it.
Blocks = tuple[tuple[float, ...], ...]

# A chain whose values do not grow could go on for ever; loop counters and clocks could not.
MOST_ROUNDS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Which values a sample starts from: consecutive `number`s give each rank different ones."""

    dtype: str
    reduce_op: str
    ranks: int
    number: int = 0


class AbstractCollective(ABC):
    """One collective.

    `hlo` is its instruction in XLA's HLO, `copy_free` that XLA needs no copy. `placements` are
    those it can have, the default first; `reduce_ops` is empty for one that reduces nothing.

    Its names in recordings are those of `instructions` of XLA (after its own instructions and JAX's
    primitives, with hyphens), of `nodes` of TensorFlow, and of `kernels` of NCCL (after
    ``ncclDevKernel_``), which may be shared with other collectives; `fusions` are computations of
    XLA that contain it.

    In optimised programs accelerators need copies with it unless `copy_free_on_accelerators`. XLA
    for GPUs has it in place alone if `in_place_on_gpus`: where the input must stay, it is copied.

    `order` sorts collectives in help and in a grid of all of them. `passes_all_links`: what every
    rank has must reach every other one, which bounds it by what all links together carry.
    `added_in_switch`: a switch that adds up halves what it sends.
    """

    name: str
    hlo: str
    placements: tuple[str, ...]
    reduce_ops: tuple[str, ...] = ()
    copy_free: bool = True
    copy_free_on_accelerators: bool = False
    in_place_on_gpus: bool = False
    instructions: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    kernels_are_shared: bool = False
    fusions: tuple[str, ...] = ()
    bus_factor_text: str
    passes_all_links: bool = False
    added_in_switch: bool = False
    order: int = 100

    @abstractmethod
    def bus_factor(self, ranks: int) -> float:
        """Busbw / algbw over n = `ranks`, where algbw is payload / time."""

    def parts(self, ranks: int) -> int:
        """How many blocks the payload S, the larger of a rank's input and output, is."""
        return max(self.input_blocks(ranks), self.output_blocks(ranks))

    def input_blocks(self, ranks: int) -> int:
        """How many of these blocks a rank puts in."""
        return 1

    def output_blocks(self, ranks: int) -> int:
        """How many of these blocks a rank gets."""
        return 1

    def input_bytes(self, payload_bytes: int, ranks: int) -> int:
        """Bytes that a rank puts in."""
        return payload_bytes // self.parts(ranks) * self.input_blocks(ranks)

    def output_bytes(self, payload_bytes: int, ranks: int) -> int:
        """Bytes that a rank gets."""
        return payload_bytes // self.parts(ranks) * self.output_blocks(ranks)

    def pairs(self, ranks: int) -> tuple[tuple[int, int], ...]:
        """(source, target) positions of a collective that sends to single ranks; else none."""
        return ()

    def exact_rounds(self, draw: Draw, placement: str) -> int:
        """How many chained rounds stay exact; 0: not even one. All do where nothing is summed."""
        return MOST_ROUNDS

    def start(self, draw: Draw, position: int) -> Blocks:
        """What the rank at `position` puts in: by default numbers that tell the rank and block."""
        blocks = range(self.input_blocks(draw.ranks))
        return tuple(coded(position, block, draw.number) for block in blocks)

    @abstractmethod
    def after(self, draw: Draw, position: int, rounds: int) -> Blocks:
        """What the rank at `position` holds after `rounds` chained rounds, at least one.

        Out of place every round has the same input: that is one round.
        """


PERIOD = 8
_PRIME = 251


def coded(source: int, target: int, number: int) -> tuple[float, ...]:
    """Whole numbers of 1 to 251 that identify a block's sender and receiver in draw `number`.

    A prime below 2^8, so that bfloat16 holds them all and up to 251 sources differ.
    """
    first = 8 * source + 3 * target + 5 * number
    return tuple(float(1 + (first + index) % _PRIME) for index in range(PERIOD))
