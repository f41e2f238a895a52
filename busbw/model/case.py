"""What the options select and what is measured: GridOptions; Spec at collection, Case on a machine.

Knows no result and no file, and of the hardware only what a probe found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeVar

from .limits import Count, Payload
from .machine import Mesh, Protocol, axes_of, file_name_of, groups_of, names_of
from .words import Clock, payload_text
from .workload import Workload


class GridError(ValueError):
    """A selection that cannot be measured: an empty grid, a device that was not found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GridOptions:
    """What the options select; a `named` framework that supports none of it is an error."""

    frameworks: tuple[str, ...]
    named: bool
    strategies: tuple[str, ...] = ("default",)
    collectives: tuple[str, ...] = ("all_reduce",)
    reduce_ops: tuple[str, ...] = ("sum",)
    placements: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    payloads: tuple[int, ...] = ()
    ranks: int | None = None
    mesh: str = ""
    axes: str = ""
    clock: str = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec(Workload):
    """A requested case, known at collection, with no hardware.

    `mesh` is the shape that the ranks are laid out in, such as ``2x4`` or ``hosts:2,devices:4``
    (empty: that of the devices).
    """

    framework: str
    payload_bytes: Payload
    strategy: str = "default"
    dtype: str = "float32"
    ranks: Count | None = None
    mesh: Mesh = ""
    clock: str = "default"

    @property
    def id(self) -> str:
        """The pytest id, such as ``jax-default-float32-4K``; usual values are left out."""
        if not self.is_sized:
            return "-".join((self.framework, self.word, self.strategy))
        names = (
            (self.collective, "all_reduce"),
            (self.reduce_op, "sum none"),
            (self.placement, "in_place"),
            (self.clock, "default"),
        )
        parts = [self.framework, *(name for name, usual in names if name not in usual.split())]
        parts += [file_name_of(self.mesh), self.axes]
        parts += [self.strategy, self.dtype, payload_text(self.payload_bytes)]
        return "-".join(filter(None, parts))

    @property
    def kind(self) -> tuple[str, ...]:
        """What names a kind of cases, where kinds differ within a session."""
        return (self.collective, self.reduce_op, self.placement, self.strategy, self.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(Workload):
    """A Spec resolved on the machine that the probe found. Two equal Cases are comparable.

    `protocol` says how it is measured; times of different protocols are never compared. `ranks`
    are all that take part; with axes, in several groups at once.
    """

    framework: str
    payload_bytes: Payload
    strategy: str
    dtype: str
    ranks: Count
    mesh: Mesh
    protocol: Protocol

    def validate(self) -> None:
        """Raise ValueError, which begins with the field, for axes that its mesh does not have."""
        if not self.axes:
            return
        if not self.mesh:
            raise ValueError("axes: expected none without a mesh")
        extents, names = axes_of(self.mesh), names_of(self.axes)
        if len(set(names)) != len(names) or not set(names) <= set(extents):
            raise ValueError(f"axes: expected some of {', '.join(extents)}, got {self.axes[:60]!r}")
        if math.prod(extents.values()) != self.ranks:
            raise ValueError(f"mesh: {self.mesh} is not of {self.ranks} ranks")

    @property
    def name(self) -> str:
        """The case in one word, such as ``jax.all_reduce.psum.float32.4K``."""
        if not self.is_sized:
            return ".".join((self.framework, self.word, self.strategy))
        return ".".join((self.stem, self.strategy, self.dtype, payload_text(self.payload_bytes)))

    @property
    def group_name(self) -> str:
        """What all sizes share, such as ``jax all_reduce (psum)``; usual values are left out."""
        if not self.is_sized:
            return f"{self.framework} {self.word} {self.strategy}"
        parts = [f"{self.framework} {self.collective} ({self.strategy})"]
        parts += [self.reduce_op] if self.reduce_op not in ("sum", "none") else []
        parts += [self.dtype] if self.dtype != "float32" else []
        parts += [self.placement.replace("_", " ")] if self.placement != "in_place" else []
        parts += [f"along {self.axes}"] if self.axes else []
        return ", ".join(parts)

    @property
    def stem(self) -> str:
        """The name of its file without the strategy."""
        return ".".join(filter(None, (self.framework, self.word, self.collective)))

    @property
    def file_name(self) -> str:
        """The name of its file, such as ``jax.all_reduce.psum.json``."""
        return f"{self.stem}.{self.strategy}.json"

    @property
    def line_key(self) -> tuple[str, str, str, str, int]:
        """What identifies its line in its file; lines are sorted by it."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def family(self) -> tuple[object, ...]:
        """What identifies cases that differ in nothing but their payload."""
        return (self.file_name, *self.line_key[:-1], self.protocol)

    @property
    def clock(self) -> Clock:
        return self.protocol.clock

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks that each collective runs over; one group of all where no axes are named."""
        return groups_of(self.mesh, self.axes, self.ranks)

    @property
    def group_size(self) -> int:
        """n: how many ranks one collective runs over."""
        if not self.axes:
            return self.ranks
        extents = axes_of(self.mesh)
        return math.prod(extents[name] for name in names_of(self.axes))


T = TypeVar("T")


def converted(kind: type[T], *values: object, **changes: object) -> T:
    """Return a `kind` with `changes`, and the first attribute of `values` for each other field."""
    names = [f.name for f in fields(kind) if f.name not in changes]  # type: ignore[arg-type]
    same = {
        name: getattr(value, name)
        for value in reversed(values)
        for name in names
        if hasattr(value, name)
    }
    return kind(**same, **changes)
