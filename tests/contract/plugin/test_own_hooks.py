"""Fixtures and hooks of a user's conftest.py, which change or hide verdicts."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import HISTORY, Folder
from tests.helpers.sweep import sweep

SHADOW = """
import pytest

@pytest.fixture
def {name}():
    return type("Verdict", (), {{"failed": False}})()
"""
PROTOCOL = "def pytest_runtest_protocol(item, nextitem):\n    return True\n"
LOOP = "def pytest_runtestloop(session):\n    return True\n"


def _conftest(folder: Folder, text: str) -> None:
    (folder.path / "perf" / "conftest.py").write_text(text)


def test_a_session_in_which_a_user_fixture_replaces_busbw_verdict_fails(folder: Folder) -> None:
    folder.updated()
    _conftest(folder, SHADOW.format(name="busbw_verdict"))
    ran = folder.run(exit_code=1)
    assert "NO_VERDICT: 1 case left out before the verdict was read" in ran.text


@pytest.mark.parametrize("conftest", sweep([PROTOCOL, LOOP]), ids=["protocol", "loop"])
def test_a_regression_fails_a_session_even_if_a_hook_keeps_the_tests_from_running(
    folder: Folder, conftest: str
) -> None:
    folder.slower(5)
    _conftest(folder, conftest)
    ran = folder.run(exit_code=1)
    assert "1 REGRESSED: fake 1M 5.0" in ran.text


@pytest.mark.parametrize("conftest", sweep([PROTOCOL, LOOP]), ids=["protocol", "loop"])
def test_a_session_in_which_no_test_reads_the_verdicts_fails(folder: Folder, conftest: str) -> None:
    folder.updated()
    _conftest(folder, conftest)
    assert folder.run(exit_code=1).outcomes == {"1M": "PASS"}


OTHER = """
import pytest

class Other(pytest.Item):
    def runtest(self):
        pass

"""
REPLACED = (
    OTHER
    + """
@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    session.items[:] = [Other.from_parent(session, name="other")]
"""
)
DESELECTED = (
    OTHER
    + """
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session, config, items):
    config.hook.pytest_deselected(items=list(items))
    items[:] = [Other.from_parent(session, name="other")]
"""
)
AS_IF_ASKED = (
    OTHER
    + """
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session, config, items):
    config.option.keyword = "other"
    config.hook.pytest_deselected(items=list(items))
    items[:] = [Other.from_parent(session, name="other")]
"""
)
KEYWORD = (
    OTHER
    + """
def pytest_configure(config):
    config.known_args_namespace.keyword = config.option.keyword = "other"

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session, items):
    items.append(Other.from_parent(session, name="other"))
"""
)
REMOVED = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "1M" not in item.name and item.name != "session"]
"""
GREEN = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
"""
EXIT = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    pytest.exit("all is well", returncode=0)
"""
UNCONFIGURE = """
def pytest_sessionstart(session):
    session.config.session = session

def pytest_unconfigure(config):
    config.session.exitstatus = 0
"""


@pytest.mark.parametrize(
    "conftest",
    sweep([REPLACED, DESELECTED, AS_IF_ASKED, KEYWORD], in_gate=2),
    ids=["replaced", "deselected", "as-if-asked", "keyword"],
)
def test_a_session_in_which_a_hook_replaces_the_tests_that_measure_fails(
    folder: Folder, conftest: str
) -> None:
    folder.updated()
    _conftest(folder, conftest)
    ran = folder.run(exit_code=1)
    assert "1 passed" in ran.text
    assert "ERROR: busbw: 1 case collected, and no test read a verdict" in ran.text


def test_a_session_in_which_a_hook_removes_a_case_has_no_verdict(folder: Folder) -> None:
    folder.updated()
    _conftest(folder, REMOVED)
    ran = folder.run("--payloads=1M,2M", exit_code=1)
    assert "NO_VERDICT: 1 case left out before the verdict was read; the first is " in ran.text


@pytest.mark.parametrize(
    "conftest", sweep([GREEN, EXIT, UNCONFIGURE]), ids=["set", "exit", "unconfigure"]
)
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
