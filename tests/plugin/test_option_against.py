"""--against: another stack measured in turn with ours, and what is slower than it fails."""

from __future__ import annotations

import sys

import pytest

from . import standing_in
from .folder import SLOW, WITHOUT_CACHE, Folder

AGAINST = f"--against={sys.executable}"
TWO = ("--payloads=1K,1M", "--launches=2")


@pytest.mark.exhaustive
def test_the_same_stack_five_times_in_a_row_gives_no_alarm(folder: Folder) -> None:
    for _ in range(5):
        ran = folder.run(AGAINST, *TWO, exit_code=0)
        assert ran.outcomes == {"1K": "PASS", "1M": "PASS"}
    case = ran.case()
    low, high = case["ratio_interval"]
    assert low <= case["ratio"] <= high
    assert case["ratio_error"] is not None
    assert case["ratio"] == pytest.approx(1.0, abs=0.02)
    assert "FINE: 2 cases measured in 2 launches each" in ran.text


def test_both_sides_are_shown_and_no_baseline_is_read_or_written(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines()
    folder.scale_baseline(1 / 3)
    (path,) = folder.baseline_files
    before = path.read_bytes()
    ran = folder.run(f"--against=fake={sys.executable}", "--launches=2", exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}
    case = ran.case()
    assert len(case["measured"]["times_s"]) == len(case["baseline"]["times_s"]) == 2
    assert case["measured"]["median_s"] == pytest.approx(case["baseline"]["median_s"], rel=0.05)
    assert [launch["launch"] for launch in case["launches"]] == [
        "1.fake.candidate",
        "2.fake.candidate",
    ]
    assert path.read_bytes() == before


def test_six_launches_of_each_side_are_the_default(folder: Folder) -> None:
    options = ("perf", "--frameworks=fake", "--payloads=1K", *WITHOUT_CACHE, AGAINST)
    ran = folder.pytest(*options, "--collect-only", exit_code=0)
    assert "float32, 6 launches of each side" in ran.text


def test_one_launch_of_each_is_too_few_and_more_are_added(folder: Folder) -> None:
    ran = folder.run(AGAINST, exit_code=0)
    assert "busbw: 1 more launch of fake-default-float32-1M" in ran.text
    assert len(ran.case()["launches"]) == 2


@pytest.mark.parametrize("text", ["/nowhere/python", "", "keras=python3", "fake=/nowhere/python"])
def test_what_is_no_program_is_a_usage_error(folder: Folder, text: str) -> None:
    ran = folder.run(f"--against={text}", exit_code=4)
    program = text.removeprefix("fake=")
    assert f"--against: {program!r} is not an executable program" in ran.sentence


@pytest.mark.parametrize("writing", ["--update-baselines", "--rebase=why", "--prune-baselines"])
def test_nothing_of_it_becomes_a_baseline(folder: Folder, writing: str) -> None:
    ran = folder.run(AGAINST, writing, exit_code=4)
    said = f"{writing.split('=')[0]}: not with --against: these are no times for a baseline"
    assert said in ran.sentence
    assert not folder.baseline_files


def test_a_program_that_is_no_python_is_a_usage_error_that_says_it_is_the_reference(
    folder: Folder,
) -> None:
    ran = folder.run("--against=/bin/false", exit_code=4)
    assert "busbw: the reference: /bin/false: the worker ended with exit code 1" in ran.sentence


def test_two_interpreters_that_load_the_same_files_are_one_stack_and_refused(
    folder: Folder,
) -> None:
    ours, theirs = (standing_in.interpreter(folder, name) for name in ("ours", "theirs"))
    options = ("--frameworks=jax", f"--python=jax={ours}", f"--against=jax={theirs}")
    ran = folder.run(*options, exit_code=4)
    assert f"--against: {theirs} and {ours} both load jax from made up" in ran.sentence
    assert "one stack, not two" in ran.sentence
    assert ran.results is None
