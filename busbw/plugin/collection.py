"""Make the cases parameters of the tests that read verdicts, and add the session's own item."""

from __future__ import annotations

import pytest

from busbw.model.case import CaseSpec, GridError
from busbw.session.option import UsageError

from . import items
from .config import MODE, SESSION, begin_session, case_items


def skip_other_modes(config: pytest.Config, fixtures: set[str]) -> list[object] | None:
    """Return an empty list of tests for a test function that belongs to another mode, else None.

    None lets pytest collect the test. `fixtures` are the fixtures of busbw that the test reads. The
    list is also empty if the options cannot be used; `pytest_collection_finish` then raises an
    error.
    """
    collected = begin_session(config)
    is_other = isinstance(collected, UsageError) or fixtures - {config.stash[MODE].fixture}
    return [] if is_other else None


def parametrize_test(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the cases of the session's mode.

    If there are no such cases, the error is kept for `pytest_collection_finish`. Raised here, the
    error would look like a broken test.
    """
    config = metafunc.config
    collected = begin_session(config)
    if isinstance(collected, UsageError) or config.stash[MODE].fixture not in metafunc.fixturenames:
        return
    mode = config.stash[MODE]
    specs: tuple[CaseSpec, ...] = ()
    try:
        config.stash[SESSION], specs = mode.add_specs(collected)
    except GridError as error:
        config.stash[SESSION] = UsageError(str(error))
    metafunc.parametrize(mode.fixture, specs, ids=[spec.id for spec in specs], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Append the item of the session after all other items, or raise an error of the options.

    Options such as -k, --lf and --ff, which deselect and sort items, do not affect this item.
    """
    if SESSION not in session.config.stash:
        return
    collected, cases = begin_session(session.config), case_items(session)
    if isinstance(collected, UsageError):
        raise pytest.UsageError(f"busbw: {collected}")
    if cases:
        module = list(cases)[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(items.SessionItem.from_parent(module, name="session"))
