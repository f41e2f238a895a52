"""Requested cases (CaseSpec), cases on a machine (Case), and the options that select cases.

No class here holds a measured result. All that a Case knows about the hardware was reported by a
probe. The class Framework, which describes a framework, is here, too. The instances of Framework,
one for each framework, are in `busbw.frameworks`.
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
ALL_COLLECTIVES_WORD = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The collective that the ranks run, or a user's program with all its collectives.

    This is the base class of CaseSpec and Case, which add the strategy, the ranks and the mesh.

    Attributes:
        framework: The name of the framework, such as ``jax``.
        payload_bytes: The payload in bytes; without a meaning for a user's program.
        dtype: The type of the elements.
        collective: The name of the collective, such as ``all_reduce``; `ALL_COLLECTIVES_WORD` for a
            program.
        reduce_op: ``sum``, ``max`` or ``min``; ``none`` for a collective that reduces nothing.
        placement: ``in_place`` or ``out_of_place``.
        axes: The axes of the mesh along which the collective runs, such as ``y``; if empty, the
            collective runs over all ranks.
        program: The function that makes the user's program, such as
            ``perf/programs.py:train_step``, or the file of the program's HLO; empty for a single
            collective.

    """

    framework: str
    payload_bytes: Payload
    dtype: str = "float32"
    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""
    program: str = ""

    @property
    def is_single_collective(self) -> bool:
        """Whether the workload is a single collective, which has a payload and thus a bandwidth."""
        return self.collective != ALL_COLLECTIVES_WORD

    @property
    def program_label(self) -> str:
        """``program`` for a user's program, as a part of ids and file names; otherwise empty."""
        return "" if self.is_single_collective else "program"


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """The facts about a framework that are known without importing the framework.

    Attributes:
        name: The name in options, such as ``jax``.
        strategies: The words that --strategies accepts for all-reduce; the first word is
            ``default``, which stands for a strategy that depends on the devices.
        strategy_of_other_collectives: The strategy of all collectives other than all-reduce.
        pip_extra: The extra of busbw's package that installs the framework, such as ``tf`` in
            ``busbw[tf]``.
        packages: The names of the packages that may provide the framework, and of libraries for
            chips that these packages do not require, such as ``libtpu``.
        has_only_sums: Whether the framework's only collective is an all-reduce of sums over all
            ranks.
        can_share_devices: Whether several processes of the framework can measure on the same GPU.
        is_scripted: Whether the framework simulates measurements, for tests. A scripted framework
            is always installed, and is measured only if an option names it.
        environment: Environment variables of the framework's workers. A variable that the user has
            set keeps the user's value.

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
    """The error if the selected cases cannot be measured, for example if no case is selected.

    The message tells the user the reason, such as a missing device.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class GridOptions:
    """The values of the options that select cases: each combination of the values is a case.

    The word ``default`` stands for the default of each framework or collective.

    Attributes:
        frameworks: The installed frameworks to measure.
        absent_frameworks: The frameworks that are not installed but have baselines: their cases are
            reported as SKIPPED.
        names_frameworks: Whether the user named the frameworks. If so, a framework that supports no
            combination is an error. If not, such a framework is skipped.
        strategies: The names of strategies, such as ``ring``.
        collectives: The names of collectives, such as ``all_reduce``.
        reduce_ops: The reduce operations, such as ``sum``.
        placement: The requested placements, such as ``in_place``.
        dtypes: The types of elements, such as ``float32``.
        payloads: The payloads in bytes.
        ranks: The number of ranks; None for all devices.
        mesh: The shape of the ranks, such as ``2x4``; empty for the shape of the devices.
        axes: The axes of the mesh along which collectives run, such as ``y``; empty for all axes.
        clock: The name of a `Clock`, or ``default``.

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
    """A requested case, as pytest collects it before the hardware is known.

    Attributes:
        strategy: The name of a strategy; ``default`` until a probe tells the actual strategy. For a
            user's program, the name of the program.
        ranks: The number of ranks; None for all devices.
        mesh: The shape in which ranks are arranged, such as ``2x4`` or ``hosts:2,devices:4``; empty
            for the shape of the devices.
        clock: The name of a `Clock`; ``default`` until a probe tells the actual clock.

    """

    strategy: str = "default"
    ranks: Count | None = None
    mesh: Mesh = ""
    clock: str = "default"

    @property
    def id(self) -> str:
        """The id of the case's test in pytest, such as ``jax-default-float32-4K``.

        The usual values of collective, reduce op, placement and clock are left out.
        """
        if not self.is_single_collective:
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
    def label_parts(self) -> tuple[str, ...]:
        """The collective, reduce op, placement, strategy and dtype of the case.

        The label of a failed case consists of the framework and these parts. Failed cases with the
        same label and outcome share a line at the end of the terminal output.
        """
        return (self.collective, self.reduce_op, self.placement, self.strategy, self.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(Workload):
    """A case on a machine: a requested case with actual values in place of defaults.

    The times of two equal Cases can be compared.

    Attributes:
        strategy: The actual strategy, such as ``psum``, never ``default``. For a user's program,
            the name of the program.
        ranks: The number of all ranks that take part. With `axes` the ranks form several groups,
            and each group runs a collective of its own at the same time.
        mesh: The shape in which ranks are arranged, such as ``2x4``; empty if they have no shape.
        protocol: The way in which the time of the case is measured.

    """

    strategy: str
    ranks: Count
    mesh: Mesh
    protocol: Protocol

    def validate(self) -> None:
        """Raise ValueError if `mesh` lacks one of `axes`, or if `mesh` does not have `ranks` ranks.

        If `axes` is empty, nothing is checked. The message begins with the name of the wrong field.
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
        if not self.is_single_collective:
            return ".".join((self.framework, self.program_label, self.strategy))
        return ".".join(
            (self.file_stem, self.strategy, self.dtype, payload_text(self.payload_bytes))
        )

    @property
    def family_name(self) -> str:
        """The name of the case's family, for tables: ``jax all_reduce (psum), bfloat16``.

        A family has the cases that differ only in payload. Usual values, such as float32, are left
        out of the name.
        """
        if not self.is_single_collective:
            return f"{self.framework} {self.program_label} {self.strategy}"
        parts = [f"{self.framework} {self.collective} ({self.strategy})"]
        parts += [self.reduce_op] if self.reduce_op not in ("sum", "none") else []
        parts += [self.dtype] if self.dtype != "float32" else []
        parts += [self.placement.replace("_", " ")] if self.placement != "in_place" else []
        parts += [f"along {self.axes}"] if self.axes else []
        return ", ".join(parts)

    @property
    def file_stem(self) -> str:
        """The case's framework and collective, which begin file names: ``jax.all_reduce``."""
        return ".".join(filter(None, (self.framework, self.program_label, self.collective)))

    @property
    def file_name(self) -> str:
        """The name of the case's baseline file, such as ``jax.all_reduce.psum.json``."""
        return f"{self.file_stem}.{self.strategy}.json"

    @property
    def line_key(self) -> tuple[str, str, str, str, int]:
        """The key of the case's line within its baseline file, whose lines are sorted by this key.

        The key is the dtype, reduce op, placement, axes and payload (in bytes) of the case.
        """
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)

    @property
    def family_key(self) -> tuple[object, ...]:
        """The key of the case's family: equal for all cases that differ only in payload."""
        return (self.file_name, *self.line_key[:-1], self.protocol)

    @property
    def clock(self) -> Clock:
        return self.protocol.clock

    @property
    def rank_groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group that runs a collective; a single group if `axes` is empty."""
        return group_ranks_along_axes(self.mesh, self.axes, self.ranks)

    @property
    def group_size(self) -> int:
        """The number of ranks over which each collective runs: the n in the formula of busbw."""
        if not self.axes:
            return self.ranks
        extents = axis_extents(self.mesh)
        return math.prod(extents[name] for name in axis_names(self.axes))


T = TypeVar("T")


def dataclass_from(kind: type[T], *sources: object, **field_values: object) -> T:
    """Return a new instance of the dataclass `kind`, with fields copied from other objects.

    Args:
        kind: The dataclass.
        sources: Objects whose attributes are copied to the fields of the same names. If several
            objects have an attribute, the value of the first of these objects is copied.
        field_values: Values of fields, by the name of the field. These values take precedence over
            the attributes of `sources`.

    Returns:
        The instance. A field without a value in `field_values` and `sources` has its default.

    """
    names = [f.name for f in fields(kind) if f.name not in field_values]  # type: ignore[arg-type]
    same = {
        name: getattr(source, name)
        for source in reversed(sources)
        for name in names
        if hasattr(source, name)
    }
    return kind(**same, **field_values)
