"""What a session says while it runs: on a terminal a line that is overwritten, else more lines."""

from __future__ import annotations

import os
import time

from busbw.driver.schedules import Progress
from busbw.report.session import changed_lines, header_lines, reference_lines

from .levels import baseline_changes
from .state import Measured

# Where nothing can be overwritten and there are no rounds, a line this often, in seconds.
QUIET_STEP_S = 10.0


class Screen:
    """Where the lines of a session go; this class drops them.

    A screen that `can_overwrite` shows a text in place of the text before; an empty text clears it.
    """

    can_overwrite = False

    def line(self, text: str) -> None:
        pass

    def overwrite(self, text: str) -> None:
        pass


class Display:
    """Writes the header and the progress of a session; if `verbose`, more on the machine."""

    def __init__(self, screen: Screen, *, verbose: bool = False) -> None:
        self._screen = screen
        self._verbose = verbose
        self._last_s = 0.0
        self._last_round = 0
        self.line = screen.line

    def header(self, measured: Measured) -> None:
        options, environment = measured.options, measured.environment
        baselines = None if measured.is_paired else options.baselines
        unreached, home = measured.machine.target.unreached, os.path.expanduser("~")
        lines = [
            *header_lines(environment, baselines, unreached, verbose=self._verbose),
            *changed_lines(baseline_changes(measured)),
            *reference_lines(measured.machine.references, environment.flags, home),
        ]
        if options.inject is not None:
            lines.append(f"busbw injected: {options.inject.text}; the times are not real")
        for text in lines:
            self.line(text)

    def interrupt(self, text: str) -> None:
        """Write a line of its own in place of the progress."""
        self._screen.overwrite("")
        self.line(text)

    def progress(self, progress: Progress) -> None:
        left_s = progress.remaining_s
        left = "" if left_s is None else f", about {left_s:.0f} s left"
        text = f"busbw: round {progress.pass_number}/{progress.passes}{left}"
        if self._screen.can_overwrite:
            count = f"{progress.done + 1}/{progress.total}"
            self._screen.overwrite(f"{text}: {count} {progress.case.name}")
        elif progress.pass_number != self._last_round:
            self._last_round = progress.pass_number
            self.line(text)

    def now_and_then(self, text: str) -> None:
        """Overwrite the progress, or write a line every few seconds."""
        if self._screen.can_overwrite:
            self._screen.overwrite(text)
        elif time.monotonic() - self._last_s >= QUIET_STEP_S:
            self._last_s = time.monotonic()
            self.line(text)

    def end(self, action: str, seconds: float) -> None:
        """Say how long an action took, such as ``measured in``."""
        self.interrupt(f"busbw: {action} {seconds:.0f} s")
