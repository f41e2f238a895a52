"""Fixtures and hooks of a user's conftest.py, which change or hide verdicts."""

from __future__ import annotations

import pytest

from tests.adversarial.attacks.conftests import CONFTESTS
from tests.helpers.session_folder import HISTORY, Folder
from tests.helpers.sweep import sweep

_CONFTESTS = {name: attack.conftest for name, attack in CONFTESTS.items()}
_UNMEASURED = [_CONFTESTS[name] for name in ("protocol of one's own", "loop of one's own")]
REPLACED = [
    _CONFTESTS[name]
    for name in (
        "items replaced at the end",
        "items deselected",
        "items deselected as if asked",
        "a keyword of one's own",
    )
]
GREEN = [
    _CONFTESTS[name]
    for name in ("exit code set around", "exit in the end", "exit code at unconfigure")
]


def _conftest(folder: Folder, text: str) -> None:
    (folder.path / "perf" / "conftest.py").write_text(text)


@pytest.mark.parametrize("conftest", sweep(_UNMEASURED), ids=["protocol", "loop"])
def test_a_regression_fails_a_session_even_if_a_hook_keeps_the_tests_from_running(
    folder: Folder, conftest: str
) -> None:
    folder.slower(5)
    _conftest(folder, conftest)
    assert "1 REGRESSED: fake 1M 5.0" in folder.run(exit_code=1).text


@pytest.mark.parametrize("conftest", sweep(_UNMEASURED), ids=["protocol", "loop"])
def test_a_session_in_which_no_test_reads_the_verdicts_fails(folder: Folder, conftest: str) -> None:
    folder.with_baselines()
    _conftest(folder, conftest)
    assert folder.run(exit_code=1).outcomes == {"1M": "PASS"}


REMOVED = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "1M" not in item.name and item.name != "session"]
"""


@pytest.mark.parametrize(
    "conftest",
    sweep(REPLACED, in_gate=2),
    ids=["replaced", "deselected", "as-if-asked", "keyword"],
)
def test_a_session_in_which_a_hook_replaces_the_tests_that_measure_fails(
    folder: Folder, conftest: str
) -> None:
    folder.with_baselines()
    _conftest(folder, conftest)
    ran = folder.run(exit_code=1)
    assert "1 passed" in ran.text
    assert "ERROR: busbw: 1 case collected, and no test read a verdict" in ran.text


@pytest.mark.parametrize(
    ("conftest", "payloads"),
    [(_CONFTESTS["fixture busbw_verdict"], "1M"), (REMOVED, "1M,2M")],
    ids=["fixture", "hook"],
)
def test_a_session_has_no_verdict_if_a_fixture_replaces_busbw_verdict_or_a_hook_removes_a_case(
    folder: Folder, conftest: str, payloads: str
) -> None:
    folder.with_baselines()
    _conftest(folder, conftest)
    ran = folder.run(f"--payloads={payloads}", exit_code=1)
    assert "NO_VERDICT: 1 case left out before the verdict was read; the first is " in ran.text


@pytest.mark.parametrize("conftest", sweep(GREEN), ids=["set", "exit", "unconfigure"])
def test_a_regression_fails_a_session_even_if_a_hook_sets_the_exit_code_to_0(
    folder: Folder, conftest: str
) -> None:
    folder.slower(5)
    _conftest(folder, conftest)
    assert "ERROR: busbw: " in folder.run(exit_code=1).text


@pytest.mark.parametrize("option", sweep(["--collect-only", "--fixtures-per-test"]))
def test_a_session_that_only_lists_tests_has_exit_code_0(folder: Folder, option: str) -> None:
    folder.run(option, exit_code=0)


SETUP = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    yield
    raise ExceptionGroup("several", [DeprecationWarning("fork in a process with threads")])
"""
TEARDOWN = """
import pytest

@pytest.fixture(scope="session", autouse=True)
def theirs():
    yield
    raise RuntimeError("gone at the end")
"""
ASSERTS = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    yield
    assert item.name == "session", "too slow for us"
"""


CASE = "test_collective[fake-default-float32-1M]"
FORK = "(setup): DeprecationWarning: fork in a process with threads"


@pytest.mark.parametrize(
    ("conftest", "message"),
    sweep(
        [
            (SETUP, f"2 errors in the tests of busbw; the first is {CASE} {FORK}"),
            (
                TEARDOWN,
                "1 error in the tests of busbw; the first is session (teardown): RuntimeError",
            ),
            (ASSERTS, f"1 error in the tests of busbw; the first is {CASE} (call): AssertionError"),
        ],
    ),
)
def test_an_error_in_a_test_that_measures_is_part_of_the_verdict_of_the_session(
    folder: Folder, conftest: str, message: str
) -> None:
    _conftest(folder, conftest)
    ran = folder.run(HISTORY, exit_code=1)
    last = next(line for line in ran.text.splitlines() if line.startswith("NO_VERDICT: "))
    assert message in last
    assert "PASS" not in ran.text
    assert ran.document["session"]["outcomes"] == ["NO_VERDICT"]
    (line,) = (folder.path / "history").glob("*/*/*.jsonl")
    assert '"session_outcome":"NO_VERDICT"' in line.read_text()


@pytest.mark.exhaustive
def test_a_session_whose_hook_raises_an_exception_has_exit_code_3_and_does_not_say_pass(
    folder: Folder,
) -> None:
    _conftest(folder, "def pytest_runtest_logfinish():\n    raise RuntimeError('theirs')\n")
    ran = folder.run(exit_code=3)
    assert "INTERNALERROR" in ran.text and "PASS" not in ran.text
