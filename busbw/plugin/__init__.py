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
from busbw.session.option import GROUPS, Option
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
    for title in dict.fromkeys((*GROUPS, *(option.group for option in OPTIONS))):
        groups[title] = parser.getgroup(title, title, after=after)
        after = title
    for option in OPTIONS:
        groups[option.group].addoption(option.flag_name, **option.arguments)
        if option.ini:
            _add_ini(parser, option)


def _add_ini(parser: pytest.Parser, option: Option) -> None:
    name, text = f"busbw_{option.name}", f"Same as {option.flag_name}"
    if option.repeated:
        parser.addini(name, f"{text}, one value per line", type="linelist", default=[])
    else:
        parser.addini(name, text, default=option.default)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let pytest report on standard error if standard output has the results alone."""
    manager = config.pluginmanager
    has_results = "-" in (config.getoption("results"), config.getini("busbw_results"))
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
