"""The phases of a session, run by two hooks: up to the verdicts, and what is written at the end.

The first runs before any test, so that measuring is not charged to one. The second writes accepted
baselines, once, the results and the page; what cannot be written is an error, reported after
everything else. Each phase has a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import replace

import pytest

from busbw.agent.handshake import SecretError
from busbw.driver.agents import AgentGone, AgentsError, AgentsTransport, IncomparableHosts
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeCutShort, ProbesDiffer
from busbw.driver.local import BusyError, LocalTransport, alone
from busbw.judge.validity import injection_notes
from busbw.model.case import CompileSpec, Spec
from busbw.model.words import Outcome

from . import checks, compilation, judgement, machine, measurement, resolution
from .acceptance import accepted
from .agents import transport_of
from .compilers import CompileSettings
from .exit_code import runs_tests, set_exit_code, unkept
from .outputs import appended, with_page, with_results
from .session import (
    OF_ENVIRONMENT,
    SESSION,
    Collected,
    Judged,
    Measured,
    Programs,
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
    if not runs_tests(session):
        return
    why = unkept(session) if exitstatus == pytest.ExitCode.OK else ""
    if why:
        # Somebody's own hook ran the tests, or none, and says that all is well.
        exitstatus = failed
        set_exit_code(session, exitstatus, why)
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
    set_exit_code(session, exit_code or exitstatus, why)
    session.config.stash[SESSION] = written
