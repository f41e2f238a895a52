"""What is asked for: a Spec at collection, a Case on a machine, a Plan of how hard to measure.

Knows no hardware, no result and no file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .identity import CaseKey, Protocol
from .mesh import AXES, extents_of, groups_of
from .words import MIB, Clock, Extra, payload_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What was asked for, known at collection, with no hardware.

    `mesh` is the shape that the ranks are laid out in, such as ``2x4`` (empty: as the devices
    lie), `axes` those of its axes that the collective runs over, such as ``y`` (empty: all).
    `step` is the training step that the collective is a part of, and that is timed, such as
    ``dense`` (empty: the collective by itself).
    """

    framework: str
    payload_bytes: int
    collective: str = "all_reduce"
    strategy: str = "default"
    dtype: str = "float32"
    reduce_op: str = "sum"
    ranks: int | None = None
    mesh: str = ""
    axes: str = ""
    placement: str = "in_place"
    clock: str = "default"
    step: str = ""

    @property
    def id(self) -> str:
        """The pytest id, such as ``jax-default-float32-4K``; what is usual is left out."""
        named = (
            (self.collective, "all_reduce"),
            (self.reduce_op, "sum none"),
            (self.placement, "in_place"),
            (self.clock, "default"),
        )
        parts = [self.framework, *([f"{self.step}_step"] if self.step else [])]
        parts += [word for word, usual in named if word not in usual.split()]
        parts += [self.mesh] if self.mesh else []
        parts += [self.axes] if self.axes else []
        return "-".join((*parts, self.strategy, self.dtype, payload_text(self.payload_bytes)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A Spec resolved on the machine that the probe found. Two equal Cases are comparable.

    `protocol` says how it is measured; unlike is never compared with unlike. `ranks` are all that
    take part; with `axes`, in several groups at once. With a `step`, whole training steps are
    timed, of which the collective is a part: the fields still say what that collective is, and the
    payload is the gradient that it sums.
    """

    framework: str
    payload_bytes: int
    collective: str
    strategy: str
    dtype: str
    reduce_op: str
    ranks: int
    mesh: str
    placement: str
    protocol: Protocol
    axes: str = ""
    step: str = ""

    @property
    def key(self) -> CaseKey:
        """What names it on its machine."""
        return CaseKey(
            framework=self.framework,
            collective=self.collective,
            strategy=self.strategy,
            dtype=self.dtype,
            reduce_op=self.reduce_op,
            placement=self.placement,
            axes=self.axes,
            step=self.step,
            payload_bytes=self.payload_bytes,
        )

    @property
    def name(self) -> str:
        """The case in one word, such as ``jax.all_reduce.psum.float32.4K``."""
        return self.key.name

    @property
    def group_name(self) -> str:
        """What all sizes of one kind share, such as ``jax all_reduce (psum)``."""
        return self.key.group_name

    @property
    def clock(self) -> Clock:
        """The clock that the times are read from."""
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
        extents = extents_of(self.mesh)
        return math.prod(extents[AXES.index(name)] for name in self.axes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How hard to measure. Never changes what is measured.

    A case is sampled until it has `samples` samples, or at least two and `budget_s` seconds
    of sampling are over. The anchor is sampled beside it for `anchor_budget_s` seconds, once at
    least; 0: not at all.
    """

    launches: int = 3
    samples: int = 10
    min_sample_s: float = 0.01
    budget_s: float = 0.12
    anchor_budget_s: float = 0.03
    timeout_s: float = 120.0
    seed: int = 0
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """More work than the case asks for, really done, so that the gate can be tried.

    The amount is in seconds, seconds per byte of payload, or a `share` of the case's own time
    (`delay`, `sleep`), a `share` of the payload (`payload`), or bytes (`memory`). Without
    `payloads` it befalls all of them.
    """

    extra: Extra
    seconds: float | None = None
    seconds_per_byte: float | None = None
    share: float | None = None
    limit_bytes: int | None = None
    payloads: tuple[int, ...] = ()

    def befalls(self, case: Case) -> bool:
        """Whether `case` is one of those that it is for."""
        return not self.payloads or case.payload_bytes in self.payloads

    def delay_s(self, without_s: float, payload_bytes: int) -> float:
        """How much longer what takes `without_s` is to take."""
        return (
            (self.seconds or 0.0)
            + (self.seconds_per_byte or 0.0) * payload_bytes
            + (self.share or 0.0) * without_s
        )

    @property
    def text(self) -> str:
        """As it is asked for, such as ``delay:5%@1M``."""
        if self.share is not None:
            amount = f"{100 * self.share:g}%"
        elif self.seconds is not None:
            amount = f"{1e6 * self.seconds:g}us"
        elif self.seconds_per_byte is not None:
            amount = f"{1e6 * MIB * self.seconds_per_byte:g}us/M"
        else:
            amount = payload_text(self.limit_bytes or 0)
        where = "+".join(map(payload_text, self.payloads))
        return f"{self.extra.value}:{amount}" + (f"@{where}" if where else "")
