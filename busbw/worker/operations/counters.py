"""What devices count of themselves, read by a process that measures nothing: a call may hang.

Of GPUs by ``pynvml``, which nvidia-ml-py installs, of TPUs by ``libtpu.sdk``. Both libraries are
imported where they are there; what a device does not support is left out. Beside every kind of
device the kernel's counts of CPU quotas are read.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.model.counters import Quota, Reading
from busbw.model.words import Device
from busbw.worker import host, process

# NVML's policies that throttle a GPU, by the name that it has for them.
_POLICIES = {
    "NVML_PERF_POLICY_POWER": "power cap",
    "NVML_PERF_POLICY_THERMAL": "heat",
    "NVML_PERF_POLICY_BOARD_LIMIT": "board limit",
    "NVML_PERF_POLICY_RELIABILITY": "reliability",
}
_OF_LINKS = {
    "NVML_NVLINK_ERROR_DL_REPLAY": "NVLink replays",
    "NVML_NVLINK_ERROR_DL_RECOVERY": "NVLink recoveries",
    "NVML_NVLINK_ERROR_DL_CRC_FLIT": "NVLink CRC errors",
}
_MOST_LINKS = 36

# What is read of answers that are no number: rows that were remapped for errors of either kind,
# nanoseconds.
_READ: Mapping[str, Callable[[Any], float]] = {
    "nvmlDeviceGetRemappedRows": lambda rows: sum(rows[:2]),
    "nvmlDeviceGetViolationStatus": lambda status: status.violationTime / 1e9,
    "nvmlDeviceGetMemoryInfo": lambda memory: memory.used,
}


@dataclass
class _Found:
    """The parts of a Reading, which sources fill."""

    errors: dict[str, float] = field(default_factory=dict)
    throttled_s: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)


def open_session(options: Any) -> Device:
    """Return the device whose counts are read."""
    return Device(options.device)


def are_there(device: Device, root: Path = Path("/")) -> bool:
    """Return whether there is anything to read, without calling a device's library."""
    if host.quotas(root):
        return True
    if device is Device.CPU:
        return False
    try:
        name = "pynvml" if device is Device.GPU else "libtpu.sdk"
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def reading(device: Device, request: object = None, root: Path = Path("/")) -> Reading:
    """Return the counts of `device` and of CPU quotas.

    An error of the device's library, whatever it is, is the reading's problem.
    """
    found, problem = _Found(quotas=host.quotas(root)), ""
    try:
        if device in _SOURCES:
            _SOURCES[device](found)
    except Exception as error:
        problem = process.public(f"{type(error).__name__}: {error}")[:200]
    return Reading(host=host.name(), at_s=time.monotonic(), problem=problem, **vars(found))


def _nvidia(found: _Found) -> None:
    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    for index in range(nvml.nvmlDeviceGetCount()):
        _gpu(found, nvml, nvml.nvmlDeviceGetHandleByIndex(index), f"gpu {index}")


def _gpu(found: _Found, nvml: Any, handle: Any, name: str) -> None:
    def keep(into: dict[str, float], word: str, asked: str, *numbers: str) -> None:
        with contextlib.suppress(nvml.NVMLError):
            value = getattr(nvml, asked)(handle, *(getattr(nvml, one) for one in numbers))
            into[f"{name} {word}"] = float(_READ[asked](value) if asked in _READ else value)

    for kind in ("corrected", "uncorrected"):
        number = f"NVML_MEMORY_ERROR_TYPE_{kind.upper()}"
        asked = "nvmlDeviceGetTotalEccErrors", number, "NVML_VOLATILE_ECC"
        keep(found.errors, f"ECC errors {kind}", *asked)
    keep(found.errors, "remapped rows", "nvmlDeviceGetRemappedRows")
    keep(found.errors, "PCIe replays", "nvmlDeviceGetPcieReplayCounter")
    for policy, word in _POLICIES.items():
        keep(found.throttled_s, word, "nvmlDeviceGetViolationStatus", policy)
    keep(found.values, "temperature C", "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU")
    keep(found.values, "clock MHz", "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")
    keep(found.values, "memory MHz", "nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM")
    keep(found.values, "memory bytes", "nvmlDeviceGetMemoryInfo")
    _links(found, nvml, handle, name)


def _links(found: _Found, nvml: Any, handle: Any, name: str) -> None:
    """Errors of links that have any, and how many links are up."""
    up = 0
    for link in range(_MOST_LINKS):
        try:
            up += bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except nvml.NVMLError:
            break
        for counter, word in _OF_LINKS.items():
            with contextlib.suppress(nvml.NVMLError):
                number = getattr(nvml, counter)
                count = nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, number)
                found.errors |= {f"{name} link {link} {word}": float(count)} if count else {}
    if up:
        found.errors[f"{name} NVLinks up"] = float(up)


def _libtpu(found: _Found) -> None:
    """What a running program's own server knows: without one some calls never return."""
    monitor: Any = importlib.import_module("libtpu.sdk").tpumonitoring
    kept: Mapping[str, tuple[dict[str, float], str]] = {
        "ici_link_health": (found.errors, "link health"),
        "tpu_throttle_score": (found.scores, "throttle score"),
        "hbm_capacity_usage": (found.values, "memory bytes"),
    }
    supported = set(monitor.list_supported_metrics())
    for metric, (into, word) in kept.items():
        for at, row in enumerate(monitor.get_metric(metric).data() if metric in supported else ()):
            label, _, value = str(row).rpartition(":")
            into[f"{label.strip() or f'tpu {at}'} {word}"] = float(value)


_SOURCES: Mapping[Device, Callable[[_Found], None]] = {
    Device.GPU: _nvidia,
    Device.TPU: _libtpu,
}
