"""Health counters are read through fake libraries with the same interfaces."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.extensions.soak.worker_health import HealthReader
from tests.helpers import fake_nvml

GPU = SimpleNamespace(device="gpu")


def test_health_counters_of_gpus_are_read_and_unsupported_counters_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml)
    reading = HealthReader(GPU).read()
    assert reading.errors == {f"gpu {index} PCIe replays": 1 for index in (0, 1)}
    assert reading.throttled_s["gpu 1 power cap"] == 0
    assert reading.values["gpu 0 clock MHz"] == 1980


ROWS = {
    "ici_link_health": ["tray1.chip3.ici1.int: 10", "tray1.chip3.ici0.int: 0"],
    "tpu_throttle_score": ["0", "4"],
}


def test_the_health_counters_of_tpus_are_the_metrics_that_the_tpu_library_supports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitor = SimpleNamespace(
        list_supported_metrics=lambda: [*ROWS, "duty_cycle_pct"],
        get_metric=lambda name: SimpleNamespace(data=lambda: ROWS[name]),
    )
    sdk: Any = SimpleNamespace(tpumonitoring=monitor)
    monkeypatch.setitem(sys.modules, "libtpu.sdk", sdk)
    reader = HealthReader(SimpleNamespace(device="tpu"))
    reader.read()
    reading = reader.read()
    assert reading.errors == {"tray1.chip3.ici1.int link health": 10}
    assert reading.throttled_s["tpu 0 throttling"] == 0 < reading.throttled_s["tpu 1 throttling"]


def test_a_missing_library_of_health_counters_causes_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert HealthReader(GPU).read().values == {}
