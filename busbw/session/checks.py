"""What can be said without devices, before a session waits for the machine's lock.

Another session may hold it for many minutes. What needs the devices is checked once they are
probed. A framework that does not reach the devices is left out then, so that what is wrong with one
counts here only if it is measured in any case.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from packaging.version import InvalidVersion, Version

from busbw.driver.executor import Executor, Interpreter, ProbeFailed, interpreter
from busbw.driver.schedules import Side
from busbw.frameworks import FRAMEWORKS
from busbw.grid import check_blocks
from busbw.history.files import HistoryError, acknowledged
from busbw.model.case import GridError, Spec
from busbw.model.machine import VIRTUAL_RANKS
from busbw.model.words import Device

from . import machine, references, tpu_slice
from .errors import UsageError, usage_error
from .settings import Settings

_OLDEST_PYTHON = "3.11"


def check(settings: Settings, specs: Sequence[Spec]) -> None:
    """Raises UsageError: it may be selection, interpreters or locks."""
    frameworks = machine.frameworks_of(settings, specs)
    _check_slice(settings, frameworks)
    _check_blocks(settings, specs)
    if settings.against is None:
        with usage_error(HistoryError, OSError):
            acknowledged(settings.baselines)
    # Each of them is probed, and a failed probe is a usage error.
    ours = {name: _interpreter(settings, name, Side.CANDIDATE) for name in frameworks}
    errors = []
    for name in frameworks:
        try:
            _check_reference(settings, name, ours[name])
        except UsageError as error:
            errors.append(error)
    # One that is named must reach the device; of others, one does.
    if errors and (settings.asked.named or len(errors) == len(frameworks)):
        raise errors[0]


def check_tpu(settings: Settings, specs: Sequence[Spec], executor: Executor) -> None:
    """Check that --device=tpu is not asked for in vain. Raises UsageError as the probe does.

    Where the kernel shows no chip the frameworks are probed before the wait, too: they decide, and
    would find a TPU that the kernel does not show. The session that is measuring loses what one
    start of a worker takes: it lays out no payload, and has no chip that it could take from
    the other. Where a chip is shown nothing is probed without the lock: opening one that is in use
    fails, or disturbs whoever uses it.
    """
    if settings.device is Device.TPU and settings.cluster is None and not tpu_slice.has_chips():
        machine.machine_of(settings, specs, executor)


def _check_slice(settings: Settings, frameworks: Sequence[str]) -> None:
    scripted = all(FRAMEWORKS[name].scripted for name in frameworks)
    if scripted or settings.cluster is not None or settings.device not in (None, Device.TPU):
        return
    chips = tpu_slice.has_chips()
    if settings.device is None and not chips:
        return
    names, source = tpu_slice.hosts_of_slice(os.environ, chips=lambda: chips)
    hosts = len(names)
    if hosts > 1:
        raise UsageError(
            f"this host is one of {hosts} of its TPU slice ({source}), and would wait for the "
            "others for ever; --hosts=tpu measures on all of them by ssh, --cluster where Dask "
            "workers run on them, and TPU_PROCESS_BOUNDS=1,1,1 with TPU_VISIBLE_CHIPS on this host "
            "alone"
        )


def _check_blocks(settings: Settings, specs: Sequence[Spec]) -> None:
    ranks = machine.ranks_asked(settings)
    if ranks is None and settings.device is Device.CPU:
        ranks = VIRTUAL_RANKS
    with usage_error(GridError):
        for spec in specs:
            if ranks is not None and spec.workload.is_sized:
                check_blocks(spec, ranks)


def _interpreter(settings: Settings, framework: str, side: Side) -> Interpreter | None:
    """The interpreter of `framework`; None where only the probe can tell."""
    known = FRAMEWORKS[framework]
    if known.scripted:
        return None
    starter = machine.starter_of(settings, framework, side)
    named = side is Side.REFERENCE or framework in settings.pythons
    option = "--against" if side is Side.REFERENCE else "--python"
    where = f"{option}: " if named else ""
    with usage_error(ProbeFailed, where=where):
        found = interpreter(starter, known.packages)
    problem = _problem(framework, found) if found is not None else ""
    if problem:
        raise UsageError(f"{where}{starter.python}: {problem}")
    return found


def _problem(framework: str, found: Interpreter) -> str:
    if found.missing:
        return f"no {' and no '.join(found.missing)} there; needed are {framework} and numpy"
    if _is_before(found.python, _OLDEST_PYTHON):
        return f"Python {found.python} is too old: expected {_OLDEST_PYTHON} or newer"
    oldest = FRAMEWORKS[framework].oldest
    if found.version and _is_before(found.version, oldest):
        return f"{framework} {found.version} is too old: expected {oldest} or newer"
    return ""


def _is_before(found: str, oldest: str) -> bool:
    try:
        return Version(found.rstrip("+")).release < Version(oldest).release
    except InvalidVersion:
        return False


def _check_reference(settings: Settings, framework: str, ours: Interpreter | None) -> None:
    """Check the stack of --against: that it is locked, or another one than ours."""
    if settings.against is None:
        return
    if settings.against.is_baseline:
        references.check_locked(settings, framework)
        return
    theirs = _interpreter(settings, framework, Side.REFERENCE)
    if ours is not None and theirs is not None and ours.path:
        machine.check_stacks(settings, framework, ours.path, theirs.path)
