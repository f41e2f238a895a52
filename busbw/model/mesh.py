"""Meshes as text: ``2x4`` has the axes x (2) and y (4); which ranks form a group along some axes.

Arithmetic on rank numbers only. Ranks are numbered with the last axis running fastest, as
`jax.sharding.Mesh` lays devices out.
"""

from __future__ import annotations

import itertools
import math

AXES = "xyzuvw"


def extents_of(mesh: str) -> tuple[int, ...]:
    """``2x4`` as (2, 4). Raises ValueError for anything else than whole numbers joined by x."""
    words = mesh.split("x")
    if not all(word.isdecimal() and int(word) > 0 for word in words) or len(words) > len(AXES):
        raise ValueError(
            f"{mesh!r} is not a mesh; accepted are up to {len(AXES)} whole numbers from 1, "
            "joined by x, such as 2x4"
        )
    return tuple(map(int, words))


def check_axes(axes: str, mesh: str) -> str:
    """`axes`, such as ``y`` or ``x,z``, as names of axes of `mesh` in order, such as ``xz``.

    Raises ValueError for an axis that the mesh has not, and for a group of fewer than two ranks.
    """
    extents = extents_of(mesh)
    known = AXES[: len(extents)]
    names = [word.strip() for word in axes.split(",")]
    for name in names:
        if len(name) != 1 or name not in known:
            raise ValueError(f"{name!r} is no axis of the mesh {mesh}; it has {', '.join(known)}")
    if math.prod(extents[known.index(name)] for name in set(names)) < 2:
        raise ValueError(f"{axes!r}: one rank along these axes of {mesh} is not a collective")
    return "".join(sorted(set(names), key=known.index))


def groups_of(mesh: str, axes: str, ranks: int) -> tuple[tuple[int, ...], ...]:
    """The ranks of each group along `axes` of `mesh`; without axes all `ranks` are one group."""
    if not axes:
        return (tuple(range(ranks)),)
    extents = extents_of(mesh)
    numbers = {place: rank for rank, place in enumerate(itertools.product(*map(range, extents)))}
    inner = [AXES.index(name) for name in axes]
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, rank in numbers.items():
        rest = tuple(at for axis, at in enumerate(place) if axis not in inner)
        groups.setdefault(rest, []).append(rank)
    return tuple(tuple(group) for group in groups.values())
