"""Collected → Machine: which devices there are, asked of the frameworks in workers of their own."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pytest

from busbw import driver, grid
from busbw.driver import Side
from busbw.frameworks import FRAMEWORKS
from busbw.model import Device, GridError, Probe, Spec, extents_of

from .session import Machine
from .settings import Settings, how_to_get


def machine_of(settings: Settings, specs: Sequence[Spec], executor: driver.Executor) -> Machine:
    """What `specs` are measured on. Raises pytest.UsageError where that is nothing."""
    selected = dict.fromkeys(spec.framework for spec in specs)
    frameworks = [name for name in selected if name not in settings.absent_frameworks]
    if not frameworks:
        name = next(iter(selected))
        raise pytest.UsageError(f"busbw: {name} is not installed here; {how_to_get(name)}")
    probes = tuple(
        _probed(starter_of(settings, name, settings.device, _ranks_asked(settings)), executor)
        for name in frameworks
    )
    return Machine(target=_target(settings, probes), probes=probes)


def reference_probes(
    settings: Settings, machine: Machine, frameworks: Sequence[str], executor: driver.Executor
) -> tuple[Probe, ...]:
    """What the other stack reaches, which must be another one. Raises pytest.UsageError."""
    found = []
    for name in frameworks:
        device, side = machine.target.device, Side.REFERENCE
        starter = starter_of(settings, name, device, _ranks_asked(settings), side=side)
        found.append(_probed(starter, executor, "the reference: "))
        ours = next(probe for probe in machine.probes if probe.framework == name)
        _check_stacks(settings, ours, found[-1])
    return tuple(found)


def starter_of(
    settings: Settings,
    framework: str,
    device: Device | None,
    ranks: int | None,
    *,
    side: Side = Side.CANDIDATE,
) -> driver.Starter:
    """How a worker of `framework` is started; of the reference in its own environment."""
    ours = settings.pythons.get(framework, sys.executable)
    against = settings.against
    reference = side is Side.REFERENCE and against is not None
    return driver.Starter(
        python=against.pythons.get(framework, ours) if reference and against else ours,
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
        environment=against.environment if reference and against else {},
        defaults=FRAMEWORKS[framework].environment,
    )


def _ranks_asked(settings: Settings) -> int | None:
    """Virtual devices are made at start: as many as --ranks says, or as the mesh has."""
    of_mesh = math.prod(extents_of(settings.mesh)) if settings.mesh else None
    return settings.ranks or of_mesh


def _probed(starter: driver.Starter, executor: driver.Executor, side: str = "") -> Probe:
    """One framework's answer. None is a usage error, unless its workers were cut short."""
    try:
        return driver.probe(starter, executor)
    except driver.ProbeCutShort:
        raise
    except driver.ProbeFailed as error:
        raise pytest.UsageError(f"busbw: {side}{error}") from error


def _target(settings: Settings, probes: Sequence[Probe]) -> grid.Target:
    named = settings.frameworks if settings.frameworks_named else ()
    probed = {probe.framework for probe in probes}
    try:
        return grid.choose_target(
            device=settings.device,
            ranks=settings.ranks,
            probes=probes,
            named=[name for name in named if name in probed],
        )
    except GridError as error:
        wanted = f"--device={settings.device.value}: " if settings.device else ""
        raise pytest.UsageError(f"busbw: {wanted}{error}") from error


def _check_stacks(settings: Settings, ours: Probe, theirs: Probe) -> None:
    """Two interpreters that load the same files are one stack compared with itself."""
    name, against = ours.framework, settings.against
    one = starter_of(settings, name, None, None)
    other = starter_of(settings, name, None, None, side=Side.REFERENCE)
    differ = one.python != other.python and not (against and against.environment)
    scripted = FRAMEWORKS[name].scripted
    if differ and not scripted and theirs.framework_path == ours.framework_path:
        raise pytest.UsageError(
            f"busbw: --against: {other.python} and {one.python} both load {name} from "
            f"{ours.framework_path}: that is one stack, not two"
        )
