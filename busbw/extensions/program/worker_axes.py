"""Find the groups of ranks of a collective, their mesh axes, and its line in the user's source.

XLA writes the source line in one of two forms. The metadata of an instruction contain a file and a
line or, since 2025, the number of a stack frame. In the second form, tables of files, lines and
frames are at the head of the program.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from busbw.collectives.base import (
    rank_groups_of_line,
    replica_groups_of,
    source_target_pairs_of,
)
from busbw.model import machine

from .worker_values import CONSECUTIVE, STRIDED, ProgramError

Groups: TypeAlias = "tuple[tuple[int, ...], ...]"

# Groups without a common size, and groups that were lost: a compiler lists the groups even if they
# hold all ranks, but a jaxlib that is too new for the compiler's output prints an empty list. Empty
# braces alone mean a group of all ranks.
_UNREADABLE_GROUPS_PATTERN = re.compile(
    r"replica_groups=(?:(?!\{\}|\{\{\}\})\S|\{\}.*\buse_global_device_ids=true)"
)

# Programs for more ranks are not matched with mesh axes: each rank of each group is compared.
MAX_RANKS = 65_536


@dataclass(frozen=True)
class MeshAxes:
    """The mesh of a program, whose axes are matched with the groups of collectives.

    Attributes:
        mesh: Maps the axis names of the mesh to their extents; empty without a mesh.
        program_ranks: The number of ranks of the program; None if the number is unknown.

    """

    mesh: Mapping[str, int]
    program_ranks: int | None

    def find_groups(self, hlo_line: str) -> tuple[int, int, str]:
        """Return (ranks in a group, number of groups, mesh axes) of the collective in `hlo_line`.

        The axes are names joined with commas, such as ``data,model``. If the groups lie along no
        mesh axes, the text is CONSECUTIVE or STRIDED for groups with such ranks, and empty for
        other groups. The number of groups is 0 for a collective-permute that is not a ring in each
        group. Both numbers are 0 if the groups cannot be read. Raises ProgramError if the
        collective runs over all ranks, and their number is unknown.
        """
        pairs, size = source_target_pairs_of(hlo_line), rank_groups_of_line(hlo_line)
        if pairs is not None:
            return self._groups_of_pairs(pairs)
        if size is not None:
            is_small = size.ranks <= MAX_RANKS
            groups = replica_groups_of(hlo_line, size.ranks) if is_small else None
            return size.size, size.groups, self._axes_text(groups or ())
        if _UNREADABLE_GROUPS_PATTERN.search(hlo_line):
            return 0, 0, ""
        if self.program_ranks is None:
            raise ProgramError(
                "a collective is over all ranks, and its head has neither num_partitions nor "
                "replica_count: name the number with --ranks=N"
            )
        return self.program_ranks, 1, ",".join(self._matchable_mesh)

    def _groups_of_pairs(self, pairs: Groups) -> tuple[int, int, str]:
        """Return (ranks in a group, number of groups, mesh axis) of a collective-permute.

        `pairs` are the (sender, receiver) ranks. The axis is the mesh axis along which all pairs
        send. The number of groups is 0 unless the pairs are a ring in each group. Without such an
        axis the result is the number of ranks in the pairs, 0, and an empty text.
        """
        for axis, extent in self._matchable_mesh.items():
            groups = _groups_along(tuple(self._matchable_mesh.items()), (axis,))
            positions = {rank: index for index, group in enumerate(groups) for rank in group}
            if pairs and all(positions.get(a) == positions.get(b) for a, b in pairs):
                ring = {pair for group in groups for pair in zip(group, (*group[1:], group[0]))}
                is_ring = set(pairs) in (ring, {(b, a) for a, b in ring})
                return extent, len(groups) if is_ring else 0, axis
        return len({rank for pair in pairs for rank in pair}), 0, ""

    @property
    def _matchable_mesh(self) -> Mapping[str, int]:
        """The mesh, or an empty mapping if it cannot be matched with groups.

        A mesh cannot be matched if it does not have exactly the ranks of the program, or if it has
        more than MAX_RANKS ranks or too many axes.
        """
        ranks, names = math.prod(self.mesh.values()), len(self.mesh)
        is_whole = (
            ranks == self.program_ranks and ranks <= MAX_RANKS and names <= len(machine.LETTER_AXES)
        )
        return self.mesh if is_whole else {}

    def _axes_text(self, groups: Groups) -> str:
        """Return the fewest mesh axes along which the groups lie, such as ``data,model``.

        If the groups lie along no mesh axes, return CONSECUTIVE or STRIDED for groups with such
        ranks, and an empty text for other groups.
        """
        size, ranks = len(groups[0]) if groups else 0, sum(map(len, groups))
        extents = tuple(
            (name, extent) for name, extent in self._matchable_mesh.items() if extent > 1
        )
        layouts = [
            (extents, tuple(name for name, _ in axes))
            for count in range(1, len(extents) + 1)
            for axes in itertools.combinations(extents, count)
            if math.prod(extent for _, extent in axes) == size
        ]
        if 1 < size < ranks:
            layouts += [
                ((("", ranks // size), (CONSECUTIVE, size)), (CONSECUTIVE,)),
                (((STRIDED, size), ("", ranks // size)), (STRIDED,)),
            ]
        ordered = {tuple(sorted(group)) for group in groups}
        names = (axes for extents, axes in layouts if set(_groups_along(extents, axes)) == ordered)
        return ",".join(next(names, ()))


@functools.lru_cache(maxsize=64)
def _groups_along(extents: tuple[tuple[str, int], ...], axes: tuple[str, ...]) -> Groups:
    """Return the groups of ranks along `axes` of a mesh; `extents` are its (axis, extent) pairs."""
    letters = dict(zip((name for name, _ in extents), machine.LETTER_AXES))
    mesh = "x".join(str(extent) for _, extent in extents)
    ranks = math.prod(extent for _, extent in extents)
    return machine.group_ranks_along_axes(mesh, "".join(letters[name] for name in axes), ranks)


_TABLE_PATTERN = re.compile(
    r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n?)*)", re.MULTILINE
)
_FILE_PATTERN = re.compile(r'^(\d+) "(.*)"$', re.MULTILINE)
_FILE_LOCATION_PATTERN = re.compile(r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)\b", re.MULTILINE)
_FRAME_PATTERN = re.compile(
    r"^(\d{1,9}) \{file_location_id=(\d+)(?: parent_frame_id=(\d{1,9}))?\b", re.MULTILINE
)

_STACK_FRAME_ID_PATTERN = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_SOURCE_LINE_PATTERN = re.compile(r'\bsource_file="([^"]*)" source_line=(\d+)')

_LIBRARIES_PATTERN = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
_SHOWN_PATH_PARTS = 2
# More than the depth of any Python stack; frames of a damaged text may form a circle.
_MAX_FRAMES = 1000


class SourceLines:
    """The lines in the user's source files from which the instructions of a program come.

    `head` is the HLO before the first computation, which may have tables of files and stack frames.
    Paths below `source_folder` are shown relative to this folder, and other paths are shortened.
    """

    def __init__(self, head: str, source_folder: str = "") -> None:
        tables = dict(_TABLE_PATTERN.findall(head))
        files = dict(_FILE_PATTERN.findall(tables.get("FileNames", "")))
        places = {
            number: (files.get(file, ""), line)
            for number, file, line in _FILE_LOCATION_PATTERN.findall(
                tables.get("FileLocations", "")
            )
        }
        frames = _FRAME_PATTERN.findall(tables.get("StackFrames", ""))
        # The outermost frame has no parent. In some versions of XLA each parent is printed as its
        # number plus 1; a frame then seems to be its own parent.
        shift = 1 if any(number == parent for number, _, parent in frames) else 0
        self._source_folder = source_folder
        self._frames = {
            int(number): (places.get(place, ("", "")), int(parent or 0) - shift)
            for number, place, parent in frames
        }

    def user_line_of(self, instruction_text: str) -> str:
        """Return the source line of an instruction, such as ``train.py:88``.

        The line is the innermost line of the instruction's call stack that is not in a library;
        empty without such a line. `instruction_text` is the HLO of the instruction.
        """
        places = _SOURCE_LINE_PATTERN.findall(instruction_text)
        frame = int("".join(_STACK_FRAME_ID_PATTERN.findall(instruction_text)[:1]) or 0)
        while frame in self._frames and len(places) < _MAX_FRAMES:
            place, frame = self._frames[frame]
            places.append(place)
        user_places = (place for place in places if place[0] and not is_in_library(place[0]))
        return next((f"{self._shortened_path(file)}:{number}" for file, number in user_places), "")

    def _shortened_path(self, file: str) -> str:
        """Return a path relative to the source folder, or else its last folder and file name."""
        path = PurePath(file)
        if self._source_folder and path.is_relative_to(self._source_folder):
            return str(path.relative_to(self._source_folder))
        return "/".join(path.parts[-_SHOWN_PATH_PARTS:])


def is_in_library(file: str) -> bool:
    """Return whether the path `file` belongs to an installed package or to Python."""
    return _LIBRARIES_PATTERN.search(file) is not None
