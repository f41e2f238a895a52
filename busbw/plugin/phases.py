"""The phases of a session, run by two hooks: up to the verdicts, and what is written at the end.

The first runs before any test, so that measuring is not charged to one; what cannot be written at
the end is an error. The exit code follows the verdict, whatever somebody's own hooks do to tests
and exit codes.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from busbw.agent.handshake import SecretError
from busbw.driver.agents import AgentGone, AgentsError, AgentsTransport, IncomparableHosts
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeCutShort, ProbesDiffer
from busbw.driver.local import BusyError, LocalTransport, alone
from busbw.judge.validity import injection_notes
from busbw.model.case import CompileSpec, Spec
from busbw.model.words import Outcome, plural

from . import checks, compilation, judgement, machine, measurement, resolution
from .acceptance import accepted
from .agents import transport_of
from .compilers import CompileSettings
from .items import read_by_all
from .outputs import appended, with_page, with_results
from .session import (
    OF_ENVIRONMENT,
    SESSION,
    VERDICT,
    Collected,
    Judged,
    Measured,
    Programs,
    Written,
    collected_of,
    spec_of,
    under_xdist,
)
from .settings import usage_error
from .terminal import Display


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Measure or compile what was selected, then let the tests read their verdicts."""
    found = tuple(dict.fromkeys(map(spec_of, session.items)))
    specs = tuple(spec for spec in found if isinstance(spec, Spec))
    compiled = tuple(spec for spec in found if isinstance(spec, CompileSpec))
    if (specs or compiled) and _will_run(session):
        _run(session.config, specs, compiled)
    return (yield)


def _run(config: pytest.Config, specs: tuple[Spec, ...], compiled: tuple[CompileSpec, ...]) -> None:
    bundle = Bundle()
    display, asked = Display(config), collected_of(config).settings.agents
    try:
        with contextlib.ExitStack() as held:
            listen, agents = usage_error(OSError, where="--listen: "), usage_error(SecretError)
            with listen, agents:
                secret = config.stash.get(OF_ENVIRONMENT, {})
                transport = held.enter_context(transport_of(asked, bundle, display.line, secret))
            _Loop(config, bundle, transport, display).run(specs, compiled)
    finally:
        bundle.remove()


def _will_run(session: pytest.Session) -> bool:
    option = session.config.option
    broken = session.testsfailed and not option.continue_on_collection_errors
    return not (option.collectonly or broken or under_xdist(session.config))


class _Loop:
    """The phases of one session, each value kept as soon as it exists."""

    def __init__(
        self,
        config: pytest.Config,
        bundle: Bundle,
        transport: LocalTransport | AgentsTransport,
        display: Display,
    ) -> None:
        self._asked = collected_of(config)
        self._config = config
        self._folder = bundle.path
        self._notes: list[str] = []
        self._executor = Executor(transport, self._notes.append)
        self._transport = transport
        self._display = display
        self._skip = "--benchmark-skip" if config.getoption("benchmark_skip", False) else ""

    def run(self, specs: tuple[Spec, ...], compiled: tuple[CompileSpec, ...]) -> None:
        """All phases; if the probe is cut short, or a host is lost in it, every case fails."""
        settings = self._asked.settings
        try:
            if settings.compile is not None and compiled:
                judged = self._compiled(settings.compile, compiled)
            else:
                collected = checks.checked(self._asked, specs)
                checks.check_tpu(settings, specs, self._executor)
                with alone(settings.device_wait_s, self._say_waiting):
                    measured = self._measured(collected, specs)
                judged = judgement.judged(measured, self._skip)
        except (ProbeCutShort, AgentGone) as error:
            judged = judgement.given_up(self._asked, specs, compiled, str(error))
        except (ProbesDiffer, IncomparableHosts) as error:
            judged = judgement.given_up(
                self._asked, specs, compiled, str(error), outcome=Outcome.INCOMPARABLE
            )
        except (BusyError, AgentsError) as error:
            raise pytest.UsageError(f"busbw: {error}") from error
        self._config.stash[SESSION] = replace(judged, notes=tuple(self._notes))

    def _measured(self, collected: Collected, specs: tuple[Spec, ...]) -> Measured:
        executor, transport = self._executor, self._transport
        if isinstance(transport, AgentsTransport):
            assert collected.settings.agents is not None
            transport.join(collected.settings.agents.wait_s)
            transport.lock(collected.settings.device_wait_s, self._display.line)
        found = machine.machine_of(collected.settings, specs, executor)
        resolved = resolution.resolved(
            collected, found, specs, executor, self._folder, self._display.line
        )
        self._notes += resolved.notes
        self._display.header(resolved)
        measured = measurement.measured(resolved, executor, self._display, self._keep)
        self._notes += [*measured.notes, *injection_notes(measured.measurements)]
        return measured

    def _compiled(self, asked: CompileSettings, specs: tuple[CompileSpec, ...]) -> Judged:
        settings = self._asked.settings
        parallel = compilation.parallel_of(settings, asked, self._executor, self._display)
        resolved = compilation.resolved(self._asked, asked, specs, parallel)
        self._display.compilers(tuple(resolved.compilers.values()))
        programs = compilation.compiled(resolved, parallel, self._display, self._keep)
        return compilation.judged(programs, self._skip)

    def _say_waiting(self, who: str) -> None:
        waiting = "busbw session is measuring on this machine; waiting for its end"
        self._display.line(f"another {waiting} ({who})")

    def _keep(self, found: Measured | Programs) -> None:
        self._config.stash[SESSION] = replace(found, notes=(*self._notes, *found.notes))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write the results and, on request, baselines; nothing after an interrupt."""
    judged, failed = session.config.stash.get(SESSION, None), pytest.ExitCode.TESTS_FAILED
    if not _runs_tests(session):
        return
    why = _unkept(session) if exitstatus == pytest.ExitCode.OK else ""
    if why:
        # Somebody's own hook ran the tests, or none, and says that all is well.
        exitstatus = failed
        _set_exit_code(session, exitstatus, why)
    if not isinstance(judged, Judged):
        return
    measured = judged.observed if isinstance(judged.observed, Measured) else None
    is_there = bool(judged.compiled) or (measured is not None and bool(measured.measurements))
    if not is_there or exitstatus not in (pytest.ExitCode.OK, failed):
        return
    written, exit_code = accepted(judged)
    written = with_page(appended(with_results(written)))
    if written.errors and not exit_code:
        exit_code = failed
    _set_exit_code(session, exit_code or exitstatus, why)
    session.config.stash[SESSION] = written


# The tests that were collected to read a verdict, and not deselected.
_PROMISED = pytest.StashKey[dict[pytest.Item, None]]()

# What the session ends with, as soon as that is known, and why if no test says it.
_OWN = pytest.StashKey[tuple[int | pytest.ExitCode, str]]()

# pytest's options with which a user leaves tests out, as they were given: a hook may set others.
_LEAVES_OUT = (
    "keyword",
    "markexpr",
    "deselect",
    "lf",
    "stepwise",
    "stepwise_skip",
    "stepwise_reset",
)

# Options with which no test runs.
_LOOKS_ONLY = ("collectonly", "show_fixtures_per_test")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember a test that reads a verdict: others may take it out of the session's tests."""
    if spec_of(item) is not None:
        item.config.stash.setdefault(_PROMISED, {})[item] = None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """What the user leaves out is not missed; what a hook of others leaves out is."""
    for item in items:
        if any(getattr(item.config.known_args_namespace, name, None) for name in _LEAVES_OUT):
            item.config.stash.get(_PROMISED, {}).pop(item, None)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.add_cleanup(functools.partial(_hold, session))


def _hold(session: pytest.Session) -> None:
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
        sys.stderr.write(f"ERROR: busbw: {why}\n")


def _runs_tests(session: pytest.Session) -> bool:
    """Whether pytest runs tests, in this process or in those of pytest-xdist that it started."""
    option = session.config.option
    return not under_xdist(session.config) and not any(
        getattr(option, name, False) for name in _LOOKS_ONLY
    )


def _unkept(session: pytest.Session) -> str:
    """Why a session that promised verdicts cannot be green, whatever its tests say, or ""."""
    config, by_name = session.config, "busbw.plugin.promises"
    promised, found = config.stash.get(_PROMISED, {}), config.stash.get(SESSION, None)
    if not promised:
        by_run = config.pluginmanager.hasplugin(by_name)
        return "no test that was run reads a verdict of busbw" if by_run else ""
    if not any(VERDICT in item.stash for item in promised):
        return f"{plural(len(promised), 'case')} collected, and no test read a verdict"
    judged = found.judged if isinstance(found, Written) else found
    if not isinstance(judged, Judged):
        return f"{plural(len(promised), 'case')} collected, and nothing was measured"
    verdict = read_by_all(judged.session, session.items)
    return verdict.headline() if verdict.failed else ""


def _set_exit_code(session: pytest.Session, code: int | pytest.ExitCode, why: str = "") -> None:
    """The session's own, which no later hook turns into a green one; `why`, if no test says it."""
    session.exitstatus = code
    session.config.stash[_OWN] = code, why
