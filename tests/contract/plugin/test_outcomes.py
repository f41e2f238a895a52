"""Every outcome of a case as users see it: exit code, letter, text and figures."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import SLOW, Folder
from tests.helpers.sweep import sweep


def test_a_case_that_takes_as_long_as_its_baseline_passes(folder: Folder) -> None:
    folder.with_baselines()
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    assert ran.last_line.strip("= ").startswith("1 passed in")


@pytest.mark.exhaustive
def test_a_case_three_times_slower_than_its_baseline_regresses_and_no_other_case_fails(
    folder: Folder,
) -> None:
    folder.regressed("--payloads=1K,1M,2M", "--launches=2")
    ran = folder.run("--payloads=1K,1M,2M", "--launches=2", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "1M": "REGRESSED", "2M": "PASS"}
    assert ran.last_line.strip("= ").startswith("1 failed, 2 passed in")
    (words,) = ran.failures
    assert "3.000 x the expected time" in words
    assert "confirmed: 3.000 x in additional launches (limit 1." in words
    assert ran.junit is not None and not list(ran.junit.iter("error"))


def test_a_regression_has_the_same_times_and_rates_in_junit_and_in_the_results(
    folder: Folder,
) -> None:
    folder.regressed()
    ran = folder.run("-v", exit_code=1)
    properties = ran.properties()
    case = ran.case()
    now_names = ("median_s", "best_s", "busbw_gb_per_s", "algbw_gb_per_s", "spread")
    figures = {
        **{name: case["now"][name] for name in now_names},
        **{name: case[name] for name in ("ratio", "limit")},
        "baseline_median_s": case["baseline"]["median_s"],
    }
    assert {name: float(properties[name]) for name in figures} == figures
    assert abs(case["ratio"] - 3) < 0.01
    environment = ran.document["environment"]
    texts = {
        "framework": "fake",
        "collective": "all_reduce",
        "dtype": "float32",
        "ranks": "4",
        "outcome": "REGRESSED",
        "payload_bytes": str(2**20),
        "provisional": str(case["provisional"]),
        "device": environment["key"]["device_kind"],
        "versions": ", ".join(" ".join(item) for item in environment["versions"]["fake"].items()),
    }
    assert {name: properties[name] for name in texts} == texts
    assert case["outcome"] == "REGRESSED"
    assert "test_collective[fake-default-float32-1M] REGRESSED" in ran.text


def test_a_case_three_times_faster_than_its_baseline_passes_as_improved(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    folder.scale_baseline(3)
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "IMPROVED"}
    assert "the baseline is stale" in ran.text
    assert "1 improved" in ran.last_line
    assert "failed" not in ran.last_line


@pytest.mark.exhaustive
def test_a_case_that_is_out_of_memory_in_some_launches_fails(folder: Folder) -> None:
    folder.script(cases=[{"passes": [2], "then": "out_of_memory"}])
    ran = folder.run("--launches=3", exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    assert "out of memory in 1 of 3 launches" in ran.text


def test_a_case_that_is_out_of_memory_in_all_launches_has_the_outcome_out_of_memory(
    folder: Folder,
) -> None:
    folder.script(cases=[{"then": "out_of_memory"}])
    ran = folder.run("--launches=2", exit_code=1)
    assert ran.outcomes == {"1M": "OUT_OF_MEMORY"}
    assert "raised by the framework" in ran.text
    assert "1 failed, 1 out of memory" in ran.last_line
    assert "NO_VERDICT: no case gave a time: 1 OUT_OF_MEMORY" in ran.text


def test_a_wrong_result_or_a_program_without_the_collective_fails_only_its_case(
    folder: Folder,
) -> None:
    sizes = ((2**10, "wrong_result"), (2**11, "not_a_collective"), (2**12, "unavailable"))
    folder.script(cases=[{"payload_bytes": size, "then": then} for size, then in sizes])
    ran = folder.run("--payloads=1K:8K", exit_code=1)
    assert ran.outcomes == {
        "1K": "FAILED",
        "2K": "FAILED",
        "4K": "FAILED",
        "8K": "NO_BASELINE",
    }
    kinds = {payload: ran.case(payload)["failure"]["kind"] for payload in ("1K", "2K", "4K")}
    assert kinds == {"1K": "WRONG_RESULT", "2K": "NOT_A_COLLECTIVE", "4K": "UNAVAILABLE"}
    assert "rank 1, element 7: 3.0, expected 4.0" in ran.text
    assert "3 failed, 1 without baseline" in ran.last_line


def test_a_case_whose_dtype_is_compiled_as_another_dtype_is_skipped_with_the_reason(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 2**10, "then": "other_dtype"}])
    ran = folder.run("--payloads=1K:2K", "--history=history", exit_code=0)
    assert ran.outcomes == {"1K": "SKIPPED", "2K": "NO_BASELINE"}
    assert ran.case("1K")["text"] == "the made-up compiler computes this in float32"
    assert "the made-up compiler computes this in float32" in ran.text
    alone = folder.run("--payloads=1K", exit_code=1)
    assert "NO_VERDICT: no case gave a time: 1 SKIPPED" in alone.text


@pytest.mark.exhaustive
def test_a_case_with_a_baseline_whose_dtype_is_compiled_as_another_dtype_fails(
    folder: Folder,
) -> None:
    folder.with_baselines("--payloads=1K")
    folder.script(cases=[{"then": "other_dtype"}])
    ran = folder.run("--payloads=1K", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED"}
    assert "in float32; its baseline of " in ran.case("1K")["text"]


def test_a_case_whose_worker_dies_or_hangs_fails_with_the_end_of_the_worker_log(
    folder: Folder,
) -> None:
    events = ("kill", "segfault", "exit", "hang_with_lock")
    endings = list(zip((2**10, 2**11, 2**12, 2**13), events))
    folder.script(cases=[{"payload_bytes": size, "then": then} for size, then in endings])
    ran = folder.run("--payloads=1K:16K", "--case-timeout=1", exit_code=1)
    kinds = {
        name: ran.case(name)["failure"]["kind"]
        for name, outcome in ran.outcomes.items()
        if outcome == "FAILED"
    }
    assert kinds == {"1K": "KILLED", "2K": "CRASHED", "4K": "CRASHED", "8K": "TIMEOUT"}
    assert ran.outcomes["16K"] == "NO_BASELINE"
    for event in events:
        assert f"the script says {event}\n" in ran.text
    assert 'fake/__init__.py", line' in ran.case("8K")["failure"]["log"]
    assert "SIGSEGV" in ran.text
    assert "exit code 3" in ran.text


@pytest.mark.exhaustive
def test_a_worker_that_hangs_after_its_replies_loses_no_result_and_is_named_in_a_note(
    folder: Folder,
) -> None:
    folder.script(cases=[{"then": "reply_then_hang"}])
    ran = folder.run(exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert "did not end by itself and was killed" in ran.text


@pytest.mark.parametrize(
    ("world", "message"),
    sweep(
        [
            ({"ranks": 2}, "2 ranks of Fake CPU in 1 processes, expected 4 of Fake CPU in 1"),
            (
                {"device_kind": "Other CPU"},
                "4 ranks of Other CPU in 1 processes, expected 4 of Fake",
            ),
        ]
    ),
)
def test_a_case_fails_without_a_time_if_its_worker_finds_other_devices_than_the_probe(
    folder: Folder, world: dict[str, object], message: str
) -> None:
    folder.script(world=world)
    ran = folder.run(exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    case = ran.case()
    assert case["failure"]["kind"] == "WRONG_WORLD"
    assert case["failure"]["message"].startswith(message)
    assert (case["now"], case["launches"]) == (None, [])
    assert "1 failed" in ran.last_line
    assert (
        "FAILED, NO_VERDICT: 1 of 1 case failed: 1 FAILED; no case gave a time: 1 FAILED"
        in ran.text
    )
