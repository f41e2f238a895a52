"""What is asked for and what is measured: Asked, Workload, Framework; Spec at collection, Case.

Knows no result and no file, and of the hardware only what a probe found. The workloads are in
`busbw.workloads`, one file each; their base class is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from .machine import DeviceSet, EnvironmentKey, Protocol, file_name_of, group_size_of, groups_of
from .words import Capability, Clock, payload_text


class GridError(ValueError):
    """A selection that cannot be measured: an empty grid, a device that was not found."""


class NotHereError(GridError):
    """A Spec that is for another machine than this one: not an error, but not measured here."""


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


@dataclass(frozen=True, kw_only=True)
class Workload(ABC):
    """What a rank runs: a collective by itself, or something that holds one.

    The fields say which collective that is; `axes` are the axes of the mesh that it runs over,
    such as ``y`` (empty: all).

    `kind` is the workload's name in tests, results and requests. `is_bare`: only the collective is
    timed, so that a bandwidth follows from the time. `own_strategies` are strategies of the
    workload instead of its collective; each is a case, with a payload of `own_payload_bytes`.
    """

    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""

    kind: ClassVar[str]
    is_bare: ClassVar[bool] = False
    own_strategies: ClassVar[tuple[str, ...]] = ()
    own_payload_bytes: ClassVar[int] = 0

    @classmethod
    def of_kind(cls, kind: str) -> type[Workload]:
        """The class of this kind. Raises ValueError with the known kinds."""
        known = {one.kind: one for one in cls.__subclasses__()}
        if kind not in known:
            raise ValueError(f"expected one of {', '.join(known)}, got {kind[:60]!r}")
        return known[kind]

    @classmethod
    def around(cls, other: Workload) -> Workload:
        shared = {one.name: getattr(other, one.name) for one in fields(Workload)}
        return cls(**shared)

    @property
    def word(self) -> str:
        """Its word in ids, tables and file names, such as ``dense_step``; "" if it is bare."""
        return "" if self.is_bare else f"{self.kind}_step"

    @classmethod
    @abstractmethod
    def check(cls, asked: Asked) -> None:
        """Raise GridError if the options ask for something that this workload does not have."""

    def key_on(self, spec: Spec, key: EnvironmentKey) -> EnvironmentKey:
        """The Environment key of `spec` on the devices of `key`, with the mesh of `spec` if any."""
        return replace(key, mesh=spec.mesh or key.mesh)

    @abstractmethod
    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        """`only` is the strategy of collectives that have just one. Raises GridError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """What the parent knows of a framework without importing it; what it reaches, its probe says.

    `strategies` are those of its all-reduce, by the names that `--strategies` takes, the default
    first; `only_strategy` is the one that its other collectives have. With `only_sums` it has sums
    over all ranks and nothing else. `workloads` are those that it has besides the bare collective,
    and `ring` the strategy whose all-reduce is a ring. `extra` is what installs it, such as ``tf``
    in ``busbw[tf]``, and `packages` are those that it can be installed as, with libraries of chips
    that nothing asks for; `oldest` is the first version that is measured. `compiles`: its programs
    can be compiled for chips that are not attached.
    `learns_digits`: it trains on the digits of scikit-learn. `injects`: extra work can be injected
    into its programs. A `scripted` one is always installed, and measured only when it is named.
    `environment` are variables to set before it starts, by capability; a value that the user has
    set takes precedence.
    """

    name: str
    strategies: tuple[str, ...]
    only_strategy: str
    workloads: tuple[type[Workload], ...]
    ring: str
    extra: str
    packages: tuple[str, ...]
    oldest: str = "0"
    only_sums: bool = False
    compiles: bool = False
    learns_digits: bool = False
    injects: bool = True
    scripted: bool = False
    environment: Mapping[Capability, Mapping[str, str]] = field(default_factory=dict)


class _HasWorkload:
    """The collective that a workload is, or holds."""

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
    (empty: that of the devices). With a `topology` it is not measured but compiled, for chips that
    need not be here, by `compiler` (empty: the only one).
    """

    framework: str
    payload_bytes: int
    workload: Workload
    strategy: str = "default"
    dtype: str = "float32"
    ranks: int | None = None
    mesh: str = ""
    clock: str = "default"
    topology: str = ""
    compiler: str = ""

    @property
    def id(self) -> str:
        """The pytest id, such as ``jax-default-float32-4K``; usual values are left out.

        Of what is compiled it begins with the topology, such as ``v5e:2x4``.
        """
        named = (
            (self.collective, "all_reduce"),
            (self.reduce_op, "sum none"),
            (self.placement, "in_place"),
            (self.clock, "default"),
        )
        parts = [self.topology, self.compiler, self.framework, self.workload.word]
        parts += [word for word, usual in named if word not in usual.split()]
        parts += [
            file_name_of(self.mesh),
            self.axes,
            self.strategy,
            self.dtype,
            payload_text(self.payload_bytes),
        ]
        return "-".join(filter(None, parts))


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
        kind = words.pop(1).removesuffix("_step") if len(words) == 4 else "collective"
        if len(words) != 3 or not all(words):
            return None
        framework, collective, strategy = words
        try:
            workload = Workload.of_kind(kind)(collective=collective)
        except ValueError:
            return None
        return cls(framework=framework, workload=workload, strategy=strategy)

    @property
    def name(self) -> str:
        """The case in one word, such as ``jax.all_reduce.psum.float32.4K``."""
        return ".".join((self.stem, self.strategy, self.dtype, payload_text(self.payload_bytes)))

    @property
    def group_name(self) -> str:
        """Such as ``jax all_reduce (psum)``; usual values are left out."""
        parts = [f"{self.framework} {self.collective} ({self.strategy})"]
        parts += [self.reduce_op] if self.reduce_op not in ("sum", "none") else []
        parts += [self.dtype] if self.dtype != "float32" else []
        parts += [self.placement.replace("_", " ")] if self.placement != "in_place" else []
        parts += [f"along {self.axes}"] if self.axes else []
        parts += [] if self.workload.is_bare else [f"in a {self.workload.kind} step"]
        return ", ".join(parts)

    @property
    def stem(self) -> str:
        """Without the strategy. A training step has its own: its times are no collective's."""
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
    are all that take part; with axes, in several groups at once. Where the workload holds a
    collective, the payload is that collective's, such as the gradient that a training step sums.
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
