"""What describes a collective: bytes, rates, names, exact values, and the groups that XLA writes.

A buffer is some equal blocks, and a block is one period of values, repeated to its end. n is the
size of the group that one collective runs over, a position is a rank's index in it.
"""

from __future__ import annotations

import itertools
import math
import re
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
        return payload_bytes // self.parts(ranks) * self.input_blocks(ranks)

    def output_bytes(self, payload_bytes: int, ranks: int) -> int:
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


# The ranks of one collective, as XLA writes them after an instruction: {{0,2},{1,3}} lists the
# groups, [2,4]<=[4,2]T(1,0) counts them out of an array of all ranks, mesh['x'=2,'y'=4] {'x'} names
# the axes that they go along.
_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(
    r"replica_groups=\[(?P<groups>\d+),(?P<size>\d+)\]<=\[(?P<dims>[\d,]+)\]"
    r"(?:T\((?P<turn>[\d,]+)\))?"
)
_MESH = re.compile(
    r"replica_groups=mesh\[(?P<mesh>'\w+'=\d+(?:,'\w+'=\d+)*)\] *\{(?P<axes>'\w+'(?:,'\w+')*)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_BRACED = re.compile(r"\{([\d,]*)\}")
_EXTENT, _AXIS = re.compile(r"'(\w+)'=(\d+)"), re.compile(r"'(\w+)'")
# Programs have fewer ranks than a number of more digits.
_MOST_DIGITS = 9


@dataclass(frozen=True)
class GroupSize:
    """How many groups run one collective at the same time, and over how many ranks each."""

    groups: int
    size: int

    @property
    def ranks(self) -> int:
        return self.groups * self.size


def group_size_of(line: str) -> GroupSize | None:
    """How many groups an instruction's line names; None where it names none, or unequal ones.

    The line may have any origin: numbers may be huge, so that no group is expanded.
    """
    listed = _LISTED.search(line)
    if listed is not None:
        sizes = {len(_numbers(text)) for text in _BRACED.findall(listed[1])}
        one_size = len(sizes) == 1 and 0 not in sizes
        return GroupSize(listed[1].count("{"), sizes.pop()) if one_size else None
    iota = _IOTA.search(line)
    if iota is not None:
        return _checked(iota["groups"], iota["size"])
    mesh = _MESH.search(line)
    return _mesh_size(mesh) if mesh is not None else None


def _mesh_size(match: re.Match[str]) -> GroupSize | None:
    extents = dict(_EXTENT.findall(match["mesh"]))
    along = _AXIS.findall(match["axes"])
    if not set(along) <= set(extents) or any(len(text) > _MOST_DIGITS for text in extents.values()):
        return None
    size = math.prod(int(extents[name]) for name in along)
    ranks = math.prod(int(extent) for extent in extents.values())
    return GroupSize(ranks // size, size) if size else None


def _checked(groups: str, size: str) -> GroupSize | None:
    if max(len(groups), len(size)) > _MOST_DIGITS or not int(groups) * int(size):
        return None
    return GroupSize(int(groups), int(size))


def groups_of(line: str, ranks: int) -> tuple[tuple[int, ...], ...] | None:
    """The replica groups that a collective's line names, in order; None where it names none.

    The line must come from a compiler. No braces within the outer ones mean all `ranks` in one
    group. A mesh's devices are counted in order; a mesh that numbers them differently, or a part
    of an axis, gives None.
    """
    listed = _LISTED.search(line)
    if listed is not None:
        groups = tuple(_numbers(text) for text in _BRACED.findall(listed[1]))
        return groups if any(groups) else (tuple(range(ranks)),)
    iota = _IOTA.search(line)
    if iota is not None:
        dims = _numbers(iota["dims"])
        turn = _numbers(iota["turn"]) if iota["turn"] else tuple(range(len(dims)))
        return _groups(dims, turn, int(iota["size"]))
    mesh = _MESH.search(line)
    return _mesh_groups(mesh) if mesh is not None else None


def _mesh_groups(match: re.Match[str]) -> tuple[tuple[int, ...], ...] | None:
    """``mesh['x'=2,'y'=4] {'x'}``: 0 to 7 as 2 x 4, in groups along x."""
    extents = dict(_EXTENT.findall(match["mesh"]))
    names, along = list(extents), _AXIS.findall(match["axes"])
    if not set(along) <= set(names):
        return None
    dims = tuple(map(int, extents.values()))
    turn = [names.index(name) for name in [*(n for n in names if n not in along), *along]]
    return _groups(dims, tuple(turn), math.prod(int(extents[name]) for name in along))


def _groups(dims: tuple[int, ...], turn: tuple[int, ...], size: int) -> tuple[tuple[int, ...], ...]:
    """``[2,4]<=[4,2]T(1,0)``: 0 to 7 as 4 x 2, transposed, cut into 2 groups of 4."""
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    order = [
        sum(at * strides[axis] for at, axis in zip(index, turn))
        for index in itertools.product(*(range(dims[axis]) for axis in turn))
    ]
    return tuple(tuple(order[begin : begin + size]) for begin in range(0, len(order), size))


def pairs_of(line: str) -> tuple[tuple[int, ...], ...] | None:
    """The (source, target) pairs of a collective-permute's line; None where it has none."""
    match = _PAIRS.search(line)
    return tuple(_numbers(text) for text in _BRACED.findall(match[1])) if match else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)
