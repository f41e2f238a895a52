"""The ranks of one collective, as XLA writes them after an instruction: three forms.

``{{0,2},{1,3}}`` lists the groups, ``[2,4]<=[4,2]T(1,0)`` counts them out of an array of all ranks,
``mesh['x'=2,'y'=4] {'x'}`` names the axes that they go along.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

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
        """All that take part."""
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
