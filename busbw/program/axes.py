"""The groups of a collective, as axes of the mesh that the program names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from busbw.collectives.base import group_size_of, groups_of, pairs_of, unread_groups_of
from busbw.model.program import CONSECUTIVE, STRIDED

from .hlo import ProgramError

Mesh: TypeAlias = Mapping[str, int]
_Ranks: TypeAlias = "tuple[tuple[int, ...], ...]"

# A compiler names all ranks by groups, too; a jaxlib that is too new for it may not read these.
_LOST_GROUPS = re.compile(r"replica_groups=\{\}.*\buse_global_device_ids=true")

# Axes of a mesh are tried in all combinations, and groups of ranks are compared one by one.
_MOST_AXES, MOST_RANKS = 8, 65_536


class UnknownRanksError(ProgramError):
    """A program of which a collective is over all ranks, and that does not say how many."""

    def __init__(self) -> None:
        super().__init__(
            "it does not say how many ranks take part: its head has neither num_partitions nor "
            "replica_count, and a collective is over all ranks"
        )


@dataclass
class Axes:
    """The axes of `mesh`, which has all `ranks`; None where nobody knows how many there are."""

    mesh: Mesh
    ranks: int | None
    _known: dict[object, str] = field(default_factory=dict)

    def of(self, text: str) -> tuple[int, int, str]:
        """Return (ranks of a group, groups, axes of the mesh) of a collective's line.

        Raises UnknownRanksError.
        """
        pairs = pairs_of(text)
        if pairs is not None:
            return self._of_pairs(pairs)
        size = group_size_of(text)
        if size is None and unread_groups_of(text):
            # Of unequal groups the largest; of what no parser reads nothing is known.
            sizes = [len(group) for group in groups_of(text, 0) or ()]
            return max(sizes, default=0), len(sizes), ""
        if size is None and _LOST_GROUPS.search(text):
            return 0, 0, ""
        if size is None:
            if self.ranks is None:
                raise UnknownRanksError
            return self.ranks, 1, ",".join(self.mesh) if self._fits else ""
        if size.ranks > MOST_RANKS:
            return size.size, size.groups, ""
        groups = groups_of(text, size.ranks) or ()
        return size.size, size.groups, self._named(tuple(groups), _along_groups)

    def _of_pairs(self, pairs: _Ranks) -> tuple[int, int, str]:
        axes = self._named(pairs, _along_pairs)
        if not axes or self.ranks is None:
            return len({rank for pair in pairs for rank in pair}), 0, ""
        rings = self.ranks // self.mesh[axes]
        return self.mesh[axes], rings if _are_rings(self.mesh, axes, pairs) else 0, axes

    @property
    def _fits(self) -> bool:
        if self.ranks is None or self.ranks > MOST_RANKS or len(self.mesh) > _MOST_AXES:
            return False
        return math.prod(self.mesh.values()) == self.ranks

    def _named(self, groups: _Ranks, along: Callable[[Mesh, _Ranks], str]) -> str:
        if groups not in self._known:
            self._known[groups] = along(self.mesh if self._fits else {}, groups)
        return self._known[groups]


def _along_groups(mesh: Mesh, groups: _Ranks) -> str:
    """Return the fewest axes that make up the groups, or their layout; empty for neither."""
    wanted = {tuple(sorted(group)) for group in groups}
    size, ranks = len(groups[0]) if groups else 0, sum(map(len, groups))
    names = [name for name, extent in mesh.items() if extent > 1]
    for count in range(1, len(names) + 1):
        for some in itertools.combinations(names, count):
            fits = math.prod(mesh[name] for name in some) == size
            if fits and set(_groups_along(mesh, some)) == wanted:
                return ",".join(some)
    if 1 < size < ranks:
        for mesh, how in (
            ({"": ranks // size, CONSECUTIVE: size}, CONSECUTIVE),
            ({STRIDED: size, "": ranks // size}, STRIDED),
        ):
            if set(_groups_along(mesh, (how,))) == wanted:
                return how
    return ""


def _groups_along(mesh: Mesh, names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    outer = [at for at, name in enumerate(mesh) if name not in names]
    for rank, place in enumerate(itertools.product(*map(range, mesh.values()))):
        groups.setdefault(tuple(place[at] for at in outer), []).append(rank)
    return map(tuple, groups.values())


def _along_pairs(mesh: Mesh, pairs: _Ranks) -> str:
    """Return the axis that all pairs go along; empty if there is no such axis."""
    for name in mesh:
        groups = {
            rank: at for at, group in enumerate(_groups_along(mesh, (name,))) for rank in group
        }
        if pairs and all(groups.get(a) == groups.get(b) for a, b in pairs):
            return name
    return ""


def _are_rings(mesh: Mesh, axis: str, pairs: _Ranks) -> bool:
    """Tell whether all ranks send to their successor along `axis`, or all to their predecessor."""
    groups = list(_groups_along(mesh, (axis,)))
    onwards = {pair for group in groups for pair in zip(group, (*group[1:], group[0]))}
    return set(pairs) in (onwards, {(b, a) for a, b in onwards})
