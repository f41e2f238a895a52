"""What the terminal shows: header, progress while measuring, tables, and the answer at the end.

The lines are made in `busbw.report`; here they are only written to the terminal. What failed is in
the answer and not in pytest's own sections, which other tests keep.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Generator, Sequence

import pytest

from busbw.judge.case import summary_of
from busbw.model.verdict import Verdict
from busbw.model.words import payload_text, plural
from busbw.report.answer import answer_lines, failure_lines
from busbw.report.renderers import RENDERERS
from busbw.report.session import (
    CurveGroup,
    change_tables,
    measured_table,
    session_tables,
)
from busbw.report.table import Table, TextLine, span_text
from busbw.report.verdicts import compiled_tables, legend, release_lines
from busbw.session import hints
from busbw.session.compilers import FAMILIES, CompileSettings, missing
from busbw.session.display import AbstractScreen
from busbw.session.state import Collected, Judged, Measured, Observed, Refused, Written
from busbw.stats.launches import launch_time_s

from .config import SESSION, TOLD, collected_of, spec_of


def pytest_report_collectionfinish(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[str]:
    specs = [spec for spec in map(spec_of, items) if spec is not None]
    named = [(spec.dtype, payload_text(spec.payload_bytes)) for spec in specs]
    hint = hints.of_keyword(config.getoption("keyword", ""), named)
    shown = config.get_verbosity() >= 0 and not config.getoption("no_header", False)
    return [*filter(None, (_header(config), hint))] if shown and specs else []


def _header(config: pytest.Config) -> str:
    settings = collected_of(config).settings
    sizes = settings.asked.payloads
    if settings.compile is not None:
        return _compile_header(settings.compile, len(sizes))
    device = f", --device={settings.device.value}" if settings.device else ""
    span = span_text(sizes) if sizes else "none"
    return (
        f"busbw: {', '.join(settings.frameworks)}, "
        f"{plural(len(sizes), 'payload')} ({span}), {', '.join(settings.asked.dtypes)}, "
        f"{plural(settings.launches, 'launch')}"
        + (" of each side" if settings.against else "")
        + device
    )


def _compile_header(asked: CompileSettings, payloads: int) -> str:
    names = ", ".join(one.name for one in asked.topologies)
    devices = {device for family in asked.families for device in FAMILIES[family]}
    absent = {} if asked.libtpus else missing()
    left_out = [f"; {why}" for device, why in absent.items() if device in devices]
    return f"busbw: compiling for {names}, {plural(payloads, 'payload')}" + "".join(left_out)


class Screen(AbstractScreen):
    """The terminal of pytest, or its log."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin(
            "terminalreporter"
        )
        self._open = False
        self.can_overwrite = self._reporter is not None and bool(self._reporter.isatty)

    def line(self, text: str) -> None:
        if self._reporter is not None:
            self._reporter.ensure_newline()
            for part in _broken(text, _width(self._reporter)):
                self._reporter.write_line(part)
            self._reporter.flush()

    def overwrite(self, text: str) -> None:
        if self._reporter is None or not (text or self._open):
            return
        width = shutil.get_terminal_size().columns - 1
        self._reporter.rewrite(text[:width], erase=True)
        if not text:
            self._reporter.write("\r")
        self._open = bool(text)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    """Tables and the answer, below all other sections; after an interrupt, what there is."""
    found = config.stash.get(SESSION, None)
    if found is None or isinstance(found, Refused | Collected):
        return (yield)
    failed = terminalreporter.stats.get("failed", [])
    told = [one for one in failed if getattr(one, TOLD, False)]
    # They count as failed, and are shown once: below.
    failed[:] = [one for one in failed if one not in told]
    try:
        yield
    finally:
        failed += told
    _Section(terminalreporter, config).write(found)


class _Section:
    """The section of busbw at the end of a session."""

    def __init__(self, reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        self._reporter = reporter
        self._verbose = config.get_verbosity() > 0
        self._width = _width(reporter)

    def write(self, found: Observed | Judged | Written) -> None:
        written = found if isinstance(found, Written) else None
        judged = found.judged if isinstance(found, Written) else found
        self._reporter.ensure_newline()
        self._reporter.section("busbw")
        verdicts, tables, lines = _shown(judged, verbose=self._verbose)
        self._tables(tables)
        for text in lines:
            self._line(TextLine(text))
        for note in (*judged.notes, *(written.notes if written else ())):
            self._line(TextLine(f"note: {note}", {"yellow": True}))
        for text in failure_lines(verdicts):
            # Logs stay as they were written.
            self._reporter.write_line(text)
        if written is not None:
            self._write_changes(written)
        if isinstance(judged, Judged):
            self._reporter.write_line("")
            for line in answer_lines(verdicts, judged.session):
                self._line(line)
        for error in written.errors if written else ():
            self._line(TextLine(f"ERROR: {error}", {"red": True}))

    def _write_changes(self, written: Written) -> None:
        changes = [
            (str(c.path), c.case, c.before, c.after, f"{c.why}, re-pinned" if c.lost else c.why)
            for c in written.changes
        ]
        self._tables(change_tables(changes))

    def _tables(self, tables: Sequence[Table]) -> None:
        for table in tables:
            for line in RENDERERS["text"](table):
                self._line(line)

    def _line(self, line: TextLine) -> None:
        """Write a line; on a terminal it is broken between words, below where its text begins."""
        for text in _broken(line.text, self._width):
            self._reporter.write_line(text, **line.markup)


def _width(reporter: pytest.TerminalReporter) -> int:
    """That of the terminal; 0 for a log, which keeps whole lines, so that they can be searched."""
    return shutil.get_terminal_size().columns if reporter.isatty else 0


def _broken(text: str, width: int) -> Sequence[str]:
    if not 0 < width < len(text):
        return [text]
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _shown(
    found: Judged | Observed, *, verbose: bool
) -> tuple[Sequence[Verdict], Sequence[Table], Sequence[str]]:
    """The verdicts, their tables, and what explains these."""
    observed = found.observed if isinstance(found, Judged) else found
    of = found.verdicts if isinstance(found, Judged) else found.resolved.skipped
    verdicts = tuple(of.values())
    if isinstance(observed, Measured):
        tables = _timed_tables(found, observed, verdicts, verbose=verbose)
        return verdicts, tables, legend(verdicts, verbose=verbose)
    programs = [one for one in verdicts if one.spec.topology]
    return verdicts, compiled_tables(programs), release_lines(programs)


def _timed_tables(
    found: Judged | Observed, measured: Measured, verdicts: Sequence[Verdict], *, verbose: bool
) -> Sequence[Table]:
    curves = [
        CurveGroup(name=group.case.group_name, now=group.now, before=group.before)
        for group in (found.groups if isinstance(found, Judged) else ())
        if group.now is not None
    ]
    tables = session_tables(
        verdicts,
        measured.measurements,
        curves,
        verbose=verbose,
        changed=measured.resolved.environment.changed,
    )
    if measured.interrupted:
        summaries = [
            (one.case, summary_of(one.case, [launch_time_s(run) for run in one.runs]))
            for one in measured.measurements.values()
            if one.runs
        ]
        tables.append(measured_table(summaries, measured.resolved.plan.launches))
    return tables
