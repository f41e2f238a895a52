"""What pytest's config holds: what a session was given, and the last value of it.

A test item names the Spec whose verdict it reads; a session without such items has no value.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session.errors import UsageError
from busbw.session.folders import shipped_folder
from busbw.session.mode import Mode, mode_of
from busbw.session.option import Given
from busbw.session.options import OPTIONS
from busbw.session.state import Collected, Judged, Observed, Refused

from . import FIXTURES

# pytest's own output files, and the options that name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}

# How the session is collected, run and shown.
MODE = pytest.StashKey[Mode]()

SESSION = pytest.StashKey[Refused | Collected | Observed | Judged]()

VERDICT = pytest.StashKey[Verdict | SessionVerdict]()

# The attribute of a failed report whose failure is said in the section of busbw.
TOLD = "busbw_told"


def given_of(config: pytest.Config) -> Given:
    outputs = {option: config.getoption(name, None) for name, option in _OF_PYTEST.items()}
    # pytest-benchmark opens its file at once.
    named = {option: getattr(found, "name", found) for option, found in outputs.items()}
    return Given(
        options={option.name: config.getoption(option.name) for option in OPTIONS},
        ini={
            option.name: config.getini(f"busbw_{option.name}") for option in OPTIONS if option.ini
        },
        root=config.rootpath,
        keyword=config.getoption("keyword", default=""),
        outputs={option: name for option, name in named.items() if isinstance(name, str) and name},
        selection=tuple(_selection(config)),
    )


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


def begun(config: pytest.Config) -> Refused | Collected:
    """A session without tests of ours is left as it is, whatever is wrong with its options."""
    if SESSION not in config.stash:
        try:
            config.stash[MODE] = mode_of(given_of(config))
            config.stash[SESSION] = config.stash[MODE].collected
        except UsageError as error:
            config.stash[SESSION] = Refused(error=str(error))
    found = config.stash[SESSION]
    assert isinstance(found, (Refused, Collected))
    return found


def mode_in(config: pytest.Config) -> Mode:
    """Return the mode of a session that has begun."""
    return config.stash[MODE]


def collected_of(config: pytest.Config) -> Collected:
    found = config.stash[SESSION]
    assert isinstance(found, Collected)
    return found


def judged_of(config: pytest.Config) -> Judged | None:
    found = config.stash.get(SESSION, None)
    return found if isinstance(found, Judged) else None


def under_xdist(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    found = next((parameters[name] for name in FIXTURES if name in parameters), None)
    return found if isinstance(found, Spec) else None
