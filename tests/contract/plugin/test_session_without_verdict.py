"""Sessions without a verdict: each fails, whatever its cases show, and writes no baseline."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers import standing_in
from tests.helpers.session_folder import SEVEN, SLOW, TPU, WITHOUT_CACHE, Folder, Ran
from tests.helpers.sweep import sweep

# One case of each framework.
BOTH = ("perf", "--payloads=1M", "--launches=1", *WITHOUT_CACHE)


@pytest.fixture
def both(folder: Folder) -> tuple[str, str]:
    """Return options with which an interpreter stands in for the one of each framework."""
    python = standing_in.interpreter(folder)
    return (f"--python=jax={python}", f"--python=tensorflow={python}")


def assert_no_verdict(folder: Folder, *options: str, message: str) -> Ran:
    """Check that the session fails with `message` and refuses to update baselines."""
    before = {path: path.read_bytes() for path in folder.baseline_files}
    ran = folder.pytest(*BOTH, "--update-baselines", *options, exit_code=1)
    assert message in ran.session_failure, ran.text
    assert ran.document["session"]["outcomes"][0] == message.split(":")[0]
    assert f"note: no baseline was written: {message}" in ran.text
    assert {path: path.read_bytes() for path in folder.baseline_files} == before
    return ran


@pytest.mark.exhaustive
def test_a_session_has_no_verdict_if_more_than_a_tenth_of_its_cases_are_too_noisy(
    folder: Folder,
) -> None:
    folder.script(**SLOW, cases=[{"passes": [number], "slower": 5.0} for number in (2, 4, 6, 8)])
    folder.with_baselines("--launches=8")
    message = (
        "NO_VERDICT: 1 of 1 case too noisy to judge; the first is fake.all_reduce.fake.float32.1M"
    )
    ran = assert_no_verdict(folder, "--frameworks=fake", "--launches=8", message=message)
    assert ran.outcomes == {"1M": "NOISY"}
    assert "the expected time cannot be ruled out" in ran.text


def test_a_fallback_to_another_clock_leaves_no_verdict_unless_an_option_names_this_clock(
    folder: Folder,
) -> None:
    folder.script(**SLOW, clocks=["device", "host"])
    folder.with_baselines()
    folder.script(**SLOW, clocks=["host"])
    message = "NO_VERDICT: fake: the clock fell back to host, the baseline was read from device"
    ran = assert_no_verdict(folder, "--frameworks=fake", message=message)
    assert ran.outcomes == {"1M": "INCOMPARABLE"}
    assert folder.run("--clock=host", exit_code=0).outcomes == {"1M": "INCOMPARABLE"}


@pytest.mark.exhaustive
def test_a_changed_default_strategy_leaves_no_verdict_unless_an_option_names_the_strategy(
    folder: Folder,
) -> None:
    folder.with_baselines()
    (path,) = folder.baseline_files
    text = path.read_text().replace('"strategy": "fake"', '"strategy": "ring"')
    path.with_name("fake.all_reduce.ring.json").write_text(text)
    path.unlink()
    message = "NO_VERDICT: fake: the default is fake now, the baseline is of ring"
    ran = assert_no_verdict(folder, "--frameworks=fake", message=message)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert folder.run("--strategies=fake", exit_code=0).outcomes == {"1M": "NO_BASELINE"}


def test_a_session_has_no_verdict_if_the_device_of_a_framework_with_baselines_is_missing(
    folder: Folder, both: tuple[str, str]
) -> None:
    for framework in ("jax", "tensorflow"):
        standing_in.script(folder, framework, **TPU)
    folder.pytest(*BOTH, *both, "--update-baselines", exit_code=0)
    assert len(folder.baseline_files) == 2
    standing_in.script(folder, "tensorflow", device="gpu", device_kind="GPU")
    message = "NO_VERDICT: cases that have a baseline were not measured: tensorflow: not found"
    ran = assert_no_verdict(folder, *both, message=message)
    assert sorted([case["outcome"] for case in ran.cases]) == ["PASS", "SKIPPED"]


@pytest.mark.exhaustive
def test_a_session_does_not_fail_if_a_framework_without_baselines_is_skipped(
    folder: Folder, both: tuple[str, str]
) -> None:
    standing_in.script(folder, "jax", **TPU)
    standing_in.script(folder, "tensorflow", device="gpu", device_kind="GPU")
    assert "1 skipped, 1 without baseline" in folder.pytest(*BOTH, *both, exit_code=0).last_line


def test_a_session_fails_if_all_its_cases_together_are_slower(folder: Folder) -> None:
    """Slow all cases down beyond the limit of a shared change, below the limit of a single case."""
    folder.slower(2.6, SEVEN)
    ran = folder.run(SEVEN, exit_code=1)
    message = "SLOWER: fake: all 7 cases together take 2.600 x the expected time (limit 2.5"
    assert message in ran.session_failure
    assert ran.session_failure.count("stack or machine: unknown") >= 1
    assert ran.document["session"]["outcomes"][0] == "SLOWER"
    assert "1 failed, 7 passed" in ran.last_line


@pytest.mark.parametrize("factor", sweep([1.9, 0.4]))
def test_a_session_passes_if_all_cases_are_slower_but_within_the_limit_of_the_shared_part(
    folder: Folder, factor: float
) -> None:
    folder.slower(factor, SEVEN)
    ran = folder.run(SEVEN, exit_code=0)
    assert set(ran.outcomes.values()) == {"PASS"}
    assert ran.document["session"]["outcomes"][0] == "PASS"
    assert ran.case("4K")["ratio"] == pytest.approx(factor, rel=0.01)


ABSENT = "import sys\n\nsys.modules['tensorflow'] = None\n"


@pytest.fixture
def without_tensorflow(folder: Folder, both: tuple[str, str]) -> tuple[str, ...]:
    """Options of a session in which JAX is another interpreter's and TensorFlow is nowhere.

    Both have baselines, of the same machine.
    """
    for framework in ("jax", "tensorflow"):
        standing_in.script(folder, framework)
    folder.pytest(*BOTH, *both, "--update-baselines", exit_code=0)
    assert len(folder.baseline_files) == 2
    (folder.path / "absent.py").write_text(ABSENT)
    return ("-p", "absent", both[0])


@pytest.mark.exhaustive
def test_a_session_has_no_verdict_if_a_framework_with_baselines_is_missing(
    folder: Folder, without_tensorflow: tuple[str, ...]
) -> None:
    message = (
        "NO_VERDICT: cases that have a baseline were not measured: tensorflow: not installed here"
    )
    ran = assert_no_verdict(folder, *without_tensorflow, message=message)
    assert ran.ids == {
        "jax-default-float32-1M": "PASS",
        "tensorflow-default-float32-1M": "SKIPPED",
    }
    assert 'pip install "busbw[tf]"' in ran.text


@pytest.mark.exhaustive
def test_a_framework_with_baselines_may_be_missing_if_options_request_other_frameworks(
    folder: Folder, without_tensorflow: tuple[str, ...]
) -> None:
    command = (*BOTH, *without_tensorflow)
    for options in (("--frameworks=jax",), ("-k", "jax")):
        ran = folder.pytest(*command, *options, exit_code=0)
        assert ran.outcomes == {"1M": "PASS"}
    ran = folder.pytest(*command, "-k", "tensorflow", exit_code=4)
    assert "busbw: tensorflow is not installed here; pip install" in ran.sentence


@pytest.mark.exhaustive
@pytest.mark.parametrize("stacks", [(), (f"--against={sys.executable}", "--launches=2")])
def test_a_session_in_which_no_case_fits_in_memory_has_no_verdict(
    folder: Folder, stacks: tuple[str, ...]
) -> None:
    ran = folder.run("--payloads=16M", "--memory-limit=96M", *stacks, exit_code=1)
    assert ran.outcomes == {"16M": "OUT_OF_MEMORY"}
    assert "NO_VERDICT: no case gave a time: 1 OUT_OF_MEMORY" in ran.text


def test_a_session_with_failed_cases_says_failed_and_never_pass(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1K,1M")
    folder.script(
        **SLOW,
        cases=[
            {"payload_bytes": 1024, "then": "out_of_memory"},
            {"payload_bytes": 2**20, "slower": 9},
            {"payload_bytes": 2**22, "then": "kill"},
        ],
    )
    ran = folder.run("--payloads=1K,1M,2M,4M", "--require-baselines", exit_code=1)
    assert "PASS" not in ran.text
    message = "4 of 4 cases failed: 1 OUT_OF_MEMORY, 1 REGRESSED, 1 NO_BASELINE, 1 FAILED"
    assert f"FAILED: {message}; 2 cases measured in " in ran.text


@pytest.mark.exhaustive
def test_a_session_with_fewer_ranks_than_its_baselines_fails_if_baselines_are_required(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines()
    (moment,) = json.loads(folder.baseline_files[0].read_text())["sessions"]
    day = moment[: len("2026-01-31")]
    folder.script(**{**TPU, "ranks": 7})
    message = f"8 ranks here until {day}, 7 today"
    assert f"; {message}" in folder.run(exit_code=0).text
    assert message not in folder.run("--ranks=7", exit_code=0).text
    ran = folder.run("--require-baselines", exit_code=1)
    assert ran.document["session"]["outcomes"] == ["FAILED", "NO_VERDICT"]
    assert message in ran.session_failure
