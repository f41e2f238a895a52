"""The grid of the options as parameters of tests; the last item is the session's verdict."""

from __future__ import annotations

import pytest

from busbw.model.case import GridError, Spec
from busbw.session.errors import UsageError

from . import items
from .config import MODE, SESSION, begin, case_items


def collect(config: pytest.Config, fixtures: set[str]) -> list[object] | None:
    """Return no tests for a test that reads fixtures of another mode; else None, as a hook does.

    There are no tests either if the options cannot be used, which `pytest_collection_finish` says.
    """
    collected = begin(config)
    is_other = isinstance(collected, UsageError) or fixtures - {config.stash[MODE].fixture}
    return [] if is_other else None


def generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with cases; keep an error, which here would look like a broken test."""
    config = metafunc.config
    collected = begin(config)
    if isinstance(collected, UsageError) or config.stash[MODE].fixture not in metafunc.fixturenames:
        return
    mode = config.stash[MODE]
    specs: tuple[Spec, ...] = ()
    try:
        config.stash[SESSION], specs = mode.add_specs(collected)
    except GridError as error:
        config.stash[SESSION] = UsageError(str(error))
    metafunc.parametrize(mode.fixture, specs, ids=[spec.id for spec in specs], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Append the item of the session, whatever -k, --lf and --ff made of the other items."""
    if SESSION not in session.config.stash:
        return
    collected, cases = begin(session.config), case_items(session)
    if isinstance(collected, UsageError):
        raise pytest.UsageError(f"busbw: {collected}")
    problem = session.config.stash[MODE].problem(collected.options, list(cases.values()))
    if problem:
        raise pytest.UsageError(f"busbw: {problem}")
    if cases:
        module = list(cases)[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(items.SessionItem.from_parent(module, name="session"))
