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
from pathlib import Path

from busbw import grid
from busbw.driver.executor import Executor, ProbeCutShort, ProbeFailed, ProbesDiffer
from busbw.driver.executor import probe as driver_probe
from busbw.driver.schedules import Side
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.grid import Target
from busbw.model import variables
from busbw.model.case import GridError, Spec
from busbw.model.machine import Environment, EnvironmentKey, Probe, extents_of
from busbw.model.words import Device, bytes_text, payload_text
from busbw.stacks.lock import Lock
from busbw.workloads.collective import Collective

from .option import UsageError, usage_error
from .settings import Against, Settings, how_to_get
from .state import Machine


def machine_of(settings: Settings, specs: Sequence[Spec], executor: Executor) -> Machine:
    """The devices to measure `specs` on. Raises UsageError if there are none."""
    probes = tuple(
        _probed(starter_of(settings, name, settings.device, _ranks_asked(settings)), executor)
        for name in frameworks_of(settings, specs)
    )
    target = _target(settings, probes)
    _check_memory(settings, target.device, [one for one in probes if one.framework in target.sets])
    return Machine(target=target, probes=probes)


def frameworks_of(settings: Settings, specs: Sequence[Spec]) -> list[str]:
    """The frameworks of `specs` that are installed. Raises UsageError if none is."""
    selected = dict.fromkeys(spec.framework for spec in specs)
    frameworks = [name for name in selected if name not in settings.absent_frameworks]
    if not frameworks:
        name = next(iter(selected))
        raise UsageError(f"{name} is not installed here; {how_to_get(name)}")
    return frameworks


def reference_probes(
    settings: Settings, machine: Machine, frameworks: Sequence[str], executor: Executor
) -> tuple[Probe, ...]:
    """The devices of the other stack, which must differ from ours. Raises UsageError."""
    found = []
    for name in frameworks:
        device, side = machine.target.device, Side.REFERENCE
        starter = starter_of(settings, name, device, _ranks_asked(settings), side=side)
        found.append(_probed(starter, executor, "the reference: "))
        ours = next(probe for probe in machine.probes if probe.framework == name)
        check_stacks(settings, name, ours.framework_path, found[-1].framework_path)
    _check_memory(settings, machine.target.device, found)
    return tuple(found)


def starter_of(
    settings: Settings,
    framework: str,
    device: Device | None,
    ranks: int | None,
    *,
    side: Side = Side.CANDIDATE,
) -> Starter:
    ours = settings.pythons.get(framework, sys.executable)
    against = settings.against if side is Side.REFERENCE else None
    tried = settings.against.tried if settings.against and against is None else {}
    lock = against.locks.get(framework) if against else None
    return Starter(
        python=against.pythons.get(framework, ours) if against else ours,
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
        processes=settings.processes,
        environment={**_variables(against, lock), **tried},
        unset=variables.STACK if lock else frozenset(),
        defaults=FRAMEWORKS[framework].environment,
    )


def _variables(against: Against | None, lock: Lock | None) -> dict[str, str]:
    """What the reference's environment has in addition: the flags of its lock, or what is asked."""
    if lock is None:
        return dict(against.environment) if against else {}
    home = os.path.expanduser("~")
    return {name: variables.with_home(value, home) for name, value in lock.flags.items()}


def _ranks_asked(settings: Settings) -> int | None:
    """As many virtual devices as --ranks or the mesh asks for: they are created at start."""
    of_mesh = math.prod(extents_of(settings.asked.mesh)) if settings.asked.mesh else None
    return settings.ranks or of_mesh


def _probed(starter: Starter, executor: Executor, side: str = "") -> Probe:
    """A usage error without an answer, unless workers were cut short or are not of one stack."""
    try:
        return driver_probe(starter, executor)
    except (ProbeCutShort, ProbesDiffer):
        raise
    except ProbeFailed as error:
        raise UsageError(f"{side}{error}") from error


def _target(settings: Settings, probes: Sequence[Probe]) -> grid.Target:
    named = settings.frameworks if settings.asked.named else ()
    probed = {probe.framework for probe in probes}
    wanted = f"--device={settings.device.value}: " if settings.device else ""
    with usage_error(GridError, where=wanted):
        return grid.choose_target(
            device=settings.device,
            ranks=settings.ranks,
            probes=probes,
            named=[name for name in named if name in probed],
        )


def _check_memory(settings: Settings, device: Device, probes: Sequence[Probe]) -> None:
    """Under --memory-limit, which is of the host's memory, a worker itself must fit."""
    limit_bytes = settings.memory_limit_bytes
    for probe in probes if limit_bytes is not None and device is Device.CPU else ():
        least_bytes = probe.least_memory_bytes
        if least_bytes is not None and least_bytes >= (limit_bytes or 0):
            raise UsageError(
                f"--memory-limit: {payload_text(limit_bytes or 0)}: a worker of "
                f"{probe.framework} takes {bytes_text(least_bytes)} before it measures anything; "
                "accepted is more than that"
            )


def check_stacks(settings: Settings, name: str, ours: str, theirs: str) -> None:
    """Two interpreters that load the same files are one stack compared with itself."""
    against = settings.against
    one = starter_of(settings, name, None, None)
    other = starter_of(settings, name, None, None, side=Side.REFERENCE)
    differ = one.python != other.python and not (against and (against.environment or against.tried))
    scripted = FRAMEWORKS[name].scripted
    if differ and not scripted and theirs == ours:
        raise UsageError(
            f"--against: {other.python} and {one.python} both load {name} from "
            f"{ours}: that is one stack, not two"
        )


def environment(target: Target, probes: Sequence[Probe], key: EnvironmentKey | None) -> Environment:
    reached = [probe for probe in probes if probe.framework in target.sets]
    first = reached[0]
    return Environment(
        key=key
        or target.key(Spec(framework=first.framework, workload=Collective(), payload_bytes=1)),
        device=target.device,
        why=target.why,
        versions={probe.framework: probe.versions for probe in reached},
        flags={name: value for probe in reached for name, value in probe.flags.items()},
        framework_paths={probe.framework: probe.framework_path for probe in reached},
        not_found=target.not_found,
        host=platform.node(),
        commit=_commit(),
        load=os.getloadavg()[0],
        clock_mhz=_clock_mhz(target.device),
    )


def changed(settings: Settings) -> str:
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
