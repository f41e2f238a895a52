"""A worker on the host of an agent, as a group sees it.

What it says comes by a queue, which the thread of the hub fills and a descriptor tells of. Knows no
agent but that of its host.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from busbw import wire
from busbw.agent import messages
from busbw.model.launch import LaunchId

from .hub import Hub
from .peers import Peer
from .transport import MOST_REPLY_BYTES, Ended, Member, Replies, Reply, Request, request_line

# An agent needs a few seconds at most to end a worker.
_END_S = 30.0
_LOOK_S = 2.0
# Where nothing is said of it.
_LONG_S = 600.0
# The session kills a worker at its deadline; an agent only if the session does not.
_DEADLINE_GRACE_S = 30.0


class AgentWorker(Member):
    """A worker on an agent's host. Its replies come by a queue, of which `fileno` tells."""

    def __init__(
        self,
        hub: Hub,
        peer: Peer,
        order: messages.Order,
        launch: LaunchId,
        *,
        host: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch = launch
        self.host = host
        self._hub = hub
        self._peer = peer
        self._clock = clock
        self._replies = Replies()
        self._said = bytearray()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._looked = threading.Event()
        self._is_stopped = False
        self._over: messages.Over | None = None
        self._lost = ""
        self._begun_s = clock()
        self._timeout_s = _LONG_S
        self._is_closing = False
        self._reading, self._telling = os.pipe()
        self._has_told = False
        self._number = peer.next_number()
        peer.workers[self._number] = self
        peer.post(messages.Start(worker=self._number, order=order))
        if peer.why_lost:
            self.lost(peer.why_lost)

    def fileno(self) -> int:
        return self._reading

    def said(self, content: bytes) -> None:
        with self._lock:
            # Of what is too long for a reply the rest is not kept.
            if len(self._said) <= MOST_REPLY_BYTES:
                self._said += content
            self._tell()

    def looked(self, looked: messages.Looked) -> None:
        self._is_stopped = looked.is_stopped
        self._looked.set()

    @property
    def is_stopped(self) -> bool:
        if self._ended.is_set():
            return False
        self._looked.clear()
        self._is_stopped = False
        self._peer.post(messages.Look(worker=self._number))
        self._looked.wait(_LOOK_S)
        return self._is_stopped

    def over(self, over: messages.Over) -> None:
        with self._lock:
            self._over = over
            self._tell()
        self._ended.set()
        self._looked.set()

    def lost(self, why: str) -> None:
        with self._lock:
            if self._over is None:
                self._lost = why
            self._tell()
        self._ended.set()
        self._looked.set()

    def _tell(self) -> None:
        if not self._has_told and self._telling >= 0:
            self._has_told = True
            os.write(self._telling, b".")

    def allow(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s + _DEADLINE_GRACE_S

    def send(self, request: Request | None) -> None:
        self._begun_s = self._clock()
        self._replies.expect(request)
        line = request_line(request).decode().rstrip("\n") if request is not None else ""
        self._peer.post(messages.Send(worker=self._number, line=line, timeout_s=self._timeout_s))

    def received(self) -> Reply | Ended | None:
        with self._lock:
            if self._has_told:
                os.read(self._reading, 1)
                self._has_told = False
            said = bytes(self._said)
            self._said.clear()
            if said and self._ended.is_set():
                # Its end is told next.
                self._tell()
        if not said:
            return self._end(None) if self._ended.is_set() else None
        try:
            return self._replies.add(said)
        except wire.WireError as error:
            return self._refused(str(error))

    def _refused(self, why: str) -> Ended:
        waited_s = self._clock() - self._begun_s
        self.kill()
        return replace(self._end(waited_s), exit_code=None, refused=why)

    def timed_out(self) -> Ended:
        waited_s, stopped = self._clock() - self._begun_s, self.is_stopped
        self._peer.post(messages.Stack(worker=self._number))
        self._wait()
        self.kill()
        return replace(self._end(waited_s), exit_code=None, stopped=stopped)

    def _end(self, waited_s: float | None) -> Ended:
        over = self._over
        if waited_s is None:
            waited_s = self._clock() - self._begun_s
            self._close_pipes()
        if over is None:
            return Ended(exit_code=None, log="", oom_kills=0, waited_s=waited_s, lost=self._lost)
        return Ended(
            exit_code=over.exit_code if over.by_itself else None,
            log=over.log,
            oom_kills=over.oom_kills,
            waited_s=waited_s,
        )

    def _wait(self) -> None:
        """Wait for its end. An agent that does not end it is taken for gone."""
        if not self._ended.wait(_END_S):
            self._hub.drop(self._peer, f"it does not end worker {self.launch}")

    def hang_up(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._peer.post(messages.Close(worker=self._number))

    def close(self) -> bool:
        self.hang_up()
        self._wait()
        self.kill()
        return self._over is not None and self._over.by_itself

    def interrupt(self) -> None:
        if not self._ended.is_set():
            self._peer.post(messages.Kill(worker=self._number))

    def kill(self) -> None:
        self.interrupt()
        self._wait()
        self._peer.workers.pop(self._number, None)
        self._close_pipes()

    def _close_pipes(self) -> None:
        with self._lock:
            for descriptor in (self._reading, self._telling):
                if descriptor >= 0:
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
            self._reading = self._telling = -1
