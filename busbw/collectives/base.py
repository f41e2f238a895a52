"""The base class of collectives, their dtypes, and the groups of ranks in XLA's programs (HLO).

A rank's buffer consists of blocks of equal size, and a block repeats its period, a few values, up
to its end. S is the payload in bytes, n is the number of ranks in the group that a collective runs
over, and a position is the index of a rank in its group.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar


@dataclass(frozen=True, kw_only=True, slots=True)
class Dtype:
    """The sizes of a dtype's elements, and the range of numbers that the dtype holds exactly.

    Attributes:
        size_bytes: The size of an element.
        significant_bits: The number of significant bits of an element.
        least_exponent: The exponent of the smallest power of two in the range; 0 for integers.
        greatest_exponent: The exponent of the largest power of two in the range.

    """

    size_bytes: int
    significant_bits: int
    least_exponent: int
    greatest_exponent: int


DTYPES: Mapping[str, Dtype] = {
    "float32": Dtype(size_bytes=4, significant_bits=24, least_exponent=-126, greatest_exponent=127),
    "bfloat16": Dtype(size_bytes=2, significant_bits=8, least_exponent=-126, greatest_exponent=127),
    "float16": Dtype(size_bytes=2, significant_bits=11, least_exponent=-14, greatest_exponent=15),
    "int32": Dtype(size_bytes=4, significant_bits=31, least_exponent=0, greatest_exponent=30),
}

# A tuple for each block of a buffer, with the values of the block's period.
Blocks = tuple[tuple[float, ...], ...]

T = TypeVar("T")
# A function that returns the reduction (such as the sum) of blocks.
ReduceBlocks: TypeAlias = Callable[[Sequence[T]], T]

# The largest number of iterations of a chain whose values do not grow. Such a chain stays exact,
# but loop counters and clocks are limited.
MAX_ITERATIONS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """The parameters that determine the starting values of all ranks of a group.

    Attributes:
        dtype: The name of the dtype, such as ``float32``.
        reduce_op: The reduction, such as ``sum``; ``none`` for a collective that reduces nothing.
        ranks: The size of the group.
        number: The number of the draw. Consecutive numbers give each rank different values, so that
            a result that is left from an earlier call is noticed.

    """

    dtype: str
    reduce_op: str
    ranks: int
    number: int = 0


class AbstractCollective(ABC):
    """A collective, such as all-reduce: its byte counts, rates, names and exact values.

    Attributes:
        name: The name in options and files, such as ``all_reduce``.
        hlo_name: The name of its instruction in XLA's HLO, such as ``all-reduce``.
        placements: The supported placements, such as ``in_place``; the first is the default.
        reduce_ops: The supported reductions, such as ``sum``; empty for a collective that reduces
            nothing.
        is_copy_free_on_cpus: Whether XLA's programs for a CPU run the collective without copies of
            the payload.
        is_copy_free_on_accelerators: Whether XLA's programs for TPUs and GPUs run the collective
            without copies of the payload.
        is_in_place_on_gpus: Whether XLA for GPUs can run the collective only in place. If the input
            must not be overwritten, XLA copies the input first.
        uses_all_links: Whether the data of each rank must reach all other ranks, so that the
            bandwidth of all links together limits the collective.
        can_add_in_switch: Whether a switch can add up the data, so that a rank sends only half of
            the bytes.

    """

    name: str
    hlo_name: str
    placements: tuple[str, ...]
    reduce_ops: tuple[str, ...] = ()
    is_copy_free_on_cpus: bool = True
    is_copy_free_on_accelerators: bool = False
    is_in_place_on_gpus: bool = False
    uses_all_links: bool = False
    can_add_in_switch: bool = False

    def bus_factor(self, ranks: int) -> float:
        """Return busbw / algbw of the collective over n = `ranks` ranks.

        By default the factor is (n-1)/n, because n-1 of n blocks of S bytes leave or reach each
        rank. Over n links of bandwidth B the blocks need at least t = (n-1)/n * S/B seconds.
        Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.
        """
        return (ranks - 1) / ranks

    def payload_block_count(self, ranks: int) -> int:
        """Return the number of blocks in the payload, the larger of a rank's input and output."""
        return max(self.input_block_count(ranks), self.output_block_count(ranks))

    def input_block_count(self, ranks: int) -> int:
        """Return the number of blocks in the input of a rank."""
        return 1

    def output_block_count(self, ranks: int) -> int:
        """Return the number of blocks in the output of a rank."""
        return 1

    def input_bytes(self, payload_bytes: int, ranks: int) -> int:
        """Return the size of a rank's input in bytes."""
        return payload_bytes // self.payload_block_count(ranks) * self.input_block_count(ranks)

    def output_bytes(self, payload_bytes: int, ranks: int) -> int:
        """Return the size of a rank's output in bytes."""
        return payload_bytes // self.payload_block_count(ranks) * self.output_block_count(ranks)

    def source_target_pairs(self, ranks: int) -> tuple[tuple[int, int], ...]:
        """Return the (source, target) positions if each rank sends to a single rank, as in permute.

        The tuple is empty for all other collectives.
        """
        return ()

    def max_exact_iterations(self, draw: Draw, placement: str) -> int:
        """Return the largest number of chained iterations with values that the dtype holds exactly.

        The number is 0 if not even a single iteration is exact. By default, for a collective that
        adds nothing up, it is MAX_ITERATIONS. `draw` has the dtype, and `placement` is ``in_place``
        or ``out_of_place``.
        """
        return MAX_ITERATIONS

    def starting_blocks(self, draw: Draw, position: int) -> Blocks:
        """Return the input of the rank at `position`, as the periods of its blocks.

        By default the values of a block identify the rank and the index of the block.
        """
        blocks = range(self.input_block_count(draw.ranks))
        return tuple(identifying_values(position, block, draw.number) for block in blocks)

    @abstractmethod
    def output_blocks(
        self,
        input_blocks_by_position: Sequence[Sequence[T]],
        position: int,
        reduce_blocks: ReduceBlocks[T],
    ) -> list[T]:
        """Return the output of the rank at `position`, as a list of blocks.

        Args:
            input_blocks_by_position: The list of input blocks of each rank, in the order of
                positions.
            position: The index of the rank in its group.
            reduce_blocks: A function that returns the reduction (such as the sum) of a list of
                blocks.

        """

    def exact_blocks_after(self, draw: Draw, position: int, iterations: int) -> Blocks:
        """Return the output of the rank at `position` after 1 or more chained `iterations`.

        The output is a tuple of the periods of its blocks. Out of place `iterations` is 1, because
        every iteration has the same input. The default is for collectives that add nothing up.
        """
        input_blocks_by_position = [
            self.starting_blocks(draw, other) for other in range(draw.ranks)
        ]
        return tuple(
            self.output_blocks(input_blocks_by_position, position, lambda blocks: blocks[0])
        )


VALUES_PER_PERIOD = 8
_PRIME = 251


def identifying_values(source: int, target: int, draw_number: int) -> tuple[float, ...]:
    """Return the period of a block: values that identify two ranks and the draw `draw_number`.

    `source` is the position of the sending rank, and `target` the position of the receiving rank.
    The values are whole numbers from 1 to 251. 251 is a prime below 2^8, so that bfloat16 holds all
    values exactly, and the values of up to 251 sources differ.
    """
    first = 8 * source + 3 * target + 5 * draw_number
    return tuple(float(1 + (first + index) % _PRIME) for index in range(VALUES_PER_PERIOD))


# XLA writes the groups of ranks of a collective after the instruction in one of three forms:
# {{0,2},{1,3}} lists the groups; [2,4]<=[4,2]T(1,0) describes an array of all ranks that is
# transposed and cut into groups; mesh['x'=2,'y'=4] {'x'} names the axes along which groups run, and
# mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x'} also the ranks of the mesh, as such an array.
# Numbers have at most nine digits, and meshes at most 64 axes, so that no text takes long to read.
_LISTED_GROUPS_PATTERN = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_NUMBERS = r"\d{1,9}(?:,\d{1,9})*"
_IOTA_GROUPS_PATTERN = re.compile(
    r"replica_groups=\[(?P<groups>\d{1,9}),(?P<size>\d{1,9})\]"
    rf"<=\[(?P<dims>{_NUMBERS})\](?:T\((?P<axis_order>{_NUMBERS})\))?"
)
_ONE_EXTENT = r"'\w+'=\d{1,9}"
_MESH_PATTERN = re.compile(
    rf"replica_groups=mesh\[(?P<mesh>{_ONE_EXTENT}(?:,{_ONE_EXTENT}){{0,63}})\]"
    rf"(?:, device_ids=\((?P<listed>{_NUMBERS})?(?:\[\d{{1,9}}\]<=)?"
    rf"(?:\[(?P<dims>{_NUMBERS})\](?:T\((?P<axis_order>{_NUMBERS})\))?)?\))?"
    r" *\{(?P<axes>'\w+'(?:,'\w+'){0,63})\}"
)
_SOURCE_TARGET_PAIRS_PATTERN = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_BRACES_PATTERN = re.compile(r"\{([\d,]*)\}")
_EXTENT, _AXIS = re.compile(r"'(\w+)'=(\d+)"), re.compile(r"'(\w+)'")


class RankGroups(NamedTuple):
    """The number and the size of groups of ranks that run a collective at the same time.

    Attributes:
        group_count: The number of groups.
        size: The number of ranks in each group.

    """

    group_count: int
    size: int

    @property
    def rank_count(self) -> int:
        """The number of ranks in all groups together."""
        return self.group_count * self.size


def rank_groups_of_line(line: str) -> RankGroups | None:
    """Return the number and the size of the groups in a collective's HLO line.

    Returns None if the line has no groups, or groups of different sizes. The line may come from an
    unknown source and have huge numbers, so groups are counted, not expanded.
    """
    listed = _LISTED_GROUPS_PATTERN.search(line)
    if listed is not None:
        sizes = {len(_parse_whole_numbers(text)) for text in _BRACES_PATTERN.findall(listed[1])}
        has_common_size = len(sizes) == 1 and 0 not in sizes
        return RankGroups(listed[1].count("{"), sizes.pop()) if has_common_size else None
    _, _, size = _group_layout_of(line) or ((), (), RankGroups(0, 0))
    return size if size.rank_count else None


def replica_groups_of(line: str, ranks: int) -> tuple[tuple[int, ...], ...] | None:
    """Return the ranks of each group in a collective's HLO line.

    `ranks` is the number of ranks in all groups together. If the line has an empty list of groups,
    a single group has all ranks. Returns None if the line has no groups, groups along a part of an
    axis, or a mesh that does not have each rank once. The line must come from a compiler: in
    another line the numbers could be huge, and listing the ranks could take all memory.
    """
    listed = _LISTED_GROUPS_PATTERN.search(line)
    if listed is not None:
        groups = tuple(_parse_whole_numbers(text) for text in _BRACES_PATTERN.findall(listed[1]))
        return groups if any(groups) else (tuple(range(ranks)),)
    layout = _group_layout_of(line)
    if layout is None:
        return None
    dims, axis_order, group_size = layout
    if math.prod(dims) != group_size.rank_count:
        return None
    places = _element_numbers_of_transposed_array(dims, axis_order)
    ranks_of_mesh, size = _mesh_ranks_in_hlo(line, group_size.rank_count), group_size.size
    if not sorted(places) == sorted(ranks_of_mesh) == list(range(group_size.rank_count)):
        return None
    ranks_in_order = [ranks_of_mesh[place] for place in places]
    return tuple(
        tuple(ranks_in_order[begin : begin + size]) for begin in range(0, len(ranks_in_order), size)
    )


def _element_numbers_of_transposed_array(
    dims: Sequence[int], axis_order: Sequence[int]
) -> list[int]:
    """Return the element numbers of an array, read in the order of the transposed array.

    The elements of the array, whose shape is `dims`, are numbered with the last axis running
    fastest. `axis_order` is the order of axes in the transposed array.
    """
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    return [
        sum(place * strides[axis] for place, axis in zip(index, axis_order))
        for index in itertools.product(*(range(dims[axis]) for axis in axis_order))
    ]


def _mesh_ranks_in_hlo(line: str, rank_count: int) -> Sequence[int]:
    """Return the ranks of a mesh in an HLO line, with the last axis of the mesh running fastest.

    The ranks are 0, 1, 2 and so on if the line does not name them. The result is empty if the line
    names another number of ranks than `rank_count`.
    """
    mesh = _MESH_PATTERN.search(line)
    if mesh is None or not (mesh["listed"] or mesh["dims"]):
        return range(rank_count)
    dims = _parse_whole_numbers(mesh["dims"] or "")
    if mesh["listed"] or math.prod(dims) != rank_count:
        return _parse_whole_numbers(mesh["listed"] or "")
    return _element_numbers_of_transposed_array(dims, _axis_order(mesh["axis_order"], dims))


def _axis_order(text: str | None, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the order of the axes in `text`, such as (1, 0) for ``1,0``.

    `dims` is the shape of the array. If `text` is None, the axes keep their order. The result is
    empty if `text` is not a permutation of the axes.
    """
    order = tuple(range(len(dims))) if text is None else _parse_whole_numbers(text)
    return order if sorted(order) == list(range(len(dims))) else ()


def _group_layout_of(line: str) -> tuple[tuple[int, ...], tuple[int, ...], RankGroups] | None:
    """Return how an HLO line cuts an array of all ranks into groups; None if it has no such array.

    The line describes the array, or a mesh, which is such an array with named axes. The ranks are
    numbered with the last axis running fastest. The array is transposed, and then cut into groups
    of consecutive ranks. For groups along some axes of a mesh, these axes become the last axes.

    Returns:
        The shape of the array, the order of axes to which the array is transposed, and the number
        and size of the groups into which the transposed array is cut.

    """
    iota, mesh = _IOTA_GROUPS_PATTERN.search(line), _MESH_PATTERN.search(line)
    if iota is not None:
        dims = _parse_whole_numbers(iota["dims"])
        axis_order = _axis_order(iota["axis_order"], dims)
        return dims, axis_order, RankGroups(int(iota["groups"]), int(iota["size"]))
    extents = {name: int(extent) for name, extent in _EXTENT.findall(mesh["mesh"])} if mesh else {}
    along = _AXIS.findall(mesh["axes"]) if mesh else []
    if mesh is None or not set(along) <= set(extents):
        return None
    names, dims = list(extents), tuple(extents.values())
    ordered_names = [*(name for name in names if name not in along), *along]
    size = math.prod(extents[name] for name in along)
    groups = math.prod(dims) // size if size else 0
    return dims, tuple(map(names.index, ordered_names)), RankGroups(groups, size)


def source_target_pairs_of(line: str) -> tuple[tuple[int, ...], ...] | None:
    """Return the (source, target) ranks that an HLO line of a collective-permute lists.

    Returns None if the line lists no pairs.
    """
    match = _SOURCE_TARGET_PAIRS_PATTERN.search(line)
    return (
        tuple(_parse_whole_numbers(text) for text in _BRACES_PATTERN.findall(match[1]))
        if match
        else None
    )


def _parse_whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)
