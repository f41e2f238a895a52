"""Options to CaseSpecs, and CaseSpecs to Cases on the devices that probes reported.

The functions compute values from values. They access no hardware and start no process: the devices
are arguments.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, CaseSpec, GridError, GridOptions, convert_to
from busbw.model.machine import (
    DeviceSet,
    EnvironmentKey,
    Probe,
    Protocol,
    check_mesh_hosts,
    group_ranks_along_axes,
    mesh_shape,
)
from busbw.model.words import DeviceClass, payload_text, plural

T = TypeVar("T")

DEVICE_PREFERENCE = (DeviceClass.TPU, DeviceClass.GPU, DeviceClass.CPU)


def select_specs(request: GridOptions) -> tuple[CaseSpec, ...]:
    """Return a CaseSpec for each requested combination that a framework supports.

    The order is stable; of two successive CaseSpecs usually only the payload differs.

    Raises:
        GridError: A framework that the user named supports no combination. Or a collective supports
            none of the requested placements or reduce operations, or no CaseSpec is left.

    """
    reasons = {
        framework: _unsupported_text(framework, request)
        for framework in (*request.frameworks, *request.absent_frameworks)
    }
    unsupported_reasons = [reason for reason in reasons.values() if reason]
    if unsupported_reasons and request.names_frameworks:
        raise GridError(unsupported_reasons[0])
    supporting_frameworks = (framework for framework, reason in reasons.items() if not reason)
    grid = dict.fromkeys(
        spec
        for framework in supporting_frameworks
        for spec in _case_specs_of_framework(framework, request)
    )
    if not grid:
        raise GridError(
            "; ".join(unsupported_reasons)
            or "nothing to measure: no framework, dtype or payload is selected"
        )
    return tuple(grid)


def _unsupported_text(framework: str, request: GridOptions) -> str:
    """Return the reason why `framework` supports no combination; empty if it supports some."""
    descriptor = FRAMEWORKS[framework]
    checks = [("none of the strategies", request.strategies, descriptor.strategies)]
    if descriptor.has_only_sums:
        checks += [("no", request.collectives, ("all_reduce",))]
        checks += [("no reduce op", request.reduce_ops, ("sum",))]
    for text, requested, names in checks:
        if set(requested).isdisjoint(names):
            return f"{framework} has {text} {', '.join(requested)}; it has {', '.join(names)}"
    if descriptor.has_only_sums and request.mesh:
        return f"{framework} lays ranks out in no mesh ({request.mesh})"
    return ""


def _case_specs_of_framework(framework: str, request: GridOptions) -> Iterator[CaseSpec]:
    """Yield the CaseSpecs of the requested combinations that `framework` supports.

    Raises GridError if a collective supports none of the requested placements or reduce operations.
    """
    descriptor = FRAMEWORKS[framework]
    for collective in request.collectives:
        is_all_reduce = collective == "all_reduce"
        if descriptor.has_only_sums and not is_all_reduce:
            continue
        strategies = descriptor.strategies if is_all_reduce else ("default",)
        reduce_ops = ("sum",) if descriptor.has_only_sums else COLLECTIVES[collective].reduce_ops
        placements = COLLECTIVES[collective].placements
        requested = [placements[0] if name == "default" else name for name in request.placement]
        for strategy, dtype, reduce_op, placement, size in itertools.product(
            (name for name in request.strategies if name in strategies),
            request.dtypes,
            _select_supported(collective, "reduce op", request.reduce_ops, reduce_ops)
            if reduce_ops
            else ("none",),
            _select_supported(collective, "placement", requested, placements),
            request.payloads,
        ):
            yield convert_to(
                CaseSpec,
                request,
                framework=framework,
                payload_bytes=size,
                collective=collective,
                reduce_op=reduce_op,
                placement=placement,
                strategy=strategy,
                dtype=dtype,
            )


def _select_supported(
    collective: str, kind: str, requested_names: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    """Return the requested names that are in `names`, each once. Raises GridError if none is.

    `kind` is the noun for such a name in the message, such as ``placement``.
    """
    selected = tuple(dict.fromkeys(name for name in requested_names if name in names))
    if not selected:
        raise GridError(
            f"{collective} has no {kind} {', '.join(requested_names)}; it has {', '.join(names)}"
        )
    return selected


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredDevices:
    """The class of device on which a session measures, with each framework's devices of this class.

    Attributes:
        device: The class of device.
        reason: The reason why this class was chosen.
        not_found: The reason why each class that was tried before cannot be used.
        device_sets: The devices, by the name of each framework that reaches them.
        unreached: The reason why each other framework does not reach the devices.

    """

    device: DeviceClass
    reason: str
    not_found: tuple[str, ...] = ()
    device_sets: Mapping[str, DeviceSet] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)

    def key(self, spec: CaseSpec) -> EnvironmentKey:
        """Return the environment key of the case of `spec`, with the mesh of its ranks.

        If `spec` names no mesh, the key has the shape of the devices.
        """
        key = self.key_with_device_shape(spec)
        return replace(key, mesh=spec.mesh or key.mesh)

    def key_with_device_shape(self, spec: CaseSpec) -> EnvironmentKey:
        """Return the environment key of the case of `spec`, with the shape of the devices as mesh.

        The shape of the devices is the shape of their slice. The key has no mesh if only some of
        the devices take part.
        """
        devices = self.device_sets[spec.framework]
        if spec.ranks in (None, devices.ranks):
            return devices.key
        return replace(devices.key, ranks=spec.ranks, mesh="")

    def unreached_error(self, framework: str) -> GridError:
        """Return an error that says why `framework` does not reach the devices."""
        device, reason = self.device.value.upper(), self.unreached.get(framework, "not probed")
        return GridError(f"{framework} does not reach the {device}: {reason}")


def choose_devices(
    *,
    device: DeviceClass | None,
    ranks: int | None,
    probes: Sequence[Probe],
    named_frameworks: Sequence[str],
) -> MeasuredDevices:
    """Return the devices on which the session measures.

    Args:
        device: The requested class of device. None stands for the first of TPU, GPU and CPU on
            which a framework has at least two ranks.
        ranks: The requested number of ranks; None for all devices.
        probes: The devices that each framework reaches.
        named_frameworks: The frameworks that the user named, which must reach the devices.

    Raises:
        GridError: No class of device can be used, or a named framework does not reach the devices.

    """
    refusals, header_texts = list[str](), list[str]()
    present = {devices.device for probe in probes for devices in probe.devices}
    for candidate in (device,) if device else DEVICE_PREFERENCE:
        name = candidate.value.upper()
        sets, reasons = _reachable_devices(candidate, ranks, probes)
        if sets:
            target = MeasuredDevices(
                device=candidate,
                reason="requested"
                if device
                else f"using {name}: {'; '.join(header_texts) or 'found'}",
                not_found=tuple(refusals),
                device_sets=sets,
                unreached=reasons,
            )
            for framework in named_frameworks:
                if framework in reasons:
                    raise target.unreached_error(framework)
            return target
        each = ", ".join(f"{framework}: {reason}" for framework, reason in reasons.items())
        refusals.append(f"no {name} to measure on ({each})")
        header_texts.append(refusals[-1] if candidate in present else f"no {name} found")
    raise GridError("; ".join(refusals))


def _reachable_devices(
    device: DeviceClass, ranks: int | None, probes: Sequence[Probe]
) -> tuple[dict[str, DeviceSet], dict[str, str]]:
    """Return the devices of a class by framework, and the reasons of the other frameworks.

    The reasons say why a framework cannot measure on devices of this class.
    """
    sets: dict[str, DeviceSet] = {}
    reasons: dict[str, str] = {}
    for probe in probes:
        devices = next((d for d in probe.devices if d.device is device), None)
        if devices is None:
            reason = probe.reason_by_missing_device.get(device.value, "not found")
            reasons[probe.framework] = textwrap.shorten(reason, 120, placeholder="...")
        elif devices.ranks < 2:
            reasons[probe.framework] = (
                f"{devices.ranks} rank ({devices.device_kind}), two are needed"
            )
        elif ranks is not None and ranks > devices.ranks and not devices.any_ranks:
            reasons[probe.framework] = (
                f"{devices.ranks} ranks ({devices.device_kind}), {ranks} requested"
            )
        else:
            sets[probe.framework] = devices
    return sets, reasons


def resolve_case(spec: CaseSpec, target: MeasuredDevices) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` on the devices of `target`, and its environment key.

    Raises GridError if the framework does not reach these devices, or they do not allow the case.
    """
    if spec.framework not in target.device_sets:
        raise target.unreached_error(spec.framework)
    case, key = resolve_case_without_hosts(spec, target)
    try:
        if spec.mesh:
            check_mesh_hosts(spec.mesh, key.hosts, key.processes)
    except ValueError as error:
        raise GridError(str(error)) from error
    return case, key


def resolve_case_without_hosts(
    spec: CaseSpec, target: MeasuredDevices
) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` and its environment key, without a check of the hosts.

    Raises GridError if the mesh, the strategy, the clock or the payload is impossible on the
    devices of `target`. `resolve_case` also checks whether the axes of the mesh fit the hosts.
    """
    devices, key = target.device_sets[spec.framework], target.key(spec)
    if spec.is_single_collective:
        mesh_ranks = math.prod(mesh_shape(spec.mesh)) if spec.mesh else key.ranks
        if mesh_ranks != key.ranks:
            raise GridError(
                f"a mesh of {spec.mesh} has {mesh_ranks} ranks, there are {key.ranks} "
                f"({devices.device.value.upper()}); --ranks says how many to use"
            )
        # Only all-reduce has several strategies.
        other = {"default": FRAMEWORKS[spec.framework].strategy_of_other_collectives}
        strategies = devices.strategies if spec.collective == "all_reduce" else other
        strategy = _find_choice(spec, devices, "strategy", spec.strategy, strategies)
        clocks = {"default": devices.clocks[0], **{clock.value: clock for clock in devices.clocks}}
        clock = _find_choice(spec, devices, "clock", spec.clock, clocks)
        program = devices.program
        check_equal_blocks(replace(spec, mesh=key.mesh), key.ranks)
    else:
        strategy, clock, program = spec.strategy, devices.clocks[0], "as-written"
    case = convert_to(
        Case,
        spec,
        strategy=strategy,
        ranks=key.ranks,
        mesh=key.mesh,
        protocol=Protocol(clock=clock, program=program, allocator=devices.allocator),
    )
    return case, key


def _find_choice(
    spec: CaseSpec, devices: DeviceSet, kind: str, name: str, choices: Mapping[str, T]
) -> T:
    """Return the value of `name` in `choices`. Raise GridError if `choices` lack the name.

    `kind` is the noun for such a name in the message, such as ``clock``. The other names in the
    message are the framework and collective of `spec`, and the class of `devices`.
    """
    if name not in choices:
        raise GridError(
            f"{spec.framework} has no {kind} {name} for {spec.collective} on the "
            f"{devices.device.value.upper()}; it has {', '.join(choices)}"
        )
    return choices[name]


def check_equal_blocks(spec: CaseSpec, ranks: int) -> None:
    """Raise GridError if the payload cannot be split into equal blocks of whole elements.

    `ranks` is the number of all ranks, which the axes of `spec` split into groups.
    """
    group_size = len(group_ranks_along_axes(spec.mesh, spec.axes, ranks)[0])
    parts = COLLECTIVES[spec.collective].payload_block_count(group_size)
    size = DTYPES[spec.dtype].size_bytes
    if spec.payload_bytes % (parts * size):
        raise GridError(
            f"a payload of {payload_text(spec.payload_bytes)} is not "
            f"{plural(parts, 'equal block')} of {spec.dtype}, which {spec.collective} over "
            f"{group_size} ranks needs"
        )
