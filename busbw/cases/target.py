"""Specs to Cases on the machine that a probe found: which devices, and what a Spec is on them.

Asks no hardware and starts no process; what a probe found is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.collectives import COLLECTIVES, DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model import (
    CNN,
    DENSE_ROWS,
    Case,
    Clock,
    Device,
    DeviceSet,
    EnvironmentKey,
    Probe,
    Protocol,
    Spec,
    TrainingStrategy,
    extents_of,
    payload_text,
)

from .grid import GridError
from .strategies import case_under, key_under

_REASON_CHARACTERS = 120

AUTO_ORDER = (Device.TPU, Device.GPU, Device.CPU)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The devices a session measures on, one set per framework that reaches them, and why."""

    device: Device
    why: str
    sets: Mapping[str, DeviceSet]
    unreached: Mapping[str, str]

    def key(self, spec: Spec) -> EnvironmentKey:
        """The Environment key of `spec`'s case; without ranks or a mesh it is on all there are."""
        lying = self.slice_key(spec)
        if spec.step == CNN:
            return key_under(TrainingStrategy(spec.strategy), lying)
        return replace(lying, mesh=spec.mesh or lying.mesh)

    def slice_key(self, spec: Spec) -> EnvironmentKey:
        """The same with the shape that the devices lie in, however ranks are laid out on them.

        Without a shape where only a part of the devices takes part.
        """
        found = self.sets[spec.framework]
        return EnvironmentKey(
            device_kind=found.device_kind,
            ranks=spec.ranks or found.ranks,
            cores=found.cores,
            mesh=found.mesh if spec.ranks in (None, found.ranks) else "",
            hosts=found.hosts,
            processes=found.processes,
        )


def choose_target(
    *, device: Device | None, ranks: int | None, probes: Sequence[Probe], named: Sequence[str]
) -> Target:
    """The devices to measure on: `device`, or with None the first class with two ranks or more.

    `named` frameworks were asked for by name and must reach the device; others that do not are
    listed in `Target.unreached`. Raises GridError with what was found.
    """
    tried: list[str] = []
    for candidate in (device,) if device else AUTO_ORDER:
        target, reason = _try_device(candidate, ranks, probes)
        if target is not None:
            _check_named(target, named)
            return _with_why(target, tried, asked=device is not None)
        tried.append(reason)
    raise GridError("; ".join(tried))


def _try_device(
    device: Device, ranks: int | None, probes: Sequence[Probe]
) -> tuple[Target | None, str]:
    sets: dict[str, DeviceSet] = {}
    reasons: dict[str, str] = {}
    for probe in probes:
        found = next((d for d in probe.devices if d.device is device), None)
        if found is None:
            reasons[probe.framework] = _shortened(probe.missing.get(device.value, "not found"))
        elif found.ranks < 2:
            reasons[probe.framework] = f"{found.ranks} rank ({found.device_kind}), two are needed"
        elif ranks is not None and ranks > found.ranks and not found.any_ranks:
            reasons[probe.framework] = (
                f"{found.ranks} ranks ({found.device_kind}), {ranks} asked for"
            )
        else:
            sets[probe.framework] = found
    if sets:
        return Target(device=device, why="", sets=sets, unreached=reasons), ""
    each = ", ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return None, f"no {device.value.upper()} to measure on ({each})"


def _shortened(reason: str) -> str:
    """A framework's own words, as many as fit into a sentence of ours."""
    return reason if len(reason) <= _REASON_CHARACTERS else reason[:_REASON_CHARACTERS] + "..."


def _check_named(target: Target, named: Sequence[str]) -> None:
    for framework in named:
        if framework in target.unreached:
            raise GridError(
                f"{framework} does not reach the {target.device.value.upper()}: "
                f"{target.unreached[framework]}"
            )


def _with_why(target: Target, tried: Sequence[str], *, asked: bool) -> Target:
    why = "asked for" if asked else "; ".join([*tried, "the first with two ranks or more"])
    return Target(device=target.device, why=why, sets=target.sets, unreached=target.unreached)


def resolve(spec: Spec, target: Target) -> Case:
    """The Case that `spec` is on `target`. Raises GridError with the reason if it is none there."""
    where = target.device.value.upper()
    if spec.framework not in target.sets:
        raise GridError(
            f"{spec.framework} does not reach the {where}: "
            f"{target.unreached.get(spec.framework, 'not probed')}"
        )
    found = target.sets[spec.framework]
    key = target.key(spec)
    if spec.step == CNN:
        return case_under(spec, key, found)
    _check_mesh(spec, key, where)
    case = Case(
        framework=spec.framework,
        payload_bytes=spec.payload_bytes,
        collective=spec.collective,
        strategy=_strategy(spec, found, where),
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        ranks=key.ranks,
        mesh=key.mesh,
        placement=spec.placement,
        protocol=_protocol(spec, found, where),
        axes=spec.axes,
        step=spec.step,
    )
    _check_blocks(case)
    return case


def _check_mesh(spec: Spec, key: EnvironmentKey, where: str) -> None:
    """--mesh lays out all ranks; a mesh of fewer would silently be another measurement."""
    if spec.mesh and math.prod(extents_of(spec.mesh)) != key.ranks:
        raise GridError(
            f"a mesh of {spec.mesh} has {math.prod(extents_of(spec.mesh))} ranks, "
            f"there are {key.ranks} ({where}); --ranks says how many to use"
        )


def _strategy(spec: Spec, found: DeviceSet, where: str) -> str:
    """The true strategy; collectives other than all-reduce have but one, the framework's own."""
    if spec.collective != "all_reduce" and spec.strategy == "default":
        return FRAMEWORKS[spec.framework].only_strategy
    strategy = found.strategies.get(spec.strategy)
    if strategy is None or spec.collective != "all_reduce":
        known = sorted(set(found.strategies)) if spec.collective == "all_reduce" else ["default"]
        raise GridError(
            f"{spec.framework} has no strategy {spec.strategy} for {spec.collective} on the "
            f"{where}; it has {', '.join(known)}"
        )
    return strategy


def _protocol(spec: Spec, found: DeviceSet, where: str) -> Protocol:
    """A training step's program is none of the chains."""
    program = f"{spec.step}-step-{DENSE_ROWS}-rows" if spec.step else found.program
    clock = _clock(spec, found, where)
    return Protocol(clock=clock, program=program, allocator=found.allocator)


def _clock(spec: Spec, found: DeviceSet, where: str) -> Clock:
    if spec.step:
        # What a step costs is what the host waits for; the device's clock knows collectives.
        return Clock.HOST
    if spec.clock == "default":
        return found.clocks[0]
    if Clock(spec.clock) not in found.clocks:
        raise GridError(
            f"{spec.framework} has no clock {spec.clock} on the {where}; "
            f"it has {', '.join(clock.value for clock in found.clocks)}"
        )
    return Clock(spec.clock)


def _check_blocks(case: Case) -> None:
    parts = COLLECTIVES[case.collective].parts(case.group_size)
    size = DTYPES[case.dtype].size_bytes
    if case.payload_bytes % (parts * size):
        raise GridError(
            f"a payload of {payload_text(case.payload_bytes)} is not {parts} equal blocks of "
            f"{case.dtype}, which {case.collective} over {case.group_size} ranks needs"
        )


def resolve_on(spec: Spec, devices: DeviceSet) -> tuple[Case, EnvironmentKey]:
    """The Case that `spec` is on `devices`, which need not be there, and its Environment key.

    Raises GridError with the reason if it is none there.
    """
    probe = Probe(
        framework=spec.framework, framework_path="", devices=(devices,), missing={}, versions={}
    )
    target = choose_target(
        device=devices.device, ranks=None, probes=[probe], named=[spec.framework]
    )
    return resolve(spec, target), target.key(spec)
