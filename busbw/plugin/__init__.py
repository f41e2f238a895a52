"""The pytest plugin, which `conftest.py` names; no other package of busbw imports pytest.

This file has the options of busbw, and the fixtures that give tests their verdicts. A test that
reads such a fixture is a test of busbw. When pytest collects the first test of busbw, this file
loads the other files, so that sessions without tests of busbw do not wait for them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from busbw import extensions, storage
from busbw.session.options import OPTIONS

if TYPE_CHECKING:
    from busbw.model.verdict import Verdict

# The names of the fixtures that give a test the verdict of its case. Each mode uses one of them.
VERDICT_FIXTURES = tuple(
    dict.fromkeys(("busbw_verdict", *extensions.names_in_extension_tables("MODES")))
)

# The name of the second plugin that `busbw run` loads.
SHIPPED_TESTS_PLUGIN = f"{__name__}.shipped_tests"

# The files of this folder that have hooks for sessions with tests of busbw.
_FILES = ("items", "run", "terminal")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings of busbw, which the help shows above the options of pytest.

    Raises pytest.UsageError if a conftest.py or another plugin has an option of the same name.
    """
    titles = dict.fromkeys(option.group for option in OPTIONS.values())
    # "_anonymous" is pytest's name of the first group in its help. Each new group is put directly
    # below this group, so that the last title is the first to be added.
    groups = {
        title: parser.getgroup(title, title, after="_anonymous") for title in reversed(titles)
    }
    for option in OPTIONS.values():
        where = (
            f"{option.flag} is also an option of conftest.py or of a plugin; rename that option: "
        )
        with storage.reraise_as(pytest.UsageError, ValueError, where=where):
            groups[option.group].addoption(option.flag, default=None, **option.arguments)
        if option.has_setting:
            text = f"Same as {option.flag}; an option that may be repeated has one value per line"
            parser.addini(f"busbw_{option.name}", text, type="linelist", default=[])


def load_plugin_module(session: pytest.Session, name: str) -> Any:
    """Return the module `name` of this package, such as ``items``.

    The first call also registers the modules in `_FILES` as plugins, so that pytest calls their
    hooks, and registers a cleanup function that may change the exit code of pytest.
    """
    manager = session.config.pluginmanager
    if not manager.hasplugin(f"{__name__}.run"):
        for file in _FILES:
            manager.import_plugin(f"{__name__}.{file}")
        # pytest calls cleanups after all hooks, which may change the exit code.
        session.config.add_cleanup(
            lambda: load_plugin_module(session, "run").correct_exit_code(session)
        )
    return manager.get_plugin(f"{__name__}.{name}")


def _read_verdict(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict of the case that is the parameter of the test.

    All cases have been measured and judged before the first test.
    """
    verdict: Verdict = load_plugin_module(request.session, "items").record_verdict(request)
    return verdict


globals().update({name: pytest.fixture(name=name)(_read_verdict) for name in VERDICT_FIXTURES})


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> object:
    """Leave out a test function that reads the fixture of another mode than the session's mode.

    For example, a session with ``--topology``, which only compiles, leaves out the tests that read
    measured verdicts. Returns an empty list to leave `obj` out, and None to let pytest collect it.
    """
    if not inspect.isfunction(obj) or not collector.istestfunction(obj, name):
        return None
    fixtures = set(VERDICT_FIXTURES).intersection(inspect.signature(obj).parameters)
    is_other = fixtures and load_plugin_module(
        collector.session, "items"
    ).are_fixtures_of_other_mode(collector.config, fixtures)
    return [] if is_other else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that reads a verdict with the cases of the session."""
    if set(VERDICT_FIXTURES).intersection(metafunc.fixturenames):
        load_plugin_module(metafunc.definition.session, "items").parametrize_test(metafunc)
