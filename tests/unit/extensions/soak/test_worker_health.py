"""Health counters are read through fake libraries with the same interfaces."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.extensions.soak.worker_health import HealthReader
from tests.helpers import fake_nvml

CPU, GPU = SimpleNamespace(device="cpu"), SimpleNamespace(device="gpu")


def _gpus(monkeypatch: pytest.MonkeyPatch, does: str = "fine") -> None:
    monkeypatch.setenv("FAKE_NVML", does)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml)


def test_health_counters_of_gpus_are_read_and_unsupported_counters_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _gpus(monkeypatch)
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


VERSION_1 = {
    "proc/self/cgroup": "1:cpu,cpuacct:/box\n0::/",
    "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "25000",
    "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 9\nnr_throttled {n}\nthrottled_time {n}00000000",
}
# As where no system made links for each controller.
TOGETHER = {name.replace("/cpu/", "/cpu,cpuacct/"): text for name, text in VERSION_1.items()}
VERSION_2 = {
    "proc/self/cgroup": "0::/box",
    "sys/fs/cgroup/box/cpu.max": "25000 100000",
    "sys/fs/cgroup/box/cpu.stat": "usage_usec 5\nnr_throttled {n}\nthrottled_usec {n}00000",
}


def _throttle(root: Path, files: Mapping[str, str], count: object) -> None:
    """Write the files of a control group that was throttled in `count` periods of 0.1 s."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace("{n}", str(count)))


@pytest.mark.parametrize("files", [VERSION_1, TOGETHER, VERSION_2])
@pytest.mark.parametrize("options", [CPU, GPU])
def test_the_time_for_which_a_cpu_quota_stopped_the_host_counts_as_throttling_of_any_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: object, files: Mapping[str, str]
) -> None:
    _gpus(monkeypatch)
    reader = HealthReader(options, tmp_path)
    seconds = []
    for count in (5, 12, 3, 4):
        _throttle(tmp_path, files, count)
        seconds.append(reader.read().throttled_s["CPU quota of 0.25"])
    # In between the group was made anew.
    assert seconds == pytest.approx([0.0, 0.7, 0.7, 0.8])


def test_the_throttled_time_of_a_control_group_is_at_most_the_time_of_throttled_periods(
    tmp_path: Path,
) -> None:
    reader = HealthReader(CPU, tmp_path)
    # Eight processors that wait at the same time count eight times.
    for stat in ("nr_throttled 0\nthrottled_usec 0", "nr_throttled 2\nthrottled_usec 1600000"):
        _throttle(tmp_path, {**VERSION_2, "sys/fs/cgroup/box/cpu.stat": stat}, 0)
        reading = reader.read()
    assert reading.throttled_s == {"CPU quota of 0.25": pytest.approx(0.2)}


@pytest.mark.parametrize("counts", ["nr_throttled many", "nr_throttled", "\n", ""])
def test_invalid_counters_of_a_control_group_give_no_throttling_and_no_error(
    tmp_path: Path, counts: str
) -> None:
    _throttle(tmp_path, {**VERSION_2, "sys/fs/cgroup/box/cpu.stat": counts}, 0)
    assert not any(HealthReader(CPU, tmp_path).read().throttled_s.values())


def test_a_missing_library_of_health_counters_causes_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert HealthReader(GPU, Path("/nowhere")).read().values == {}
