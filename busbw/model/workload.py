"""What a rank runs, and what the parent knows of a framework: the base of `busbw.workloads`.

A workload's file has its class; a framework's descriptor is in `busbw.frameworks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from .machine import DeviceSet, EnvironmentKey
from .words import Capability

if TYPE_CHECKING:
    from .case import Asked, Case, Spec


@dataclass(frozen=True, kw_only=True)
class Workload(ABC):
    """What a rank runs: a collective by itself, or something that holds one.

    The fields say which collective that is; `axes` are the axes of the mesh that it runs over,
    such as ``y`` (empty: all).

    `kind` is the workload's name in tests, results and requests. `is_bare`: only the collective is
    timed, so that a bandwidth follows from the time. `is_sized`: it has one collective, of one
    payload. `own_strategies` are strategies of the
    workload instead of its collective; each is a case, with a payload of `own_payload_bytes`.
    """

    collective: str = "all_reduce"
    reduce_op: str = "sum"
    placement: str = "in_place"
    axes: str = ""

    kind: ClassVar[str]
    is_bare: ClassVar[bool] = False
    is_sized: ClassVar[bool] = True
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
    def around(cls, other: object, **own: Any) -> Workload:
        """With the collective of `other`, and with `own` fields."""
        shared = {one.name: getattr(other, one.name) for one in fields(Workload)}
        return cls(**shared, **own)

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
    into its programs. `shares_devices`: several of its processes can measure on one GPU. A
    `scripted` one is always installed, and measured only when it is named.
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
    shares_devices: bool = False
    scripted: bool = False
    environment: Mapping[Capability, Mapping[str, str]] = field(default_factory=dict)
