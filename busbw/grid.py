"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process; what a probe found is an
argument.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Asked, Case, GridError, Spec
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
from busbw.model.workload import ALL, Workload

_REASON_CHARACTERS = 120

AUTO_ORDER = (Device.TPU, Device.GPU, Device.CPU)


def specs(asked: Asked) -> tuple[Spec, ...]:
    """Every Spec of the grid, in a stable order, payloads running fastest.

    A framework takes those collectives and strategies that it has. Raises GridError if a named one
    has none of them, if a collective is left without a placement or reduce op, if a payload is not
    a whole number of elements, or if nothing is left at all.
    """
    for name in asked.collectives:
        _placements(name, asked)
        _reduce_ops(name, asked)
    reasons = {framework: _unknown(framework, asked) for framework in asked.frameworks}
    lacking = [reason for reason in reasons.values() if reason]
    if lacking and asked.named:
        raise GridError(lacking[0])
    able = (framework for framework, reason in reasons.items() if not reason)
    grid = dict.fromkeys(spec for framework in able for spec in _of_framework(framework, asked))
    if not grid:
        raise GridError(
            "; ".join(lacking) or "nothing to measure: no framework, dtype or payload is selected"
        )
    _check_elements(asked)
    return tuple(grid)


def _unknown(framework: str, asked: Asked) -> str:
    """Why `framework` has nothing of what was asked for; empty if it has something."""
    known = FRAMEWORKS[framework]
    found = [("none of the strategies", asked.strategies, known.strategies)]
    if known.only_sums:
        found += [("no", asked.collectives, ("all_reduce",))]
        found += [("no reduce op", asked.reduce_ops, ("sum",))]
    for what, wanted, names in found:
        if set(wanted).isdisjoint(names):
            return f"{framework} has {what} {', '.join(wanted)}; it has {', '.join(names)}"
    if known.only_sums and asked.mesh:
        return f"{framework} lays ranks out in no mesh ({asked.mesh})"
    return ""


def _of_framework(framework: str, asked: Asked) -> Iterator[Spec]:
    known = FRAMEWORKS[framework]
    for collective in asked.collectives:
        is_all_reduce = collective == "all_reduce"
        if known.only_sums and not is_all_reduce:
            continue
        strategies = known.strategies if is_all_reduce else ("default",)
        for strategy, dtype, reduce_op, placement, size in itertools.product(
            (name for name in asked.strategies if name in strategies),
            asked.dtypes,
            ("sum",) if known.only_sums else _reduce_ops(collective, asked),
            _placements(collective, asked),
            asked.payloads,
        ):
            yield Spec(
                framework=framework,
                payload_bytes=size,
                workload=Workload(
                    collective=collective,
                    reduce_op=reduce_op,
                    placement=placement,
                    axes=asked.axes,
                ),
                strategy=strategy,
                dtype=dtype,
                ranks=asked.ranks,
                mesh=asked.mesh,
                clock=asked.clock,
            )


def _placements(collective: str, asked: Asked) -> tuple[str, ...]:
    """The placements asked for that the collective has; `default` is its first."""
    known = COLLECTIVES[collective].placements
    wanted = [known[0] if name == "default" else name for name in asked.placements]
    return _known(collective, "placement", wanted, known)


def _reduce_ops(collective: str, asked: Asked) -> tuple[str, ...]:
    """The reduce ops asked for that the collective has; ``none`` for one that reduces nothing."""
    known = COLLECTIVES[collective].reduce_ops
    return _known(collective, "reduce op", asked.reduce_ops, known) if known else ("none",)


def _known(
    collective: str, what: str, wanted: Sequence[str], known: Sequence[str]
) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name for name in wanted if name in known))
    if not found:
        raise GridError(
            f"{collective} has no {what} {', '.join(wanted)}; it has {', '.join(known)}"
        )
    return found


def _check_elements(asked: Asked) -> None:
    for dtype, size in itertools.product(asked.dtypes, asked.payloads):
        if size % DTYPES[dtype].size_bytes:
            raise GridError(
                f"a payload of {size} bytes is not a whole number of {dtype} "
                f"elements of {DTYPES[dtype].size_bytes} bytes"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The devices a session measures on, one set per framework that reaches them, and why.

    `not_found` says of each class of device that was looked for first why it is not measured on.
    """

    device: Device
    why: str
    not_found: tuple[str, ...] = ()
    sets: Mapping[str, DeviceSet] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)

    def key(self, spec: Spec) -> EnvironmentKey:
        """The Environment key of `spec`'s case; by default it runs on all devices."""
        key = self.slice_key(spec)
        return replace(key, mesh=spec.mesh or key.mesh)

    def slice_key(self, spec: Spec) -> EnvironmentKey:
        """The same with the shape of the slice instead of that of the ranks' mesh.

        Without a shape if only some of the devices take part.
        """
        found = self.sets[spec.framework]
        if spec.ranks in (None, found.ranks):
            return found.key
        return replace(found.key, ranks=spec.ranks, mesh="")

    def out_of_reach(self, framework: str) -> GridError:
        device, reason = self.device.value.upper(), self.unreached.get(framework, "not probed")
        return GridError(f"{framework} does not reach the {device}: {reason}")


def choose_target(
    *, device: Device | None, ranks: int | None, probes: Sequence[Probe], named: Sequence[str]
) -> Target:
    """The devices to measure on: `device`, or with None the first class with two ranks or more.

    `named` frameworks were asked for by name and must reach the device; others that do not are
    listed in `Target.unreached`. Raises GridError with what was found.
    """
    tried: dict[Device, str] = {}
    for candidate in (device,) if device else AUTO_ORDER:
        sets, reasons = _reached(candidate, ranks, probes)
        if sets:
            target = Target(
                device=candidate,
                why="asked for" if device else _why(candidate, tried, probes),
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


def _why(chosen: Device, tried: Mapping[Device, str], probes: Sequence[Probe]) -> str:
    """Such as ``using CPU: no TPU or GPU found``; a device that is there and cannot be is named."""
    there = {found.device for probe in probes for found in probe.devices}
    absent = [device.value.upper() for device in tried if device not in there]
    refused = [reason for device, reason in tried.items() if device in there]
    reasons = [f"no {' or '.join(absent)} found"] if absent else []
    return f"using {chosen.value.upper()}: {'; '.join([*reasons, *refused]) or 'found'}"


def _reached(
    device: Device, ranks: int | None, probes: Sequence[Probe]
) -> tuple[dict[str, DeviceSet], dict[str, str]]:
    """By framework the devices that it reaches, or why it does not."""
    sets: dict[str, DeviceSet] = {}
    reasons: dict[str, str] = {}
    for probe in probes:
        found = next((d for d in probe.devices if d.device is device), None)
        if found is None:
            reason = probe.missing.get(device.value, "not found")
            shown = reason[:_REASON_CHARACTERS]
            reasons[probe.framework] = shown if shown == reason else f"{shown}..."
        elif found.ranks < 2:
            reasons[probe.framework] = _single(found, probe.framework)
        elif ranks is not None and ranks > found.ranks and not found.any_ranks:
            reasons[probe.framework] = (
                f"{found.ranks} ranks ({found.device_kind}), {ranks} asked for"
            )
        else:
            sets[probe.framework] = found
    return sets, reasons


def _single(found: DeviceSet, framework: str) -> str:
    """Why one rank cannot be measured, and what can be done with it."""
    why = f"{found.ranks} rank ({found.device_kind}), two are needed"
    if found.device is Device.TPU:
        return f"{why}, and two processes cannot share a chip: libtpu belongs to one process"
    if found.device is not Device.GPU:
        return why
    if FRAMEWORKS[framework].shares_devices:
        return f"{why}; several --processes can share it with --share-devices"
    names = ", ".join(one.name for one in FRAMEWORKS.values() if one.shares_devices)
    return f"{why}, and its processes share no GPU; those of {names} do"


def resolve(spec: Spec, target: Target) -> Case:
    """The Case of `spec` on `target`. Raises GridError with the reason if it cannot be one."""
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
    found, key = target.sets[spec.framework], target.key(spec)
    if spec.workload.is_sized:
        _check_mesh(spec, key, found)
        strategy, clock, program = _strategy(spec, found), _clock(spec, found), found.program
    else:
        strategy, clock, program = spec.strategy, found.clocks[0], "as-written"
    case = Case(
        framework=spec.framework,
        payload_bytes=spec.payload_bytes,
        workload=spec.workload,
        strategy=strategy,
        dtype=spec.dtype,
        ranks=key.ranks,
        mesh=key.mesh,
        protocol=Protocol(clock=clock, program=program, allocator=found.allocator),
    )
    if spec.workload.is_sized:
        check_blocks(case, case.ranks)
    return case, key


def _check_mesh(spec: Spec, key: EnvironmentKey, found: DeviceSet) -> None:
    """--mesh lays out all ranks; a mesh of fewer would silently be another measurement."""
    if spec.mesh and math.prod(extents_of(spec.mesh)) != key.ranks:
        raise GridError(
            f"a mesh of {spec.mesh} has {math.prod(extents_of(spec.mesh))} ranks, "
            f"there are {key.ranks} ({found.device.value.upper()}); --ranks says how many to use"
        )


def _strategy(spec: Spec, found: DeviceSet) -> str:
    """Return the true strategy; collectives other than all-reduce have but the framework's own."""
    if spec.collective != "all_reduce" and spec.strategy == "default":
        return FRAMEWORKS[spec.framework].only_strategy
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


def is_dump(source: str) -> bool:
    """Tell whether `source` is a file of optimized HLO instead of a function."""
    return ":" not in PurePath(source).name


def program_spec(framework: str, source: str) -> Spec:
    """The Spec of a program; its name, such as ``programs-train_step``, is that of a strategy."""
    place, _, function = source.rpartition(":")
    words = PurePath(source).stem if is_dump(source) else f"{PurePath(place).stem}-{function}"
    name = re.sub(r"\W+", "-", words).strip("-")
    workload = Workload(collective=ALL, program=source)
    # There is no one payload: 1 stands for it where a document must have one.
    return Spec(framework=framework, payload_bytes=1, workload=workload, strategy=name)
