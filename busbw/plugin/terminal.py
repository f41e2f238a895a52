"""Write the lines of a session to pytest's terminal: header, progress, tables and the verdict.

The package `busbw.report` makes the lines. Failed cases are shown in a section of busbw, and not
in pytest's section of failed tests.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Generator, Iterator

import pytest

from busbw.model.words import Outcome, plural
from busbw.report.conclusion import conclusion_lines, failure_logs
from busbw.report.table import TextLine, render_text
from busbw.session.measure import Display
from busbw.session.state import JudgedSession

from .config import JUDGED_SESSION_KEY, MODE_KEY
from .items import VERDICT_ATTRIBUTE


class Terminal(Display):
    """The display that writes the lines of a session to the output of pytest.

    The output is a terminal, or a log without overwritten lines.
    """

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._has_progress = False
        self.can_overwrite = bool(reporter.isatty)
        self.verbose = reporter.verbosity > 0

    def write_line(self, text: str) -> None:
        """Erase the progress, if any is shown, and write `text` as a line of its own."""
        if self._has_progress:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
            self._has_progress = False
        self._reporter.ensure_newline()
        self._reporter.write_line(text)
        self._reporter.flush()

    def overwrite(self, text: str) -> None:
        """Show `text` as the progress, and erase the previous progress."""
        width = shutil.get_terminal_size().columns - 1
        self._reporter.rewrite(text[:width], erase=True)
        self._has_progress = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    """Write the section of busbw, with tables, notes and the verdict, below all other sections."""
    judged_session = config.stash.get(JUDGED_SESSION_KEY, None)
    if judged_session is None:
        return (yield)
    failed_reports = terminalreporter.stats.get("failed", [])
    shown_reports = [
        report
        for report in failed_reports
        if (verdict := getattr(report, VERDICT_ATTRIBUTE, None)) and verdict.failed
    ]
    # pytest counts the failed cases, but only the section of busbw shows them.
    failed_reports[:] = [report for report in failed_reports if report not in shown_reports]
    try:
        yield
    finally:
        failed_reports += shown_reports
    terminalreporter.ensure_newline()
    terminalreporter.section("busbw")
    for line in _busbw_section_lines(judged_session, config):
        terminalreporter.write_line(line.text, **line.markup)


def _busbw_section_lines(
    judged_session: JudgedSession, config: pytest.Config
) -> Iterator[TextLine]:
    """Yield the lines that the section of busbw shows after the tests.

    The lines are tables, notes, logs of failures, and the verdict of the session as the last line,
    followed only by errors.
    """
    verbose = config.get_verbosity() > 0
    verdicts = tuple(judged_session.verdicts.values())
    tables, explanations = config.stash[MODE_KEY].tables(judged_session, verbose)
    yield from itertools.chain.from_iterable(map(render_text, tables))
    yield from map(TextLine, explanations)
    yield from (TextLine(f"note: {note}", {"yellow": True}) for note in judged_session.notes)
    for heading, lines in failure_logs(verdicts):
        yield from map(TextLine, ("", f"{heading}:", *(f"    {line}" for line in lines)))
    yield from itertools.chain.from_iterable(map(render_text, judged_session.baseline_tables))
    yield TextLine("")
    count = sum(verdict.outcome is Outcome.NO_BASELINE for verdict in verdicts)
    if count and not judged_session.options.writes_baselines:
        cases = plural(count, "case")
        yield TextLine(f"{cases} without a baseline; --update-baselines=new stores the results")
    yield from conclusion_lines(
        verdicts, judged_session.session_verdict, judged_session.failing_since
    )
    yield from (TextLine(f"ERROR: {error}", {"red": True}) for error in judged_session.errors)
