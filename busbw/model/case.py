"""What is asked for and what is measured: Asked; Spec at collection, Case on a machine.

Knows no result and no file, and of the hardware only what a probe found.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from .limits import Count, Payload
from .machine import (
    Mesh,
    Protocol,
    axes_of,
    file_name_of,
    group_size_of,
    groups_of,
    names_of,
)
from .words import Clock, payload_text
from .workload import Workload


class GridError(ValueError):
    """A selection that cannot be measured: an empty grid, a device that was not found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the options ask for; a `named` framework that supports none is an error."""

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


class _HasWorkload:
    """The collective that a workload is."""

    __slots__ = ()
    workload: Workload

    @property
    def collective(self) -> str:
        return self.workload.collective

    @property
    def reduce_op(self) -> str:
        """``sum``, ``max``, ``min``, or ``none`` where nothing is reduced."""
        return self.workload.reduce_op

    @property
    def placement(self) -> str:
        """``in_place`` or ``out_of_place``."""
        return self.workload.placement

    @property
    def axes(self) -> str:
        """The axes of the mesh that it runs over, such as ``y``; empty for all."""
        return self.workload.axes


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec(_HasWorkload):
    """What was asked for, known at collection, with no hardware.

    `mesh` is the shape that the ranks are laid out in, such as ``2x4`` or ``hosts:2,devices:4``
    (empty: that of the devices).
    """

    framework: str
    payload_bytes: int
    workload: Workload
    strategy: str = "default"
    dtype: str = "float32"
    ranks: int | None = None
    mesh: str = ""
    clock: str = "default"

    @property
    def stored(self) -> StoredSpec:
        return converted(StoredSpec, self, program=self.workload.program)

    @classmethod
    def of_stored(cls, stored: StoredSpec) -> Spec:
        return converted(cls, stored, workload=_workload(stored))

    @property
    def id(self) -> str:
        """The pytest id, such as ``jax-default-float32-4K``; usual values are left out."""
        named = (
            (self.collective, "all_reduce"),
            (self.reduce_op, "sum none"),
            (self.placement, "in_place"),
            (self.clock, "default"),
        )
        parts = [self.framework, self.workload.word]
        if not self.workload.is_sized:
            return "-".join(filter(None, (*parts, self.strategy)))
        parts += [word for word, usual in named if word not in usual.split()]
        parts += [
            file_name_of(self.mesh),
            self.axes,
            self.strategy,
            self.dtype,
            payload_text(self.payload_bytes),
        ]
        return "-".join(filter(None, parts))

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what names a kind of cases, where it differs within a session."""
        return (self.collective, self.reduce_op, self.placement, self.strategy, self.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseKey(_HasWorkload):
    """What names a Case in files and tables; `payload_bytes` is 0 for all sizes of a kind."""

    framework: str
    workload: Workload
    strategy: str
    dtype: str = "float32"
    payload_bytes: int = 0

    @classmethod
    def of_file(cls, name: str) -> CaseKey | None:
        """What all cases in a file of this name share; None for a name of another form."""
        words = name.removesuffix(".json").split(".")
        if len(words) not in (3, 4) or not all(words):
            return None
        workload = Workload(collective=words[-2])
        found = cls(framework=words[0], workload=workload, strategy=words[-1])
        return found if found.file_name == f"{'.'.join(words)}.json" else None

    @property
    def name(self) -> str:
        """The case in one word, such as ``jax.all_reduce.psum.float32.4K``."""
        if not self.workload.is_sized:
            return ".".join((self.framework, self.workload.word, self.strategy))
        return ".".join((self.stem, self.strategy, self.dtype, payload_text(self.payload_bytes)))

    @property
    def group_name(self) -> str:
        """Such as ``jax all_reduce (psum)``; usual values are left out."""
        if not self.workload.is_sized:
            return f"{self.framework} {self.workload.word} {self.strategy}"
        parts = [f"{self.framework} {self.collective} ({self.strategy})"]
        parts += [self.reduce_op] if self.reduce_op not in ("sum", "none") else []
        parts += [self.dtype] if self.dtype != "float32" else []
        parts += [self.placement.replace("_", " ")] if self.placement != "in_place" else []
        parts += [f"along {self.axes}"] if self.axes else []
        return ", ".join(parts)

    @property
    def stem(self) -> str:
        """Return the name without the strategy, the dtype and the payload."""
        return ".".join(filter(None, (self.framework, self.workload.word, self.collective)))

    @property
    def file_name(self) -> str:
        """The name of its file, such as ``jax.all_reduce.psum.json``."""
        return f"{self.stem}.{self.strategy}.json"

    @property
    def line_key(self) -> tuple[str, str, str, str, int]:
        """What identifies its line in its file; lines are sorted by it."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def family(self) -> CaseKey:
        return replace(self, payload_bytes=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(_HasWorkload):
    """A Spec resolved on the machine that the probe found. Two equal Cases are comparable.

    `protocol` says how it is measured; times of different protocols are never compared. `ranks`
    are all that take part; with axes, in several groups at once.
    """

    framework: str
    payload_bytes: int
    workload: Workload
    strategy: str
    dtype: str
    ranks: int
    mesh: str
    protocol: Protocol

    @property
    def stored(self) -> StoredCase:
        return converted(StoredCase, self, program=self.workload.program)

    @classmethod
    def of_stored(cls, stored: StoredCase) -> Case:
        return _case_of(stored)

    def validate(self) -> None:
        """Raise ValueError, which begins with the field, for axes that its mesh does not have."""
        if not self.axes:
            return
        if not self.mesh:
            raise ValueError("axes: expected none without a mesh")
        extents, names = axes_of(self.mesh), names_of(self.axes)
        if len(set(names)) != len(names) or not set(names) <= set(extents):
            known = ", ".join(extents)
            raise ValueError(f"axes: expected some of {known}, got {self.axes[:60]!r}")
        if math.prod(extents.values()) != self.ranks:
            raise ValueError(f"mesh: {self.mesh} is not of {self.ranks} ranks")

    @property
    def key(self) -> CaseKey:
        return CaseKey(
            framework=self.framework,
            workload=self.workload,
            strategy=self.strategy,
            dtype=self.dtype,
            payload_bytes=self.payload_bytes,
        )

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def group_name(self) -> str:
        return self.key.group_name

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
        return group_size_of(self.mesh, self.axes) if self.axes else self.ranks


T = TypeVar("T")


def converted(kind: type[T], value: object, **own: object) -> T:
    """A `kind` with the fields that `value` has under the same names, and with those in `own`."""
    names = (one.name for one in fields(kind) if one.name not in own)  # type: ignore[arg-type]
    return kind(**{name: getattr(value, name) for name in names if hasattr(value, name)}, **own)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """What documents have of a Case and of a Spec; of a collective's fields each."""

    framework: str
    payload_bytes: Payload
    collective: str
    strategy: str
    dtype: str
    reduce_op: str
    ranks: Count | None
    mesh: Mesh


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCase(_Stored):
    """A Case, as documents have it; without a `program` it is a collective by itself."""

    ranks: Count
    placement: str
    protocol: Protocol
    axes: str = ""
    program: str = ""


@functools.lru_cache(maxsize=4096)
def _case_of(stored: StoredCase) -> Case:
    """A history has a few cases in many thousands of lines."""
    return converted(Case, stored, workload=_workload(stored))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSpec(_Stored):
    """A Spec, as documents have it."""

    axes: str
    placement: str
    clock: str
    program: str = ""


def _workload(stored: StoredCase | StoredSpec) -> Workload:
    return converted(Workload, stored)
