"""Turn options into CaseSpecs, and CaseSpecs into Cases on the devices that probes reported.

The functions access no hardware and start no process: the devices are arguments.
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
from busbw.model.case import Case, CaseSpec, GridError, GridOptions, dataclass_from
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


def select_specs(options: GridOptions) -> tuple[CaseSpec, ...]:
    """Return a CaseSpec for each requested combination of values that a framework supports.

    The order is always the same: usually two successive CaseSpecs differ only in their payload.

    Raises:
        GridError: A framework that the user named supports no combination. Or a collective supports
            none of the requested placements or reduce operations, or no CaseSpec is left.

    """
    reasons = {
        framework: _unsupported_text(framework, options)
        for framework in (*options.frameworks, *options.absent_frameworks)
    }
    unsupported_reasons = [reason for reason in reasons.values() if reason]
    if unsupported_reasons and options.names_frameworks:
        raise GridError(unsupported_reasons[0])
    supporting_frameworks = (framework for framework, reason in reasons.items() if not reason)
    grid = dict.fromkeys(
        spec
        for framework in supporting_frameworks
        for spec in _case_specs_of_framework(framework, options)
    )
    if not grid:
        raise GridError(
            "; ".join(unsupported_reasons)
            or "nothing to measure: no framework, dtype or payload is selected"
        )
    return tuple(grid)


def _unsupported_text(framework: str, options: GridOptions) -> str:
    """Return the reason why `framework` supports no requested combination; otherwise empty."""
    descriptor = FRAMEWORKS[framework]
    checks = [("none of the strategies", options.strategies, descriptor.strategies)]
    if descriptor.has_only_sums:
        checks += [("no", options.collectives, ("all_reduce",))]
        checks += [("no reduce op", options.reduce_ops, ("sum",))]
    for text, requested, names in checks:
        if set(requested).isdisjoint(names):
            return f"{framework} has {text} {', '.join(requested)}; it has {', '.join(names)}"
    if descriptor.has_only_sums and options.mesh:
        return f"{framework} lays ranks out in no mesh ({options.mesh})"
    return ""


def _case_specs_of_framework(framework: str, options: GridOptions) -> Iterator[CaseSpec]:
    """Yield the CaseSpecs of the requested combinations that `framework` supports.

    Raises GridError if a collective supports none of the requested placements or reduce operations.
    """
    descriptor = FRAMEWORKS[framework]
    for collective in options.collectives:
        is_all_reduce = collective == "all_reduce"
        if descriptor.has_only_sums and not is_all_reduce:
            continue
        strategies = descriptor.strategies if is_all_reduce else ("default",)
        reduce_ops = ("sum",) if descriptor.has_only_sums else COLLECTIVES[collective].reduce_ops
        placements = COLLECTIVES[collective].placements
        requested = [placements[0] if name == "default" else name for name in options.placement]
        for strategy, dtype, reduce_op, placement, size in itertools.product(
            (name for name in options.strategies if name in strategies),
            options.dtypes,
            _select_supported_names(collective, "reduce op", options.reduce_ops, reduce_ops)
            if reduce_ops
            else ("none",),
            _select_supported_names(collective, "placement", requested, placements),
            options.payloads,
        ):
            yield dataclass_from(
                CaseSpec,
                options,
                framework=framework,
                payload_bytes=size,
                collective=collective,
                reduce_op=reduce_op,
                placement=placement,
                strategy=strategy,
                dtype=dtype,
            )


def _select_supported_names(
    collective: str, kind: str, requested_names: Sequence[str], supported_names: Sequence[str]
) -> tuple[str, ...]:
    """Return the requested names that `collective` supports, each once.

    Raises GridError if it supports none of them. `kind` is the noun for such a name in the message,
    such as ``placement``.
    """
    selected = tuple(dict.fromkeys(name for name in requested_names if name in supported_names))
    if not selected:
        raise GridError(
            f"{collective} has no {kind} {', '.join(requested_names)}; "
            f"it has {', '.join(supported_names)}"
        )
    return selected


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredDevices:
    """The devices on which a session measures, which all are of the same class, by framework.

    Attributes:
        device: The class of device.
        reason: The reason why this class was chosen.
        not_found: The reasons why the classes that busbw prefers to this class cannot be used.
        device_sets: The devices of each framework that reaches such devices, by framework.
        unreached: The reason why each other framework reaches no such device, by framework.

    """

    device: DeviceClass
    reason: str
    not_found: tuple[str, ...] = ()
    device_sets: Mapping[str, DeviceSet] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)

    def key(self, spec: CaseSpec) -> EnvironmentKey:
        """Return the environment key of the case of `spec`.

        The mesh in the key is the mesh of `spec` or, if `spec` has none, the shape of the devices.
        """
        key = self.key_with_device_shape(spec)
        return replace(key, mesh=spec.mesh or key.mesh)

    def key_with_device_shape(self, spec: CaseSpec) -> EnvironmentKey:
        """Return the environment key of the case of `spec`, with the shape of the devices as mesh.

        The shape of the devices is the shape of their slice. If only some of the devices take part,
        the key has no mesh.
        """
        devices = self.device_sets[spec.framework]
        if spec.ranks in (None, devices.ranks):
            return devices.key
        return replace(devices.key, ranks=spec.ranks, mesh="")

    def unreached_error(self, framework: str) -> GridError:
        """Return the error that `framework` does not reach the devices, with the reason."""
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
    """Return two dictionaries by framework: devices of a class, and reasons why there are none.

    A framework that cannot measure on devices of this class is only in the second dictionary.
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


def resolve_case(spec: CaseSpec, measured_devices: MeasuredDevices) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` on the session's devices, and the environment key of the Case.

    Raises GridError if the framework of `spec` does not reach these devices, or if the case is
    impossible on these devices.
    """
    if spec.framework not in measured_devices.device_sets:
        raise measured_devices.unreached_error(spec.framework)
    case, key = resolve_case_without_hosts(spec, measured_devices)
    try:
        if spec.mesh:
            check_mesh_hosts(spec.mesh, key.hosts, key.processes)
    except ValueError as error:
        raise GridError(str(error)) from error
    return case, key


def resolve_case_without_hosts(
    spec: CaseSpec, measured_devices: MeasuredDevices
) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` on the session's devices, and the environment key of the Case.

    Raises GridError if the mesh, the strategy, the clock or the payload is impossible on these
    devices. Unlike `resolve_case`, this function does not check whether the mesh fits the hosts.
    """
    devices, key = measured_devices.device_sets[spec.framework], measured_devices.key(spec)
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
    case = dataclass_from(
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
    """Return ``choices[name]``. Raise GridError if `choices` lack the name.

    `kind` is the noun for such a name in the message, such as ``clock``. The message also has the
    framework and collective of `spec`, and the class of `devices`.
    """
    if name not in choices:
        raise GridError(
            f"{spec.framework} has no {kind} {name} for {spec.collective} on the "
            f"{devices.device.value.upper()}; it has {', '.join(choices)}"
        )
    return choices[name]


def check_equal_blocks(spec: CaseSpec, ranks: int) -> None:
    """Raise GridError if the payload of `spec` cannot be split into equal blocks for the ranks.

    A block has only whole elements. `ranks` is the number of all ranks, which the axes of `spec`
    split into groups.
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
