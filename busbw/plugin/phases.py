"""The phases of `busbw.session`, run by two hooks: up to the verdicts, and what is written.

The first runs before any test, so that measuring is not charged to one. The exit code follows the
verdict, whatever somebody's own hooks do to tests and exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict
from busbw.model.words import plural
from busbw.session.display import Display
from busbw.session.errors import UsageError
from busbw.session.phases import Surroundings
from busbw.session.state import Observed

from . import GIVEN, PROMISES
from .config import SESSION, VERDICT, collected_of, judged_of, mode_in, spec_of, under_xdist
from .items import SessionItem, read_by_all, with_errors
from .terminal import Terminal


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run what was selected, then let the tests read their verdicts."""
    specs = tuple(dict.fromkeys(spec for spec in map(spec_of, session.items) if spec))
    if specs and _will_run(session):
        _run(session.config, specs)
    return (yield)


def _run(config: pytest.Config, specs: Sequence[Spec]) -> None:
    def keep(found: Observed) -> None:
        config.stash[SESSION] = found

    within = Surroundings(
        display=Display(Terminal(config), verbose=config.get_verbosity() > 0),
        keep=keep,
        skip="--benchmark-skip" if config.getoption("benchmark_skip", False) else "",
    )
    try:
        config.stash[SESSION] = mode_in(config).judged(collected_of(config), specs, within)
    except UsageError as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def _will_run(session: pytest.Session) -> bool:
    option = session.config.option
    broken = session.testsfailed and not option.continue_on_collection_errors
    return not (option.collectonly or broken or under_xdist(session.config))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write the results and, on request, baselines, once; nothing after an interrupt."""
    found, failed = judged_of(session.config), pytest.ExitCode.TESTS_FAILED
    if not _runs_tests(session) or _OWN in session.config.stash:
        return
    why = _unkept(session) if exitstatus == pytest.ExitCode.OK else ""
    if why:
        # Somebody's own hook ran the tests, or none, and says that all is well.
        exitstatus = failed
        _set_exit_code(session, exitstatus, why)
    if found is None or exitstatus not in (pytest.ExitCode.OK, failed):
        return
    # Errors after the session's own test, or instead of it.
    verdict = with_errors(_read(found.session, session), session.config)
    if verdict is not found.session:
        found = session.config.stash[SESSION] = replace(found, session=verdict)
        exitstatus = failed
        _set_exit_code(session, exitstatus, why)
    end = mode_in(session.config).written(found)
    if end is None:
        return
    code = end.exit_code or (failed if end.errors else None)
    _set_exit_code(session, code or exitstatus, why)
    session.config.stash[SESSION] = end


def _read(found: SessionVerdict, session: pytest.Session) -> SessionVerdict:
    """Return `found`, or what its own test would say of unread verdicts if that did not run."""
    own = [item for item in session.items if isinstance(item, SessionItem)]
    has_run = any(VERDICT in item.stash for item in own)
    return found if has_run or not own else read_by_all(found, session.items)


# The tests that were collected to read a verdict, and not deselected.
_PROMISED = pytest.StashKey[dict[pytest.Item, None]]()

# What the session ends with, as soon as that is known, and why if no test says it.
_OWN = pytest.StashKey[tuple[int | pytest.ExitCode, str]]()

# pytest's options with which a user leaves tests out.
_SELECTS = ("keyword", "markexpr", "deselect", "lf", "stepwise", "stepwise_skip", "stepwise_reset")

# Options with which no test runs.
_LOOKS_ONLY = ("collectonly", "show_fixtures_per_test")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember a test that reads a verdict: others may take it out of the session's tests."""
    if spec_of(item) is not None:
        item.config.stash.setdefault(_PROMISED, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """What the user leaves out is not missed; what a hook of others leaves out is."""
    for item in items:
        given = item.config.stash.get(GIVEN, None)
        if any(getattr(given, name, None) for name in _SELECTS):
            item.config.stash.get(_PROMISED, {}).pop(item, None)


def hold(session: pytest.Session) -> None:
    """After all hooks: no green exit code stays where verdicts were promised and not read."""
    if not _runs_tests(session):
        return
    green = session.exitstatus == pytest.ExitCode.OK
    own, why = session.config.stash.get(_OWN, (pytest.ExitCode.TESTS_FAILED, ""))
    if green and _OWN not in session.config.stash:
        why = _unkept(session)
        own = own if why else session.exitstatus
    if green and own != session.exitstatus:
        session.exitstatus = own
        why = why or "somebody's own hook set the exit code to 0"
    if why:
        # What was said on the other stream may still be on its way.
        session.config.get_terminal_writer().flush()
        sys.stderr.write(f"ERROR: busbw: {why}\n")


def _runs_tests(session: pytest.Session) -> bool:
    """Whether pytest runs tests, in this process or in those of pytest-xdist that it started."""
    option = session.config.option
    return not under_xdist(session.config) and not any(
        getattr(option, name, False) for name in _LOOKS_ONLY
    )


def _unkept(session: pytest.Session) -> str:
    """Why a session that promised verdicts cannot be green, whatever its tests say, or ""."""
    config = session.config
    promised, found = config.stash.get(_PROMISED, {}), judged_of(config)
    if not promised:
        by_run = config.pluginmanager.hasplugin(PROMISES)
        return "no test that was run reads a verdict of busbw" if by_run else ""
    if not any(VERDICT in item.stash for item in promised):
        return f"{plural(len(promised), 'case')} collected, and no test read a verdict"
    if found is None:
        return f"{plural(len(promised), 'case')} collected, and nothing was measured"
    verdict = read_by_all(found.session, session.items)
    return verdict.headline() if verdict.failed else ""


def _set_exit_code(session: pytest.Session, code: int | pytest.ExitCode, why: str) -> None:
    """The session's own, which no later hook turns into a green one; `why`, if no test says it."""
    session.exitstatus = code
    session.config.stash[_OWN] = code, why
