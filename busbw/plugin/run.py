"""The steps of a session, called by hooks of pytest, and the exit code.

Everything is measured before the first test, so that no test is charged with it. The exit code
follows the verdict, whatever hooks of other plugins do to tests and exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from busbw.model.words import plural
from busbw.session.errors import UsageError
from busbw.session.progress import Display
from busbw.session.state import Collected, Observed

from . import SHIPPED_TESTS
from .config import MODE, SESSION, VERDICT, case_items, judged_of, spec_of, words_of
from .items import session_verdict
from .terminal import Terminal

_FAILED = pytest.ExitCode.TESTS_FAILED

# The collected tests of cases, without those that the user deselected.
_CASES = pytest.StashKey[dict[pytest.Item, None]]()

# The exit code of a session whose results were written.
_EXIT_CODE = pytest.StashKey[int | pytest.ExitCode]()

# How options of pytest begin with which a user leaves tests out.
_SELECTING = ("-k", "-m", "--deselect", "--lf", "--last-failed", "--sw", "--stepwise")

# Options of pytest with which no test runs.
_SHOWING = ("collectonly", "show_fixtures_per_test")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Measure the selected cases, then let the tests read their verdicts."""
    config = session.config
    specs = tuple(dict.fromkeys(case_items(session).values()))
    is_broken = session.testsfailed and not config.option.continue_on_collection_errors
    if specs and not config.option.collectonly and not is_broken:
        collected = config.stash[SESSION]
        assert isinstance(collected, Collected)

        def keep(observed: Observed) -> None:
            config.stash[SESSION] = observed

        display = Display(Terminal(config), verbose=config.get_verbosity() > 0)
        skip = "--benchmark-skip" if config.getoption("benchmark_skip", False) else ""
        run = config.stash[MODE].run
        try:
            config.stash[SESSION] = run(collected, specs, display, keep=keep, skip=skip)
        except UsageError as error:
            raise pytest.UsageError(f"busbw: {error}") from error
    return (yield)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember a test of a case: a plugin may take it out of the session's tests."""
    if spec_of(item) is not None:
        item.config.stash.setdefault(_CASES, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Forget tests that the user deselected, but not those that a plugin deselected by itself."""
    for item in items:
        config = item.config
        if any(word.startswith(_SELECTING) for word in words_of(config)):
            config.stash.get(_CASES, {}).pop(item, None)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write the results and, on request, baselines, once; nothing after an interrupt."""
    config, verdict = session.config, session_verdict(session)
    judged = judged_of(config)
    if judged is None or verdict is None or exitstatus not in (pytest.ExitCode.OK, _FAILED):
        return
    judged = replace(judged, session=verdict)
    written = config.stash[MODE].write(judged) or judged
    config.stash[SESSION] = written
    code = _FAILED if verdict.failed or written.errors else exitstatus
    session.exitstatus = config.stash[_EXIT_CODE] = written.exit_code or code


def check_exit_code(session: pytest.Session) -> None:
    """Let no exit code stay green if cases were collected and no test read their verdicts.

    This is called after all hooks, of which any may have set another exit code.
    """
    config = session.config
    is_run = not any(getattr(config.option, name, False) for name in _SHOWING)
    if not is_run or session.exitstatus != pytest.ExitCode.OK:
        return
    problem = _problem(session)
    code = config.stash.get(_EXIT_CODE, _FAILED if problem else session.exitstatus)
    if code != session.exitstatus:
        session.exitstatus = code
        # Text on the other stream may still be on its way.
        config.get_terminal_writer().flush()
        reason = problem or "a hook of another plugin set the exit code to 0"
        sys.stderr.write(f"ERROR: busbw: {reason}\n")


def _problem(session: pytest.Session) -> str:
    """Say why a session cannot be green, whatever its tests say; empty if it can be."""
    cases = session.config.stash.get(_CASES, {})
    if any(VERDICT in item.stash for item in cases):
        verdict = session_verdict(session)
        return verdict.headline() if verdict is not None and verdict.failed else ""
    if cases or session.config.pluginmanager.hasplugin(SHIPPED_TESTS):
        return f"{plural(len(cases), 'case')} collected, and no test read a verdict"
    return ""
