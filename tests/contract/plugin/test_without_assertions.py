"""Sessions fail although python -O ignores assertions or although tests are skipped."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import SLOW, WITHOUT_CACHE, Folder, Ran

# pytest itself warns that failing tests will pass, which is an error here.
PLAIN = ("--assert=plain", "-W", "ignore::pytest.PytestConfigWarning")

AUTO_SKIP = """\
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.{mark})
"""


def run_optimized(folder: Folder, *options: str, exit_code: int) -> Ran:
    """Run a session under ``python -O``, which ignores assert statements."""
    folder.environment.setenv("PYTHONOPTIMIZE", "1")
    ran = folder.run(*PLAIN, *options, exit_code=exit_code)
    folder.environment.delenv("PYTHONOPTIMIZE")
    return ran


def test_a_regression_or_a_wrong_result_fails_even_if_python_disables_assertions(
    folder: Folder,
) -> None:
    folder.regressed()
    folder.script(**SLOW, cases=[{"payload_bytes": 1024, "then": "wrong_result"}])
    ran = run_optimized(folder, "--payloads=1K,1M,2M", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED", "1M": "REGRESSED", "2M": "NO_BASELINE"}
    assert "2 failed, 1 without baseline" in ran.last_line
    assert [text.split(":")[0] for text in ran.failures] == ["FAILED", "REGRESSED"]


@pytest.mark.exhaustive
@pytest.mark.extension("compiled")
def test_a_program_that_lost_its_collective_fails_even_if_python_disables_assertions(
    folder: Folder,
) -> None:
    folder.environment.setenv("BUSBW_FAKE_COMPILER", '{"cases": [{"loses_collective": true}]}')
    folder.environment.setenv("PYTHONOPTIMIZE", "1")
    options = ("--frameworks=fake", "--topology=v5e:2x4", "--compile-cache=none", "--payloads=1K")
    ran = folder.pytest("perf", *options, *WITHOUT_CACHE, *PLAIN, exit_code=1)
    assert "1 failed" in ran.last_line


def test_the_mark_xfail_hides_no_regression(folder: Folder) -> None:
    folder.regressed()
    (folder.path / "every_test.py").write_text(AUTO_SKIP.format(mark="xfail(strict=False)"))
    ran = folder.run("-p", "every_test", exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "1 failed" in ran.last_line
    assert [text.split(":")[0] for text in ran.failures] == ["REGRESSED"]


@pytest.mark.exhaustive
def test_a_test_that_skips_itself_does_not_hide_a_regression(folder: Folder) -> None:
    folder.regressed()
    test = "import pytest\n\n\ndef test_collective(busbw_verdict):\n    pytest.skip('busy')\n"
    (folder.path / "perf" / "test_collectives.py").write_text(test)
    ran = folder.run(exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "1 failed" in ran.last_line


@pytest.mark.exhaustive
@pytest.mark.parametrize("mark", ["skip", "skipif(True, reason='busy')", "xfail(run=False)"])
def test_a_session_has_no_verdict_if_its_tests_are_skipped_before_they_read_verdicts(
    folder: Folder, mark: str
) -> None:
    (folder.path / "every_test.py").write_text(AUTO_SKIP.format(mark=mark))
    ran = folder.run("-p", "every_test", "--update-baselines", exit_code=1)
    assert "NO_VERDICT: 1 case left out before the verdict was read; the first is perf/" in ran.text
    assert not folder.baseline_files


def test_the_option_setup_plan_leaves_a_session_without_a_verdict_and_writes_no_baseline(
    folder: Folder,
) -> None:
    ran = folder.run("--setup-plan", "--update-baselines", exit_code=1)
    assert "NO_VERDICT: 1 case left out before the verdict was read" in ran.text
    assert not folder.baseline_files
    (folder.path / "test_other.py").write_text("def test_other():\n    pass\n")
    folder.pytest("test_other.py", "--setup-plan", exit_code=0)
