"""Collected → Machine: what the frameworks find, each in its worker, and the surroundings."""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from busbw import grid
from busbw.driver.executor import Executor, probe
from busbw.driver.schedules import Side
from busbw.driver.transport import HostError, Starter
from busbw.frameworks import FRAMEWORKS
from busbw.grid import Target
from busbw.model import variables
from busbw.model.case import GridError, Spec
from busbw.model.machine import Environment, EnvironmentKey, Probe, extents_of
from busbw.model.words import Device, bytes_text, payload_text

from .errors import UsageError, usage_error
from .settings import Against, LockedStack, Settings, how_to_get
from .state import Machine


def machine_of(settings: Settings, specs: Sequence[Spec], executor: Executor) -> Machine:
    """The devices to measure `specs` on. Raises UsageError if there are none."""
    frameworks = frameworks_of(settings, specs)
    return machine_with(settings, probes_of(settings, frameworks, executor))


def probes_of(
    settings: Settings, frameworks: Sequence[str], executor: Executor
) -> tuple[Probe, ...]:
    """Return the devices that each framework finds. Raises HostError without an answer."""
    device = settings.device
    return tuple(_probed(settings, name, device, executor, Side.CANDIDATE) for name in frameworks)


def machine_with(settings: Settings, probes: Sequence[Probe]) -> Machine:
    """Choose the devices of `probes` to measure on. Raises UsageError if there are none."""
    device = settings.device
    wanted = f"--device={device.value}: " if device else ""
    with usage_error(GridError, where=wanted):
        target = grid.choose_target(
            device=device,
            ranks=settings.ranks,
            probes=probes,
            named=[one.framework for one in probes] if settings.asked.named else (),
        )
    _check_memory(settings, target.device, [one for one in probes if one.framework in target.sets])
    return Machine(target=target, probes=tuple(probes))


def frameworks_of(settings: Settings, specs: Sequence[Spec]) -> list[str]:
    """The frameworks of `specs` that are installed. Raises UsageError if none is."""
    selected = dict.fromkeys(spec.framework for spec in specs)
    frameworks = [name for name in selected if name not in settings.absent_frameworks]
    if not frameworks:
        name = next(iter(selected))
        raise UsageError(f"{name} is not installed here; {how_to_get(name)}")
    return frameworks


def with_reference(
    settings: Settings, machine: Machine, frameworks: Sequence[str], executor: Executor
) -> Machine:
    """With the devices of the other stack, which must differ from ours. Raises UsageError."""
    found, device = [], machine.target.device
    for ours in machine.probes:
        if ours.framework in frameworks:
            theirs = _probed(settings, ours.framework, device, executor, Side.REFERENCE)
            check_stacks(settings, ours.framework, ours.framework_path, theirs.framework_path)
            found.append(theirs)
    _check_memory(settings, device, found)
    return replace(machine, references=tuple(found))


def _probed(
    settings: Settings, framework: str, device: Device | None, executor: Executor, side: Side
) -> Probe:
    """Return the devices that one framework finds. Raises HostError."""
    ranks = ranks_asked(settings)
    try:
        return probe(starter_of(settings, framework, side, device=device, ranks=ranks), executor)
    except HostError as error:
        if side is Side.CANDIDATE:
            raise
        raise type(error)(f"the reference: {error}") from error


def python_of(settings: Settings, framework: str) -> str:
    return settings.pythons.get(framework, sys.executable)


def starter_of(
    settings: Settings,
    framework: str,
    side: Side,
    *,
    device: Device | None = None,
    ranks: int | None = None,
) -> Starter:
    ours, against = python_of(settings, framework), settings.against or Against()
    starter = Starter(
        python=ours,
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
        processes=settings.processes,
        shared_devices=settings.shared_devices,
        environment=against.tried,
        defaults=FRAMEWORKS[framework].environment,
    )
    if side is Side.CANDIDATE:
        return starter
    locked = against.locked.get(framework)
    return replace(
        starter,
        python=against.pythons.get(framework, ours),
        environment=_flags(locked) if locked else against.environment,
        unset=tuple(variables.STACK) if locked else (),
    )


def _flags(stack: LockedStack) -> dict[str, str]:
    home = os.path.expanduser("~")
    return {name: variables.with_home(value, home) for name, value in stack.flags.items()}


def ranks_asked(settings: Settings) -> int | None:
    """As many virtual devices as --ranks or the mesh asks for: they are created at start."""
    of_mesh = math.prod(extents_of(settings.asked.mesh)) if settings.asked.mesh else None
    return settings.ranks or of_mesh


def _check_memory(settings: Settings, device: Device, probes: Sequence[Probe]) -> None:
    """Under --memory-limit, which is of the host's memory, a worker itself must fit."""
    limit_bytes = settings.memory_limit_bytes
    if limit_bytes is None or device is not Device.CPU:
        return
    for one in probes:
        least_bytes = one.least_memory_bytes
        if least_bytes is not None and least_bytes >= limit_bytes:
            raise UsageError(
                f"--memory-limit: {payload_text(limit_bytes)}: a worker of {one.framework} takes "
                f"{bytes_text(least_bytes)} before it measures anything; accepted is more than that"
            )


def check_stacks(settings: Settings, name: str, ours: str, theirs: str) -> None:
    """Two interpreters that load the same files are one stack compared with itself."""
    against, one = settings.against or Against(), python_of(settings, name)
    other = against.pythons.get(name, one)
    if against.environment or against.tried or FRAMEWORKS[name].scripted:
        return
    if one != other and theirs == ours:
        raise UsageError(
            f"--against: {other} and {one} both load {name} from {ours}: that is one stack, not two"
        )


def key_on(target: Target, framework: str) -> EnvironmentKey:
    """That of a framework's collectives on all devices."""
    return target.key(Spec(framework=framework, payload_bytes=1))


def environment(
    settings: Settings, machine: Machine, key: EnvironmentKey | None = None
) -> Environment:
    """On `key`, or else on that of all devices."""
    target = machine.target
    reached = [one for one in machine.probes if one.framework in target.sets]
    return Environment(
        key=key or key_on(target, reached[0].framework),
        device=target.device,
        reason=target.reason,
        versions={one.framework: one.versions for one in reached},
        flags={name: value for one in reached for name, value in one.flags.items()},
        framework_paths={one.framework: one.framework_path for one in reached},
        not_found=target.not_found,
        host=platform.node(),
        commit=_commit(),
        load=os.getloadavg()[0],
        clock_mhz=_clock_mhz(target.device),
        changed=_changed(settings),
    )


def _changed(settings: Settings) -> str:
    """What --try-env, --against-env and --inject make different; other values are not shown."""
    against, injected = settings.against or Against(), settings.injection
    sides = []
    for side in (against.tried, against.environment):
        shown = variables.recorded(side, os.path.expanduser("~"))
        sides.append([f"{name}={shown.get(name, variables.HIDDEN)}" for name in side])
    sides[0] += [f"injected {injected.text}"] if injected else []
    if not settings.against or not any(sides):
        return ", ".join(sides[0])
    ours, theirs = (", ".join(side) or "none" for side in sides)
    return f"candidate: {ours}; reference: {theirs}"


def surroundings(environment: Environment) -> dict[str, str]:
    """What to report if the machine's speed changes: load, clock frequency, flags."""
    found = dict(environment.flags)
    if environment.load is not None:
        found["load"] = f"{environment.load:.2f}"
    if environment.clock_mhz is not None:
        found["clock MHz"] = f"{environment.clock_mhz:.0f}"
    return found


def _clock_mhz(device: Device) -> float | None:
    """The processor's clock frequency, the mean over cores; None for other devices."""
    cpuinfo = Path("/proc/cpuinfo")
    if device is not Device.CPU or not cpuinfo.exists():
        return None
    found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo.read_text(), flags=re.MULTILINE)
    return statistics.fmean(map(float, found)) if found else None


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            check=False,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
