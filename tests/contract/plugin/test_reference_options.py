"""--against, --python and --time-budget: interleaved stacks, interpreters, more launches."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.helpers import standing_in
from tests.helpers.session_folder import SLOW, Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import write_program

AGAINST = f"--against={sys.executable}"
TWO = ("--payloads=1K,1M", "--launches=2")


@pytest.mark.exhaustive
def test_each_of_five_sessions_that_compare_a_stack_with_itself_passes(folder: Folder) -> None:
    for _ in range(5):
        ran = folder.run(AGAINST, *TWO, exit_code=0)
        assert ran.outcomes == {"1K": "PASS", "1M": "PASS"}
    case = ran.case()
    low, high = case["ratio_interval"]
    assert low <= case["ratio"] <= high
    assert case["ratio_error"] is not None
    assert case["ratio"] == pytest.approx(1.0, abs=0.02)
    assert "PASS: 2 cases measured in 2 launches each" in ran.text


@pytest.mark.exhaustive
def test_the_option_against_reports_both_stacks_and_neither_reads_nor_writes_a_baseline(
    folder: Folder,
) -> None:
    folder.regressed()
    before = folder.baseline_file.read_bytes()
    ran = folder.run(f"--against=fake={sys.executable}", "--launches=2", exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    case = ran.case()
    assert len(case["now"]["times_s"]) == len(case["baseline"]["times_s"]) == 2
    assert case["now"]["median_s"] == pytest.approx(case["baseline"]["median_s"], rel=0.05)
    assert [launch["launch"] for launch in case["launches"]] == [
        "1.fake.candidate",
        "2.fake.candidate",
    ]
    assert folder.baseline_file.read_bytes() == before


def test_two_interpreters_that_load_the_same_framework_are_refused_as_two_stacks(
    folder: Folder,
) -> None:
    ours, theirs = (standing_in.interpreter(folder, name) for name in ("ours", "theirs"))
    options = ("--frameworks=jax", f"--python=jax={ours}", f"--against=jax={theirs}")
    ran = folder.run(*options, exit_code=4)
    assert f"--against: expected two stacks, but {theirs} and {ours} use made up" in ran.sentence
    assert ran.results is None
    options = (*options[:2], f"--against=jax={ours}")
    ran = folder.run(*options, exit_code=4)
    assert f"--against: expected two stacks, but {ours} and {ours} use made up" in ran.sentence


PAIRS = "--launches=2"


def reference(**fields: object) -> str:
    """Return the option with which the fake framework of the reference plays another script."""
    return f"--against-env=BUSBW_FAKE={json.dumps(fields)}"


def test_a_case_slower_than_its_interleaved_reference_fails_after_additional_launches(
    folder: Folder,
) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "slower": 1.1}])
    ran = folder.run(reference(**SLOW), PAIRS, "--payloads=1K,1M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "1M": "REGRESSED"}
    (words,) = ran.failures
    assert "1.100 x the interleaved reference" in words
    assert "confirmed" in words
    assert len(ran.case()["launches"]) == 5
    assert "busbw: 3 more launches of fake-default-float32-1K" in ran.text


@pytest.mark.exhaustive
def test_a_case_faster_than_its_interleaved_reference_has_improved(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(reference(**SLOW, cases=[{"slower": 1.2}]), PAIRS, exit_code=0)
    assert ran.outcomes == {"1M": "IMPROVED"}


def test_a_case_fails_and_names_the_reference_stack_if_a_worker_of_this_stack_is_killed(
    folder: Folder,
) -> None:
    ran = folder.run(reference(cases=[{"then": "kill"}]), PAIRS, exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    (words,) = ran.failures
    assert "the reference: killed in 2 of 2 launches" in words


@pytest.mark.parametrize(
    ("fields", "message"),
    sweep(
        [
            ({"device": "tpu", "ranks": 4}, "the reference: no CPU to measure on"),
            (
                {"protocol": "other"},
                "got fake.all_reduce.fake.float32.1M by host/other on fake-cpu",
            ),
            ({"probe": "exit"}, "the reference: "),
        ]
    ),
)
def test_a_reference_stack_with_another_device_or_protocol_is_a_usage_error(
    folder: Folder, fields: dict[str, object], message: str
) -> None:
    ran = folder.run(reference(**fields), exit_code=4)
    assert message in ran.sentence
    assert ran.results is None


FLAG = "XLA_FLAGS=--xla_cpu_enable_fast_math=true"


def candidate(**fields: object) -> str:
    """Return the option with which the fake framework of the candidate plays another script."""
    return f"--try-env=BUSBW_FAKE={json.dumps(fields)}"


@pytest.mark.exhaustive
def test_a_variable_of_the_option_try_env_that_makes_a_case_slower_is_a_regression(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    ran = folder.run(candidate(**SLOW, cases=[{"slower": 1.2}]), PAIRS, exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert ran.case()["ratio"] == pytest.approx(1.2, rel=0.05)


@pytest.mark.parametrize(
    ("option", "changed"),
    sweep(
        [
            (f"--try-env={FLAG}", FLAG),
            (f"--against-env={FLAG}", f"reference: {FLAG}"),
        ]
    ),
)
@pytest.mark.extension("page")
def test_every_output_names_an_environment_variable_that_only_one_stack_has(
    option: str, changed: str, folder: Folder
) -> None:
    folder.script(**SLOW)
    page = folder.path / "page.html"
    ran = folder.run(option, PAIRS, f"--page={page}", "--history=nights", exit_code=0)
    (title,) = (line for line in ran.text.splitlines() if "all_reduce (fake)" in line)
    assert title.endswith(f"; {changed}")
    assert ran.document["environment"]["changed"] == changed
    assert page.read_text().count(changed) >= 2
    (path,) = (folder.path / "nights").rglob("*.jsonl")
    assert json.loads(path.read_text())["changed"] == changed


def test_the_value_of_a_secret_environment_variable_of_a_stack_is_not_shown(folder: Folder) -> None:
    ran = folder.run(
        *("--try-env", "MY_TOKEN=hunter2"), "--against-env=TF_KEY=swordfish", PAIRS, exit_code=0
    )
    assert "MY_TOKEN=(set), reference: TF_KEY=(set)" in ran.text
    for secret in ("hunter2", "swordfish"):
        assert secret not in ran.text + json.dumps(ran.results)


WRAPPER = '#!/bin/sh\necho "$@" >> {record}\nexec {python} "$@"\n'


def interpreter(folder: Folder, record: Path) -> Path:
    """Return an interpreter outside of a venv that records each start in a file."""
    bare = folder.path / "python-without-venv"
    bare.symlink_to(sys.executable)
    return write_program(folder.path / "other-python", WRAPPER.format(record=record, python=bare))


def test_every_worker_runs_under_the_interpreter_that_the_option_python_names(
    folder: Folder,
) -> None:
    record = folder.path / "record.txt"
    ran = folder.run(f"--python=fake={interpreter(folder, record)}", "--launches=2", exit_code=0)
    starts = record.read_text().splitlines()
    launches = [word for line in starts for word in line.split() if word.startswith("--launch=")]
    assert launches == ["--launch=probe", "--launch=1.fake", "--launch=2.fake"]
    assert ran.outcomes == {"1M": "NO_BASELINE"}


def test_a_framework_that_only_the_interpreter_of_the_option_python_has_is_collected(
    folder: Folder,
) -> None:
    (folder.path / "blocked.py").write_text("import sys\nsys.modules['jax'] = None\n")
    options = ("-p", "blocked", "--frameworks=jax", f"--python=jax={sys.executable}")
    ran = folder.run(*options, "--collect-only", exit_code=0)
    assert "test_collective[jax-default-float32-1M]" in ran.text


# A worker imports what bears the name of one.
@pytest.mark.framework
def test_a_framework_that_is_too_old_is_a_usage_error_that_names_the_oldest_supported_version(
    folder: Folder,
) -> None:
    (folder.path / "old").mkdir()
    (folder.path / "old" / "jax.py").write_text("__version__ = '0.4.38'\n")
    folder.environment.setenv("PYTHONPATH", str(folder.path / "old"), prepend=os.pathsep)
    ran = folder.run("--frameworks=jax", exit_code=4)
    assert "jax 0.4.38 is too old: expected 0.5.0 or newer" in ran.sentence


# Sessions that simulate their times do not wait, and real sessions wait for a minute.
_RECORD_WAITS = """
import pathlib, types
from busbw.driver import schedules
from busbw.session import measure
measure.confirmation_delay_s = lambda *_: 60.0
schedules.time = measure.time = types.SimpleNamespace(
    monotonic=lambda: 0.0, sleep=lambda seconds: pathlib.Path("waits").write_text(f"{seconds:.0f}")
)
"""


def test_a_case_that_seems_slower_is_measured_again_after_a_wait_and_within_the_time_budget(
    folder: Folder,
) -> None:
    folder.regressed()
    (folder.path / "perf" / "conftest.py").write_text(_RECORD_WAITS)
    ran = folder.run("--time-budget=60", exit_code=1)
    assert (folder.path / "waits").read_text() == "60"
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert len(ran.case()["launches"]) == 4
    assert "busbw: waiting 60 s, then 3 more launches of fake-default-float32-1M" in ran.text
    assert "FAILED: 1 of 1 case failed: 1 REGRESSED; 1 case measured in 4 launches each" in ran.text


def test_a_session_whose_time_budget_ends_before_a_loss_is_confirmed_has_no_verdict(
    folder: Folder,
) -> None:
    folder.regressed()
    ran = folder.run("--time-budget=1e-9", exit_code=1)
    assert ran.outcomes == {"1M": "NOISY"}
    assert len(ran.case()["launches"]) == 1
    assert (
        "note: --time-budget of 1e-09 s for more launches is spent; "
        "still undecided: fake-default-float32-1M"
    ) in ran.text
    assert (
        "NO_VERDICT: seemed slower, but --time-budget ran out before it was confirmed: "
        "fake-default-float32-1M"
    ) in ran.session_failure
