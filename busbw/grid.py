"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process; what a probe found is an
argument.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, GridError, GridOptions, Spec, converted
from busbw.model.machine import (
    DeviceSet,
    EnvironmentKey,
    Probe,
    Protocol,
    check_layout,
    extents_of,
    groups_of,
)
from busbw.model.words import Clock, Device, payload_text

_REASON_CHARACTERS = 120

AUTO_ORDER = (Device.TPU, Device.GPU, Device.CPU)


def specs(request: GridOptions) -> tuple[Spec, ...]:
    """Return every Spec of the grid, in a stable order, payloads running fastest.

    A framework takes those collectives and strategies that it has. Raises GridError if a named one
    has none of them, if a collective is left without a placement or reduce op, if a payload is not
    a whole number of elements, or if nothing is left at all.
    """
    for name in request.collectives:
        _placements(name, request)
        _reduce_ops(name, request)
    reasons = {framework: _unknown(framework, request) for framework in request.frameworks}
    lacking = [reason for reason in reasons.values() if reason]
    if lacking and request.named:
        raise GridError(lacking[0])
    able = (framework for framework, reason in reasons.items() if not reason)
    grid = dict.fromkeys(spec for framework in able for spec in _of_framework(framework, request))
    if not grid:
        raise GridError(
            "; ".join(lacking) or "nothing to measure: no framework, dtype or payload is selected"
        )
    _check_elements(request)
    return tuple(grid)


def _unknown(framework: str, request: GridOptions) -> str:
    """Return why `framework` has nothing of the request; empty if it has something."""
    descriptor = FRAMEWORKS[framework]
    checks = [("none of the strategies", request.strategies, descriptor.strategies)]
    if descriptor.only_sums:
        checks += [("no", request.collectives, ("all_reduce",))]
        checks += [("no reduce op", request.reduce_ops, ("sum",))]
    for text, requested, names in checks:
        if set(requested).isdisjoint(names):
            return f"{framework} has {text} {', '.join(requested)}; it has {', '.join(names)}"
    if descriptor.only_sums and request.mesh:
        return f"{framework} lays ranks out in no mesh ({request.mesh})"
    return ""


def _of_framework(framework: str, request: GridOptions) -> Iterator[Spec]:
    descriptor = FRAMEWORKS[framework]
    for collective in request.collectives:
        is_all_reduce = collective == "all_reduce"
        if descriptor.only_sums and not is_all_reduce:
            continue
        strategies = descriptor.strategies if is_all_reduce else ("default",)
        for strategy, dtype, reduce_op, placement, size in itertools.product(
            (name for name in request.strategies if name in strategies),
            request.dtypes,
            ("sum",) if descriptor.only_sums else _reduce_ops(collective, request),
            _placements(collective, request),
            request.payloads,
        ):
            yield Spec(
                framework=framework,
                payload_bytes=size,
                collective=collective,
                reduce_op=reduce_op,
                placement=placement,
                axes=request.axes,
                strategy=strategy,
                dtype=dtype,
                ranks=request.ranks,
                mesh=request.mesh,
                clock=request.clock,
            )


def _placements(collective: str, request: GridOptions) -> tuple[str, ...]:
    """Return the requested placements that the collective has; `default` is its first."""
    placements = COLLECTIVES[collective].placements
    requested = [placements[0] if name == "default" else name for name in request.placements]
    return _select(collective, "placement", requested, placements)


def _reduce_ops(collective: str, request: GridOptions) -> tuple[str, ...]:
    """Return the requested reduce ops of the collective; ``none`` if it reduces nothing."""
    reduce_ops = COLLECTIVES[collective].reduce_ops
    return (
        _select(collective, "reduce op", request.reduce_ops, reduce_ops)
        if reduce_ops
        else ("none",)
    )


def _select(
    collective: str, kind: str, requested: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    selected = tuple(dict.fromkeys(name for name in requested if name in names))
    if not selected:
        raise GridError(
            f"{collective} has no {kind} {', '.join(requested)}; it has {', '.join(names)}"
        )
    return selected


def _check_elements(request: GridOptions) -> None:
    for dtype, size in itertools.product(request.dtypes, request.payloads):
        if size % DTYPES[dtype].size_bytes:
            raise GridError(
                f"a payload of {size} bytes is not a whole number of {dtype} "
                f"elements of {DTYPES[dtype].size_bytes} bytes"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The devices a session measures on, one set per framework that reaches them.

    `reason` is the reason for this device. `not_found` has, for each class of device that was
    looked for before, the reason why it is not measured on.
    """

    device: Device
    reason: str
    not_found: tuple[str, ...] = ()
    sets: Mapping[str, DeviceSet] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)

    def key(self, spec: Spec) -> EnvironmentKey:
        """Return the Environment key of `spec`'s case; by default it runs on all devices."""
        key = self.slice_key(spec)
        return replace(key, mesh=spec.mesh or key.mesh)

    def slice_key(self, spec: Spec) -> EnvironmentKey:
        """Return the key with the shape of the slice in place of the mesh of the ranks.

        The key has no shape if only some of the devices take part.
        """
        devices = self.sets[spec.framework]
        if spec.ranks in (None, devices.ranks):
            return devices.key
        return replace(devices.key, ranks=spec.ranks, mesh="")

    def out_of_reach(self, framework: str) -> GridError:
        device, reason = self.device.value.upper(), self.unreached.get(framework, "not probed")
        return GridError(f"{framework} does not reach the {device}: {reason}")


def choose_target(
    *, device: Device | None, ranks: int | None, probes: Sequence[Probe], named: Sequence[str]
) -> Target:
    """Return the devices to measure on: `device`, or the first class with two ranks or more.

    `named` frameworks must reach the device; other frameworks that do not are listed in
    `Target.unreached`. Raises GridError with the devices of each class.
    """
    tried: dict[Device, str] = {}
    for candidate in (device,) if device else AUTO_ORDER:
        sets, reasons = _reached(candidate, ranks, probes)
        if sets:
            target = Target(
                device=candidate,
                reason="requested" if device else _reason(candidate, tried, probes),
                not_found=tuple(tried.values()),
                sets=sets,
                unreached=reasons,
            )
            for framework in named:
                if framework in reasons:
                    raise target.out_of_reach(framework)
            return target
        each = ", ".join(f"{name}: {reason}" for name, reason in reasons.items())
        tried[candidate] = f"no {candidate.value.upper()} to measure on ({each})"
    raise GridError("; ".join(tried.values()))


def _reason(chosen: Device, tried: Mapping[Device, str], probes: Sequence[Probe]) -> str:
    """Return such as ``using CPU: no TPU or GPU found``; a device that cannot be used is named."""
    present = {devices.device for probe in probes for devices in probe.devices}
    absent = [device.value.upper() for device in tried if device not in present]
    refused = [reason for device, reason in tried.items() if device in present]
    reasons = [f"no {' or '.join(absent)} found"] if absent else []
    return f"using {chosen.value.upper()}: {'; '.join([*reasons, *refused]) or 'found'}"


def _reached(
    device: Device, ranks: int | None, probes: Sequence[Probe]
) -> tuple[dict[str, DeviceSet], dict[str, str]]:
    """Return the devices that frameworks reach, and why other frameworks reach none."""
    sets: dict[str, DeviceSet] = {}
    reasons: dict[str, str] = {}
    for probe in probes:
        devices = next((d for d in probe.devices if d.device is device), None)
        if devices is None:
            reason = probe.missing.get(device.value, "not found")
            shown = reason[:_REASON_CHARACTERS]
            reasons[probe.framework] = shown if shown == reason else f"{shown}..."
        elif devices.ranks < 2:
            reasons[probe.framework] = _single(devices, probe.framework)
        elif ranks is not None and ranks > devices.ranks and not devices.any_ranks:
            reasons[probe.framework] = (
                f"{devices.ranks} ranks ({devices.device_kind}), {ranks} asked for"
            )
        else:
            sets[probe.framework] = devices
    return sets, reasons


def _single(devices: DeviceSet, framework: str) -> str:
    """Return why one rank cannot be measured, and how it could be used."""
    text = f"{devices.ranks} rank ({devices.device_kind}), two are needed"
    if devices.device is Device.TPU:
        return f"{text}, and two processes cannot share a chip: libtpu belongs to one process"
    if devices.device is Device.GPU and FRAMEWORKS[framework].shares_devices:
        return f"{text}; without --ranks and --processes two processes share it"
    return text


def resolve(spec: Spec, target: Target) -> Case:
    """Return the Case of `spec` on `target`. Raises GridError if it is impossible there."""
    if spec.framework not in target.sets:
        raise target.out_of_reach(spec.framework)
    case, key = case_on(spec, target)
    try:
        if spec.mesh:
            check_layout(spec.mesh, key.hosts, key.processes)
    except ValueError as error:
        raise GridError(str(error)) from error
    return case


def case_on(spec: Spec, target: Target) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` and its Environment key, whatever hosts a mesh names.

    Raises GridError with the reason if it cannot be one.
    """
    devices, key = target.sets[spec.framework], target.key(spec)
    if spec.is_sized:
        _check_mesh(spec, key, devices)
        strategy, clock, program = _strategy(spec, devices), _clock(spec, devices), devices.program
        check_blocks(replace(spec, mesh=key.mesh), key.ranks)
    else:
        strategy, clock, program = spec.strategy, devices.clocks[0], "as-written"
    case = converted(
        Case,
        spec,
        strategy=strategy,
        ranks=key.ranks,
        mesh=key.mesh,
        protocol=Protocol(clock=clock, program=program, allocator=devices.allocator),
    )
    return case, key


def _check_mesh(spec: Spec, key: EnvironmentKey, devices: DeviceSet) -> None:
    """Raise GridError unless --mesh lays out all ranks: fewer would be another measurement."""
    if spec.mesh and math.prod(extents_of(spec.mesh)) != key.ranks:
        raise GridError(
            f"a mesh of {spec.mesh} has {math.prod(extents_of(spec.mesh))} ranks, "
            f"there are {key.ranks} ({devices.device.value.upper()}); --ranks says how many to use"
        )


def _strategy(spec: Spec, devices: DeviceSet) -> str:
    """Return the true strategy; collectives other than all-reduce have but the framework's own."""
    if spec.collective != "all_reduce" and spec.strategy == "default":
        return FRAMEWORKS[spec.framework].only_strategy
    strategy = devices.strategies.get(spec.strategy)
    if strategy is None or spec.collective != "all_reduce":
        names = sorted(set(devices.strategies)) if spec.collective == "all_reduce" else ["default"]
        raise GridError(
            f"{spec.framework} has no strategy {spec.strategy} for {spec.collective} on the "
            f"{devices.device.value.upper()}; it has {', '.join(names)}"
        )
    return strategy


def _clock(spec: Spec, devices: DeviceSet) -> Clock:
    if spec.clock == "default":
        return devices.clocks[0]
    if Clock(spec.clock) not in devices.clocks:
        raise GridError(
            f"{spec.framework} has no clock {spec.clock} on the {devices.device.value.upper()}; "
            f"it has {', '.join(clock.value for clock in devices.clocks)}"
        )
    return Clock(spec.clock)


def check_blocks(spec: Spec, ranks: int) -> None:
    """Raise GridError if the payload cannot be split over the groups of `ranks`."""
    group_size = len(groups_of(spec.mesh, spec.axes, ranks)[0])
    parts = COLLECTIVES[spec.collective].parts(group_size)
    size = DTYPES[spec.dtype].size_bytes
    if spec.payload_bytes % (parts * size):
        raise GridError(
            f"a payload of {payload_text(spec.payload_bytes)} is not {parts} equal blocks of "
            f"{spec.dtype}, which {spec.collective} over {group_size} ranks needs"
        )
