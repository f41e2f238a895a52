"""Specs to Cases on the machine that a probe found: which devices, and what a Spec is on them.

Asks no hardware and starts no process; what a probe found is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, Device, DeviceSet, EnvironmentKey, GridError, Probe, Spec

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
        return spec.workload.key_on(spec, self.slice_key(spec))

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
    if spec.framework not in target.sets:
        raise GridError(
            f"{spec.framework} does not reach the {target.device.value.upper()}: "
            f"{target.unreached.get(spec.framework, 'not probed')}"
        )
    found, only = target.sets[spec.framework], FRAMEWORKS[spec.framework].only_strategy
    return spec.workload.case_on(spec, target.key(spec), found, only)


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
