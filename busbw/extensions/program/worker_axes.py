"""The groups of a collective, as axes of the mesh that the program names."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from busbw.collectives.base import group_size_of, groups_of, pairs_of, unread_groups_of
from busbw.model import machine

from .worker_values import CONSECUTIVE, STRIDED, ProgramError

Mesh: TypeAlias = Mapping[str, int]
Groups: TypeAlias = "tuple[tuple[int, ...], ...]"

# A compiler names all ranks by groups, too; a jaxlib that is too new for it may not read these.
_LOST_GROUPS = re.compile(r"replica_groups=\{\}.*\buse_global_device_ids=true")

# Groups of ranks are compared one by one.
MOST_RANKS = 65_536


@dataclass(frozen=True)
class Axes:
    """The axes of `mesh`, whose ranks are all `ranks`; `ranks` is None where unknown."""

    mesh: Mesh
    ranks: int | None

    def groups_of(self, line: str) -> tuple[int, int, str]:
        """Return (ranks of a group, groups, axes of the mesh) of a collective's line.

        Raises ProgramError where a collective is over all ranks, and nothing says how many.
        """
        pairs, size = pairs_of(line), group_size_of(line)
        if pairs is not None:
            return self._of_pairs(pairs)
        if size is not None:
            is_small = size.ranks <= MOST_RANKS
            groups = groups_of(line, size.ranks) if is_small else None
            return size.size, size.groups, self._named(groups or ())
        if unread_groups_of(line) or _LOST_GROUPS.search(line):
            return 0, 0, ""
        if self.ranks is None:
            raise ProgramError(
                "a collective is over all ranks, and its head has neither num_partitions nor "
                "replica_count: name the number with --ranks=N"
            )
        return self.ranks, 1, ",".join(self._extents)

    def _of_pairs(self, pairs: Groups) -> tuple[int, int, str]:
        """Return the axis that all pairs go along, and its groups if each is a ring."""
        for axis, extent in self._extents.items():
            groups = _groups_along(tuple(self._extents.items()), (axis,))
            positions = {rank: index for index, group in enumerate(groups) for rank in group}
            if pairs and all(positions.get(a) == positions.get(b) for a, b in pairs):
                ring = {pair for group in groups for pair in zip(group, (*group[1:], group[0]))}
                is_ring = set(pairs) in (ring, {(b, a) for a, b in ring})
                return extent, len(groups) if is_ring else 0, axis
        return len({rank for pair in pairs for rank in pair}), 0, ""

    @property
    def _extents(self) -> Mesh:
        """The mesh, empty unless its ranks are all ranks."""
        ranks, names = math.prod(self.mesh.values()), len(self.mesh)
        is_whole = ranks == self.ranks and ranks <= MOST_RANKS and names <= len(machine.LETTER_AXES)
        return self.mesh if is_whole else {}

    def _named(self, groups: Groups) -> str:
        """Return the fewest axes that make up the groups, or their layout; empty for neither."""
        size, ranks = len(groups[0]) if groups else 0, sum(map(len, groups))
        extents = tuple((name, extent) for name, extent in self._extents.items() if extent > 1)
        layouts = [
            (extents, tuple(name for name, _ in axes))
            for count in range(1, len(extents) + 1)
            for axes in itertools.combinations(extents, count)
            if math.prod(extent for _, extent in axes) == size
        ]
        if 1 < size < ranks:
            layouts.append(((("", ranks // size), (CONSECUTIVE, size)), (CONSECUTIVE,)))
            layouts.append((((STRIDED, size), ("", ranks // size)), (STRIDED,)))
        ordered = {tuple(sorted(group)) for group in groups}
        names = (axes for extents, axes in layouts if set(_groups_along(extents, axes)) == ordered)
        return ",".join(next(names, ()))


@functools.lru_cache(maxsize=64)
def _groups_along(extents: tuple[tuple[str, int], ...], axes: tuple[str, ...]) -> Groups:
    letters = dict(zip((name for name, _ in extents), machine.LETTER_AXES))
    mesh = "x".join(str(extent) for _, extent in extents)
    ranks = math.prod(extent for _, extent in extents)
    return machine.split_ranks(mesh, "".join(letters[name] for name in axes), ranks)
