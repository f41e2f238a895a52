"""What is read of devices, with fake libraries of the same interfaces."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.model.words import Device
from busbw.worker.operations import counters
from tests.helpers import fake_nvml


def _gpus(monkeypatch: pytest.MonkeyPatch, does: str = "fine") -> None:
    monkeypatch.setenv("FAKE_NVML", does)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml)


def test_gpus_are_read_and_what_they_do_not_support_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _gpus(monkeypatch)
    found = counters.reading(Device.GPU)
    assert found.problem == ""
    assert found.errors == {
        f"gpu {index} {word}": value
        for index in (0, 1)
        for word, value in {
            "ECC errors corrected": 0,
            "ECC errors uncorrected": 0,
            "PCIe replays": 1,
            "NVLinks up": 2,
        }.items()
    }
    assert found.throttled_s["gpu 1 power cap"] == 0
    assert found.values["gpu 0 clock MHz"] == 1980
    assert not any("remapped" in name for name in found.errors)


def test_a_library_that_raises_is_a_problem_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    _gpus(monkeypatch, "raises")
    found = counters.reading(Device.GPU)
    assert (found.problem, found.errors) == ("NVMLError: Driver Not Loaded", {})


ROWS = {
    "ici_link_health": ["tray1.chip3.ici1.int: 10", "tray1.chip3.ici0.int: 0"],
    "tpu_throttle_score": ["0", "4"],
    "hbm_capacity_usage": ["1024", "2048"],
}


def test_tpus_are_read_by_what_their_library_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = SimpleNamespace(
        list_supported_metrics=lambda: [*ROWS, "duty_cycle_pct"],
        get_metric=lambda name: SimpleNamespace(data=lambda: ROWS[name]),
    )
    sdk: Any = SimpleNamespace(tpumonitoring=monitor)
    monkeypatch.setitem(sys.modules, "libtpu.sdk", sdk)
    found = counters.reading(Device.TPU)
    assert found.errors == {
        "tray1.chip3.ici1.int link health": 10,
        "tray1.chip3.ici0.int link health": 0,
    }
    assert found.scores == {"tpu 0 throttle score": 0, "tpu 1 throttle score": 4}
    assert found.values["tpu 1 memory bytes"] == 2048


@pytest.mark.parametrize("device", [Device.CPU, Device.GPU])
def test_beside_any_device_a_cpu_quota_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: Device
) -> None:
    _gpus(monkeypatch, "raises")
    for path, text in {
        "proc/self/cgroup": "0::/box",
        "sys/fs/cgroup/box/cpu.max": "25000 100000",
        "sys/fs/cgroup/box/cpu.stat": "nr_periods 8\nnr_throttled 2\nthrottled_usec 1",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert counters.are_there(device, tmp_path)
    (quota,) = counters.reading(device, root=tmp_path).quotas.values()
    assert (quota.cpus, quota.periods, quota.throttled_periods) == (0.25, 8, 2)


@pytest.mark.parametrize(("device", "module"), [(Device.GPU, "pynvml"), (Device.TPU, "libtpu")])
def test_where_no_library_is_installed_there_is_nothing_to_read(
    monkeypatch: pytest.MonkeyPatch, device: Device, module: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not counters.are_there(device)
