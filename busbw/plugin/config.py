"""The values of a session that the stash of pytest's config holds, and functions that read them.

A session without tests of busbw has no such values.
"""

from __future__ import annotations

import os
import shlex

import pytest

from busbw.model.case import CaseSpec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session.command_line import read_options
from busbw.session.option import UsageError
from busbw.session.options import OPTIONS
from busbw.session.run import Mode, mode_of
from busbw.session.state import CollectedSession, JudgedSession

from . import SHIPPED_TESTS_PLUGIN, VERDICT_FIXTURES

# The mode, which says how the session is collected, run and shown.
MODE_KEY = pytest.StashKey[Mode]()

# The newest value of the session, or an error if the options cannot be used.
SESSION_KEY = pytest.StashKey[UsageError | CollectedSession | JudgedSession]()

# The verdict that the test of an item has read.
VERDICT_KEY = pytest.StashKey[Verdict | SessionVerdict]()

# The collected tests of cases, without those that the user deselected.
CASE_ITEMS_KEY = pytest.StashKey[dict[pytest.Item, None]]()

# Errors in tests of busbw that no verdict of a case describes.
UNDESCRIBED_ERRORS_KEY = pytest.StashKey[list[str]]()


def option_words(config: pytest.Config) -> list[str]:
    """Return the words of `addopts` in the ini file, of PYTEST_ADDOPTS and of the command line."""
    words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    return [*words, *config.invocation_params.args]


def command_words(config: pytest.Config) -> list[str]:
    """Return the words of a command that starts the session again with the same arguments.

    The command begins with ``busbw run`` or with ``python -m pytest``.
    """
    words = list(config.invocation_params.args)
    if SHIPPED_TESTS_PLUGIN in words:
        return ["busbw", "run", *words[words.index(SHIPPED_TESTS_PLUGIN) + 1 :]]
    return ["python", "-m", "pytest", *words]


def begin_session(config: pytest.Config) -> UsageError | CollectedSession:
    """Return the CollectedSession of the session, or the error if the options cannot be used.

    The first call reads the options, when the first test that reads a verdict is collected. So
    wrong options of busbw do not affect sessions without such tests. Raises pytest.UsageError in a
    worker of pytest-xdist.
    """
    if hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "busbw measures alone on the machine; expected pytest without -n, since pytest-xdist "
            "would measure several cases at once"
        )
    if SESSION_KEY not in config.stash:
        try:
            settings = [name for name, option in OPTIONS.items() if option.has_setting]
            options = read_options(
                option_words(config),
                config.rootpath,
                {name: config.getini(f"busbw_{name}") for name in settings},
            )
            config.stash[MODE_KEY] = mode_of(options)
            config.stash[SESSION_KEY] = config.stash[MODE_KEY].collected_session
        except UsageError as error:
            config.stash[SESSION_KEY] = error
    state = config.stash[SESSION_KEY]
    assert isinstance(state, (UsageError, CollectedSession))
    return state


def judged_session_of(config: pytest.Config) -> JudgedSession | None:
    """Return the JudgedSession of the session; None if the cases were not judged."""
    state = config.stash.get(SESSION_KEY, None)
    return state if isinstance(state, JudgedSession) else None


def spec_of(item: pytest.Item) -> CaseSpec | None:
    """Return the CaseSpec that is a parameter of a test item; None if the test has no case."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    specs = (parameters[name] for name in VERDICT_FIXTURES if name in parameters)
    return next((spec for spec in specs if isinstance(spec, CaseSpec)), None)


def case_items(session: pytest.Session) -> dict[pytest.Item, CaseSpec]:
    """Return the selected test items that have a case, each with its CaseSpec."""
    specs = {item: spec_of(item) for item in session.items}
    return {item: spec for item, spec in specs.items() if spec is not None}
