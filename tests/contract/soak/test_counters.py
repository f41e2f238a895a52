"""Health counters of GPUs, read by a fake library during sessions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers import fake_nvml
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

GPU = {"device": "gpu", "device_kind": "NVIDIA H100 80GB HBM3", "ranks": 8, "latency_s": 1e-3}
WORST = ("--payloads=1K,1M", "--launches=2")


def _with_nvml(folder: Folder, does: str) -> None:
    library = folder.path / "fake_nvml"
    library.mkdir(exist_ok=True)
    shutil.copy(Path(fake_nvml.__file__), library / "pynvml.py")
    folder.environment.setenv("PYTHONPATH", str(library), prepend=":")
    folder.environment.setenv("FAKE_NVML", does)


@pytest.mark.exhaustive
@pytest.mark.parametrize("option", sweep(["--launches=2", "--soak=0.001s"]))
def test_a_rising_error_counter_of_a_gpu_link_adds_a_note_to_the_case(
    folder: Folder, option: str
) -> None:
    _with_nvml(folder, "link")
    folder.script(**GPU)
    ran = folder.pytest("perf", "--frameworks=fake", "--payloads=1K,1M", option, exit_code=0)
    noted = [case for case in ran.cases if case["notes"]]
    assert [case["notes"] for case in noted] == [["gpu 0 link 1 NVLink replays 0 -> 9"]]
    (last,) = ran.document["extra"]["health"]["readings"]
    assert last["values"]["gpu 0 temperature C"] > 41
    assert last["errors"]["gpu 0 link 1 NVLink replays"] == 9


@pytest.mark.exhaustive
def test_a_slow_case_is_noisy_if_a_gpu_was_throttled(folder: Folder) -> None:
    options = "--payloads=1M", "--launches=2"
    folder.slower(3.0, *options, script=GPU)
    assert folder.run(*options, exit_code=1).outcomes == {"1M": "REGRESSED"}
    _with_nvml(folder, "throttled")
    # Nothing can be said of the only case.
    ran = folder.run(*options, exit_code=1)
    assert ran.outcomes == {"1M": "NOISY"}
    assert "NO_VERDICT: 1 of 1 case too noisy to judge" in ran.text
    assert "; gpu 1 heat: throttled for " in ran.case()["text"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("does", "reason"),
    sweep(
        [
            ("raises", "NVMLError: Driver Not Loaded"),
            ("hangs", "the worker did not answer within 10"),
        ]
    ),
)
def test_a_failing_library_of_health_counters_is_named_once_and_fails_no_case(
    folder: Folder, does: str, reason: str
) -> None:
    _with_nvml(folder, does)
    folder.script(**GPU)
    ran = folder.run(*WORST, exit_code=0)
    assert ran.text.count(f"health counters of devices are not read: {reason}") == 1
    assert "health" not in ran.document["extra"]
