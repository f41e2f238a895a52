"""An agent's workers, their deadlines and ends. Nothing waits: `look` is called again and again."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable

from . import messages
from .folder import Folder
from .processes import Process, is_stopped

STACK_GRACE_S = 1.0
EXIT_GRACE_S = 5.0

_NAME = re.compile(r"[\w-][\w.-]{0,200}")
_CANNOT_START = 127

Post = Callable[[messages.ToSession], None]


class OrderError(Exception):
    """The session asks for what no session does."""


class Overdue(Exception):
    """A worker did not answer in time, and the session did not end it."""


class Running:
    """One worker that was started, until its end has been reported."""

    def __init__(
        self, number: int, name: str, process: Process, clock: Callable[[], float]
    ) -> None:
        self.number = number
        self.name = name
        self.process = process
        self._clock = clock
        self._deadline_s: float | None = None
        self._kill_s: float | None = None
        self._is_mute = False
        os.set_blocking(process.requests, False)
        self._by_itself = True

    @property
    def can_say_more(self) -> bool:
        return self.process.replies >= 0 and not self._is_mute

    @property
    def is_ending(self) -> bool:
        return self._kill_s is not None

    @property
    def is_overdue(self) -> bool:
        return self._deadline_s is not None and self._clock() > self._deadline_s

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.process.pid)

    def do(self, asked: messages.Send | messages.Stack | messages.Close | messages.Kill) -> None:
        if isinstance(asked, messages.Send):
            self._send(asked)
        elif isinstance(asked, messages.Stack):
            # One that is stopped prints none.
            if not self.process.is_over():
                self.process.print_stack()
            self._end(0.0 if self.is_stopped else STACK_GRACE_S, by_itself=False)
        elif isinstance(asked, messages.Close):
            self.process.close_pipes()
            self._end(EXIT_GRACE_S)
        else:
            # Its exit code is that of the signal, unless it was over before.
            self.process.interrupt()
            self._end(EXIT_GRACE_S)

    def _send(self, asked: messages.Send) -> None:
        """Give it a request, and a deadline. Raises OrderError if it has not read the others."""
        self._deadline_s = self._clock() + asked.timeout_s
        line = asked.line.encode() + b"\n"
        if asked.line and not self.is_ending and not self.process.write(line):
            raise OrderError(f"{self.name} does not read its requests")

    def read(self) -> bytes:
        """What it has said. At the end of its replies it is to end."""
        content = self.process.read()
        if b"\n" in content:
            self._deadline_s = None
        if not content:
            self._is_mute = True
            self._end(EXIT_GRACE_S)
        return content

    def _end(self, grace_s: float, *, by_itself: bool = True) -> None:
        """Kill it unless it has ended within `grace_s`; `by_itself` if that is its own doing."""
        self._by_itself = self._by_itself and by_itself
        kill_s = self._clock() + grace_s
        self._kill_s = kill_s if self._kill_s is None else min(kill_s, self._kill_s)

    def look(self) -> messages.Over | None:
        """Its end, once it is over; kills it when its grace is."""
        assert self._kill_s is not None
        over = self.process.is_over()
        if not over and self._clock() < self._kill_s:
            return None
        self.process.kill()
        return messages.Over(
            worker=self.number,
            exit_code=self.process.exit_code or 0,
            by_itself=over and self._by_itself,
            log=self.process.log_end(),
            oom_kills=self.process.oom_kills(),
        )


class Workers:
    """All workers of an agent; what there is to say of them goes to `post`."""

    def __init__(
        self, folder: Folder, post: Post, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._post = post
        self._clock = clock
        self._running: dict[int, Running] = {}

    @property
    def reading(self) -> dict[int, Running]:
        return {one.process.replies: one for one in self._running.values() if one.can_say_more}

    @property
    def are_ending(self) -> bool:
        return any(one.is_ending for one in self._running.values())

    def do(self, asked: messages.ToAgent) -> None:
        if isinstance(asked, messages.Start):
            self._start(asked)
        elif isinstance(asked, messages.Look):
            one = self._running.get(asked.worker)
            stopped = one is not None and one.is_stopped
            self._post(messages.Looked(worker=asked.worker, is_stopped=stopped))
        elif isinstance(asked, (messages.Send, messages.Stack, messages.Close, messages.Kill)):
            one = self._running.get(asked.worker)
            # Its end may have been reported a moment ago.
            if one is not None:
                one.do(asked)

    def _start(self, asked: messages.Start) -> None:
        """Start a worker; one that cannot be started is over at once, and its log says why."""
        number, order = asked.worker, asked.order
        if not _NAME.fullmatch(order.name) or number in self._running:
            raise OrderError(f"worker {number}: {order.name[:80]!r} cannot be started")
        try:
            process = Process(order, self._folder)
        except OSError as error:
            why = f"{order.python or 'python'}: {error.strerror or error}"
            self._post(
                messages.Over(
                    worker=number, exit_code=_CANNOT_START, by_itself=True, log=why, oom_kills=0
                )
            )
            return
        self._running[number] = Running(number, order.name, process, self._clock)

    def read(self, one: Running) -> None:
        content = one.read()
        if content:
            text = base64.b64encode(content).decode()
            self._post(messages.Said(worker=one.number, content=text))

    def look(self) -> None:
        """Report those that are over. Raises Overdue if one is late and still there."""
        for one in list(self._running.values()):
            if one.is_ending:
                over = one.look()
                if over is not None:
                    del self._running[one.number]
                    self._post(over)
            elif one.is_overdue:
                raise Overdue(f"{one.name} did not answer by its deadline")

    def end_all(self) -> None:
        for one in self._running.values():
            one.process.interrupt()
        for one in self._running.values():
            one.process.kill()
        self._running.clear()
