"""Values that describe the collectives of a compiled program, their groups and their source lines.

XLA writes the source line in one of two forms. The metadata of an instruction contain a file and a
line or, since 2025, the number of a stack frame. In the second form, tables of files, lines and
frames are at the head of the program.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from busbw.collectives.base import (
    rank_groups_of_line,
    replica_groups_of,
    source_target_pairs_of,
)
from busbw.model.field_types import MAX_PAYLOAD_BYTES, Count, Natural
from busbw.model.words import payload_text

# The layouts of groups that no mesh axes make up: 0 1, 2 3 is consecutive, and 0 2, 1 3 is strided.
CONSECUTIVE, STRIDED = "consecutive", "strided"


class ProgramError(Exception):
    """The collectives of a program cannot be listed, for the reason in the message.

    The text is not the complete optimized HLO of a program, or the number of ranks is wrong or
    unknown.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveUse:
    """A collective that a step of a program runs, or several equal collectives together.

    Attributes:
        kind: The name of the collective in busbw, such as ``all_reduce``, or in XLA for a
            collective that busbw does not know.
        dtype: The dtype of the result; several dtypes are joined with ``+``.
        payload_bytes: The larger of a rank's input and output.
        ranks: The number of ranks in each group; 0 if the groups cannot be read.
        groups: The number of groups that run the collective at the same time; 0 for a
            collective-permute that is not a ring in each group.
        axes: The mesh axes along which the groups lie, such as ``data,model``. If the groups do not
            lie along mesh axes, CONSECUTIVE for groups of consecutive ranks, STRIDED for groups of
            ranks at equal distances, and empty for other groups. Empty, too, for a collective over
            all ranks of a program without a mesh.
        reduce_op: The reduction, such as ``sum``; empty if the collective does not reduce.
        times: How often a step runs the collective.
        hidden_by: The number of operations that run while the collective is in progress, and so
            hide its time; 0 for a synchronous collective. For several equal collectives it is the
            smallest of their numbers.
        algorithm: Maps the properties of the algorithm that the compiler publishes to their values.
        at_most: Whether `times` is only an upper bound, because the collective is in a branch that
            the program may skip.
        per_iteration: Whether the collective is in a loop whose number of turns depends on data.
            Then `times` counts the runs in a single turn.
        source: The innermost line of the user's own code, such as ``train.py:88``; empty if it is
            unknown.

    """

    kind: str
    dtype: str
    payload_bytes: Natural
    ranks: Natural
    groups: Natural = 1
    axes: str = ""
    reduce_op: str = ""
    times: Natural = 1
    hidden_by: Natural = 0
    algorithm: Mapping[str, str] = field(default_factory=dict, hash=False)
    at_most: bool = False
    per_iteration: bool = False
    source: str = ""

    @property
    def is_asynchronous(self) -> bool:
        """Whether operations run between the start and the end of the collective."""
        return self.hidden_by > 0

    @property
    def groups_text(self) -> str:
        """The groups in words, such as ``along model`` or ``in groups of 4``."""
        if not self.ranks:
            return "in groups that cannot be read"
        if self.axes in (CONSECUTIVE, STRIDED):
            return f"in {self.axes} groups of {self.ranks}"
        return f"along {self.axes}" if self.axes else f"in groups of {self.ranks}"

    @property
    def kind_text(self) -> str:
        """The kind in words, such as ``all-reduce (max)``."""
        operation = f" ({self.reduce_op})" if self.reduce_op not in ("", "sum") else ""
        return self.kind.replace("_", "-") + operation

    @property
    def dtype_and_payload_text(self) -> str:
        """The dtype and the payload, such as ``float32 4M``."""
        return f"{self.dtype} {payload_text(self.payload_bytes)}"

    @property
    def name(self) -> str:
        """The collective in words, such as ``all-gather of float32 4M along model``."""
        return f"{self.kind_text} of {self.dtype_and_payload_text} {self.groups_text}"

    @property
    def times_text(self) -> str:
        """How often the collective runs, such as ``24 per step`` or ``at most 4 per iteration``."""
        most = "at most " if self.at_most else ""
        return f"{most}{self.times} per {'iteration' if self.per_iteration else 'step'}"


CollectiveUses: TypeAlias = "tuple[CollectiveUse, ...]"


def merge_equal_uses(
    uses: Iterable[CollectiveUse], combine_times: Callable[[int, int], int] = operator.add
) -> CollectiveUses:
    """Return the collectives `uses`, with equal collectives merged into a single CollectiveUse.

    Collectives are equal if only their `times` and `hidden_by` differ, and if they are all
    synchronous (`hidden_by` is 0) or all asynchronous. The merged collective has the smallest
    `hidden_by`. `combine_times` computes its `times` from the `times` of two equal collectives: by
    default the sum or, for the branches of a condition, `max`.
    """
    merged: dict[CollectiveUse, CollectiveUse] = {}
    for use in uses:
        key = replace(use, times=1, hidden_by=min(use.hidden_by, 1))
        other = merged.get(key, replace(use, times=0))
        times = min(combine_times(use.times, other.times), MAX_PAYLOAD_BYTES)
        merged[key] = replace(use, times=times, hidden_by=min(use.hidden_by, other.hidden_by))
    return tuple(merged.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramDifference:
    """A difference between two programs in a property or a collective.

    Attributes:
        name: The name of the property, such as ``strategy``, or of the collective.
        before: The text of the property in the old program; empty if the old program has no such
            property.
        now: The text of the property in the new program; empty if the new program has no such
            property.
        fails: Whether the difference makes the case fail.

    """

    name: str
    before: str
    now: str
    fails: bool

    @property
    def text(self) -> str:
        """The difference in words, such as ``strategy: StrategyND -> StrategyRing``."""
        return f"{self.name}: {self.before or 'none'} -> {self.now or 'none'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCollectives:
    """All collectives of a user's program, and its arguments.

    Attributes:
        uses: The collectives, the largest payload first.
        mesh: Maps the axis names of the program's mesh to their extents; empty if the program has
            no mesh, or a mesh that cannot be used to describe groups.
        arguments: Maps the names of the program's arguments, such as ``params['w1']``, to the bytes
            of a rank's array, in the order of the arguments. An argument without a name of its own
            has its number as the name, beginning with 0.

    """

    uses: CollectiveUses
    mesh: Mapping[str, Count] = field(default_factory=dict)
    arguments: Mapping[str, Natural] = field(default_factory=dict)


Groups: TypeAlias = "tuple[tuple[int, ...], ...]"

# Groups without a common size, and groups that were lost: a compiler lists the groups even if they
# hold all ranks, but a jaxlib that is too new for the compiler's output prints an empty list. Empty
# braces alone mean a group of all ranks.
_UNREADABLE_GROUPS_PATTERN = re.compile(
    r"replica_groups=(?:(?!\{\}|\{\{\}\})\S|\{\}.*\buse_global_device_ids=true)"
)

# Programs for more ranks are refused: each rank of each group is compared.
MAX_RANKS = 65_536


def describe_groups(
    hlo_line: str, mesh: Mapping[str, int], program_ranks: int | None
) -> tuple[int, int, str]:
    """Return (ranks in a group, number of groups, mesh axes) of the collective in `hlo_line`.

    The mesh axes are a text such as ``data,model``, as in CollectiveUse. The number of groups is 0
    for a collective-permute that is not a ring in each group. Both numbers are 0 if the groups
    cannot be read.

    Args:
        hlo_line: The HLO of the collective.
        mesh: Maps the axis names of the program's mesh to their extents, whose product is
            `program_ranks`; empty without a mesh.
        program_ranks: The number of ranks of the program; None if the number is unknown.

    Raises:
        ProgramError: The collective runs over all ranks, and their number is unknown.

    """
    pairs = source_target_pairs_of(hlo_line)
    if pairs is not None:
        return _describe_groups_of_pairs(pairs, mesh, program_ranks)
    size = rank_groups_of_line(hlo_line)
    if size is not None:
        groups = (
            replica_groups_of(hlo_line, size.rank_count) if size.rank_count <= MAX_RANKS else ()
        )
        return size.size, size.group_count, _axes_text(groups or (), mesh)
    if _UNREADABLE_GROUPS_PATTERN.search(hlo_line):
        return 0, 0, ""
    if program_ranks is None:
        raise ProgramError(
            "a collective is over all ranks, and its head has neither num_partitions nor "
            "replica_count: name the number with --ranks=N"
        )
    return program_ranks, 1, ",".join(mesh)


def _describe_groups_of_pairs(
    pairs: Groups, mesh: Mapping[str, int], program_ranks: int | None
) -> tuple[int, int, str]:
    """Return (ranks in a group, number of groups, mesh axis) of a collective-permute.

    If all pairs send along the same axis of the program's mesh, the groups are the lines of ranks
    along this axis. But the number of groups is 0 if the pairs are not a ring in each group. If the
    pairs send along no axis or several axes, the result is (number of ranks in `pairs`, 0, "").

    Args:
        pairs: The (sender, receiver) ranks.
        mesh: Maps the axis names of the program's mesh to their extents.
        program_ranks: The number of ranks of the program; None if the number is unknown.

    """
    strides = _strides_by_axis(mesh, pairs)
    if len(strides) != 1:
        return len({rank for pair in pairs for rank in pair}), 0, ""
    ((axis, stride),) = strides.items()
    extent = mesh[axis]
    steps = {(receiver - sender) // stride % extent for sender, receiver in pairs}
    is_ring = steps in ({1}, {extent - 1}) and len(set(pairs)) == program_ranks
    return extent, len(pairs) // extent if is_ring else 0, axis


def _axes_text(groups: Groups, program_mesh: Mapping[str, int]) -> str:
    """Return the mesh axes along which the groups of ranks lie, such as ``data,model``.

    If the groups do not lie along mesh axes, return CONSECUTIVE for groups of consecutive ranks,
    STRIDED for groups of ranks at equal distances, and an empty text for other groups.
    `program_mesh` maps axis names to extents.
    """
    size = len(groups[0]) if groups else 0
    meshes = [program_mesh]
    if len(groups) > 1:
        meshes += [{"": len(groups), CONSECUTIVE: size}, {STRIDED: size, "": len(groups)}]
    for mesh in meshes:
        axes = _strides_by_axis(mesh, groups)
        if "" not in axes and math.prod(mesh[axis] for axis in axes) == size:
            return ",".join(axes)
    return ""


def _strides_by_axis(mesh: Mapping[str, int], groups: Groups) -> dict[str, int]:
    """Return the stride of each mesh axis along which the ranks of a group differ, by axis name.

    The stride of an axis is the difference between two ranks that are neighbours along the axis.
    `mesh` maps axis names to extents.
    """
    extents = [*mesh.values()]
    strides = {axis: math.prod(extents[number:]) for number, axis in enumerate(mesh, 1)}
    return {
        axis: stride
        for axis, stride in strides.items()
        if any(len({rank // stride % mesh[axis] for rank in group}) > 1 for group in groups)
    }


_FILE_PATTERN = re.compile(r'^(\d+) "(.*)"$', re.MULTILINE)
_FILE_LOCATION_PATTERN = re.compile(r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)\b", re.MULTILINE)
_FRAME_PATTERN = re.compile(
    r"^(\d{1,9}) \{file_location_id=(\d+)(?: parent_frame_id=(\d{1,9}))?\b", re.MULTILINE
)

_STACK_FRAME_ID_PATTERN = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_SOURCE_LINE_PATTERN = re.compile(r'\bsource_file="([^"]*)" source_line=(\d+)')

_LIBRARIES_PATTERN = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
# The beginning of an absolute path up to the last folder.
_FOLDERS_PATTERN = re.compile(r"^/(?:.*/)?(?=[^/]+/[^/]+$)")
# More than the depth of any Python stack; frames of a damaged text may form a circle.
_MAX_FRAMES = 1000


class SourceLines:
    """A finder of the line in the user's source files from which an HLO instruction comes.

    `head` is the part of a program's HLO before the first computation. The head may contain tables
    of files and stack frames. Relative paths are shown as they are. Absolute paths are shortened to
    the last folder and the file.
    """

    def __init__(self, head: str) -> None:
        # The table of files is before the table of functions, whose rows look like rows of files.
        files = dict(_FILE_PATTERN.findall(head.partition("\nFunctionNames\n")[0]))
        places = {
            number: (files.get(file, ""), line)
            for number, file, line in _FILE_LOCATION_PATTERN.findall(head)
        }
        frames = _FRAME_PATTERN.findall(head)
        # The outermost frame has no parent. In some versions of XLA each parent is printed as its
        # number plus 1; a frame then seems to be its own parent.
        shift = 1 if any(number == parent for number, _, parent in frames) else 0
        self._frames = {
            int(number): (places.get(place, ("", "")), int(parent or 0) - shift)
            for number, place, parent in frames
        }

    def user_line_of(self, instruction_text: str) -> str:
        """Return the user's source line from which an instruction comes, such as ``train.py:88``.

        The line is the innermost line of the instruction's call stack that is not in a library. If
        there is no such line, the text is empty. `instruction_text` is the HLO of the instruction.
        """
        places = _SOURCE_LINE_PATTERN.findall(instruction_text)
        frame = int("".join(_STACK_FRAME_ID_PATTERN.findall(instruction_text)[:1]) or 0)
        while frame in self._frames and len(places) < _MAX_FRAMES:
            place, frame = self._frames[frame]
            places.append(place)
        user_places = (place for place in places if place[0] and not is_in_library(place[0]))
        return next((f"{_FOLDERS_PATTERN.sub('', file)}:{line}" for file, line in user_places), "")


def is_in_library(file: str) -> bool:
    """Return whether the path `file` belongs to an installed package or to Python."""
    return _LIBRARIES_PATTERN.search(file) is not None
