"""What the terminal shows: header, progress while measuring, one line per case at the end.

The lines are made in `busbw.report`; here they are only written to the terminal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest

from busbw import judge, report, stats
from busbw.driver import Job, Progress
from busbw.model import Compiler, payload_text

from .compilers import FAMILIES, CompileSettings, missing
from .session import (
    SESSION,
    Collected,
    Judged,
    Measured,
    Programs,
    Refused,
    Resolved,
    Written,
    collected_of,
    spec_of,
)

QUIET_STEP_S = 10.0


def pytest_report_collectionfinish(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[str]:
    """What will be measured, if anything is; the device is not known before the probe."""
    shown = config.get_verbosity() >= 0 and not config.getoption("no_header", False)
    return [_header(config)] if shown and any(map(spec_of, items)) else []


def _header(config: pytest.Config) -> str:
    settings = collected_of(config).settings
    sizes = settings.asked.payloads
    if settings.compile is not None:
        return _compile_header(settings.compile, len(sizes))
    device = settings.device.value if settings.device else "auto"
    span = f"{payload_text(sizes[0])} to {payload_text(sizes[-1])}" if sizes else "none"
    return (
        f"busbw: device {device}, {', '.join(settings.frameworks)}, {len(sizes)} payloads "
        f"({span}), {', '.join(settings.asked.dtypes)}, {settings.launches} launches"
        + (" of each side" if settings.against else "")
    )


def _compile_header(asked: CompileSettings, payloads: int) -> str:
    """The topologies, and what is left out of `all` because its compiler is not installed."""
    names = ", ".join(one.name for one in asked.topologies)
    devices = {device for family in asked.families for device in FAMILIES[family]}
    absent = {} if asked.libtpus else missing()
    left_out = [f"; {why}" for device, why in absent.items() if device in devices]
    return f"busbw: compiling for {names}, {payloads} payloads" + "".join(left_out)


class Display:
    """Progress: on a terminal one line that is overwritten, elsewhere a line every few seconds."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin(
            "terminalreporter"
        )
        self._last_s = 0.0
        self._open = False

    def line(self, text: str) -> None:
        """A line of its own."""
        if self._reporter is not None:
            self._reporter.ensure_newline()
            self._reporter.write_line(text)
            self._reporter.flush()

    def header(self, resolved: Resolved) -> None:
        """Device, ranks, versions and where the baselines are."""
        settings, environment = resolved.settings, resolved.environment
        header = report.header_lines(
            environment,
            None if resolved.paired else settings.baselines,
            environment.key.folder,
            resolved.machine.target.unreached,
        )
        home = os.path.expanduser("~")
        for text in (
            *header,
            *report.reference_lines(resolved.machine.references, environment.flags, home),
        ):
            self.line(text)
        if settings.injection is not None:
            self.line(f"busbw injected: {settings.injection.text}; these are no true times")

    def say(self, text: str) -> None:
        """A line of its own that interrupts the progress line."""
        self._close()
        self.line(text)

    def progress(self, progress: Progress) -> None:
        """Which pass, which case, how long to go."""
        left_s = progress.remaining_s
        left = "" if left_s is None else f", about {left_s:.0f} s left"
        self._progressed(
            f"busbw: pass {progress.pass_number}/{progress.passes}, "
            f"{progress.done + 1}/{progress.total}: {progress.case.name}{left}"
        )

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

    def done(self, what: str, seconds: float) -> None:
        """Close the progress line, and say how long it took."""
        self.say(f"busbw: {what} {seconds:.0f} s")

    def _close(self) -> None:
        if self._reporter is not None and self._open:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
            self._open = False


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line per case, then what was written; after an interrupt, what there is."""
    found = config.stash.get(SESSION, None)
    if found is None or isinstance(found, (Refused, Collected)):
        return
    judged = found.judged if isinstance(found, Written) else found
    observed = judged.observed if isinstance(judged, Judged) else judged
    if isinstance(observed, Measured):
        _section(terminalreporter, _timed_tables(judged, observed), [], found)
    elif isinstance(judged, Programs) or (isinstance(judged, Judged) and judged.compiled):
        compiled = judged.compiled if isinstance(judged, Judged) else judged.resolved.skipped
        verdicts = tuple(compiled.values())
        tables, releases = report.compiled_tables(verdicts), report.release_lines(verdicts)
        _section(terminalreporter, tables, releases, found)


def _section(
    reporter: pytest.TerminalReporter,
    tables: Sequence[report.Table],
    texts: Sequence[str],
    found: Measured | Programs | Judged | Written,
) -> None:
    """Tables, notes, what was written, the session's verdict, errors."""
    reporter.section("busbw")
    _write_tables(reporter, tables)
    for text in texts:
        reporter.write_line(text)
    written = found if isinstance(found, Written) else None
    judged = found.judged if isinstance(found, Written) else found
    for note in (*judged.notes, *(written.notes if written else ())):
        reporter.write_line(f"note: {note}", yellow=True)
    if written is not None:
        _write_changes(reporter, written)
    if isinstance(judged, Judged):
        session = judged.session
        reporter.write_line(session.headline(), red=session.failed or session.failed_cases > 0)
    for error in written.errors if written else ():
        reporter.write_line(f"ERROR: {error}", red=True)


def _write_tables(reporter: pytest.TerminalReporter, tables: Sequence[report.Table]) -> None:
    for table in tables:
        for line in report.RENDERERS["text"](table):
            reporter.write_line(line.text, **line.markup)


def _write_changes(reporter: pytest.TerminalReporter, written: Written) -> None:
    changes = [(str(c.path), c.case, c.before, c.after) for c in written.changes]
    _write_tables(reporter, report.change_tables(changes))
    compiled = [(str(one.path), one.before, one.after) for one in written.compiled_changes]
    for text in report.compiled_change_lines(compiled):
        reporter.write_line(text)


def _timed_tables(judged: Judged | Measured | Programs, measured: Measured) -> list[report.Table]:
    found = judged.verdicts if isinstance(judged, Judged) else measured.resolved.skipped
    curves = [
        report.CurveGroup(name=group.case.group_name, now=group.now, before=group.before)
        for group in (judged.groups if isinstance(judged, Judged) else ())
        if group.now is not None
    ]
    tables = report.session_tables(tuple(found.values()), measured.measurements, curves)
    if measured.interrupted:
        summaries = [
            (one.case, judge.summary_of(one.case, [stats.launch_time_s(run) for run in one.runs]))
            for one in measured.measurements.values()
            if one.runs
        ]
        tables.append(report.measured_table(summaries, measured.resolved.plan.launches))
    return tables
