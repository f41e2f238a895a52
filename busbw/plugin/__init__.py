"""The pytest plugin, alone to import pytest. Nothing imports it; `conftest.py` names it.

Here is what every pytest that loads it needs: the options, and the fixtures by whose names a test
reads a verdict. The first such test loads the rest; somebody else's tests need not wait for it.
"""

from __future__ import annotations

import argparse
import copy
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

from busbw import extensions
from busbw.session.option import GROUPS, Option
from busbw.session.options import OPTIONS

if TYPE_CHECKING:
    from busbw.model.verdict import Verdict

# The fixtures that are parametrized: one for each mode of sessions, the one that measures first.
# Nobody has one of that name by accident.
MEASURED = "busbw_verdict"
FIXTURES = (MEASURED, *extensions.names("MODES"))

# The report's attribute with the outcome of its case.
OUTCOME = "busbw_outcome"

# The report's attribute, true if pytest's last line does not count it.
UNCOUNTED = "busbw_uncounted"

# Of `busbw run`.
PROMISES = f"{__name__}.promises"

# The options as they were given: a hook may set others.
GIVEN = pytest.StashKey[argparse.Namespace]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, above those of pytest in the help of `busbw run`."""
    after = "_anonymous" if PROMISES in _command_line(pluginmanager) else None
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


def _command_line(pluginmanager: pytest.PytestPluginManager) -> tuple[str, ...]:
    config = pluginmanager.get_plugin("pytestconfig")
    return tuple(map(str, config.invocation_params.args)) if config is not None else ()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep what the command line says, where the plugin comes after options were parsed."""
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None and hasattr(config, "known_args_namespace"):
        config.stash[GIVEN] = copy.copy(config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Where the plugin came before the options were parsed: with -p."""
    early_config.stash[GIVEN] = copy.copy(early_config.known_args_namespace)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and leave standard output to the results where they go there."""
    if "-" in (config.getoption("results"), config.getini("busbw_results")):
        _report_on_stderr(config.pluginmanager, config)
    config.addinivalue_line("markers", "busbw: a test that reads the verdict of one measured case")


def _report_on_stderr(manager: pytest.PytestPluginManager, config: pytest.Config) -> None:
    """Standard output has the results alone."""
    if manager.unregister(name="terminalreporter") is not None:
        manager.register(pytest.TerminalReporter(config, sys.stderr), "terminalreporter")


def _part(config: pytest.Config, name: str) -> Any:
    """A module of this folder, once all that have hooks of their own are loaded."""
    for one in ("collection", "items", "phases", "terminal"):
        config.pluginmanager.import_plugin(f"{__name__}.{one}")
    return config.pluginmanager.get_plugin(f"{__name__}.{name}")


def _verdict(request: pytest.FixtureRequest) -> Verdict:
    """Return the Verdict of the parameter's Spec; all cases are run before the first test."""
    found: Verdict = _part(request.config, "items").verdict_of(request)
    return found


globals().update({name: pytest.fixture(name=name)(_verdict) for name in FIXTURES})


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> object:
    if not (inspect.isfunction(obj) and isinstance(collector, (pytest.Module, pytest.Class))):
        return None
    if not collector.istestfunction(obj, name):
        return None
    read = frozenset(FIXTURES).intersection(inspect.signature(obj).parameters)
    return (
        _part(collector.config, "collection").makeitem(collector, name, obj, read) if read else None
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if set(FIXTURES).intersection(metafunc.fixturenames):
        _part(metafunc.config, "collection").generate_tests(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> object:
    """A process of pytest-xdist has measured, and this one only shows it, if it has an outcome."""
    return _part(config, "items").status(report) if hasattr(report, OUTCOME) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.add_cleanup(functools.partial(_hold, session))
    if session.config.pluginmanager.hasplugin(PROMISES):
        _part(session.config, "phases")


def _hold(session: pytest.Session) -> None:
    phases = session.config.pluginmanager.get_plugin(f"{__name__}.phases")
    if phases is not None:
        phases.hold(session)
