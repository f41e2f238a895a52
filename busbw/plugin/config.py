"""The values that pytest's config keeps for a session: its options, its mode and its last state.

A session without tests of busbw has no state.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import pytest

from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session.command_line import read_options
from busbw.session.errors import UsageError
from busbw.session.files import shipped_folder
from busbw.session.mode import Mode, mode_of
from busbw.session.options import OPTIONS
from busbw.session.repeat import repeat_words
from busbw.session.state import Collected, Judged, Observed

from . import FIXTURES, SHIPPED_TESTS

# pytest's own output files, and the options that name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}

# How the session is collected, run and shown.
MODE = pytest.StashKey[Mode]()

# The last state of the session; an error if the options cannot be used.
SESSION = pytest.StashKey[UsageError | Collected | Observed | Judged]()

# The verdict that an item has read.
VERDICT = pytest.StashKey[Verdict | SessionVerdict]()

# Errors in tests of busbw that no verdict of a case describes.
ERRORS = pytest.StashKey[list[str]]()


def words_of(config: pytest.Config) -> list[str]:
    """Return the words of the command line, with those of the ini file and of PYTEST_ADDOPTS."""
    words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    return [*words, *config.invocation_params.args]


# What the tests that busbw ships are called wherever they lie.
_SHIPPED = "busbw/perf"


def _selection(config: pytest.Config) -> Iterator[str]:
    """Yield the words of a command line by which pytest selects the same tests."""
    for name in ("-k", "-m"):
        text = config.getoption(name, default="")
        if text:
            yield from (name, text)
    for text in config.getoption("deselect", default=None) or ():
        yield f"--deselect={text}"
    for text in config.getoption("override_ini", default=None) or ():
        # Others come from what the ini file itself adds, such as --strict-markers.
        if text.startswith("busbw_"):
            yield from ("-o", text)
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        yield from _tests(config)


def _tests(config: pytest.Config) -> list[str]:
    """Return the tests that were named; none where all are meant that busbw ships."""
    folder = shipped_folder("perf").resolve()
    every = {f"{_SHIPPED}/{path.name}" for path in folder.glob("test_*.py")}
    words: list[str] = []
    for argument in config.args:
        file, colons, test = argument.partition("::")
        path = (config.invocation_params.dir / file).resolve()
        if path == folder:
            words += every
        elif path.is_relative_to(folder):
            words.append(f"{_SHIPPED}/{path.relative_to(folder)}{colons}{test}")
        else:
            words.append(argument)
    return [word for word in words if word not in every] if every <= set(words) else words


def command_words(config: pytest.Config) -> list[str]:
    """Return the words of the command line with which the user started the session."""
    words = list(config.invocation_params.args)
    if SHIPPED_TESTS in words:
        return ["busbw", "run", *words[words.index(SHIPPED_TESTS) + 1 :]]
    return ["python", "-m", "pytest", *words]


def _outputs_of_pytest(config: pytest.Config) -> dict[str, str]:
    """Return the files that pytest and its plugins write, by the option that names them."""
    outputs = {option: config.getoption(name, None) for name, option in _OF_PYTEST.items()}
    # pytest-benchmark opens its file at once.
    names = {option: getattr(output, "name", output) for option, output in outputs.items()}
    return {option: name for option, name in names.items() if isinstance(name, str) and name}


def begin(config: pytest.Config) -> UsageError | Collected:
    """Return the collected session, which begins with the first test that reads a verdict.

    A session without such tests is left as it is, whatever is wrong with the options of busbw.
    """
    if hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "busbw measures alone on the machine; expected pytest without -n, since pytest-xdist "
            "would measure several cases at once"
        )
    if SESSION not in config.stash:
        try:
            settings = [name for name, option in OPTIONS.items() if option.has_setting]
            options = read_options(
                words_of(config),
                config.rootpath,
                {name: config.getini(f"busbw_{name}") for name in settings},
                _outputs_of_pytest(config),
                is_filtered=bool(config.getoption("keyword", "")),
                command=(*repeat_words(words_of(config)), *_selection(config)),
            )
            config.stash[MODE] = mode_of(options)
            config.stash[SESSION] = config.stash[MODE].collected
        except UsageError as error:
            config.stash[SESSION] = error
    state = config.stash[SESSION]
    assert isinstance(state, (UsageError, Collected))
    return state


def judged_of(config: pytest.Config) -> Judged | None:
    state = config.stash.get(SESSION, None)
    return state if isinstance(state, Judged) else None


def spec_of(item: pytest.Item) -> Spec | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    specs = (parameters[name] for name in FIXTURES if name in parameters)
    return next((spec for spec in specs if isinstance(spec, Spec)), None)


def case_items(session: pytest.Session) -> dict[pytest.Item, Spec]:
    """Return the items of cases with their Specs."""
    specs = {item: spec_of(item) for item in session.items}
    return {item: spec for item, spec in specs.items() if spec is not None}
