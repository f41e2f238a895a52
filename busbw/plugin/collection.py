"""The options' grid as parameters, the session's item last; asks no hardware, starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from busbw.model.case import GridError, Spec
from busbw.session.state import Refused

from . import FIXTURES, items
from .config import SESSION, begun, mode_in, spec_of, under_xdist

# pytest has no public API for which fixture a name means at a node: hence `_fixturemanager`.


def makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object, named: frozenset[str]
) -> object:
    """Collect the tests of the session's mode, and of no other.

    Tests that read no verdict of ours are none of our business, whatever their marks and fixtures.
    """
    config, marks = collector.config, [*getattr(obj, "pytestmark", []), *collector.iter_markers()]
    read = named - _parametrized(marks)
    foreign = [one for one in sorted(read) if not _is_ours(collector, one)]
    if foreign and not isinstance(config.stash.get(SESSION, None), Refused):
        config.stash[SESSION] = Refused(
            error=f"{collector.nodeid}::{name} reads another fixture {foreign[0]} than busbw's, so "
            "that nothing would be measured; only one that asks for busbw's may take its name"
        )
    if not read:
        return None
    collected = begun(config)
    if isinstance(collected, Refused):
        # Reported when all is collected; under pytest-xdist raised, for want of anything better.
        if under_xdist(config):
            raise pytest.UsageError(f"busbw: {collected.error}")
        return []
    return [] if read - {mode_in(config).fixture} else None


def _is_ours(node: pytest.Collector | pytest.Item, name: str) -> bool:
    """One of the same name that asks for ours, to change it, is a way to read ours."""
    found = node.session._fixturemanager.getfixturedefs(name, node) or ()
    for one in reversed(found):
        if one.func.__module__ == __package__:
            return True
        if name not in one.argnames:
            return False
    return False


def _parametrized(marks: Iterable[pytest.Mark]) -> set[str]:
    """The fixtures in whose place a test has values of its own."""
    found: set[str] = set()
    for mark in marks:
        if mark.name == "parametrize":
            names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
            words = names.split(",") if isinstance(names, str) else names
            found.update(one.strip() for one in words)
    return found


def generate_tests(metafunc: pytest.Metafunc) -> None:
    """An impossible grid is only noted: an error here would look like a broken test file."""
    node, marks = metafunc.definition, list(metafunc.definition.iter_markers())
    there = set(FIXTURES).intersection(metafunc.fixturenames) - _parametrized(marks)
    read = {name for name in there if _is_ours(node, name)}
    collected = begun(metafunc.config) if read else None
    if collected is None or isinstance(collected, Refused):
        return
    mode = mode_in(metafunc.config)
    if mode.fixture not in read:
        return
    specs: tuple[Spec, ...] = ()
    try:
        collected, specs = mode.with_specs(collected)
    except GridError as error:
        if under_xdist(metafunc.config):
            raise pytest.UsageError(f"busbw: {error}") from error
        collected = replace(collected, error=str(error))
    metafunc.config.stash[SESSION] = collected
    metafunc.parametrize(mode.fixture, specs, ids=[spec.id for spec in specs], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """The session's verdict is the last item, whatever -k, --lf and --ff made of the others."""
    if SESSION not in session.config.stash:
        return
    measured = [item for item in session.items if spec_of(item)]
    error = _selection_error(session.config, measured)
    # Here an error would end pytest-xdist's process, which reports that nothing ran anyway.
    if error and not under_xdist(session.config):
        raise pytest.UsageError(f"busbw: {error}")
    if measured:
        module = measured[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(items.SessionItem.from_parent(module, name="session"))


def _selection_error(config: pytest.Config, measured: Sequence[pytest.Item]) -> str:
    collected = begun(config)
    if isinstance(collected, Refused) or collected.error:
        return collected.error
    mode = mode_in(config)
    nothing = mode.problem(collected, ())
    without_tests = [f for f in ("setupplan", "setuponly") if config.getoption(f, False)]
    if measured and without_tests and not nothing:
        return (
            f"--{without_tests[0].replace('setup', 'setup-')}: runs no test, so that nothing would "
            "be judged; --collect-only shows the tests"
        )
    return mode.problem(collected, [spec for spec in map(spec_of, measured) if spec])
