"""Run the steps of a session from hooks of pytest, and set the exit code.

All cases are measured before the first test, so that the duration of no test includes measuring.
The exit code follows the session's verdict, even if hooks of other plugins change tests or the exit
code.
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
    case_items,
    spec_of,
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
    """Run and judge the selected cases before pytest runs the tests, which read the verdicts."""
    config = session.config
    specs = tuple(dict.fromkeys(case_items(session).values()))
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
    """Record the test of a case, because a plugin may remove the test from the session later."""
    if spec_of(item) is not None:
        item.config.stash.setdefault(CASE_ITEMS_KEY, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remove the tests that the user's options deselected from the items of cases.

    A test that a plugin deselects by itself stays an item of a case, so that its verdict counts as
    unread.
    """
    for item in items:
        config = item.config
        # A hook may have changed `config.option`, and not the words of the user.
        words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
        words += config.invocation_params.args
        if any(word.startswith(_SELECTING_FLAGS) for word in words):
            config.stash.get(CASE_ITEMS_KEY, {}).pop(item, None)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write baselines, the history and the requested files, and set the exit code.

    Nothing is written after an interrupt or another error of pytest.
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
    """Replace an exit code of 0 if the session's verdict fails, or if no verdict was read.

    An unread verdict counts if cases were collected, or if the command is `busbw run`. Cases that
    the user's options deselected do not count as collected. This function is called after all
    hooks, because any hook may set the exit code.
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
    """Return the reason why the exit code must not be 0; empty if the exit code may be 0."""
    cases = session.config.stash.get(CASE_ITEMS_KEY, {})
    if any(VERDICT_KEY in item.stash for item in cases):
        verdict = session_verdict(session)
        return verdict.headline() if verdict is not None and verdict.failed else ""
    if cases or session.config.pluginmanager.hasplugin(SHIPPED_TESTS_PLUGIN):
        return f"{plural(len(cases), 'case')} collected, and no test read a verdict"
    return ""
