"""A Case and a Spec as results have them: flat, by the names that others read.

The fields of the workload stand beside the others; `step` is "" for a bare collective.
"""

from __future__ import annotations

from dataclasses import dataclass

from .case import Case, Spec, Workload
from .identity import Protocol

_BARE = "collective"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCase:
    """A Case, as it is in every schema from 2 on; before 5 there was no `step`."""

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

    @classmethod
    def of(cls, case: Case) -> StoredCase:
        """As `case` is written."""
        return cls(
            framework=case.framework,
            payload_bytes=case.payload_bytes,
            collective=case.collective,
            strategy=case.strategy,
            dtype=case.dtype,
            reduce_op=case.reduce_op,
            ranks=case.ranks,
            mesh=case.mesh,
            placement=case.placement,
            protocol=case.protocol,
            axes=case.axes,
            step=_step(case.workload),
        )

    @property
    def case(self) -> Case:
        """What was written. Raises ValueError for a `step` that is no workload's."""
        return Case(
            framework=self.framework,
            payload_bytes=self.payload_bytes,
            workload=_workload(self),
            strategy=self.strategy,
            dtype=self.dtype,
            ranks=self.ranks,
            mesh=self.mesh,
            protocol=self.protocol,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSpec:
    """A Spec, as results of what was compiled have it."""

    framework: str
    payload_bytes: int
    collective: str
    strategy: str
    dtype: str
    reduce_op: str
    ranks: int | None
    mesh: str
    axes: str
    placement: str
    clock: str
    step: str = ""

    @classmethod
    def of(cls, spec: Spec) -> StoredSpec:
        """As `spec` is written."""
        return cls(
            framework=spec.framework,
            payload_bytes=spec.payload_bytes,
            collective=spec.collective,
            strategy=spec.strategy,
            dtype=spec.dtype,
            reduce_op=spec.reduce_op,
            ranks=spec.ranks,
            mesh=spec.mesh,
            axes=spec.axes,
            placement=spec.placement,
            clock=spec.clock,
            step=_step(spec.workload),
        )

    @property
    def spec(self) -> Spec:
        """What was written. Raises ValueError for a `step` that is no workload's."""
        return Spec(
            framework=self.framework,
            payload_bytes=self.payload_bytes,
            workload=_workload(self),
            strategy=self.strategy,
            dtype=self.dtype,
            ranks=self.ranks,
            mesh=self.mesh,
            clock=self.clock,
        )


def _step(workload: Workload) -> str:
    return "" if workload.is_bare else workload.kind


def _workload(stored: StoredCase | StoredSpec) -> Workload:
    try:
        kind = Workload.of_kind(stored.step or _BARE)
    except ValueError as error:
        raise ValueError(f"step: {error}") from error
    return kind(
        collective=stored.collective,
        reduce_op=stored.reduce_op,
        placement=stored.placement,
        axes=stored.axes,
    )
