"""What pytest's config holds: what a session was given, and the last value of it.

A test item names the Spec whose verdict it reads; a session without such items has no value.
"""

from __future__ import annotations

import pytest

from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.session.option import Given, UsageError
from busbw.session.options import OPTIONS
from busbw.session.programs import weighted
from busbw.session.settings import settings_of
from busbw.session.state import Collected, Judged, Observed, Refused

# pytest's own output files, and the options that name them.
_OF_PYTEST = {
    "xmlpath": "--junitxml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
}

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
    )


def begun(config: pytest.Config) -> Refused | Collected:
    """A session without tests of ours is left as it is, whatever is wrong with its options."""
    if SESSION not in config.stash:
        try:
            settings = settings_of(given_of(config))
            config.stash[SESSION] = Collected(settings=settings, programs=weighted(settings))
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
    return found if isinstance(found, Judged) else None


def under_xdist(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    found = parameters.get("busbw_verdict", parameters.get("busbw_compiled"))
    return found if isinstance(found, Spec) else None
