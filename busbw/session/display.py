"""Progress of a session: on a screen one line that is overwritten, elsewhere a line for each round.

The lines are made in `busbw.report`; whoever runs a session says with a `Screen` where they go.
"""

from __future__ import annotations

import os
import time

from busbw.driver.schedules import Progress
from busbw.report.session import changed_lines, header_lines, reference_lines

from .references import baseline_changes
from .state import Measured

# A line this often, in seconds, where nothing can be overwritten and there are no rounds.
QUIET_STEP_S = 10.0


class Screen:
    """Where the lines of a session go, by itself nowhere.

    One that `can_overwrite` shows a text in place of the one before; an empty one, in place of
    nothing.
    """

    can_overwrite = False

    def line(self, text: str) -> None:
        pass

    def overwrite(self, text: str) -> None:
        pass


class Display:
    """What is said while a session goes on; with `verbose`, more of the machine."""

    def __init__(self, screen: Screen, *, verbose: bool = False) -> None:
        self._screen = screen
        self._verbose = verbose
        self._last_s = 0.0
        self._last_pass = 0
        self.line = screen.line

    def header(self, resolved: Measured) -> None:
        settings, environment = resolved.settings, resolved.environment
        baselines = None if resolved.paired else settings.baselines
        unreached = resolved.machine.target.unreached
        for text in header_lines(environment, baselines, unreached, verbose=self._verbose):
            self.line(text)
        for text in changed_lines(baseline_changes(resolved)):
            self.line(text)
        home = os.path.expanduser("~")
        for text in reference_lines(resolved.machine.references, environment.flags, home):
            self.line(text)
        if settings.injection is not None:
            self.line(f"busbw injected: {settings.injection.text}; the times are not real")

    def say(self, text: str) -> None:
        """A line of its own that interrupts the progress line."""
        self._screen.overwrite("")
        self.line(text)

    def progress(self, progress: Progress) -> None:
        left_s = progress.remaining_s
        left = "" if left_s is None else f", about {left_s:.0f} s left"
        number = f"busbw: round {progress.pass_number}/{progress.passes}"
        if self._screen.can_overwrite:
            count = f"{progress.done + 1}/{progress.total}"
            self._screen.overwrite(f"{number}{left}: {count} {progress.case.name}")
        elif progress.pass_number != self._last_pass:
            self._last_pass = progress.pass_number
            self.line(f"{number}{left}")

    def now_and_then(self, text: str) -> None:
        """Overwrite the progress line, or write a line every few seconds."""
        if self._screen.can_overwrite:
            self._screen.overwrite(text)
        elif time.monotonic() - self._last_s >= QUIET_STEP_S:
            self._last_s = time.monotonic()
            self.line(text)

    def done(self, what: str, seconds: float) -> None:
        self.say(f"busbw: {what} {seconds:.0f} s")
