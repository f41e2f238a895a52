"""--accept-regression: a loss beyond the budget becomes the baseline, for a reason that is kept."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from . import nightly
from .folder import SLOW, Folder


def document(folder: Folder) -> dict[str, Any]:
    (path,) = folder.baseline_files
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_loss_beyond_the_budget_is_accepted_with_exit_0_pinned_and_recorded(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    folder.script(**SLOW, cases=[{"slower": 3}])
    ran = folder.updated("--accept-regression", "a slower switch")
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "not written" not in ran.text
    after = document(folder)
    (entry,) = after["entries"]
    assert entry["pinned_us"] == pytest.approx(median(entry["sessions"][0]["times_us"]))
    assert after["history"][-1]["reason"] == "a slower switch"
    assert after["history"][-1]["accepted_regression"] is True
    assert abs(after["history"][-1]["worst_percent"] - 200) < 1
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}


@pytest.mark.exhaustive
def test_a_loss_within_the_budget_with_a_reason_replaces_what_is_stored(folder: Folder) -> None:
    tpu = {**SLOW, "device": "tpu", "device_kind": "TPU v2", "ranks": 8}
    folder.script(**tpu)
    folder.with_baselines()
    nightly.stored_before(folder, {9: 1.0, 6: 1.0, 3: 1.0})
    folder.script(**tpu, cases=[{"slower": 1.08}])
    assert folder.updated("--accept-regression=why").outcomes == {"1M": "REGRESSED"}
    (entry,) = document(folder)["entries"]
    assert len(entry["sessions"]) == 1
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}


@pytest.mark.exhaustive
def test_out_of_memory_where_a_time_stands_is_accepted(folder: Folder) -> None:
    folder.with_baselines()
    folder.script(cases=[{"then": "out_of_memory"}])
    folder.with_baselines("--accept-regression=less memory")
    assert document(folder)["entries"][0]["status"] == "oom"
    assert folder.run(exit_code=0).outcomes == {"1M": "OUT_OF_MEMORY"}


def test_it_accepts_no_failed_case(folder: Folder) -> None:
    folder.with_baselines()
    before = document(folder)
    folder.script(cases=[{"then": "wrong_result"}])
    folder.run("--update-baselines", "--accept-regression=why", exit_code=1)
    assert document(folder) == before


@pytest.mark.parametrize("options", [(), ("--update-baselines=new",)])
def test_without_an_update_that_takes_slower_times_it_is_a_usage_error(
    folder: Folder, options: tuple[str, ...]
) -> None:
    ran = folder.run("--accept-regression=why", *options, exit_code=4)
    assert "--accept-regression: needs --update-baselines" in ran.sentence


@pytest.mark.parametrize("reason", ["", "  "])
def test_an_empty_reason_is_a_usage_error(folder: Folder, reason: str) -> None:
    ran = folder.run("--update-baselines", f"--accept-regression={reason}", exit_code=4)
    assert "accepted is a reason in words" in ran.sentence
