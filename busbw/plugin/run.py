"""Run the steps of a session from hooks of pytest, and set the exit code.

All cases are measured before the first test. So the duration that pytest shows for a test does not
include measuring. The exit code follows the verdict of the session, even if the hooks of other
plugins change tests or the exit code.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from busbw.model.words import plural
from busbw.session.measure import Display
from busbw.session.option import UsageError
from busbw.session.run import run_session
from busbw.session.state import CollectedSession

from . import SHIPPED_TESTS_PLUGIN
from .config import (
    CASE_ITEMS_KEY,
    JUDGED_SESSION_KEY,
    MODE_KEY,
    SESSION_KEY,
    VERDICT_KEY,
    case_spec_of_item,
    case_specs_by_item,
)
from .items import session_verdict
from .terminal import Terminal

_FAILED = pytest.ExitCode.TESTS_FAILED

# The exit code of a session that wrote its files.
_EXIT_CODE_KEY = pytest.StashKey[int | pytest.ExitCode]()

# The beginnings of pytest's options that leave tests out.
_SELECTING_FLAGS = ("-k", "-m", "--deselect", "--lf", "--last-failed", "--sw", "--stepwise")

# Options of pytest with which no test runs.
_OPTIONS_WITHOUT_RUN = ("collectonly", "show_fixtures_per_test")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run and judge the selected cases, and then let pytest run the tests, which read the verdicts.

    Raises pytest.UsageError if the cases cannot be run with these options.
    """
    config = session.config
    specs = tuple(dict.fromkeys(case_specs_by_item(session).values()))
    is_broken = session.testsfailed and not config.option.continue_on_collection_errors
    if specs and not config.option.collectonly and not is_broken:
        collected_session = config.stash[SESSION_KEY]
        assert isinstance(collected_session, CollectedSession)
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        try:
            display = Terminal(reporter) if reporter else Display()
            config.stash[JUDGED_SESSION_KEY] = run_session(
                collected_session, specs, display, config.stash[MODE_KEY].run_cases
            )
        except UsageError as error:
            raise pytest.UsageError(f"busbw: {error}") from error
    return (yield)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember a test that has a case, so that a plugin cannot remove the test unnoticed later."""
    if case_spec_of_item(item) is not None:
        item.config.stash.setdefault(CASE_ITEMS_KEY, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Forget the tests of cases that the user deselected, for example with -k.

    A test that a plugin deselected on its own is not forgotten. The verdict of the test counts as
    unread, so that the session fails.
    """
    for item in items:
        config = item.config
        # A hook may have changed `config.option`, and not the words of the user.
        words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
        words += config.invocation_params.args
        if any(word.startswith(_SELECTING_FLAGS) for word in words):
            config.stash.get(CASE_ITEMS_KEY, {}).pop(item, None)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write the baselines, the history and the requested files, and set the exit code of pytest.

    Nothing is done after an interrupt or another error of pytest, or if no case was judged.
    """
    config, verdict = session.config, session_verdict(session)
    judged_session = config.stash.get(JUDGED_SESSION_KEY, None)
    if judged_session is None or verdict is None or exitstatus not in (pytest.ExitCode.OK, _FAILED):
        return
    judged_session = replace(judged_session, session_verdict=verdict)
    written = config.stash[MODE_KEY].write_files(judged_session)
    config.stash[JUDGED_SESSION_KEY] = written
    code = _FAILED if written.session_verdict.failed else exitstatus
    session.exitstatus = config.stash[_EXIT_CODE_KEY] = code


def correct_exit_code(session: pytest.Session) -> None:
    """Replace the exit code 0 by 1 if the session failed, or if no verdict of a case was read.

    Without a read verdict, the exit code stays 0 if no case was collected and the command is not
    `busbw run`. Cases that the user deselected do not count as collected. pytest calls this
    function after all hooks, because any hook may set the exit code.
    """
    config = session.config
    is_run = not any(getattr(config.option, name, False) for name in _OPTIONS_WITHOUT_RUN)
    if not is_run or session.exitstatus != pytest.ExitCode.OK:
        return
    problem = _problem_text(session)
    # A session that wrote its files has its own exit code. Any other session fails for a problem.
    code = config.stash.get(_EXIT_CODE_KEY, _FAILED if problem else session.exitstatus)
    if code != session.exitstatus:
        session.exitstatus = code
        # pytest's text on standard output is flushed so that it comes before the error.
        config.get_terminal_writer().flush()
        reason = problem or "a hook of another plugin set the exit code to 0"
        sys.stderr.write(f"ERROR: busbw: {reason}\n")


def _problem_text(session: pytest.Session) -> str:
    """Return the reason why the exit code must not be 0; an empty text if it may be 0."""
    cases = session.config.stash.get(CASE_ITEMS_KEY, {})
    if any(VERDICT_KEY in item.stash for item in cases):
        verdict = session_verdict(session)
        return verdict.headline() if verdict is not None and verdict.failed else ""
    if cases or session.config.pluginmanager.hasplugin(SHIPPED_TESTS_PLUGIN):
        return f"{plural(len(cases), 'case')} collected, and no test read a verdict"
    return ""
