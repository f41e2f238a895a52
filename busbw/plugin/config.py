"""What pytest's config holds: the options of `busbw.session`, and the last value of a session.

Options are on the command line and in the ini file. A test item names the Spec whose verdict it
reads; a session without such items has no value.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from busbw.driver.process import SECRET
from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session import forms, hints
from busbw.session.option import GROUPS, Given, Option, UsageError
from busbw.session.options import OPTIONS, UPDATES
from busbw.session.settings import settings_of
from busbw.session.state import Collected, Judged, Observed, Refused, Written

# pytest's own output files, and the options that name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}

SESSION = pytest.StashKey[Refused | Collected | Observed | Judged | Written]()

VERDICT = pytest.StashKey[Verdict | SessionVerdict]()

# The attribute of a failed report whose failure is said in the section of busbw.
TOLD = "busbw_told"

# The options as they were given: a hook may set others.
GIVEN = pytest.StashKey[argparse.Namespace]()

# The secret that this process was started with, no longer in its environment.
OF_ENVIRONMENT = pytest.StashKey[MutableMapping[str, str]]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Those that write baselines must be given each time: none has an ini setting."""
    groups = {name: parser.getgroup(name, title) for name, title in GROUPS.items()}
    for option in OPTIONS:
        arguments = _arguments_of(option)
        groups[option.group].addoption(option.flag_name, default=option.usual, **arguments)
        if option.ini:
            _add_ini(parser, option)
    flags = [name for one in groups.values() for option in one.options for name in option.names()]
    parser.extra_info |= hints.of(_command_line(pluginmanager), flags)


def _arguments_of(option: Option) -> dict[str, Any]:
    default = f" (default: {option.default})" if option.default else ""
    found: dict[str, Any] = {"help": option.help + default}
    if option.flag:
        return {**found, "action": "store_true"}
    # As argparse shows choices, which are checked with the settings: its own sentence is longer.
    found["metavar"] = option.metavar or f"{{{','.join(option.choices)}}}"
    if option.repeated:
        return {**found, "action": "append"}
    return {**found, "nargs": "?", "const": option.const} if option.const else found


def _add_ini(parser: pytest.Parser, option: Option) -> None:
    name, flag = f"busbw_{option.name}", option.flag_name
    if option.repeated:
        parser.addini(name, f"as {flag}, one a line", type="linelist", default=[])
    else:
        says = f"as {flag}" if option.flag else f"as {flag}: {option.help}"
        parser.addini(name, says, default=option.default)


def _command_line(pluginmanager: pytest.PytestPluginManager) -> tuple[str, ...]:
    config = pluginmanager.get_plugin("pytestconfig")
    return tuple(map(str, config.invocation_params.args)) if config is not None else ()


def given_of(config: pytest.Config) -> Given:
    return Given(
        options={option.name: config.getoption(option.name) for option in OPTIONS},
        ini={
            option.name: config.getini(f"busbw_{option.name}") for option in OPTIONS if option.ini
        },
        root=config.rootpath,
        keyword=config.getoption("keyword", default=""),
        outputs=dict(_outputs(config)),
    )


def _outputs(config: pytest.Config) -> Iterator[tuple[str, str]]:
    for name, option in _OF_PYTEST.items():
        found = config.getoption(name, None)
        # pytest-benchmark opens its file at once.
        found = getattr(found, "name", found)
        if isinstance(found, str) and found:
            yield option, found


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Take the secret out of the environment at once: what anybody starts would inherit it."""
    text = os.environ.pop(SECRET, "")
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None:
        config.stash[OF_ENVIRONMENT] = {SECRET: text}
        if hasattr(config, "known_args_namespace"):
            config.stash[GIVEN] = copy.copy(config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Where the plugin came before the options were parsed: with -p."""
    early_config.stash[GIVEN] = copy.copy(early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Say what our marks mean; with an option of ours, sizes are no paths of tests."""
    try:
        if any(config.getoption(one.name) is not None for one in OPTIONS if one.is_text):
            hints.check_paths(config.args)
        # Else the path that it took for its value would not be collected, but all other tests.
        forms.updates_of(config.getoption("update_baselines"), UPDATES)
    except ValueError as error:
        raise pytest.UsageError(f"busbw: {error}") from error
    config.addinivalue_line("markers", "busbw: a test that reads the verdict of one measured case")
    config.addinivalue_line(
        "markers",
        "training(step, alone): training steps, or with alone=True their collectives by "
        "themselves; there only where -m asks for training",
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Those of a session end pytest with a sentence and exit code 4."""
    try:
        yield
    except UsageError as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def begun(config: pytest.Config) -> Refused | Collected:
    """A session without tests of ours is left as it is, whatever is wrong with its options."""
    if SESSION not in config.stash:
        try:
            config.stash[SESSION] = Collected(settings=settings_of(given_of(config)))
        except UsageError as error:
            config.stash[SESSION] = Refused(error=str(error))
    found = config.stash[SESSION]
    assert isinstance(found, (Refused, Collected))
    return found


def collected_of(config: pytest.Config) -> Collected:
    found = config.stash[SESSION]
    assert isinstance(found, Collected)
    return found


def judged_of(config: pytest.Config) -> Judged | None:
    found = config.stash.get(SESSION, None)
    if isinstance(found, Written):
        return found.judged
    return found if isinstance(found, Judged) else None


def under_xdist(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    found = parameters.get("busbw_verdict", parameters.get("busbw_compiled"))
    return found if isinstance(found, Spec) else None
