"""The arithmetic of meshes: shapes that ranks are laid out in, their axes, and groups along them.

``2x4`` has the axes x (2) and y (4). ``hosts:2,devices:4`` has named ones: what is between hosts,
and what is within one. Ranks are numbered with the last axis running fastest, as
`jax.sharding.Mesh` lays devices out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping

# Of a shape such as 2x4.
AXES = "xyzuvw"
# Of a shape with names, from the slowest network to the fastest link.
NAMED_AXES = ("slices", "hosts", "processes", "devices")


def axes_of(mesh: str) -> Mapping[str, int]:
    """Extents by the names of axes, in order. Raises ValueError for what is no mesh."""
    if ":" in mesh:
        return _named(mesh)
    words = mesh.split("x")
    if not all(_is_extent(word) for word in words) or len(words) > len(AXES):
        raise ValueError(
            f"{mesh[:60]!r} is not a mesh; {_meant(mesh)}accepted are up to {len(AXES)} whole "
            "numbers from 1, joined by x, such as 2x4, or named axes such as hosts:2,devices:4"
        )
    return dict(zip(AXES, map(int, words)))


def extents_of(mesh: str) -> tuple[int, ...]:
    """``2x4`` as (2, 4), ``hosts:2,devices:4`` too. Raises ValueError for what is no mesh."""
    return tuple(axes_of(mesh).values())


def _named(mesh: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for part in mesh.split(","):
        name, _, extent = part.strip().partition(":")
        if name not in NAMED_AXES or not _is_extent(extent) or name in found:
            meant = _meant(mesh)
            raise ValueError(
                f"{mesh[:60]!r} is not a mesh; {meant}accepted are {', '.join(NAMED_AXES)}, each "
                "once and with a whole number from 1, such as hosts:2,devices:4"
            )
        found[name] = int(extent)
    return {name: found[name] for name in NAMED_AXES if name in found}


def _is_extent(word: str) -> bool:
    return word.isascii() and word.isdecimal() and int(word) > 0


def _meant(mesh: str) -> str:
    joined = re.sub("[*,:X]", "x", mesh)
    is_mesh = re.fullmatch(r"[1-9]\d{,3}(x[1-9]\d{,3})+", joined)
    return f"did you mean {joined}? " if is_mesh else ""


def mesh_text(mesh: str) -> str:
    """As it is written everywhere: names in their order, no spaces. Raises ValueError."""
    axes = axes_of(mesh)
    if ":" in mesh:
        return ",".join(f"{name}:{extent}" for name, extent in axes.items())
    return "x".join(map(str, axes.values()))


def file_name_of(mesh: str) -> str:
    """As a part of a file's name or a test's id, such as ``2x4`` or ``hosts2xdevices4``."""
    return mesh.replace(":", "").replace(",", "x")


def names_of(axes: str) -> tuple[str, ...]:
    """``xz`` as (x, z), ``hosts,devices`` as (hosts, devices)."""
    words = tuple(axes.split(","))
    return words if set(words) <= set(NAMED_AXES) else tuple(axes)


def check_axes(axes: str, mesh: str) -> str:
    """Such as ``x,z`` as ``xz``. Raises ValueError for no axis of `mesh`, and groups of one."""
    extents = axes_of(mesh)
    names = [word.strip() for word in axes.split(",")]
    for name in names:
        if name not in extents:
            raise ValueError(f"{name!r} is no axis of the mesh {mesh}; it has {', '.join(extents)}")
    if math.prod(extents[name] for name in set(names)) < 2:
        raise ValueError(f"{axes!r}: one rank along these axes of {mesh} is not a collective")
    between = "," if ":" in mesh else ""
    return between.join(name for name in extents if name in names)


def groups_of(mesh: str, axes: str, ranks: int) -> tuple[tuple[int, ...], ...]:
    """The ranks of each group along `axes` of `mesh`; without axes all `ranks` are one group."""
    if not axes:
        return (tuple(range(ranks)),)
    extents, inner = axes_of(mesh), names_of(axes)
    outer = [at for at, name in enumerate(extents) if name not in inner]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coordinates in enumerate(itertools.product(*map(range, extents.values()))):
        groups.setdefault(tuple(coordinates[at] for at in outer), []).append(rank)
    return tuple(tuple(group) for group in groups.values())


def group_size_of(mesh: str, axes: str) -> int:
    extents = axes_of(mesh)
    return math.prod(extents[name] for name in names_of(axes))


def parts_of(mesh: str) -> int:
    """Into how many equal parts in a row the axes other than ``devices`` cut the ranks."""
    return math.prod(extent for name, extent in axes_of(mesh).items() if name in NAMED_AXES[:-1])


def check_layout(mesh: str, hosts: int, processes: int) -> None:
    """On one host each process stands for a host. Raises ValueError with both numbers."""
    axes = axes_of(mesh)
    there = {"hosts": hosts if hosts > 1 else processes, "processes": processes}
    for name, count in there.items():
        at = NAMED_AXES.index(name)
        found = math.prod(axes.get(one, 1) for one in NAMED_AXES[: at + 1])
        if name in axes and found != count:
            raise ValueError(f"a mesh of {mesh} has {found} {name}, there are {count}")
    if "slices" in axes and (hosts if hosts > 1 else processes) % axes["slices"]:
        raise ValueError(f"a mesh of {mesh} has {axes['slices']} slices, there are {hosts} hosts")
