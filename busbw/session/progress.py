"""Show the progress of a session: in one line of a terminal, or in several lines of a log."""

from __future__ import annotations

import math
import os
import time

from busbw.driver.schedules import Progress
from busbw.report.session import header_lines, reference_stack_lines

from .levels import changed_stack_lines
from .state import MeasuredSession

# A log, which cannot be overwritten, gets a line for a status text at most once in this interval.
LOG_INTERVAL_S = 60.0


class Display:
    """Writes the header and the progress of a session; this base class shows nothing.

    Subclasses override `write_line` and `overwrite`. Only a display that `can_overwrite` shows the
    texts of `overwrite`. With `verbose` the header says more about the machine.
    """

    can_overwrite = False
    verbose = False
    _last_s = -math.inf

    def write_line(self, text: str) -> None:
        """Write `text` as a line that stays."""

    def overwrite(self, text: str) -> None:
        """Show `text` in place of the text of the previous call; an empty text clears it."""

    def write_header(self, measured_session: MeasuredSession) -> None:
        """Write what will be measured, on which machine, and what changed since the baselines."""
        options, environment = measured_session.options, measured_session.environment
        baselines = None if measured_session.is_paired else options.baselines
        unreached, home = measured_session.machine.target.unreached, os.path.expanduser("~")
        lines = [
            *header_lines(environment, baselines, unreached, verbose=self.verbose),
            *changed_stack_lines(measured_session),
            *reference_stack_lines(measured_session.machine.references, environment.flags, home),
        ]
        if options.inject is not None:
            lines.append(f"busbw injected: {options.inject.text}; the times are not real")
        for text in lines:
            self.write_line(text)

    def replace_progress(self, text: str) -> None:
        """Clear the progress, and write `text` as a line that stays."""
        self.overwrite("")
        self.write_line(text)

    def show_progress(self, progress: Progress) -> None:
        """Show the present round and case, as `show_status` does."""
        count = f"{progress.measured_count + 1}/{progress.planned_count}"
        rounds = f"{progress.round_number}/{progress.rounds}"
        self.show_status(f"busbw: round {rounds}: {count} {progress.case.name}")

    def show_status(self, text: str) -> None:
        """Show `text` as the progress; a log gets a line at most every `LOG_INTERVAL_S` seconds."""
        if self.can_overwrite:
            self.overwrite(text)
        elif time.monotonic() - self._last_s >= LOG_INTERVAL_S:
            self._last_s = time.monotonic()
            self.write_line(text)
