"""The grid that options select (GridOptions), requested cases (CaseSpec) and measured cases (Case).

No value here holds a result. A case knows of the hardware only the facts that a probe found. The
workload of a rank and the descriptor of a framework are here, too. The descriptors of all
frameworks are in `busbw.frameworks`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeVar

from .field_types import Count, Payload
from .machine import (
    Mesh,
    Protocol,
    axis_extents,
    axis_names,
    group_ranks_along_axes,
    mesh_file_name,
)
from .words import Clock, payload_text

# A user's program has any number of collectives, so this word stands for all of them.
ALL_COLLECTIVES = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A single collective, or all collectives of a user's program.

    `reduce_op` is ``sum``, ``max``, ``min``, or ``none`` for a collective that reduces nothing.
    `placement` is ``in_place`` or ``out_of_place``. `axes` are the axes of the mesh along which the
    collective runs, such as ``y``; if `axes` is empty, the collective runs over all ranks.
    `program` names the function that makes the user's program, such as
    ``perf/programs.py:train_step``, or the file of the program's HLO, and `collective` is then
    `ALL_COLLECTIVES`. `program` is empty for a single collective.
    """

    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    program: str = ""

    @property
    def is_sized(self) -> bool:
        """Whether the workload is a single collective, whose payload and time give a bandwidth."""
        return self.collective != ALL_COLLECTIVES

    @property
    def program_label(self) -> str:
        """``program`` for a user's program, as in ids, tables and file names; otherwise empty."""
        return "" if self.is_sized else "program"


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """The facts about a framework that are known without importing it.

    `strategies` are the strategies of its all-reduce, as --strategies names them, the default
    first. `strategy_of_other_collectives` is the strategy of its other collectives. With
    `has_only_sums` its only collective is an all-reduce of sums over all ranks.

    `pip_extra` is the word that installs it, such as ``tf`` in ``busbw[tf]``. `packages` are the
    packages that may provide it, and libraries for chips that no package requires.
    `can_share_devices` says that several of its processes can measure on the same GPU. A framework
    that `is_scripted` imitates measurements for tests: it is always installed, and is measured only
    if it is named. `environment` has variables that are set in its workers unless the user has set
    them.
    """

    name: str
    strategies: tuple[str, ...]
    strategy_of_other_collectives: str
    pip_extra: str
    packages: tuple[str, ...]
    has_only_sums: bool = False
    can_share_devices: bool = False
    is_scripted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class GridError(ValueError):
    """A selection that cannot be measured, such as an empty grid or a device that is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GridOptions:
    """The values of options whose combinations are the cases of a session.

    `frameworks` are installed. `absent_frameworks` are not installed, but have baselines, so that
    their cases are reported as SKIPPED. If the user named the frameworks (`names_frameworks`), a
    framework that supports no combination is an error, and otherwise it is skipped. ``default``
    stands for the default of each framework or collective. `ranks` is None for all devices. `mesh`
    and `axes` are texts such as ``2x4`` and ``y``; empty, ranks have the shape of the devices, and
    collectives run over all axes.
    """

    frameworks: tuple[str, ...] = ()
    absent_frameworks: tuple[str, ...] = ()
    names_frameworks: bool = False
    strategies: tuple[str, ...] = ("default",)
    collectives: tuple[str, ...] = ("all_reduce",)
    reduce_ops: tuple[str, ...] = ("sum",)
    placement: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    payloads: tuple[int, ...] = ()
    ranks: int | None = None
    mesh: str = ""
    axes: str = ""
    clock: str = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseSpec(Workload):
    """A requested case, as pytest collects it before anything is known of the hardware.

    `strategy` and `clock` may be ``default``, for which the probe finds the name. `ranks` is None
    for all devices. `mesh` is the shape in which ranks are arranged, such as ``2x4`` or
    ``hosts:2,devices:4``; empty, it is the shape of the devices.
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
        """The pytest id, such as ``jax-default-float32-4K``, without values that are usual."""
        if not self.is_sized:
            return "-".join((self.framework, self.program_label, self.strategy))
        names = (
            (self.collective, "all_reduce"),
            (self.reduce_op, "sum none"),
            (self.placement, "in_place"),
            (self.clock, "default"),
        )
        parts = [self.framework, *(name for name, usual in names if name not in usual.split())]
        parts += [mesh_file_name(self.mesh), self.axes]
        parts += [self.strategy, self.dtype, payload_text(self.payload_bytes)]
        return "-".join(filter(None, parts))

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The collective, reduce op, placement, strategy and dtype, which name a kind of cases."""
        return (self.collective, self.reduce_op, self.placement, self.strategy, self.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(Workload):
    """A requested case whose defaults are resolved on the machine that the probe found.

    Times of two equal Cases can be compared. `protocol` says how a time is measured. `ranks` is the
    number of all ranks that take part: with `axes` they form several groups, and each group has a
    collective of its own at the same time.
    """

    framework: str
    payload_bytes: Payload
    strategy: str
    dtype: str
    ranks: Count
    mesh: Mesh
    protocol: Protocol

    def validate(self) -> None:
        """Raise ValueError if `axes` are not axes of `mesh`, or `mesh` does not have `ranks` ranks.

        The message begins with the name of the field.
        """
        if not self.axes:
            return
        if not self.mesh:
            raise ValueError("axes: expected none without a mesh")
        extents, names = axis_extents(self.mesh), axis_names(self.axes)
        if len(set(names)) != len(names) or not set(names) <= set(extents):
            raise ValueError(f"axes: expected some of {', '.join(extents)}, got {self.axes[:60]!r}")
        if math.prod(extents.values()) != self.ranks:
            raise ValueError(f"mesh: {self.mesh} is not of {self.ranks} ranks")

    @property
    def name(self) -> str:
        """The name of the case, such as ``jax.all_reduce.psum.float32.4K``."""
        if not self.is_sized:
            return ".".join((self.framework, self.program_label, self.strategy))
        return ".".join(
            (self.file_stem, self.strategy, self.dtype, payload_text(self.payload_bytes))
        )

    @property
    def family_name(self) -> str:
        """The name of the case's family, which are the cases that differ only in payload.

        Such as ``jax all_reduce (psum), bfloat16``, without values that are usual.
        """
        if not self.is_sized:
            return f"{self.framework} {self.program_label} {self.strategy}"
        parts = [f"{self.framework} {self.collective} ({self.strategy})"]
        parts += [self.reduce_op] if self.reduce_op not in ("sum", "none") else []
        parts += [self.dtype] if self.dtype != "float32" else []
        parts += [self.placement.replace("_", " ")] if self.placement != "in_place" else []
        parts += [f"along {self.axes}"] if self.axes else []
        return ", ".join(parts)

    @property
    def file_stem(self) -> str:
        """The first part of the name of the case's baseline file, such as ``jax.all_reduce``."""
        return ".".join(filter(None, (self.framework, self.program_label, self.collective)))

    @property
    def file_name(self) -> str:
        """The name of the case's baseline file, such as ``jax.all_reduce.psum.json``."""
        return f"{self.file_stem}.{self.strategy}.json"

    @property
    def line_key(self) -> tuple[str, str, str, str, int]:
        """The key of the case's line in its baseline file; lines are sorted by it."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def family_key(self) -> tuple[object, ...]:
        """The key of the case's family: it is equal for cases that differ only in payload."""
        return (self.file_name, *self.line_key[:-1], self.protocol)

    @property
    def clock(self) -> Clock:
        return self.protocol.clock

    @property
    def rank_groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each collective; a single group of all ranks if `axes` is empty."""
        return group_ranks_along_axes(self.mesh, self.axes, self.ranks)

    @property
    def group_size(self) -> int:
        """The number of ranks over which a collective runs: the n of the busbw factor."""
        if not self.axes:
            return self.ranks
        extents = axis_extents(self.mesh)
        return math.prod(extents[name] for name in axis_names(self.axes))


T = TypeVar("T")


def convert_to(kind: type[T], *values: object, **changes: object) -> T:
    """Return a new `kind` (a dataclass) with fields copied from `values`.

    The value of a field is taken from `changes`, or else from the first of `values` that has an
    attribute with the name of the field. Otherwise the field has its default.
    """
    names = [f.name for f in fields(kind) if f.name not in changes]  # type: ignore[arg-type]
    same = {
        name: getattr(value, name)
        for value in reversed(values)
        for name in names
        if hasattr(value, name)
    }
    return kind(**same, **changes)
