"""A library with the interface of ``pynvml``, of two GPUs, which does as ``FAKE_NVML`` says.

``fine``, ``throttled``: more of it in each reading, ``link``: one that counts errors from the third
reading on, ``hangs`` or ``raises`` when it is asked for the first time.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
NVML_PERF_POLICY_BOARD_LIMIT, NVML_PERF_POLICY_RELIABILITY = 3, 5
NVML_NVLINK_ERROR_DL_REPLAY = 0
NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2

_LINKS = 2
_readings: list[int] = []


class NVMLError(Exception):
    """As the library's."""


def _does(behaviour: str) -> bool:
    return os.environ.get("FAKE_NVML") == behaviour


def nvmlInit() -> None:
    _readings.append(1)
    if _does("hangs"):
        time.sleep(3600)
    if _does("raises"):
        raise NVMLError("Driver Not Loaded")


def nvmlDeviceGetCount() -> int:
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetTotalEccErrors(handle: int, kind: int, counter: int) -> int:
    return 0


def nvmlDeviceGetPcieReplayCounter(handle: int) -> int:
    return 1


def nvmlDeviceGetViolationStatus(handle: int, policy: int) -> SimpleNamespace:
    is_more = _does("throttled") and handle == 1 and policy == NVML_PERF_POLICY_THERMAL
    return SimpleNamespace(violationTime=int(2e9) * len(_readings) if is_more else 0)


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    return 40 + len(_readings)


def nvmlDeviceGetClockInfo(handle: int, clock: int) -> int:
    return 1980


def nvmlDeviceGetNvLinkState(handle: int, link: int) -> int:
    if link >= _LINKS:
        raise NVMLError("Invalid Argument")
    return 1


def nvmlDeviceGetNvLinkErrorCounter(handle: int, link: int, counter: int) -> int:
    is_bad = _does("link") and (handle, link, counter) == (0, 1, NVML_NVLINK_ERROR_DL_REPLAY)
    return 9 if is_bad and len(_readings) > 2 else 0
