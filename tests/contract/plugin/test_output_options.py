"""--results and --history: the written files, and files that are never overwritten."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from tests.helpers import nightly
from tests.helpers.session_folder import (
    FAKE,
    HISTORY,
    ROOT,
    SEVEN,
    SLOW,
    TPU,
    WITHOUT_CACHE,
    Folder,
)


def test_the_results_file_conforms_to_the_published_schema(folder: Folder) -> None:
    schema = json.loads((ROOT / "docs/results.schema.json").read_text())
    folder.script(cases=[{"payload_bytes": 2048, "then": "kill"}])
    jsonschema.validate(folder.run("--payloads=1K,2K", exit_code=1).results, schema)


def test_a_session_appends_a_line_for_each_case_to_the_history(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(HISTORY, "--payloads=1K,2K", "--launches=2", exit_code=0)
    lines = folder.history_lines
    assert [line["case"]["payload_bytes"] for line in lines] == [1024, 2048]
    assert [len(line["times_us"]) for line in lines] == [2, 2]
    assert len({line["session"] for line in lines}) == 1
    assert {line["outcome"] for line in lines} == {"NO_BASELINE"}
    assert {line["session_outcome"] for line in lines} == {"NOTHING_COMPARED"}
    for line in lines:
        assert line["versions"] == {"fake": "1"} and line["host"] and line["worker"]
    times_s = ran.case("1K")["now"]["times_s"]
    assert lines[0]["times_us"] == pytest.approx([1e6 * time_s for time_s in times_s], rel=1e-5)
    assert f"appended to the history: 2 lines of {folder.history_file}" in ran.text


@pytest.mark.exhaustive
def test_the_history_lists_the_verdicts_of_all_sessions_in_the_order_of_the_sessions(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.environment.setenv("BUSBW_HISTORY", "history")
    folder.run("--update-baselines", exit_code=0)
    folder.run(exit_code=0)
    folder.script(latency_s=5e-3)
    folder.run(exit_code=1)
    lines = folder.history_lines
    assert [line["outcome"] for line in lines] == ["NO_BASELINE", "PASS", "REGRESSED"]
    assert len({line["session"] for line in lines}) == 3
    assert [bool(line["baseline_date"]) for line in lines] == [False, True, True]
    assert lines[2]["ratio"] == pytest.approx(5, rel=0.1)


@pytest.mark.exhaustive
def test_sessions_that_the_history_recorded_after_the_accepted_time_set_the_expected_time(
    folder: Folder,
) -> None:
    """Fail a case that takes its baseline time again after two weeks of faster sessions."""
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    nightly.nights(folder, [0.93] * 14)
    folder.script(**TPU, cases=[{"payload_bytes": 4096}, {"slower": 0.93}])
    ran = folder.run(SEVEN, HISTORY, exit_code=1)
    assert [payload for payload, outcome in ran.outcomes.items() if outcome != "PASS"] == ["4K"]
    assert ran.outcomes["4K"] == "REGRESSED"
    case = ran.case("4K")
    assert case["ratio"] == pytest.approx(1 / 0.93, rel=0.01)
    assert case["baseline"]["median_s"] == pytest.approx(
        0.934 * ran.case("4K")["baseline"]["best_s"], rel=0.003
    )
    assert not case["provisional"]
    folder.script(**TPU)
    alone = folder.run(SEVEN, exit_code=0)
    assert alone.outcomes["4K"] == "PASS"
    assert alone.case("4K")["ratio"] == pytest.approx(1.0, rel=1e-3)
    assert alone.case("4K")["provisional"]
    ran = folder.run(SEVEN, HISTORY, exit_code=1)
    assert (
        "SLOWER: 7 of 7 cases failed: 7 REGRESSED; fake: all 7 cases together take 1.07" in ran.text
    )


@pytest.mark.exhaustive
def test_times_of_regressed_cases_or_of_injected_delays_do_not_set_the_expected_time(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    nightly.nights(folder, [1.0] * 6, until=8)
    nightly.nights(folder, [1.3] * 4, until=4, outcome="REGRESSED")
    nightly.nights(folder, [1.3] * 3, injected="delay:30%")
    folder.script(**TPU, cases=[{"payload_bytes": 4096, "slower": 1.05}])
    ran = folder.run(SEVEN, HISTORY, exit_code=1)
    assert ran.outcomes["4K"] == "REGRESSED"
    assert ran.case("4K")["ratio"] == pytest.approx(1.05, rel=0.003)


def _record_drift(folder: Folder) -> None:
    """Record three sessions with all cases 3 % slower: too little for a regression of a case."""
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    old, new = {"fake": "0.9"}, {"fake": "1"}
    nightly.nights(folder, [*[1.01, 0.99] * 6, *[1.03] * 3], versions=[*[old] * 12, *[new] * 3])
    folder.script(**TPU, cases=[{"slower": 1.03}])


def test_a_drift_fails_the_session_and_names_its_first_day_and_the_version_that_changed(
    folder: Folder,
) -> None:
    _record_drift(folder)
    ran = folder.run(SEVEN, HISTORY, exit_code=1)
    assert set(ran.outcomes.values()) == {"PASS"}
    assert ran.document["session"]["outcomes"][0] == "DRIFT"
    night = nightly.days_ago(3)[:10]
    message = (
        rf"DRIFT: all cases of fake are [23]\.\d+ % slower than expected over the last 4 sessions, "
        rf"since {night}; changed there: fake 0\.9 -> 1"
    )
    assert re.search(message, ran.text), ran.text
    assert "1 failed, 7 passed" in ran.last_line
    assert {line["session_outcome"] for line in folder.history_lines[-7:]} == {"DRIFT"}
    assert set(folder.run(SEVEN, exit_code=0).outcomes.values()) == {"PASS"}


@pytest.mark.exhaustive
def test_the_times_after_an_acknowledged_drift_become_the_expected_times(
    folder: Folder,
) -> None:
    _record_drift(folder)
    file = folder.path / "baselines" / "acknowledged.toml"
    file.write_text(f'[[change]]\nsince = {nightly.days_ago(3)[:10]}\nreason = "see #7"\n')
    ran = folder.run(SEVEN, HISTORY, exit_code=0)
    assert ran.document["session"]["outcomes"][0] == "PASS"
    file.write_text("[[change]]\nsince = 2026-01-01\n")
    ran = folder.run(SEVEN, HISTORY, exit_code=4)
    assert "acknowledged.toml: file.change[0].reason: missing" in ran.text


@pytest.mark.exhaustive
def test_the_option_update_baselines_after_a_drift_makes_the_new_times_the_expected_times(
    folder: Folder,
) -> None:
    _record_drift(folder)
    ran = folder.updated(SEVEN, HISTORY)
    assert "PASS: 7 cases measured" in ran.text
    assert "; accepted: all cases of fake are " in ran.text
    entries = folder.stored["entries"]
    assert {len(row["times_us"]) for row in entries} == {1}
    after = folder.run(SEVEN, HISTORY, exit_code=0)
    assert after.case("4K")["ratio"] == pytest.approx(1.0, rel=1e-3)
    assert "accepted" not in after.text


def test_a_file_in_the_place_of_the_folder_of_the_history_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run("--history=pytest.ini", exit_code=4)
    assert ran.sentence.startswith("ERROR: busbw: --history: ")
    assert "is not a folder" in ran.sentence


@pytest.mark.exhaustive
def test_a_history_on_a_full_disk_is_an_error_and_the_file_stays_unchanged(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.run(HISTORY, exit_code=0)
    path = folder.history_file
    before = path.read_bytes()
    folder.fill_disk(len(before) + 64)
    ran = folder.pytest(*FAKE, *WITHOUT_CACHE, HISTORY, exit_code=1, reports=False)
    assert f"ERROR: the history was not appended to: {path}: " in ran.text
    assert path.read_bytes() == before


def test_an_incomplete_line_of_the_history_is_a_usage_error(folder: Folder) -> None:
    folder.with_baselines(HISTORY)
    path = folder.history_file
    torn = path.read_bytes() + b'{"version":1, "sess'
    path.write_bytes(torn)
    assert f"{path}: line 2, column " in folder.run(HISTORY, exit_code=4).sentence
    assert path.read_bytes() == torn
