"""Options that change baselines: which cases are written, refused or left unchanged."""

from __future__ import annotations

import json
import statistics

import pytest

from tests.helpers import nightly
from tests.helpers.session_folder import SLOW, TPU, Folder

# An accelerator: its budget is 10 %.


def stored_times(folder: Folder) -> dict[str, list[float] | str]:
    """Return the times of each payload in microseconds, or "oom" for out of memory."""
    return {
        row["payload"]: [time_us for times in row["times_us"].values() for time_us in times]
        if "times_us" in row
        else "oom"
        for row in folder.stored["entries"]
    }


@pytest.mark.exhaustive
def test_a_session_without_the_option_update_baselines_writes_no_baseline(folder: Folder) -> None:
    folder.run(exit_code=0)
    assert not (folder.path / "baselines").exists()
    folder.with_baselines()
    before = folder.baseline_file.read_bytes()
    folder.script(gb_per_s=20)
    folder.run("--payloads=1M,2M", exit_code=0)
    assert folder.baseline_file.read_bytes() == before


def test_an_update_refuses_a_loss_beyond_the_budget_and_names_the_option_that_accepts_it(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    before = folder.baseline_file.read_bytes()
    folder.script(**SLOW, cases=[{"slower": 3}])
    ran = folder.run("--update-baselines", exit_code=1)
    assert "1 failed" in ran.last_line
    (note,) = (line for line in ran.text.splitlines() if "the baseline was not written" in line)
    assert ", 3 x the " in note and "the budget is 25 %" in note
    assert note.endswith('--accept-regression "why" accepts it')
    # The summary has this text.
    assert ran.document["session"]["text"].endswith("budget needs --accept-regression")
    assert folder.baseline_file.read_bytes() == before


@pytest.mark.exhaustive
def test_twenty_updates_with_small_losses_raise_a_baseline_by_at_most_the_budget(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines()
    codes = []
    for turn in range(1, 21):
        folder.script(**TPU, cases=[{"slower": 1.02**turn}])
        code, text = folder.ended("--update-baselines")
        codes.append(code)
    (row,) = folder.stored["entries"]
    level = statistics.median(map(statistics.median, row["times_us"].values()))
    assert level <= 1.1 * row["pinned_us"]
    assert (codes[0], codes[-1]) == (0, 1)
    assert sorted(codes) == codes
    assert "the budget is 10 %" in text


def test_a_session_without_a_verdict_writes_no_baseline_and_gives_the_reason(
    folder: Folder,
) -> None:
    ran = folder.run("--update-baselines", "--benchmark-skip", exit_code=1)
    assert "note: no baseline was written: NO_VERDICT: --benchmark-skip asks" in ran.text
    assert not (folder.path / "baselines").exists()


def test_the_option_update_baselines_with_the_value_improved_writes_only_improved_cases(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1M,2M")
    before = stored_times(folder)
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "slower": 0.2}])
    ran = folder.run("--update-baselines=improved", "--payloads=1M,2M,4M", exit_code=0)
    assert ran.outcomes == {"1M": "IMPROVED", "2M": "PASS", "4M": "NO_BASELINE"}
    after = stored_times(folder)
    assert sorted(after) == ["1M", "2M"]
    assert after["2M"] == before["2M"]
    assert abs(float(after["1M"][0]) / float(before["1M"][0]) - 0.2) < 0.01
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}


def test_a_session_with_a_history_passes_after_times_were_accepted_twice_on_one_day(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--history=history")
    for slower in (0.2, 0.21):
        folder.script(**SLOW, cases=[{"slower": slower}])
        folder.run("--update-baselines", "--history=history", exit_code=0)
    assert folder.run("--history=history", exit_code=0).outcomes == {"1M": "PASS"}


@pytest.mark.exhaustive
def test_the_option_update_baselines_with_the_value_new_keeps_stored_times(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    before = stored_times(folder)["1M"]
    folder.script(**SLOW, cases=[{"slower": 3}])
    ran = folder.run("--update-baselines=new", "--payloads=1M,2M", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED", "2M": "NO_BASELINE"}
    after = stored_times(folder)
    assert after["1M"] == before
    assert sorted(after) == ["1M", "2M"]


def test_the_option_update_baselines_writes_all_cases_except_failed_cases(folder: Folder) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "kill"}])
    folder.run("--update-baselines", "--payloads=1K:4K", exit_code=1)
    assert sorted(stored_times(folder)) == ["1K", "4K"]


@pytest.mark.exhaustive
def test_the_option_update_baselines_stores_that_a_case_was_out_of_memory_in_all_launches(
    folder: Folder,
) -> None:
    folder.script(cases=[{"then": "out_of_memory"}])
    ran = folder.updated()
    assert stored_times(folder) == {"1M": "oom"}
    assert "none -> out of memory" in ran.text


@pytest.mark.exhaustive
def test_a_baseline_file_has_a_line_for_each_payload_in_order_of_size(folder: Folder) -> None:
    folder.with_baselines("--payloads=4K,1M")
    folder.with_baselines("--payloads=1K,64K")
    (path,) = folder.baseline_files
    lines = [line for line in path.read_text().splitlines() if '"payload"' in line]
    assert [json.loads(line.rstrip(","))["payload"] for line in lines] == ["1K", "4K", "64K", "1M"]
    assert path.name == "fake.all_reduce.fake.json"
    assert path.parent.name == "4r"
    assert "1K" in stored_times(folder)


def test_a_session_shows_its_verdicts_even_if_baselines_cannot_be_written(
    folder: Folder,
) -> None:
    folder.fill_disk()
    ran = folder.run("--update-baselines", "--junitxml=", exit_code=1)
    (last,) = (
        line for line in ran.text.splitlines() if line.startswith("ERROR: not all baselines")
    )
    assert last.startswith("ERROR: not all baselines were written: ")
    assert last.endswith("fake.all_reduce.fake.json: File too large")
    assert "NO_BASELINE" in ran.text
    assert not folder.baseline_files


def test_the_option_accept_regression_stores_a_loss_beyond_the_budget_with_its_reason(
    folder: Folder,
) -> None:
    folder.slower(3)
    ran = folder.updated("--accept-regression", "a slower switch")
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "not written" not in ran.text
    assert ran.text.splitlines()[-2].startswith("PASS: ")
    assert "REGRESSED, loss accepted" in ran.text and "; accepted a loss of 1 case\n" in ran.text
    after = folder.stored
    (row,) = after["entries"]
    assert row["pinned_us"] == pytest.approx(float(stored_times(folder)["1M"][0]))
    assert after["history"][-1]["reason"] == "a slower switch"
    assert after["history"][-1]["accepted_regression"] is True
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}


SEVEN = ("--payloads=1K:64K", "--history=history")
ALL_SLOWER = {"device": "tpu", "device_kind": "TPU v2", "ranks": 8, **SLOW}


def _sessions(folder: Folder) -> dict[str, int]:
    return {row["payload"]: len(row["times_us"]) for row in folder.stored["entries"]}


@pytest.mark.exhaustive
def test_the_option_accept_regression_accepts_a_session_in_which_all_cases_are_slower(
    folder: Folder,
) -> None:
    folder.slower(1.05, *SEVEN[:1], script=ALL_SLOWER)
    assert "SLOWER: " in folder.run(*SEVEN, exit_code=1).text
    ran = folder.updated(*SEVEN[:1], "--accept-regression=a new route")
    assert "; accepted: fake: all 7 cases together take 1.0" in ran.text
    assert "moved with others" in ran.text
    assert set(_sessions(folder).values()) == {1}
    assert folder.run(*SEVEN[:1], exit_code=0).case("4K")["ratio"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.exhaustive
def test_the_option_accept_regression_accepts_regressed_cases_and_no_noisy_cases(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*SEVEN[:1])
    slower = [{"payload_bytes": 4096, "slower": 3}, {"payload_bytes": 65536, "slower": 1.4}]
    folder.script(**SLOW, cases=slower)
    ran = folder.run(*SEVEN[:1], "--update-baselines", "--accept-regression=why", exit_code=0)
    assert (ran.outcomes["4K"], ran.outcomes["64K"]) == ("REGRESSED", "NOISY")
    assert "REGRESSED, loss accepted" in ran.text
    assert "64K: the baseline was not written: NOISY" in ran.text
    pins = {row["payload"]: row["pinned_us"] for row in folder.stored["entries"]}
    assert pins["4K"] == pytest.approx(3 * pins["2K"], rel=0.01)
    assert pins["64K"] == pytest.approx(pins["2K"], rel=0.02)


def test_a_regressed_case_fails_in_every_session_until_its_time_is_repaired(folder: Folder) -> None:
    (folder.path / "history").mkdir()
    options = ("--payloads=1K,2K", "--history=history")
    folder.script(**SLOW)
    folder.with_baselines(*options)
    folder.script(**SLOW, cases=[{"payload_bytes": 2048, "slower": 3}])
    for _ in range(2):
        assert folder.run(*options, exit_code=1).outcomes == {"1K": "PASS", "2K": "REGRESSED"}
    folder.script(**SLOW)
    assert set(folder.run(*options, exit_code=0).outcomes.values()) == {"PASS"}


@pytest.mark.exhaustive
def test_a_session_in_which_a_loss_is_repaired_names_the_loss_and_does_not_fail(
    folder: Folder,
) -> None:
    folder.script(**ALL_SLOWER)
    folder.with_baselines(*SEVEN[:1])
    nightly.stored_before(folder, {40: 1.0})
    nightly.nights(folder, [1.001**night for night in range(38)])
    folder.script(**ALL_SLOWER, cases=[{"slower": 1.036}])
    assert "all cases of fake are " in folder.run(*SEVEN, exit_code=1).text
    folder.script(**ALL_SLOWER)
    assert "repaired: back at " in folder.run(*SEVEN, exit_code=0).text


def payloads(folder: Folder) -> list[str]:
    """Return the payloads that have a baseline, of all files."""
    documents = (json.loads(path.read_text()) for path in folder.baseline_files)
    return [row["payload"] for document in documents for row in document["entries"]]


@pytest.mark.exhaustive
def test_the_option_prune_baselines_removes_baselines_of_cases_that_were_not_requested(
    folder: Folder,
) -> None:
    folder.with_baselines("--payloads=1K:4K")
    ran = folder.run("--prune-baselines", "--payloads=2K", exit_code=0)
    assert payloads(folder) == ["2K"]
    gone = [line for line in ran.text.splitlines() if line.endswith(" -> none")]
    assert [line.split()[1] for line in gone] == ["1K", "4K"]


@pytest.mark.exhaustive
def test_the_option_prune_baselines_keeps_baselines_of_deselected_cases(folder: Folder) -> None:
    folder.with_baselines("--payloads=1K:8K")
    folder.run("--prune-baselines", "--payloads=1K:4K", "-k", "2K", exit_code=0)
    assert payloads(folder) == ["1K", "2K", "4K"]


@pytest.mark.exhaustive
def test_a_session_without_a_verdict_removes_no_baseline_and_gives_the_reason(
    folder: Folder,
) -> None:
    folder.with_baselines("--payloads=1K,2K")
    ran = folder.run("--prune-baselines", "--payloads=1K", "--benchmark-skip", exit_code=1)
    assert "note: no baseline was written: NO_VERDICT" in ran.text
    assert payloads(folder) == ["1K", "2K"]


def test_a_value_after_the_option_prune_baselines_is_a_usage_error(folder: Folder) -> None:
    folder.run("--prune-baselines=all", exit_code=4)
