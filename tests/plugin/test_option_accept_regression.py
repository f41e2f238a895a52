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


SEVEN = ("--payloads=1K:64K", "--history=history")
ALL_SLOWER = {"device": "tpu", "device_kind": "TPU v2", "ranks": 8, **SLOW}


def _sessions(folder: Folder) -> dict[str, int]:
    return {entry["payload"]: len(entry["sessions"]) for entry in document(folder)["entries"]}


@pytest.mark.exhaustive
def test_a_reason_accepts_a_session_that_is_slower_as_a_whole(folder: Folder) -> None:
    folder.script(**ALL_SLOWER)
    folder.with_baselines(*SEVEN[:1])
    folder.script(**ALL_SLOWER, cases=[{"slower": 1.05}])
    assert "SLOWER: " in folder.run(*SEVEN, exit_code=1).text
    ran = folder.updated(*SEVEN[:1], "--accept-regression=a new route")
    assert "; accepted: fake: all 7 cases together take 1.0" in ran.text
    assert "moved with others" in ran.text
    assert set(_sessions(folder).values()) == {1}
    assert folder.run(*SEVEN[:1], exit_code=0).case("4K")["ratio"] == pytest.approx(1.0, rel=1e-3)


def test_a_reason_accepts_what_regressed_and_no_neighbour(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*SEVEN[:1])
    slower = [{"payload_bytes": 4096, "slower": 3}, {"payload_bytes": 65536, "slower": 1.4}]
    folder.script(**SLOW, cases=slower)
    ran = folder.run(*SEVEN[:1], "--update-baselines", "--accept-regression=why", exit_code=0)
    assert (ran.outcomes["4K"], ran.outcomes["64K"]) == ("REGRESSED", "NOISY")
    assert "REGRESSED, re-pinned" in ran.text
    assert "64K: the baseline was not written: NOISY" in ran.text
    pins = {entry["payload"]: entry["pinned_us"] for entry in document(folder)["entries"]}
    assert pins["4K"] == pytest.approx(3 * pins["2K"], rel=0.01)
    assert pins["64K"] == pytest.approx(pins["2K"], rel=0.02)


def test_a_first_baseline_is_written_beside_a_payload_that_crashed(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 4096, "then": "kill"}])
    ran = folder.run(*SEVEN[:1], "--launches=3", "--update-baselines", exit_code=1)
    assert ran.results is not None and ran.results["session"]["outcomes"] == ["FAILED"]
    assert sorted(_sessions(folder)) == ["16K", "1K", "2K", "32K", "64K", "8K"]


@pytest.mark.exhaustive
def test_a_night_that_is_back_after_a_drift_is_told_and_not_failed(folder: Folder) -> None:
    folder.script(**ALL_SLOWER)
    folder.with_baselines(*SEVEN[:1])
    nightly.stored_before(folder, {40: 1.0})
    nightly.nights(folder, [1.001**night for night in range(38)])
    folder.script(**ALL_SLOWER, cases=[{"slower": 1.036}])
    assert "DRIFT: all cases of fake are 3." in folder.run(*SEVEN, exit_code=1).text
    folder.script(**ALL_SLOWER)
    ran = folder.run(*SEVEN, exit_code=0)
    assert "all cases of fake are back, after being 3." in ran.text


def test_a_payload_that_is_part_of_another_is_told_how_it_is_named_alone(folder: Folder) -> None:
    both = folder.run("--payloads=4K,64K", "-k", "4K", exit_code=0)
    assert sorted(both.outcomes) == ["4K", "64K"]
    assert 'busbw: -k 4K selects 64K, too; -k "float32-4K" selects 4K alone' in both.text
    alone = folder.run("--payloads=4K,64K", "-k", "float32-4K", exit_code=0)
    assert sorted(alone.outcomes) == ["4K"] and "selects" not in alone.text
