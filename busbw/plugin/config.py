"""The keys by which busbw stores the values of a session in the stash of pytest's config.

The functions of this module read the options of busbw, and the cases of tests. A session without
tests of busbw stores no values.
"""

from __future__ import annotations

import pytest

from busbw.model.case import CaseSpec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session.command_line import make_options
from busbw.session.option import UsageError
from busbw.session.options import OPTIONS
from busbw.session.run import Mode, requested_mode
from busbw.session.state import CollectedSession, JudgedSession

from . import VERDICT_FIXTURES

# The mode, which says how the session is collected, run and shown.
MODE_KEY = pytest.StashKey[Mode]()

# The session before its cases are run, or an error if the options cannot be used.
SESSION_KEY = pytest.StashKey[UsageError | CollectedSession]()

# The session once its cases were judged.
JUDGED_SESSION_KEY = pytest.StashKey[JudgedSession]()

# The verdict that the test of an item has read.
VERDICT_KEY = pytest.StashKey[Verdict | SessionVerdict]()

# The collected tests of cases, without those that the user deselected.
CASE_ITEMS_KEY = pytest.StashKey[dict[pytest.Item, None]]()

# Errors in tests of busbw that no verdict of a case describes.
UNDESCRIBED_ERRORS_KEY = pytest.StashKey[list[str]]()


def begin_session(config: pytest.Config) -> UsageError | CollectedSession:
    """Return the session before its cases are run or, if the options cannot be used, the error.

    The first call reads the options of busbw, and stores the result. The call is made when pytest
    collects the first test that reads a verdict. So wrong options of busbw do not affect sessions
    without such tests. Raises pytest.UsageError in a worker of pytest-xdist.
    """
    if hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "busbw measures alone on the machine; expected pytest without -n, since pytest-xdist "
            "would measure several cases at once"
        )
    if SESSION_KEY not in config.stash:
        try:
            values = {name: config.getoption(name) for name in OPTIONS}
            settings = [name for name, option in OPTIONS.items() if option.has_setting]
            options = make_options(
                {name: value for name, value in values.items() if value is not None},
                config.rootpath,
                {name: config.getini(f"busbw_{name}") for name in settings},
            )
            config.stash[MODE_KEY] = requested_mode(options)
            config.stash[SESSION_KEY] = config.stash[MODE_KEY].collected_session
        except UsageError as error:
            config.stash[SESSION_KEY] = error
    return config.stash[SESSION_KEY]


def case_spec_of_item(item: pytest.Item) -> CaseSpec | None:
    """Return the CaseSpec that is the parameter of a test item; None if the test has no case."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    specs = (parameters[name] for name in VERDICT_FIXTURES if name in parameters)
    return next((spec for spec in specs if isinstance(spec, CaseSpec)), None)


def case_specs_by_item(session: pytest.Session) -> dict[pytest.Item, CaseSpec]:
    """Return the CaseSpec of each selected test item that has a case."""
    specs = {item: case_spec_of_item(item) for item in session.items}
    return {item: spec for item, spec in specs.items() if spec is not None}
