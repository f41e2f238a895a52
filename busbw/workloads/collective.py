"""A collective by itself: the times make bandwidths."""

from __future__ import annotations

import math
from dataclasses import dataclass

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES
from busbw.model.case import Asked, Case, GridError, Spec
from busbw.model.machine import DeviceSet, EnvironmentKey, Protocol, extents_of, groups_of
from busbw.model.words import Clock, payload_text
from busbw.model.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Collective(Workload):
    """One collective after another, or with the clock `dispatch` a single one."""

    kind = "collective"
    is_bare = True

    @classmethod
    def check(cls, asked: Asked) -> None:
        """Raise GridError for what the collective does not have."""

    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        return case_with(spec, key, found, only, _clock(spec, found), found.program)


def case_with(
    spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str, clock: Clock, program: str
) -> Case:
    """The Case of `spec`, which is measured by `program` and `clock`. Raises GridError."""
    _check_mesh(spec, key, found)
    case = Case(
        framework=spec.framework,
        payload_bytes=spec.payload_bytes,
        workload=spec.workload,
        strategy=_strategy(spec, found, only),
        dtype=spec.dtype,
        ranks=key.ranks,
        mesh=key.mesh,
        protocol=Protocol(clock=clock, program=program, allocator=found.allocator),
    )
    check_blocks(case, case.ranks)
    return case


def _check_mesh(spec: Spec, key: EnvironmentKey, found: DeviceSet) -> None:
    """--mesh lays out all ranks; a mesh of fewer would silently be another measurement."""
    if spec.mesh and math.prod(extents_of(spec.mesh)) != key.ranks:
        raise GridError(
            f"a mesh of {spec.mesh} has {math.prod(extents_of(spec.mesh))} ranks, "
            f"there are {key.ranks} ({found.device.value.upper()}); --ranks says how many to use"
        )


def _strategy(spec: Spec, found: DeviceSet, only: str) -> str:
    """The true strategy; collectives other than all-reduce have but one, the framework's own."""
    if spec.strategy in spec.workload.own_strategies:
        return spec.strategy
    if spec.collective != "all_reduce" and spec.strategy == "default":
        return only
    strategy = found.strategies.get(spec.strategy)
    if strategy is None or spec.collective != "all_reduce":
        known = sorted(set(found.strategies)) if spec.collective == "all_reduce" else ["default"]
        raise GridError(
            f"{spec.framework} has no strategy {spec.strategy} for {spec.collective} on the "
            f"{found.device.value.upper()}; it has {', '.join(known)}"
        )
    return strategy


def _clock(spec: Spec, found: DeviceSet) -> Clock:
    if spec.clock == "default":
        return found.clocks[0]
    if Clock(spec.clock) not in found.clocks:
        raise GridError(
            f"{spec.framework} has no clock {spec.clock} on the {found.device.value.upper()}; "
            f"it has {', '.join(clock.value for clock in found.clocks)}"
        )
    return Clock(spec.clock)


def check_blocks(case: Case | Spec, ranks: int) -> None:
    """Raise GridError if the payload cannot be split over the groups of `ranks`."""
    group_size = len(groups_of(case.mesh, case.axes, ranks)[0])
    parts = COLLECTIVES[case.collective].parts(group_size)
    size = DTYPES[case.dtype].size_bytes
    if case.payload_bytes % (parts * size):
        raise GridError(
            f"a payload of {payload_text(case.payload_bytes)} is not {parts} equal blocks of "
            f"{case.dtype}, which {case.collective} over {group_size} ranks needs"
        )
