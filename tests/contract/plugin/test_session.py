"""The item of the session itself: no selection and no skipping of tests hides a failure."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import FAKE, Folder, Ran


def items(ran: Ran) -> list[str]:
    """Return the test items of a --collect-only -q, in order."""
    return [line.split("::", 1)[1] for line in ran.text.splitlines() if "::" in line]


def test_the_option_collect_only_lists_the_session_item_last_and_starts_no_process(
    folder: Folder,
) -> None:
    folder.script(probe="exit")
    ran = folder.run("--collect-only", "-q", "--payloads=1K,2K", exit_code=0)
    assert items(ran) == [
        "test_collective[fake-default-float32-1K]",
        "test_collective[fake-default-float32-2K]",
        "session",
    ]
    assert ran.results is None
    assert not list(folder.temporary.iterdir())


def test_the_option_k_selects_the_cases_to_measure_and_keeps_the_session_item(
    folder: Folder,
) -> None:
    ran = folder.run("-k", "2K", "-v", "--payloads=1K:4K", exit_code=0)
    assert ran.outcomes == {"2K": "NO_BASELINE"}
    assert "session NOTHING_COMPARED" in ran.text
    assert "2 deselected, 1 without baseline" in ran.last_line


def test_a_session_has_exit_code_5_if_the_option_k_selects_no_case(folder: Folder) -> None:
    assert folder.run("-k", "nothing", exit_code=5).results is None


def test_a_node_id_on_the_command_line_measures_only_its_case(folder: Folder) -> None:
    node = "perf/test_collectives.py::test_collective[fake-default-float32-2K]"
    options = ("--frameworks=fake", "--payloads=1K:4K", "-p", "no:cacheprovider")
    assert list(folder.pytest(node, *options, exit_code=0).outcomes) == ["2K"]


def test_a_session_with_a_broken_test_file_measures_nothing(folder: Folder) -> None:
    (folder.path / "perf" / "test_broken.py").write_text("import nowhere\n")
    assert "busbw device" not in folder.run(exit_code=2).text


def test_the_option_benchmark_skip_fails_the_session_and_changes_no_verdict_of_a_case(
    folder: Folder,
) -> None:
    folder.with_baselines()
    ran = folder.run("--benchmark-skip", exit_code=1)
    assert ran.outcomes == {"1M": "PASS"}
    assert "NO_VERDICT: --benchmark-skip asks that benchmarks be skipped" in ran.text
    assert "1 failed, 1 passed" in ran.last_line


@pytest.mark.exhaustive
def test_verdicts_do_not_depend_on_whether_pytest_benchmark_is_installed_or_disabled(
    folder: Folder,
) -> None:
    folder.regressed()
    for options in (["--benchmark-disable"], ["-p", "no:benchmark"]):
        ran = folder.run(*options, "--payloads=1M,2M", exit_code=1)
        assert ran.outcomes == {"1M": "REGRESSED", "2M": "NO_BASELINE"}
        assert "1 failed, 1 without baseline" in ran.last_line, options


def test_a_session_under_xdist_measures_nothing_and_the_error_says_to_run_without_xdist(
    folder: Folder,
) -> None:
    ran = folder.run("-n", "2", "--payloads=1K,2K", exit_code=1)
    assert "passed" not in ran.last_line
    assert "expected pytest without -n" in ran.text
    assert ran.results is None
    assert not folder.baseline_files


@pytest.mark.exhaustive
def test_the_option_x_stops_the_tests_at_the_first_failure_after_all_cases_were_measured(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 1024, "then": "wrong_result"}])
    ran = folder.run("-x", "--payloads=1K:4K", "--update-baselines", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED", "2K": "NO_BASELINE", "4K": "NO_BASELINE"}
    assert "1 failed in" in ran.last_line


@pytest.mark.exhaustive
def test_the_option_lf_measures_only_failed_cases_again_and_keeps_the_session_item(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "kill"}])
    options = (*FAKE, "--payloads=1K:4K")
    folder.pytest(*options, exit_code=1)
    folder.script()
    ran = folder.pytest(*options, "--lf", "-v", exit_code=0)
    assert ran.outcomes == {"2K": "NO_BASELINE"}
    assert "session NOTHING_COMPARED" in ran.text
    ran = folder.pytest(*options, "--lf", "--benchmark-skip", exit_code=1)
    assert "NO_VERDICT" in ran.text


def test_a_failed_test_that_measures_nothing_changes_no_outcome_of_a_case(folder: Folder) -> None:
    (folder.path / "perf" / "test_other.py").write_text("def test_other():\n    assert False\n")
    assert "1 failed, 1 without baseline" in folder.run(exit_code=1).last_line


WATCH = """
import sys

def seen(when):
    there = [name for name in ("jax", "jaxlib", "tensorflow") if name in sys.modules]
    print(f"\\nat {when}: {there}", file=sys.stderr)

def pytest_collection_finish():
    seen("collection")

def pytest_unconfigure():
    seen("end")
"""


def test_collecting_every_framework_imports_no_framework(folder: Folder) -> None:
    (folder.path / "watch.py").write_text(WATCH)
    for name in ("jax", "tensorflow"):
        (folder.path / f"{name}.py").write_text("raise AssertionError('imported')\n")
    options = ("-p", "watch", "-s", "--frameworks=jax,tensorflow,fake", "--collect-only")
    ran = folder.run(*options, exit_code=0)
    assert "tensorflow-default-float32-1M" in ran.text
    assert "at collection: []" in ran.text
    assert "at end: []" in ran.text
