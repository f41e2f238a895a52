"""The lock of an agent's host, asked for without waiting: again and again until the deadline.

While an agent holds it no other session measures there. It is released when the agent ends.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from busbw import locks

from .messages import Lock, Locked


class MachineLock:
    """The lock, which `ask` asks for; `close` releases it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held = contextlib.ExitStack()
        self._until_s: float | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether `look` has to be called again soon."""
        return self._until_s is not None

    def ask(self, asked: Lock) -> None:
        """Try to get it from now on, until `wait_s` are over."""
        self._until_s = self._clock() + asked.wait_s

    def look(self) -> Locked | None:
        """Try once; None while it is to be tried again."""
        if self._until_s is None:
            return None
        try:
            held = locks.of_machine()
            if held is None and self._clock() < self._until_s:
                return None
            # Who holds it is asked once: the holder answers only so often.
            found = Locked(why="" if held is not None else locks.holder_of_machine().text)
            if held is not None:
                self._held.enter_context(contextlib.closing(held))
        except OSError as error:
            found = Locked(why=f"it cannot be locked: {error.strerror or error}")
        self._until_s = None
        return found

    def close(self) -> None:
        """Release it."""
        self._held.close()
