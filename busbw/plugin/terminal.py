"""What the terminal shows: header, progress while measuring, one line per case at the end.

The lines are made in `busbw.report`; here they are only put on the screen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from busbw import baselines, judge, report, stats
from busbw.driver import Job, Progress
from busbw.judge import Further
from busbw.model import Case, Compiler, Summary, payload_text, plural

from .compile_settings import CompileSettings
from .compilers import FAMILIES, missing
from .state import STATE, State

QUIET_STEP_S = 10.0


def pytest_report_header(config: pytest.Config) -> str:
    """What will be measured; on which device is known when the probe has looked."""
    settings = config.stash[STATE].settings
    if settings.compile is not None:
        return _compile_header(settings.compile, len(settings.payloads))
    device = settings.device.value if settings.device else "auto"
    sizes = settings.payloads
    span = f"{payload_text(sizes[0])} to {payload_text(sizes[-1])}" if sizes else "none"
    return (
        f"busbw: device {device}, {', '.join(settings.frameworks)}, {len(sizes)} payloads "
        f"({span}), {', '.join(settings.dtypes)}, {settings.launches} launches"
        + (" of each side" if settings.against else "")
    )


def _compile_header(asked: CompileSettings, payloads: int) -> str:
    """What will be compiled for, and of `all` what is left out because nothing compiles for it."""
    names = ", ".join(one.name for one in asked.topologies)
    devices = {device for family in asked.families for device in FAMILIES[family]}
    absent = {} if asked.libtpus else missing()
    left_out = [f"; {why}" for device, why in absent.items() if device in devices]
    return f"busbw: compiling for {names}, {payloads} payloads" + "".join(left_out)


class Display:
    """Progress on a terminal in one line that is overwritten, elsewhere a line now and then."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._last_s = 0.0
        self._open = False

    def line(self, text: str) -> None:
        """A line of its own."""
        if self._reporter is not None:
            self._reporter.ensure_newline()
            self._reporter.write_line(text)
            self._reporter.flush()

    def header(self, state: State) -> None:
        """Device, ranks, versions and where the baselines are."""
        assert state.environment is not None and state.target is not None
        folder = baselines.folder_of(state.environment.key)
        for text in report.header_lines(
            state.environment,
            None if state.settings.against else state.settings.baselines,
            folder,
            state.target.unreached,
        ):
            self.line(text)
        for text in report.reference_lines(state.reference_probes, os.path.expanduser("~")):
            self.line(text)
        if state.settings.injection is not None:
            self.line(f"busbw injected: {state.settings.injection.text}; these are no true times")

    def further(self, wanted: Further) -> None:
        """Which cases are measured again, and how often."""
        self._close()
        shown = ", ".join(spec.id for spec in wanted.specs[:3])
        more = f" and {len(wanted.specs) - 3} more" if len(wanted.specs) > 3 else ""
        self.line(f"busbw: {plural(wanted.passes, 'further launch')} of {shown}{more}")

    def progress(self, progress: Progress) -> None:
        """Which pass, which case, how long to go."""
        self._progressed(_progress_text(progress))

    def _progressed(self, text: str) -> None:
        if self._reporter is None:
            return
        if self._reporter.isatty:
            self._reporter.rewrite(text, erase=True)
            self._open = True
        elif time.monotonic() - self._last_s >= QUIET_STEP_S:
            self._last_s = time.monotonic()
            self.line(text)

    def compilers(self, compilers: Sequence[Compiler]) -> None:
        """Which compilers there are, and for what."""
        for text in report.compiler_lines(compilers):
            self.line(text)

    def compiled(self, done: int, total: int, job: Job) -> None:
        """How many of the cases are compiled; called by one thread at a time."""
        self._progressed(f"busbw: compiled {done}/{total}: {job.case.name} for {job.topology.name}")

    def done_compiling(self, seconds: float) -> None:
        """Close the progress line."""
        self._close()
        self.line(f"busbw: compiled in {seconds:.0f} s")

    def done(self, state: State) -> None:
        """Close the progress line."""
        self._close()
        word = "interrupted after" if state.interrupted else "measured in"
        self.line(f"busbw: {word} {state.measuring_s:.0f} s")

    def _close(self) -> None:
        if self._reporter is not None and self._open:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
            self._open = False


def _progress_text(progress: Progress) -> str:
    left = "" if progress.remaining_s is None else f", about {progress.remaining_s:.0f} s left"
    return (
        f"busbw: pass {progress.pass_number}/{progress.passes}, "
        f"{progress.done + 1}/{progress.total}: {progress.case.name}{left}"
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line per case, then what was written; where interrupted, what there is."""
    state = config.stash.get(STATE, None)
    if state is not None and state.compiled:
        _compile_summary(terminalreporter, state)
    if state is None or state.plan is None:
        return
    terminalreporter.section("busbw")
    verdicts = tuple(state.verdicts.values())
    _put(terminalreporter, report.session_tables(verdicts, state.measurements, _curves(state)))
    if state.interrupted:
        _put(terminalreporter, [report.measured_table(_measured(state), state.plan.launches)])
    for note in state.notes:
        terminalreporter.write_line(f"note: {note}", yellow=True)
    changes = [(str(c.path), c.case, c.before, c.after) for c in state.changes]
    _put(terminalreporter, report.change_tables(changes))
    _session_line(terminalreporter, state)


def _compile_summary(terminalreporter: Any, state: State) -> None:
    terminalreporter.section("busbw")
    verdicts = tuple(state.compiled.values())
    _put(terminalreporter, report.compiled_tables(verdicts))
    for text in report.release_lines(verdicts):
        terminalreporter.write_line(text)
    for note in state.notes:
        terminalreporter.write_line(f"note: {note}", yellow=True)
    changes = [(str(one.path), one.before, one.after) for one in state.compiled_changes]
    for text in report.compiled_change_lines(changes):
        terminalreporter.write_line(text)
    _session_line(terminalreporter, state)


def _put(terminalreporter: Any, tables: Sequence[report.Table]) -> None:
    for table in tables:
        for line in report.RENDERERS["text"](table):
            terminalreporter.write_line(line.text, **line.markup)


def _session_line(terminalreporter: Any, state: State) -> None:
    if state.session_verdict is not None:
        found = state.session_verdict
        red = found.failed or found.failed_cases > 0
        terminalreporter.write_line(found.headline(), red=red)
    for error in state.errors:
        terminalreporter.write_line(f"ERROR: {error}", red=True)


def _curves(state: State) -> list[report.CurveGroup]:
    return [
        report.CurveGroup(name=group.case.group_name, now=group.now, before=group.before)
        for group in state.groups
        if group.now is not None
    ]


def _measured(state: State) -> list[tuple[Case, Summary]]:
    found = []
    for measurement in state.measurements.values():
        if measurement.runs:
            times_s = [stats.launch_time_s(run) for run in measurement.runs]
            found.append((measurement.case, judge.summary_of(measurement.case, times_s)))
    return found
