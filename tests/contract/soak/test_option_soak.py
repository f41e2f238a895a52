"""--soak: every result is compared until the time is over, and no time is measured."""

from __future__ import annotations

import json
import signal

import jsonschema
import pytest

from tests.helpers.session_folder import HISTORY, ROOT, Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import wait_until

SOAKED = ("perf", "--frameworks=fake", "--payloads=1K,1M", "-p", "no:cacheprovider")


# Every fiftieth result of 1K is wrong.
FLIPS = [{"payload_bytes": 1024, "flips": 50}]


def test_a_soak_without_a_wrong_result_passes_and_prints_an_upper_bound_of_the_error_rate(
    folder: Folder,
) -> None:
    folder.script(latency_s=1e-3)
    ran = folder.pytest(*SOAKED, "--soak=0.5s", exit_code=0)
    assert ran.outcomes == {"1K": "PASS", "1M": "PASS"}
    assert "no corruption; error rate below 1 in " in ran.case("1K")["text"]
    iterations = ran.case("1K")["extra"]["soak"]["iterations"]
    assert float(ran.properties("1K")["iterations"]) == iterations > 100
    assert "\nPASS: 2 cases, " in ran.text
    schema = json.loads((ROOT / "docs/results.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(ran.document)
    assert not folder.left_over()


def test_a_wrong_element_in_a_soak_fails_only_its_case_and_is_named(folder: Folder) -> None:
    folder.script(latency_s=1e-3, cases=FLIPS)
    ran = folder.pytest(*SOAKED, "--soak=0.5s", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED", "1M": "PASS"}
    (words,) = ran.failures
    assert "wrong result: iteration 50: rank 1 (" in words
    assert (
        "), element 7: 0x7, expected 0x6 (wrong bits: 0); the same inputs gave a wrong result in "
        in words
    )


def test_a_worker_that_is_killed_in_a_soak_fails_only_its_case(folder: Folder) -> None:
    folder.script(latency_s=1e-3, cases=[{"payload_bytes": 1024, "then": "kill"}])
    ran = folder.pytest(*SOAKED, "--soak=0.5s", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED", "1M": "PASS"}


@pytest.mark.exhaustive
def test_a_case_of_a_soak_that_is_out_of_memory_leaves_the_session_without_a_verdict(
    folder: Folder,
) -> None:
    options = ("--payloads=1K,64M", "--memory-limit=100M")
    ran = folder.pytest(*SOAKED, "--soak=0.5s", *options, exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "64M": "OUT_OF_MEMORY"}
    assert "\nNO_VERDICT: 2 cases, 1 OUT_OF_MEMORY, " in ran.text


def test_a_soak_whose_dtypes_are_all_compiled_as_other_dtypes_has_no_verdict(
    folder: Folder,
) -> None:
    folder.script(cases=[{"then": "other_dtype"}])
    ran = folder.pytest(*SOAKED, "--soak=0.5s", exit_code=1)
    assert ran.outcomes == {"1K": "SKIPPED", "1M": "SKIPPED"}
    assert "\nNO_VERDICT: 2 cases, 2 SKIPPED, 0 iterations, 0 bytes compared\n" in ran.text


@pytest.mark.exhaustive
def test_the_history_has_the_wrong_result_of_a_soak(folder: Folder) -> None:
    folder.script(latency_s=1e-3, cases=FLIPS)
    folder.pytest(*SOAKED, "--soak=0.5s", HISTORY, exit_code=1)
    (line,) = (folder.path / "history").rglob("*.jsonl")
    (record,) = map(json.loads, line.read_text().splitlines())
    assert (record["failure"], record["outcome"]) == ("WRONG_RESULT", "FAILED")


@pytest.mark.exhaustive
def test_a_soak_that_ctrl_c_ends_prints_a_line_for_each_case_and_leaves_no_file(
    folder: Folder,
) -> None:
    folder.script(latency_s=1e-3)
    session = folder.begin(*SOAKED, "--soak=1h")
    assert wait_until(lambda: "busbw: soaking " in folder.output), folder.output
    session.send_signal(signal.SIGINT)
    assert session.wait(30) == 2
    assert "fake-default-float32-1M: " in folder.output
    assert not folder.left_over()


@pytest.mark.parametrize(
    ("options", "sentence"),
    sweep(
        [
            (["--soak=10"], "--soak: expected a duration such as 90s, 10m or 8h, got '10'"),
            (["--soak=-1s"], "--soak: expected a number from 1e-09 to 10000000, got '-1'"),
            (
                ["--soak=1m", "--update-baselines"],
                "--update-baselines: not with --soak",
            ),
            (["--soak=1m", "--launches=2"], "--launches: not with --soak, which takes no times"),
            (["--soak=1m", "--clock=dispatch"], "--clock: not with --soak"),
            (
                ["--soak=1m", "--topology=v5e:2x2"],
                "--soak: not with --topology, which measures noth",
            ),
        ]
    ),
)
def test_a_soak_refuses_an_invalid_duration_or_an_option_of_timed_sessions(
    folder: Folder, options: list[str], sentence: str
) -> None:
    assert sentence in folder.pytest(*SOAKED, *options, exit_code=4).sentence
