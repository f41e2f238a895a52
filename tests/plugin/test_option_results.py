"""--results: the session as JSON, with every field that readers count on."""

from __future__ import annotations

import json

import jsonschema

from .folder import ROOT, SLOW, Folder


def test_it_holds_environment_plan_session_and_every_case_in_full(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2048, "then": "kill"}])
    folder.run("--update-baselines", "--payloads=1K,2K", "--launches=2", exit_code=1)
    ran = folder.run("--payloads=1K,2K", "--launches=2", exit_code=1)
    assert ran.results is not None
    assert ran.results["environment"]["key"]["device_kind"] == "Fake CPU"
    assert ran.results["environment"]["versions"] == {"fake": {"fake": "1"}}
    assert ran.results["plan"]["launches"] == 2
    case = ran.case("1K")
    assert case["outcome"] == "PASS"
    assert case["case"]["framework"] == "fake"
    assert case["case"]["payload_bytes"] == 1024
    assert case["case"]["protocol"] == "host/fake"
    measured = case["measured"]
    assert set(measured) >= {"median_s", "best_s", "algbw_gb_per_s", "busbw_gb_per_s"}
    assert measured["algbw_gb_per_s"] == 1024 / measured["median_s"] / 1e9
    assert measured["busbw_gb_per_s"] == measured["algbw_gb_per_s"] * 1.5
    assert case["baseline"]["median_s"] > 0
    assert abs(case["ratio"] - 1) < 0.01
    assert case["limit"] > 1
    assert case["failure"] is None
    assert len(case["launches"]) == 2
    for launch in case["launches"]:
        assert len(launch["samples_s"]) >= 2
        assert launch["injected"] == ""


def test_a_failed_case_has_its_failure_and_no_time(folder: Folder) -> None:
    folder.script(cases=[{"passes": [1], "then": "exit"}])
    ran = folder.run("--launches=2", exit_code=1)
    case = ran.case()
    assert case["outcome"] == "FAILED"
    assert case["measured"] is None
    assert case["failure"]["kind"] == "CRASHED"
    assert case["failure"]["exit_code"] == 3
    assert "the script says exit" in case["failure"]["log"]
    assert len(case["launches"]) == 1


def test_it_keeps_to_its_published_schema(folder: Folder) -> None:
    schema = json.loads((ROOT / "docs/results.schema.json").read_text())
    folder.script(cases=[{"payload_bytes": 2048, "then": "kill"}])
    ran = folder.run("--payloads=1K,2K", exit_code=1)
    jsonschema.validate(ran.results, schema)


def test_a_folder_that_is_not_there_is_a_usage_error_before_anything_is_measured(
    folder: Folder,
) -> None:
    ran = folder.run("--results=nowhere/results.json", exit_code=4)
    assert f"--results: there is no folder {folder.path / 'nowhere'}" in ran.sentence


def test_a_folder_instead_of_a_file_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run(f"--results={folder.path}", exit_code=4)
    assert "is a folder; accepted is a file" in ran.sentence


def test_without_it_no_file_is_written(folder: Folder) -> None:
    ran = folder.run(reports=False, exit_code=0)
    assert ran.results is None
