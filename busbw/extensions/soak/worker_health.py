"""Read the health counters of devices in a process that measures nothing, since a call may hang.

``pynvml``, which nvidia-ml-py installs, reads GPUs and ``libtpu.sdk`` reads TPUs. Both libraries
are imported only where they are installed, and counters that a device does not support are left
out. The kernel's counters of CPU quotas are read beside every kind of device.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.model.field_types import NotNegative
from busbw.model.machine import CPU_QUOTA
from busbw.model.words import Device
from busbw.worker import host, process

_LINK_ERRORS = {
    "NVLink replays": "NVML_NVLINK_ERROR_DL_REPLAY",
    "NVLink recoveries": "NVML_NVLINK_ERROR_DL_RECOVERY",
    "NVLink CRC errors": "NVML_NVLINK_ERROR_DL_CRC_FLIT",
}
_MAX_LINKS = 36
# The counters of a GPU, by the field of a reader that keeps them and by name: NVML's function and
# its arguments, which are names of NVML's constants or numbers of links.
_GPU_COUNTERS: Mapping[str, Mapping[str, tuple[str, *tuple[str | int, ...]]]] = {
    "errors": {
        "ECC errors corrected": (
            *("nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_CORRECTED"),
            "NVML_VOLATILE_ECC",
        ),
        "ECC errors uncorrected": (
            *("nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
            "NVML_VOLATILE_ECC",
        ),
        "remapped rows": ("nvmlDeviceGetRemappedRows",),
        "PCIe replays": ("nvmlDeviceGetPcieReplayCounter",),
        **{f"link {n} inactive": ("nvmlDeviceGetNvLinkState", n) for n in range(_MAX_LINKS)},
        **{
            f"link {link} {error}": ("nvmlDeviceGetNvLinkErrorCounter", link, constant)
            for link, (error, constant) in itertools.product(
                range(_MAX_LINKS), _LINK_ERRORS.items()
            )
        },
    },
    "throttled_s": {
        "power cap": ("nvmlDeviceGetViolationStatus", "NVML_PERF_POLICY_POWER"),
        "heat": ("nvmlDeviceGetViolationStatus", "NVML_PERF_POLICY_THERMAL"),
        "board limit": ("nvmlDeviceGetViolationStatus", "NVML_PERF_POLICY_BOARD_LIMIT"),
        "reliability": ("nvmlDeviceGetViolationStatus", "NVML_PERF_POLICY_RELIABILITY"),
    },
    "values": {
        "temperature C": ("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        "clock MHz": ("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        "memory MHz": ("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        "memory bytes": ("nvmlDeviceGetMemoryInfo",),
    },
}
# How to read answers of NVML that are no number, or no count of errors: rows that were remapped for
# errors of either kind, nanoseconds, memory, and whether a link is active.
_NUMBERS: Mapping[str, Callable[[Any], float]] = {
    "nvmlDeviceGetRemappedRows": lambda rows: sum(rows[:2]),
    "nvmlDeviceGetViolationStatus": lambda status: status.violationTime / 1e9,
    "nvmlDeviceGetMemoryInfo": lambda memory: memory.used,
    "nvmlDeviceGetNvLinkState": lambda state: not state,
}
# The metrics of TPUs, by the field of a reader and the name of the counter.
_TPU_METRICS = {
    "ici_link_health": ("errors", "link health"),
    "tpu_throttle_score": ("throttled_s", "throttling"),
    "hbm_capacity_usage": ("values", "memory bytes"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The health counters of a host at `read_s` of its clock.

    Names are those of a device and a counter, such as ``gpu 0 PCIe replays``. `errors` change only
    if something goes wrong; an error that is left out counts 0. `throttled_s` are the seconds of
    throttling so far, by reason, and `values` only describe. `problem` says why counters are
    missing.
    """

    host: str
    read_s: float
    errors: Mapping[str, float] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


@dataclass
class HealthReader:
    """Reads the counters of a device and of its host, and adds up throttling that has none."""

    device: Device
    root: Path = Path("/")
    errors: dict[str, float] = field(default_factory=dict)
    throttled_s: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    _read_s: float = field(default_factory=time.monotonic)
    # How many periods and nanoseconds a control group was throttled, by its folder.
    _throttled: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def read(self, request: object = None) -> Reading:
        """Return the counters now; an error of the device's library is the reading's problem."""
        before_s, self._read_s, problem = self._read_s, time.monotonic(), ""
        self._read_quotas()
        try:
            if self.device is Device.GPU:
                self._read_gpus(importlib.import_module("pynvml"))
            elif self.device is Device.TPU:
                monitor = importlib.import_module("libtpu.sdk").tpumonitoring
                self._read_tpus(monitor, self._read_s - before_s)
        except ModuleNotFoundError:
            # The libraries are optional.
            problem = ""
        except Exception as error:
            problem = process.remove_secrets(f"{type(error).__name__}: {error}")[:200]
        return Reading(
            host=host.host_name(),
            read_s=self._read_s,
            errors={name: count for name, count in self.errors.items() if count},
            throttled_s=dict(self.throttled_s),
            values=dict(self.values),
            problem=problem,
        )

    def _read_quotas(self) -> None:
        """Add the most time for which CPU quotas can have stopped all of this process's group.

        In a period the group runs until its share is used up. The kernel adds up how long each
        processor of the group was stopped.
        """
        for folder, (share_us, period_us) in host.cpu_quotas(self.root).items():
            with contextlib.suppress(OSError, ValueError):
                rows = (line.split() for line in (folder / "cpu.stat").read_text().splitlines())
                counts = {name: int(count) for name, count in rows}
                stopped_ns = counts.get("throttled_time", 1000 * counts.get("throttled_usec", 0))
                last = counts.get("nr_throttled", 0), stopped_ns
                first = self._throttled.get(folder, last)
                self._throttled[folder] = last
                periods_s = (last[0] - first[0]) * period_us / 1e6
                gained_s = max(0.0, min(periods_s, (last[1] - first[1]) / 1e9))
                self._add_throttling(f"{CPU_QUOTA} of {share_us / period_us:.4g}", gained_s)

    def _add_throttling(self, name: str, seconds: float) -> None:
        self.throttled_s[name] = self.throttled_s.get(name, 0.0) + seconds

    def _read_gpus(self, nvml: Any) -> None:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            for kind, counters in _GPU_COUNTERS.items():
                for counter, (function, *arguments) in counters.items():
                    with contextlib.suppress(nvml.NVMLError):
                        numbers = (getattr(nvml, str(word), word) for word in arguments)
                        value = getattr(nvml, function)(handle, *numbers)
                        number = float(_NUMBERS.get(function, float)(value))
                        getattr(self, kind)[f"gpu {index} {counter}"] = number

    def _read_tpus(self, monitor: Any, seconds: float) -> None:
        """Read what the server of a running program knows: without a program some calls hang.

        A chip with a throttle score above 0 counts as throttled for the `seconds` since the last
        reading.
        """
        supported = set(monitor.list_supported_metrics())
        for metric, (kind, counter) in _TPU_METRICS.items():
            rows = monitor.get_metric(metric).data() if metric in supported else ()
            for index, row in enumerate(rows):
                label, _, value = str(row).rpartition(":")
                name = f"{label.strip() or f'tpu {index}'} {counter}"
                if kind == "throttled_s":
                    self._add_throttling(name, seconds if float(value) > 0 else 0.0)
                else:
                    getattr(self, kind)[name] = float(value)


def open_session(options: Any) -> HealthReader:
    """Return the reader of a worker's device."""
    return HealthReader(Device(options.device))
