"""The options' grid as parameters, the session's item last; asks no hardware, starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from _pytest.mark import MarkMatcher
from _pytest.mark.expression import Expression

from busbw.model.case import GridError, Spec
from busbw.session import selection
from busbw.session.selection import Steps
from busbw.session.state import Collected, Refused

from . import COMPILED, MEASURED, items
from .config import SESSION, begun, spec_of, under_xdist

# pytest has no public API for the meaning of -m: hence the imports of MarkMatcher and Expression.
# It has none either for which fixture a name means at a node: hence `_fixturemanager`.


def makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object, read: frozenset[str]
) -> object:
    """Collect tests of what is measured or, with --topology, of what is compiled; never both.

    Training steps are collected only when asked for: other sessions take no longer than before.
    Tests that read no verdict of ours are none of our business, whatever their marks and fixtures.
    """
    try:
        read = _of_ours(collector, name, obj, read)
    except _ShadowedError as error:
        known = collector.config.stash.get(SESSION, None)
        refused = known if isinstance(known, Refused) else Refused(error=str(error))
        collector.config.stash[SESSION] = refused
        return _refused(collector.config, refused)
    if not read:
        return None
    collected = begun(collector.config)
    if isinstance(collected, Refused):
        return _refused(collector.config, collected)
    settings = collected.settings
    other = MEASURED if settings.compile is not None else COMPILED
    own = list(getattr(obj, "pytestmark", []))
    marks = [mark for mark in own if mark.name == "training"]
    everywhere = [*own, *collector.iter_markers()]
    if marks and not _training_asked(collector.config.option.markexpr, everywhere):
        return []
    steps = _steps(marks[0] if marks else None)
    nothing = bool(marks or MEASURED in read) and selection.is_empty(settings, steps)
    if nothing:
        collector.config.stash[SESSION] = replace(collected, nothing_asked=True)
    return [] if nothing or other in read else None


class _ShadowedError(Exception):
    """A fixture of somebody else has the name of one of ours."""


def _of_ours(
    collector: pytest.Module | pytest.Class, name: str, obj: object, named: frozenset[str]
) -> frozenset[str]:
    """Which of the fixtures that a test names are ours."""
    marks = [*getattr(obj, "pytestmark", []), *collector.iter_markers()]
    read = frozenset(one for one in named if not any(one in _parametrized(m) for m in marks))
    for one in read:
        if not _is_ours(collector, one, marks):
            raise _ShadowedError(
                f"{collector.nodeid}::{name} reads another fixture {one} than busbw's, so that "
                "nothing would be measured; only one that asks for busbw's may take its name"
            )
    return read


def _is_ours(node: pytest.Collector | pytest.Item, name: str, marks: Iterable[pytest.Mark]) -> bool:
    """One of the same name that asks for ours, to change it, is a way to read ours."""
    if any(name in _parametrized(mark) for mark in marks):
        return False
    found = node.session._fixturemanager.getfixturedefs(name, node) or ()
    for one in reversed(found):
        if one.func.__module__ == __package__:
            return True
        if name not in one.argnames:
            return False
    return False


def _parametrized(mark: pytest.Mark) -> Sequence[str]:
    if mark.name != "parametrize":
        return ()
    names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
    return [one.strip() for one in names.split(",")] if isinstance(names, str) else names


def _steps(marker: pytest.Mark | None) -> Steps | None:
    if marker is None:
        return None
    return Steps(step=marker.kwargs["step"], alone=bool(marker.kwargs.get("alone")))


def _refused(config: pytest.Config, refused: Refused) -> list[pytest.Item]:
    """Reported when all is collected; under pytest-xdist raised, for want of anything better."""
    if under_xdist(config):
        raise pytest.UsageError(f"busbw: {refused.error}")
    return []


def _training_asked(expression: str, marks: Sequence[pytest.Mark]) -> bool:
    """By pytest itself, so that ``not (training)`` asks for none; so does an invalid one."""
    try:
        asked = Expression.compile(expression)
        if not asked.evaluate(MarkMatcher.from_markers(marks)):
            return False
        others = [mark for mark in marks if mark.name != "training"]
        for_training_alone = not asked.evaluate(MarkMatcher.from_markers(others))
        return for_training_alone or ("training" in expression and asked.evaluate(_every_mark))
    except SyntaxError:
        return False


def _every_mark(name: str, /, **arguments: object) -> bool:
    return True


def generate_tests(metafunc: pytest.Metafunc) -> None:
    """An impossible grid is only noted: an error here would look like a broken test file."""
    marks = list(metafunc.definition.iter_markers())
    there = {MEASURED, COMPILED}.intersection(metafunc.fixturenames)
    read = {one for one in there if _is_ours(metafunc.definition, one, marks)}
    collected = begun(metafunc.config) if read else None
    if collected is None or isinstance(collected, Refused):
        return
    name = MEASURED if collected.settings.compile is None else COMPILED
    if name not in read:
        return
    specs: tuple[Spec, ...] = ()
    try:
        steps = _steps(metafunc.definition.get_closest_marker("training"))
        collected, specs = selection.with_specs(collected, steps)
    except GridError as error:
        if under_xdist(metafunc.config):
            raise pytest.UsageError(f"busbw: {error}") from error
        collected = replace(collected, error=str(error))
    metafunc.config.stash[SESSION] = collected
    metafunc.parametrize(name, specs, ids=[spec.id for spec in specs], indirect=True)


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
    if isinstance(collected, Refused):
        return collected.error
    return collected.error or _unmeasurable(config, collected, measured)


def _unmeasurable(
    config: pytest.Config, collected: Collected, measured: Sequence[pytest.Item]
) -> str:
    nothing = selection.problem(collected, ())
    without_tests = [f for f in ("setupplan", "setuponly") if config.getoption(f, False)]
    if measured and without_tests and not nothing:
        return (
            f"--{without_tests[0].replace('setup', 'setup-')}: runs no test, so that nothing would "
            "be judged; --collect-only shows the tests"
        )
    return selection.problem(collected, [spec for spec in map(spec_of, measured) if spec])
