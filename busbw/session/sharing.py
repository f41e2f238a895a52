"""Settings → Machine where several processes share GPUs: asked for, or because there is one GPU.

Two ranks are the least that a collective has. NCCL takes processes on one GPU for hosts, and moves
the bytes between them through sockets: that shows that everything works, not how fast a GPU is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.driver.executor import Executor
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Spec
from busbw.model.machine import DeviceSet, Probe
from busbw.model.words import Device, plural

from . import machine
from .errors import UsageError
from .settings import Settings
from .state import Machine

# How many processes share a single GPU where no option says it.
_SHARERS = 2


def opened(
    settings: Settings, specs: Sequence[Spec], executor: Executor
) -> tuple[Settings, Machine]:
    """Return the devices to measure on, and the settings with the processes that share them.

    Where they share GPUs a process alone is probed first, which sees all of them, and then the
    group. Raises UsageError where there is no device to measure on, or nothing to share.
    """
    frameworks = machine.frameworks_of(settings, specs)
    if settings.share_devices:
        alone = replace(settings, device=Device.GPU, processes=1, ranks=None)
        return _shared(settings, machine.probes_of(alone, frameworks, executor), executor)
    probes = machine.probes_of(settings, frameworks, executor)
    if _is_implied(settings, probes):
        return _shared(settings, probes, executor)
    return settings, machine.machine_with(settings, probes)


def _is_implied(settings: Settings, probes: Sequence[Probe]) -> bool:
    """Tell whether a single GPU is attached and no other number of ranks is requested."""
    if settings.processes > 1 or settings.cluster is not None:
        return False
    if settings.device not in (None, Device.GPU):
        return False
    if machine.ranks_asked(settings) not in (None, _SHARERS):
        return False
    # By default a TPU is taken first, and GPUs of several ranks are as they are.
    found = [one for probe in probes for one in probe.devices if one.device is not Device.CPU]
    is_single = all(one.ranks == 1 for one in found)
    return is_single and any(_gpu_of(probe) is not None for probe in probes if _shares(probe))


def _shared(
    settings: Settings, alone: Sequence[Probe], executor: Executor
) -> tuple[Settings, Machine]:
    gpus = [one.ranks for probe in alone if _shares(probe) and (one := _gpu_of(probe)) is not None]
    if not gpus:
        raise UsageError(f"--share-devices: no GPU to share ({_missing(alone)})")
    count, processes = gpus[0], settings.processes if settings.share_devices else _SHARERS
    if processes <= count:
        raise UsageError(
            f"--share-devices: {plural(count, 'GPU')} for {processes} processes are enough; leave "
            "the option out, and each process has a GPU of its own"
        )
    settings = replace(
        settings,
        device=Device.GPU,
        processes=processes,
        ranks=processes,
        shared_devices=count,
    )
    probes = [
        probed
        for one in alone
        for probed in (
            machine.probes_of(settings, [one.framework], executor) if _shares(one) else (one,)
        )
    ]
    found = machine.machine_with(settings, probes)
    return settings, replace(found, target=replace(found.target, reason=_why(settings)))


def _why(settings: Settings) -> str:
    gpus = "one GPU" if settings.shared_devices == 1 else plural(settings.shared_devices, "GPU")
    way = "NCCL treats processes as hosts: not the bandwidth of a GPU or of its links"
    if settings.share_devices:
        return f"--share-devices: {settings.processes} processes share {gpus}; {way}"
    return f"one GPU found, and a single rank is no collective: 2 processes share it; {way}"


def _shares(probe: Probe) -> bool:
    return FRAMEWORKS[probe.framework].shares_devices


def _gpu_of(probe: Probe) -> DeviceSet | None:
    return next((one for one in probe.devices if one.device is Device.GPU), None)


def _missing(probes: Sequence[Probe]) -> str:
    """Why each framework has none; one that shares none is said to."""
    reasons = (
        probe.missing.get(Device.GPU.value, "not found")
        if _shares(probe)
        else "its processes share no GPU"
        for probe in probes
    )
    return ", ".join(f"{probe.framework}: {why}" for probe, why in zip(probes, reasons))
