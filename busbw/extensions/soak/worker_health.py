"""Read the health counters of devices, in a separate process, because reading may hang.

GPUs are read with ``pynvml``, which nvidia-ml-py installs, and TPUs with ``libtpu.sdk``. Both
libraries are optional, and counters that a device does not support are left out. The kernel's
counters of CPU quotas are read with every kind of device.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.model.field_types import NotNegative
from busbw.model.machine import CPU_QUOTA
from busbw.model.words import DeviceClass
from busbw.worker import host
from busbw.worker.backends.base import unavailable

_LINK_NUMBERS = range(36)
# Functions of NVML that have several counters, and an argument of one of these functions.
_ECC_ERRORS = "nvmlDeviceGetTotalEccErrors"
_SINCE_START = "NVML_VOLATILE_ECC"
_THROTTLED = "nvmlDeviceGetViolationStatus"
# The counters of a GPU: the field of a HealthReading that has the counter, the counter's name, and
# NVML's function with its arguments, which are names of NVML's constants, or numbers of links.
_GPU_COUNTERS: Sequence[tuple[Any, ...]] = (
    (
        "errors",
        "ECC errors corrected",
        _ECC_ERRORS,
        "NVML_MEMORY_ERROR_TYPE_CORRECTED",
        _SINCE_START,
    ),
    (
        "errors",
        "ECC errors uncorrected",
        _ECC_ERRORS,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
        _SINCE_START,
    ),
    ("errors", "PCIe replays", "nvmlDeviceGetPcieReplayCounter"),
    *(
        ("errors", f"link {link} inactive", "nvmlDeviceGetNvLinkState", link)
        for link in _LINK_NUMBERS
    ),
    *(
        (
            "errors",
            f"link {link} NVLink replays",
            "nvmlDeviceGetNvLinkErrorCounter",
            link,
            "NVML_NVLINK_ERROR_DL_REPLAY",
        )
        for link in _LINK_NUMBERS
    ),
    ("throttled_s", "power cap", _THROTTLED, "NVML_PERF_POLICY_POWER"),
    ("throttled_s", "heat", _THROTTLED, "NVML_PERF_POLICY_THERMAL"),
    ("throttled_s", "board limit", _THROTTLED, "NVML_PERF_POLICY_BOARD_LIMIT"),
    ("throttled_s", "reliability", _THROTTLED, "NVML_PERF_POLICY_RELIABILITY"),
    ("values", "temperature C", "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
    ("values", "clock MHz", "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
    ("values", "memory MHz", "nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
)
# How to convert the results of NVML's functions that do not return a number to keep. The results
# are nanoseconds, and whether a link is active.
_NUMBER_CONVERTERS: Mapping[str, Callable[[Any], float]] = {
    _THROTTLED: lambda status: status.violationTime / 1e9,
    "nvmlDeviceGetNvLinkState": lambda state: not state,
}
# The metrics of TPUs, each with the field of a HealthReading that has it and a name.
_TPU_METRICS = {
    "ici_link_health": ("errors", "link health"),
    "tpu_throttle_score": ("throttled_s", "throttling"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthReading:
    """The health counters of a host and its devices, as they were read at a moment.

    The name of a counter contains its device, such as ``gpu 0 PCIe replays``.

    Attributes:
        host: The name of the host.
        read_s: The moment of reading, in seconds of the host's monotonic clock.
        errors: Maps the names of error counters to their counts. An error counter changes only
            after an error. Counters at 0 are left out.
        throttled_s: Maps each device and reason for throttling, such as ``gpu 0 power cap``, to the
            seconds of throttling so far.
        values: Maps names such as ``gpu 0 temperature C`` to values that only describe a device.
            The name contains the unit.

    """

    host: str
    read_s: float
    errors: Mapping[str, float] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass
class HealthReader:
    """A reader of the health counters of a host and its devices.

    Some devices report only that they are throttled, and not for how long. For such a device the
    reader adds up the times between readings.

    Attributes:
        options: The options of the worker's command line. The option `device` is the class of the
            devices whose counters are read, such as ``gpu``.
        root: The root folder of the host's files, ``/`` outside tests.

    """

    options: Any
    root: Path = Path("/")
    # The latest counters by name, by the field of a HealthReading.
    _counters: defaultdict[str, defaultdict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    _read_s: float = field(default_factory=time.monotonic)
    # The seconds of the periods in which a cgroup was throttled, and the seconds for which its
    # processors were stopped, by its folder and the length of a period.
    _quota_totals_s: dict[tuple[Path, int], tuple[float, float]] = field(default_factory=dict)

    def read(self, request: object = None) -> HealthReading:
        """Read and return the health counters.

        `request` is the request of the session to the worker, and is not used. Raises
        MeasuringError if the library that reads the devices raises an error.
        """
        before_s = self._read_s
        self._read_s = time.monotonic()
        self._read_cpu_quotas()
        try:
            # The libraries are optional.
            with contextlib.suppress(ModuleNotFoundError):
                if self.options.device == DeviceClass.GPU:
                    self._read_gpus(importlib.import_module("pynvml"))
                elif self.options.device == DeviceClass.TPU:
                    monitor = importlib.import_module("libtpu.sdk").tpumonitoring
                    self._read_tpus(monitor, self._read_s - before_s)
        except Exception as error:
            raise unavailable(f"{type(error).__name__}: {error}"[:200]) from error
        return HealthReading(
            host=host.host_name(),
            read_s=self._read_s,
            errors={name: count for name, count in self._counters["errors"].items() if count},
            throttled_s=self._counters["throttled_s"],
            values=self._counters["values"],
        )

    def _read_cpu_quotas(self) -> None:
        """Increase the counters of CPU quotas by the seconds of throttling since the last reading.

        The quotas are those of the cgroups of this process. In each period a cgroup runs until its
        quota is used up, and is then stopped. The cgroup was stopped for at most the duration of
        all periods with a stop, and for at most the sum of the stopped times of its processors. The
        smaller of these two upper bounds is added.
        """
        for folder, (share_us, period_us) in host.cpu_quotas(self.root).items():
            with contextlib.suppress(OSError, ValueError):
                lines = (folder / "cpu.stat").read_text().splitlines()
                counts = {name: int(count) for name, count in map(str.split, lines)}
                stopped_ns = counts.get("throttled_time", 1000 * counts.get("throttled_usec", 0))
                totals_s = counts.get("nr_throttled", 0) * period_us / 1e6, stopped_ns / 1e9
                last_totals_s = self._quota_totals_s.get((folder, period_us), totals_s)
                self._quota_totals_s[folder, period_us] = totals_s
                name = f"{CPU_QUOTA} of {share_us / period_us:.4g}"
                gained_s = min(map(operator.sub, totals_s, last_totals_s))
                self._counters["throttled_s"][name] += max(0.0, gained_s)

    def _read_gpus(self, nvml: Any) -> None:
        """Read the counters of all GPUs, and store them in `_counters`.

        `nvml` is the module ``pynvml``. A counter that a GPU does not support is left out.
        """
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            for kind, counter, function, *arguments in _GPU_COUNTERS:
                with contextlib.suppress(nvml.NVMLError):
                    numbers = (getattr(nvml, str(word), word) for word in arguments)
                    value = getattr(nvml, function)(handle, *numbers)
                    number = float(_NUMBER_CONVERTERS.get(function, float)(value))
                    self._counters[kind][f"gpu {index} {counter}"] = number

    def _read_tpus(self, monitor: Any, elapsed_s: float) -> None:
        """Read the metrics of TPUs that libtpu lists as supported, and store them in `_counters`.

        Other metrics are not requested, because some requests hang while no program runs. `monitor`
        is the module ``tpumonitoring`` of libtpu. `elapsed_s` is the number of seconds since the
        last reading. A chip with a throttle score above 0 counts as throttled for all this time.
        """
        supported = set(monitor.list_supported_metrics())
        for metric, (kind, counter) in _TPU_METRICS.items():
            rows = monitor.get_metric(metric).data() if metric in supported else ()
            for index, row in enumerate(rows):
                label, _, value = str(row).rpartition(":")
                name = f"{label.strip() or f'tpu {index}'} {counter}"
                if kind == "throttled_s":
                    self._counters[kind][name] += elapsed_s if float(value) > 0 else 0.0
                else:
                    self._counters[kind][name] = float(value)
