"""What can be said without devices, before a session waits for the machine's lock.

Another session may hold it for many minutes. What needs the devices is checked once they are
probed. A framework that does not reach the devices is left out then, so that what is wrong with one
counts here only if it is measured in any case.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from busbw.driver.executor import Executor
from busbw.frameworks import FRAMEWORKS
from busbw.grid import check_blocks
from busbw.history.files import HistoryError, acknowledged
from busbw.model.case import GridError, Spec
from busbw.model.machine import VIRTUAL_RANKS
from busbw.model.words import Device

from . import machine, references, tpu_slice
from .errors import UsageError, usage_error
from .settings import Settings


def check(settings: Settings, specs: Sequence[Spec]) -> None:
    """Raise UsageError for a selection that cannot be measured, and for a missing lock."""
    frameworks = machine.frameworks_of(settings, specs)
    _check_slice(settings, frameworks)
    _check_blocks(settings, specs)
    if settings.against is None:
        with usage_error(HistoryError, OSError):
            acknowledged(settings.baselines)
    errors = []
    for name in frameworks if settings.against is not None and settings.against.is_baseline else ():
        try:
            references.check_locked(settings, name)
        except UsageError as error:
            errors.append(error)
    # A framework that is named must reach the device; of others, one does.
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
            if ranks is not None and spec.is_sized:
                check_blocks(spec, ranks)
