"""The exit code follows the verdict, whatever somebody's own hooks do to tests and exit codes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence

import pytest

from busbw.model.words import plural

from .items import read_by_all
from .session import SESSION, VERDICT, Judged, Written, spec_of, under_xdist

# The tests that were collected to read a verdict, and not deselected.
_PROMISED = pytest.StashKey[dict[pytest.Item, None]]()

# What the session ends with, as soon as that is known, and why if no test says it.
_OWN = pytest.StashKey[tuple[int | pytest.ExitCode, str]]()

# pytest's options with which a user leaves tests out, as they were given: a hook may set others.
_LEAVES_OUT = (
    "keyword",
    "markexpr",
    "deselect",
    "lf",
    "stepwise",
    "stepwise_skip",
    "stepwise_reset",
)

# Options with which no test runs.
_LOOKS_ONLY = ("collectonly", "show_fixtures_per_test")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember a test that reads a verdict: others may take it out of the session's tests."""
    if spec_of(item) is not None:
        item.config.stash.setdefault(_PROMISED, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """What the user leaves out is not missed; what a hook of others leaves out is."""
    for item in items:
        if any(getattr(item.config.known_args_namespace, name, None) for name in _LEAVES_OUT):
            item.config.stash.get(_PROMISED, {}).pop(item, None)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.add_cleanup(functools.partial(_hold, session))


def _hold(session: pytest.Session) -> None:
    if not runs_tests(session):
        return
    green = session.exitstatus == pytest.ExitCode.OK
    own, why = session.config.stash.get(_OWN, (pytest.ExitCode.TESTS_FAILED, ""))
    if green and _OWN not in session.config.stash:
        why = unkept(session)
        own = own if why else session.exitstatus
    if green and own != session.exitstatus:
        session.exitstatus = own
        why = why or "somebody's own hook set the exit code to 0"
    if why:
        sys.stderr.write(f"ERROR: busbw: {why}\n")


def runs_tests(session: pytest.Session) -> bool:
    """Whether pytest runs tests, in this process or in those of pytest-xdist that it started."""
    option = session.config.option
    return not under_xdist(session.config) and not any(
        getattr(option, name, False) for name in _LOOKS_ONLY
    )


def unkept(session: pytest.Session) -> str:
    """Why a session that promised verdicts cannot be green, whatever its tests say, or ""."""
    config, by_name = session.config, "busbw.plugin.promises"
    promised, found = config.stash.get(_PROMISED, {}), config.stash.get(SESSION, None)
    if not promised:
        by_run = config.pluginmanager.hasplugin(by_name)
        return "no test that was run reads a verdict of busbw" if by_run else ""
    if not any(VERDICT in item.stash for item in promised):
        return f"{plural(len(promised), 'case')} collected, and no test read a verdict"
    judged = found.judged if isinstance(found, Written) else found
    if not isinstance(judged, Judged):
        return f"{plural(len(promised), 'case')} collected, and nothing was measured"
    verdict = read_by_all(judged.session, session.items)
    return verdict.headline() if verdict.failed else ""


def set_exit_code(session: pytest.Session, code: int | pytest.ExitCode, why: str = "") -> None:
    """The session's own, which no later hook turns into a green one; `why`, if no test says it."""
    session.exitstatus = code
    session.config.stash[_OWN] = code, why
