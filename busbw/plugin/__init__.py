"""The pytest plugin, which `conftest.py` names; no other package of busbw imports pytest.

This file has the options, and the fixtures that the tests of busbw read. The first such test that
is collected loads the other files, so that sessions without these tests do not wait for them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from busbw import extensions, storage
from busbw.session.options import OPTIONS

if TYPE_CHECKING:
    from busbw.model.verdict import Verdict

# The fixtures that tests read verdicts by, one for each mode of sessions.
VERDICT_FIXTURES = tuple(dict.fromkeys(("busbw_verdict", *extensions.declared_names("MODES"))))

# The name of the plugin that `busbw run` also loads.
SHIPPED_TESTS_PLUGIN = f"{__name__}.shipped_tests"

# The files of this folder that have hooks for sessions with tests of busbw.
_FILES = ("items", "run", "terminal")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of busbw, which the help shows above the options of pytest.

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
    """Return the module `name` of this folder, whose hooks pytest calls.

    The first call registers the modules in `_FILES`, and a cleanup of pytest that may change the
    exit code.
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

    All cases are run before the first test.
    """
    verdict: Verdict = load_plugin_module(request.session, "items").verdict_of(request)
    return verdict


globals().update({name: pytest.fixture(name=name)(_read_verdict) for name in VERDICT_FIXTURES})


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> object:
    """Skip test functions at collection that read a fixture of another mode than the session's.

    Returns an empty list to skip `obj`, and None to let pytest collect `obj`.
    """
    if not inspect.isfunction(obj) or not collector.istestfunction(obj, name):
        return None
    fixtures = set(VERDICT_FIXTURES).intersection(inspect.signature(obj).parameters)
    is_other = fixtures and load_plugin_module(collector.session, "items").belongs_to_other_mode(
        collector.config, fixtures
    )
    return [] if is_other else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that reads a verdict the cases of the session as parameters."""
    if set(VERDICT_FIXTURES).intersection(metafunc.fixturenames):
        load_plugin_module(metafunc.definition.session, "items").parametrize_test(metafunc)
