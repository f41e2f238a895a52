"""Before the first test runs: every phase up to the verdicts. Not charged to any test."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import replace

import pytest

from busbw import driver
from busbw.model import CompileSpec, Spec

from . import compiling, judging, measuring, probing, resolving
from .compile_settings import CompileSettings
from .selecting import compile_spec_of, spec_of, under_xdist
from .session import SESSION, Collected, Judged, Measured, Programs
from .terminal import Display


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Measure or compile what was selected, then let the tests read their verdicts."""
    specs = [spec for spec in map(spec_of, session.items) if spec is not None]
    compiled = [spec for spec in map(compile_spec_of, session.items) if spec is not None]
    if (specs or compiled) and _will_run(session):
        with _bundle() as bundle:
            one = _Loop(session.config, bundle)
            one.run(tuple(dict.fromkeys(specs)), tuple(dict.fromkeys(compiled)))
    return (yield)


def _will_run(session: pytest.Session) -> bool:
    """Whether pytest will go on to run tests, in this process."""
    option = session.config.option
    broken = session.testsfailed and not option.continue_on_collection_errors
    return not (option.collectonly or broken or under_xdist(session.config))


@contextlib.contextmanager
def _bundle() -> Iterator[driver.Bundle]:
    bundle = driver.Bundle()
    try:
        yield bundle
    finally:
        bundle.remove()


class _Loop:
    """The phases of one session, each value kept as soon as it is there."""

    def __init__(self, config: pytest.Config, bundle: driver.Bundle) -> None:
        found = config.stash[SESSION]
        assert isinstance(found, Collected)
        self._collected = found
        self._config = config
        self._folder = bundle.path
        self._notes: list[str] = []
        self._executor = driver.Executor(driver.LocalTransport(bundle), self._notes.append)
        self._display = Display(config)
        skip = config.getoption("benchmark_skip", False)
        self._skip = "--benchmark-skip" if skip else ""

    def run(self, specs: tuple[Spec, ...], compiled: tuple[CompileSpec, ...]) -> None:
        """All phases; where nobody can say what there is, every case fails."""
        asked = self._collected.settings.compile
        try:
            if asked is not None and compiled:
                judged = self._compiled(asked, compiled)
            else:
                judged = self._measured(specs)
        except driver.ProbeCutShort as error:
            settings = self._collected.settings
            judged = judging.given_up(settings, specs, compiled, str(error))
        self._config.stash[SESSION] = replace(judged, notes=tuple(self._notes))

    def _measured(self, specs: tuple[Spec, ...]) -> Judged:
        settings = self._collected.settings
        with self._alone():
            machine = probing.machine_of(settings, specs, self._executor)
            resolved = resolving.resolved(
                self._collected, machine, specs, self._executor, self._folder
            )
            self._notes += resolved.notes
            self._display.header(resolved)
            measured = measuring.measured(resolved, self._executor, self._display, self._keep)
            self._notes += measured.notes
        return judging.judged(measured, self._skip)

    def _compiled(self, asked: CompileSettings, specs: tuple[CompileSpec, ...]) -> Judged:
        settings = self._collected.settings
        parallel = compiling.parallel_of(settings, asked, self._executor, self._display)
        resolved = compiling.resolved(self._collected, asked, specs, parallel)
        self._display.compilers(tuple(resolved.compilers.values()))
        programs = compiling.compiled(resolved, parallel, self._display, self._keep)
        return compiling.judged(programs, self._skip)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        waiting = "busbw session is measuring on this machine; waiting for its end"
        wait_s = self._collected.settings.device_wait_s
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(
                    driver.alone(
                        wait_s, lambda who: self._display.line(f"another {waiting} ({who})")
                    )
                )
            except driver.BusyError as error:
                raise pytest.UsageError(f"busbw: {error}") from error
            yield

    def _keep(self, found: Measured | Programs) -> None:
        """With what the driver noted by now."""
        self._config.stash[SESSION] = replace(found, notes=(*self._notes, *found.notes))
