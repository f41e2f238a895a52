"""The pytest plugin, the only package that imports pytest; `conftest.py` names it.

This file has what every pytest that loads the plugin needs: the options, and the fixtures that the
tests of busbw read. The first such test loads the other files, so that tests of other things do not
wait for them.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

from busbw import extensions
from busbw.session.option import GROUPS
from busbw.session.options import OPTIONS

if TYPE_CHECKING:
    from busbw.model.verdict import Verdict

# The parametrized fixtures, one for each mode of sessions: measuring, and the modes of extensions.
FIXTURES = tuple(dict.fromkeys(("busbw_verdict", *extensions.names("MODES"))))

# The plugin of `busbw run`.
SHIPPED_TESTS = f"{__name__}.shipped_tests"

_FILES = ("collection", "items", "benchmark", "run", "terminal")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, above those of pytest in the help of `busbw run`."""
    config: Any = pluginmanager.get_plugin("pytestconfig")
    words = config.invocation_params.args if config is not None else ()
    after = "_anonymous" if SHIPPED_TESTS in words else None
    groups: dict[str, pytest.OptionGroup] = {}
    titles = (*GROUPS, *(option.group for option in OPTIONS.values()))
    for title in dict.fromkeys(titles):
        groups[title] = parser.getgroup(title, title, after=after)
        after = title
    for option in OPTIONS.values():
        groups[option.group].addoption(option.flag, default=None, **option.arguments)
        if option.has_setting:
            text = f"Same as {option.flag}; an option that may be repeated has one value per line"
            parser.addini(f"busbw_{option.name}", text, type="linelist", default=[])


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let pytest report on standard error if standard output has the results alone."""
    manager = config.pluginmanager
    has_results = config.getoption("results") == "-"
    if has_results and manager.unregister(name="terminalreporter") is not None:
        manager.register(pytest.TerminalReporter(config, sys.stderr), "terminalreporter")


def load(session: pytest.Session, file: str) -> Any:
    """Register all files of this folder that have hooks, and return one of them."""
    manager = session.config.pluginmanager
    if not manager.hasplugin(f"{__name__}.run"):
        for name in _FILES:
            manager.import_plugin(f"{__name__}.{name}")
        # After all hooks.
        session.config.add_cleanup(lambda: load(session, "run").check_exit_code(session))
    return manager.get_plugin(f"{__name__}.{file}")


def _verdict(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict of the parameter's Spec; all cases are run before the first test."""
    verdict: Verdict = load(request.session, "items").verdict_of(request)
    return verdict


globals().update({name: pytest.fixture(name=name)(_verdict) for name in FIXTURES})


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> object:
    """Collect no tests of another mode than the session's."""
    if not inspect.isfunction(obj) or not collector.istestfunction(obj, name):
        return None
    read = set(FIXTURES).intersection(inspect.signature(obj).parameters)
    return load(collector.session, "collection").collect(collector.config, read) if read else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if set(FIXTURES).intersection(metafunc.fixturenames):
        load(metafunc.definition.session, "collection").generate_tests(metafunc)
