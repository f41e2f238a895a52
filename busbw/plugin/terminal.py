"""What the terminal shows: header, progress while measuring, tables, and the answer at the end.

The lines are made in `busbw.report`; here they are only written to the terminal. What failed is in
the answer and not in pytest's own sections, which other tests keep.
"""

from __future__ import annotations

import shlex
import shutil
import textwrap
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import pytest

from busbw.model.words import Outcome, SessionOutcome
from busbw.report.answer import answer_lines, failure_lines
from busbw.report.renderers import RENDERERS
from busbw.report.table import Table, TextLine
from busbw.session.display import Screen
from busbw.session.state import Collected, Judged, Observed, Refused

from . import PROMISES
from .config import SESSION, TOLD, collected_of, mode_in, spec_of
from .items import letters_text


def pytest_report_collectionfinish(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[str]:
    has_cases = any(spec is not None for spec in map(spec_of, items))
    shown = config.get_verbosity() >= 0 and not config.getoption("no_header", False)
    return [mode_in(config).header(collected_of(config))] if shown and has_cases else []


class Terminal(Screen):
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
            _write(self._reporter, TextLine(text))
            self._reporter.flush()

    def overwrite(self, text: str) -> None:
        if self._reporter is None or not (text or self._open):
            return
        width = shutil.get_terminal_size().columns - 1
        self._reporter.rewrite(text[:width], erase=True)
        if not text:
            self._reporter.write("\r")
        self._open = bool(text)


def _write(reporter: pytest.TerminalReporter, *lines: TextLine) -> None:
    """On a terminal a line is broken between words, below where its text begins.

    A log keeps whole lines, so that they can be searched.
    """
    width = shutil.get_terminal_size().columns
    for line in lines:
        text, parts = line.text, [line.text]
        if reporter.isatty and 0 < width < len(text):
            indent = " " * (len(text) - len(text.lstrip()) + 2)
            parts = textwrap.wrap(
                text,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        for part in parts:
            reporter.write_line(part, **line.markup)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
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
    if isinstance(found, Judged) and not found.session.failed and exitstatus:
        text = f"{found.session.text}; {_others_text(terminalreporter, exitstatus)}"
        found = replace(found, session=replace(found.session, text=text))
    _write_section(terminalreporter, found, config)


def _others_text(reporter: pytest.TerminalReporter, exitstatus: int) -> str:
    """Return why pytest's exit code is not that of a session that is FINE."""
    reports = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    first = f"; the first is {reports[0].nodeid}" if reports else ""
    return f"pytest ends with exit code {int(exitstatus)} because of other tests{first}"


def _write_section(
    reporter: pytest.TerminalReporter, found: Observed | Judged, config: pytest.Config
) -> None:
    verbose = config.get_verbosity() > 0
    reporter.ensure_newline()
    reporter.section("busbw")
    judged = found if isinstance(found, Judged) else None
    observed = found.observed if isinstance(found, Judged) else found
    verdicts = tuple((found.verdicts if isinstance(found, Judged) else found.skipped).values())
    tables, lines = mode_in(config).tables(observed, judged, verbose)
    if isinstance(found, Judged) and not verbose:
        _write(reporter, TextLine(letters_text(verdicts)))
    _write(reporter, *_table_lines(tables), *map(TextLine, lines))
    _write(reporter, *(TextLine(f"note: {note}", {"yellow": True}) for note in found.notes))
    for text in failure_lines(verdicts):
        # Logs stay as they were written.
        reporter.write_line(text)
    if isinstance(found, Judged):
        _write(reporter, *_table_lines(found.changes), TextLine(""))
        _write(reporter, *_recording_lines(found, config))
        _write(reporter, *answer_lines(verdicts, found.session, found.since))
        _write(reporter, *(TextLine(f"ERROR: {one}", {"red": True}) for one in found.errors))


def _recording_lines(judged: Judged, config: pytest.Config) -> Iterator[TextLine]:
    """Yield the command that records baselines, after a session that had none."""
    is_first = judged.session.outcome is SessionOutcome.NOTHING_COMPARED
    outcomes = {verdict.outcome for verdict in judged.verdicts.values()}
    if is_first and Outcome.NO_BASELINE in outcomes and not judged.settings.writes_baselines:
        start, words = ["python", "-m", "pytest"], list(config.invocation_params.args)
        if PROMISES in words:
            start, words = ["busbw", "run"], words[words.index(PROMISES) + 1 :]
        command = shlex.join([*start, *words, "--update-baselines"])
        yield TextLine(f"there are no baselines to compare with; to record these times: {command}")


def _table_lines(tables: Sequence[Table]) -> list[TextLine]:
    return [line for table in tables for line in RENDERERS["text"](table)]
