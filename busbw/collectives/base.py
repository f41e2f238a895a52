"""What describes a collective: bytes, rates, names, exact values, and the groups that XLA writes.

A buffer is some equal blocks, and a block is one period of values, repeated to its end. n is the
size of the group that one collective runs over, a position is a rank's index in it.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar


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

T = TypeVar("T")
Reduced: TypeAlias = Callable[[Sequence[T]], T]

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
    bus_factor_text: str
    passes_all_links: bool = False
    added_in_switch: bool = False
    order: int = 100

    @abstractmethod
    def bus_factor(self, ranks: int) -> float:
        """Return busbw / algbw over n = `ranks`, where algbw is payload / time."""

    def parts(self, ranks: int) -> int:
        """Return the number of blocks of the payload S, the larger of a rank's input and output."""
        return max(self.input_blocks(ranks), self.output_blocks(ranks))

    def input_blocks(self, ranks: int) -> int:
        """Return the number of these blocks that a rank puts in."""
        return 1

    def output_blocks(self, ranks: int) -> int:
        """Return the number of these blocks that a rank gets."""
        return 1

    def input_bytes(self, payload_bytes: int, ranks: int) -> int:
        return payload_bytes // self.parts(ranks) * self.input_blocks(ranks)

    def output_bytes(self, payload_bytes: int, ranks: int) -> int:
        return payload_bytes // self.parts(ranks) * self.output_blocks(ranks)

    def pairs(self, ranks: int) -> tuple[tuple[int, int], ...]:
        """Return (source, target) positions if the collective sends to single ranks, else none."""
        return ()

    def exact_rounds(self, draw: Draw, placement: str) -> int:
        """Return how many chained rounds stay exact, 0 for none; all do where nothing is summed."""
        return MOST_ROUNDS

    def start(self, draw: Draw, position: int) -> Blocks:
        """Return the input of the rank at `position`: by default numbers by rank and block."""
        blocks = range(self.input_blocks(draw.ranks))
        return tuple(coded(position, block, draw.number) for block in blocks)

    @abstractmethod
    def result(self, inputs: Sequence[Sequence[T]], position: int, reduced: Reduced[T]) -> list[T]:
        """Return the blocks that the rank at `position` gets of the blocks that each rank puts in.

        `reduced` makes one block of the blocks of all ranks.
        """

    def after(self, draw: Draw, position: int, rounds: int) -> Blocks:
        """Return the blocks of the rank at `position` after `rounds` chained rounds, at least one.

        Out of place every round has the same input: that is one round. By default of one that adds
        nothing up.
        """
        inputs = [self.start(draw, other) for other in range(draw.ranks)]
        return tuple(self.result(inputs, position, lambda blocks: blocks[0]))


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
# the axes that they go along. Programs have fewer ranks than a number of more than nine digits, and
# meshes 64 axes at most.
_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_SOME = r"\d{1,9}(?:,\d{1,9})*"
_IOTA = re.compile(
    r"replica_groups=\[(?P<groups>\d{1,9}),(?P<size>\d{1,9})\]"
    rf"<=\[(?P<dims>{_SOME})\](?:T\((?P<turn>{_SOME})\))?"
)
_ONE_EXTENT = r"'\w+'=\d{1,9}"
_MESH = re.compile(
    rf"replica_groups=mesh\[(?P<mesh>{_ONE_EXTENT}(?:,{_ONE_EXTENT}){{0,63}})\]"
    r" *\{(?P<axes>'\w+'(?:,'\w+'){0,63})\}"
)
# Nothing within the outer braces is one group of all ranks.
_NAMED = re.compile(r"replica_groups=(?!\{\}|\{\{\}\})\S{1,60}")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_BRACED = re.compile(r"\{([\d,]*)\}")
_EXTENT, _AXIS = re.compile(r"'(\w+)'=(\d+)"), re.compile(r"'(\w+)'")


@dataclass(frozen=True)
class GroupSize:
    """How many groups run one collective at the same time, and over how many ranks each."""

    groups: int
    size: int

    @property
    def ranks(self) -> int:
        return self.groups * self.size


@dataclass(frozen=True)
class _Layout:
    """Groups of `size` ranks: an array of `dims` counts all, transposed to `turn` and cut up."""

    dims: tuple[int, ...]
    turn: tuple[int, ...]
    groups: int
    size: int


def group_size_of(line: str) -> GroupSize | None:
    """Return how many groups an instruction's line names; None for no or unequal groups.

    The line may have any origin: numbers may be huge, so that no group is expanded.
    """
    listed = _LISTED.search(line)
    if listed is not None:
        sizes = {len(_numbers(text)) for text in _BRACED.findall(listed[1])}
        one_size = len(sizes) == 1 and 0 not in sizes
        return GroupSize(listed[1].count("{"), sizes.pop()) if one_size else None
    layout = _layout_of(line)
    size = GroupSize(layout.groups, layout.size) if layout else None
    return size if size and size.ranks else None


def unread_groups_of(line: str) -> str:
    """Return the first characters of groups that have no common size; "" for other lines."""
    named = _NAMED.search(line)
    return named[0] if named and group_size_of(line) is None else ""


def groups_of(line: str, ranks: int) -> tuple[tuple[int, ...], ...] | None:
    """Return the replica groups that a collective's line names, in order; None for no groups.

    The line must come from a compiler. No braces within the outer ones mean all `ranks` in one
    group. A mesh's devices are counted in order; a mesh that numbers them differently, or a part
    of an axis, gives None.
    """
    listed = _LISTED.search(line)
    if listed is not None:
        groups = tuple(_numbers(text) for text in _BRACED.findall(listed[1]))
        return groups if any(groups) else (tuple(range(ranks)),)
    layout = _layout_of(line)
    if layout is None:
        return None
    dims, turn, size = layout.dims, layout.turn, layout.size
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    order = [
        sum(place * strides[axis] for place, axis in zip(index, turn))
        for index in itertools.product(*(range(dims[axis]) for axis in turn))
    ]
    return tuple(tuple(order[begin : begin + size]) for begin in range(0, len(order), size))


def _layout_of(line: str) -> _Layout | None:
    """Read the forms that list no groups. Along x a mesh is like its array with x at the end."""
    iota, mesh = _IOTA.search(line), _MESH.search(line)
    if iota is not None:
        dims = _numbers(iota["dims"])
        turn = _numbers(iota["turn"]) if iota["turn"] else tuple(range(len(dims)))
        return _Layout(dims, turn, int(iota["groups"]), int(iota["size"]))
    extents = {name: int(extent) for name, extent in _EXTENT.findall(mesh["mesh"])} if mesh else {}
    along = _AXIS.findall(mesh["axes"]) if mesh else []
    if mesh is None or not set(along) <= set(extents):
        return None
    names, dims = list(extents), tuple(extents.values())
    turned = [*(name for name in names if name not in along), *along]
    size = math.prod(extents[name] for name in along)
    groups = math.prod(dims) // size if size else 0
    return _Layout(dims, tuple(map(names.index, turned)), groups, size)


def pairs_of(line: str) -> tuple[tuple[int, ...], ...] | None:
    """Return the (source, target) pairs of a collective-permute's line; None without any."""
    match = _PAIRS.search(line)
    return tuple(_numbers(text) for text in _BRACED.findall(match[1])) if match else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)
