"""The lock of an agent's host, asked for without waiting: again and again until the deadline.

While an agent holds it no other session measures there. It is released when the agent ends.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from busbw import locks

from .messages import Lock, Locked
from .processes import is_stopped


class MachineLock:
    """The lock, which `ask` asks for; `close` releases it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held = contextlib.ExitStack()
        self._until_s: float | None = None
        self._waits = True

    @property
    def is_awaited(self) -> bool:
        return self._until_s is not None

    def ask(self, asked: Lock) -> None:
        self._until_s = self._clock() + asked.wait_s
        self._waits = asked.even_stopped

    def look(self) -> Locked | None:
        """Try once; None while it is to be tried again."""
        if self._until_s is None:
            return None
        try:
            held, is_late = locks.of_machine(), self._clock() >= self._until_s
            if held is not None:
                self._held.enter_context(contextlib.closing(held))
                found = Locked()
            elif self._waits and not is_late:
                return None
            else:
                # Who holds it is asked twice at most: the holder answers only so often.
                holder = locks.holder_of_machine()
                found = Locked(why=holder.text, is_stopped=is_stopped(holder.process))
                if not (found.is_stopped or is_late):
                    self._waits = True
                    return None
        except OSError as error:
            found = Locked(why=f"it cannot be locked: {error.strerror or error}")
        self._until_s = None
        return found

    def close(self) -> None:
        self._held.close()
