"""What GPUs count of themselves meanwhile, by a made-up library, and what comes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sweep import sweep
from tests.worker import made_up_nvml

from .folder import Folder

GPU = {"device": "gpu", "device_kind": "NVIDIA H100 80GB HBM3", "ranks": 8, "latency_s": 1e-3}
COUNTS = {**GPU, "counts": True}
WORST = ("--payloads=1K,1M", "--launches=2")


def _made_up(folder: Folder, does: str) -> None:
    library = folder.path / "made_up"
    library.mkdir(exist_ok=True)
    shutil.copy(Path(made_up_nvml.__file__), library / "pynvml.py")
    folder.environment.setenv("PYTHONPATH", str(library))
    folder.environment.setenv("MADE_UP", does)


@pytest.mark.parametrize("option", sweep(["--launches=2", "--soak=0.3s"]))
def test_a_link_that_goes_bad_is_a_note_at_its_case(folder: Folder, option: str) -> None:
    _made_up(folder, "link")
    folder.script(**COUNTS)
    ran = folder.pytest("perf", "--frameworks=fake", "--payloads=1K,1M", option, exit_code=0)
    noted = [one for one in ran.cases if one["notes"]]
    assert [one["notes"] for one in noted] == [["gpu 0 link 1 NVLink replays 0 -> 9"]]
    first, last = ran.document["counters"]
    assert first["values"]["gpu 0 temperature C"] == 41
    assert last["errors"]["gpu 0 link 1 NVLink replays"] == 9


@pytest.mark.exhaustive
def test_a_slow_case_is_noisy_where_a_gpu_was_throttled(folder: Folder) -> None:
    _made_up(folder, "throttled")
    options = "--payloads=1M", "--launches=2"
    folder.slower(3.0, *options, script=GPU)
    assert folder.run(*options, exit_code=1).outcomes == {"1M": "REGRESSED"}
    folder.script(**COUNTS, cases=[{"slower": 3.0}])
    ran = folder.run(*options, exit_code=0)
    assert ran.outcomes == {"1M": "NOISY"}
    assert "; gpu 1 heat: throttled for " in ran.case()["text"]


def test_a_library_that_raises_is_told_once_and_costs_nothing_else(folder: Folder) -> None:
    _made_up(folder, "raises")
    folder.script(**COUNTS)
    ran = folder.run(*WORST, exit_code=0)
    said = "what devices count of themselves is not read: NVMLError: Driver Not Loaded"
    assert ran.text.count(said) == 1
    assert ran.document["counters"] == []


@pytest.mark.exhaustive
def test_one_that_hangs_is_killed_and_told_once(folder: Folder) -> None:
    _made_up(folder, "hangs")
    folder.script(**COUNTS)
    ran = folder.run(*WORST, exit_code=0)
    said = "is not read: the worker did not answer within 10 s while reading what devices count"
    assert ran.text.count(said) == 1


def test_without_a_library_nothing_is_read_and_no_process_started(folder: Folder) -> None:
    folder.script(**GPU)
    ran = folder.run(*WORST, exit_code=0)
    assert ran.document["counters"] == []
    assert "count of themselves" not in ran.text
