"""Agents and their workers as a session sees them, and connections that may become agents.

A thread for each agent tells what it says; a worker is asked and ended by another one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping

from busbw import wire
from busbw.driver.process import Exit, Order
from busbw.driver.transport import MOST_REPLY_BYTES, Ended, Member, Reply, ended_of
from busbw.model.launch import LaunchId

from . import messages
from .connection import Connection, Lost
from .messages import Message, ToAgent, ToSession

# The number of the descriptor.
DESCRIPTOR = "BUSBW_LISTENING"

# Agents of a large slice that connect before the session accepts any.
BACKLOG = 1024


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens at this address, a number. Raises OSError if it is none of ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def hand_over(listening: socket.socket, environment: MutableMapping[str, str]) -> None:
    os.set_inheritable(listening.fileno(), True)
    environment[DESCRIPTOR] = str(listening.fileno())


def handed_over(environment: MutableMapping[str, str]) -> socket.socket | None:
    """None of its own processes inherit it. Raises OSError if the descriptor is no socket."""
    text = environment.pop(DESCRIPTOR, "")
    if not text:
        return None
    if not text.isdecimal():
        raise OSError(f"{DESCRIPTOR}={text!r} is no descriptor")
    os.set_inheritable(int(text), False)
    return socket.socket(fileno=int(text))


class Stranger:
    """A connection from `address` that has not joined."""

    def __init__(self, sock: socket.socket, address: str = "") -> None:
        self.connection = Connection(sock)
        self.address = address
        self.since_s = time.monotonic()


class Peer:
    """An agent that has proved that it knows the secret; `changed` is notified of what it says."""

    def __init__(
        self, connection: Connection, join: messages.Join, changed: threading.Condition
    ) -> None:
        self.connection = connection
        self.rank = join.rank
        self.host = join.host
        self.address = join.address or connection.addresses[1]
        self.machine = join.machine
        self.is_ready = False
        self.locked: messages.Locked | None = None
        self.why_lost = ""
        self.workers: dict[int, AgentWorker] = {}
        self.ports: deque[messages.Ports] = deque()
        self._changed = changed
        # The number of the worker that it was asked for last.
        self._last = 0

    @property
    def name(self) -> str:
        return f"the agent on {self.host} (rank {self.rank})"

    def post(self, operation: ToAgent, content: bytes = b"", worker: int = 0) -> None:
        """Send a message, from any thread; nothing is sent to one that is gone."""
        if self.why_lost:
            return
        try:
            self.connection.send(Message(operation, content, worker).body)
        except Lost as error:
            self.drop(str(error))

    def drop(self, why: str) -> None:
        """End its connection, which its workers are told; from any thread."""
        with self._changed:
            if self.why_lost:
                return
            self.why_lost = f"{self.name} is gone: {why}"
            self._changed.notify_all()
        for worker in list(self.workers.values()):
            worker.lost(self.why_lost)
        self.connection.shut()

    def take(self, message: Message) -> None:
        """What it says, in the thread that hears it. Raises wire.WireError."""
        said = message.operation
        if said is ToSession.ALIVE:
            self.post(ToAgent.BEAT)
            return
        if said in (ToSession.OUTPUT, ToSession.STATE, ToSession.EXITED):
            self._take_of_worker(message)
            return
        with self._changed:
            if said is ToSession.READY:
                self.is_ready = True
            elif said is ToSession.LOCKED:
                self.locked = message.value(messages.Locked)
            else:
                self.ports.append(message.value(messages.Ports))
            self._changed.notify_all()

    def _take_of_worker(self, message: Message) -> None:
        worker = self.workers.get(message.worker)
        if worker is not None:
            worker.take(message)
        # The end of a worker that was killed may cross with what it said.
        elif not 1 <= message.worker <= self._last:
            asked = f"expected one of the {self._last} workers that it was asked for"
            raise wire.WireError(f"{message.operation.value}: {asked}, got {message.worker}")

    def next_number(self) -> int:
        with self._changed:
            self._last += 1
            return self._last


# An agent needs a few seconds at most to end a worker.
_END_S = 30.0
_LOOK_S = 2.0
# Where nothing is said of it.
_LONG_S = 600.0
# The session kills a worker at its deadline; an agent only if the session does not.
_DEADLINE_GRACE_S = 30.0


class AgentWorker(Member):
    """A worker on an agent's host. Its replies come by a queue, of which `fileno` tells.

    The thread of its agent fills the queue; an agent that does not end its worker is dropped.
    """

    def __init__(
        self,
        peer: Peer,
        order: Order,
        launch: LaunchId,
        *,
        host: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(launch, clock)
        self.host = host
        self._peer = peer
        self._said = bytearray()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._looked = threading.Event()
        self._is_stopped = False
        self._exit: Exit | None = None
        self._lost = ""
        self._timeout_s = _LONG_S
        self._is_closing = False
        self._reading, self._telling = os.pipe()
        self._has_told = False
        self._number = peer.next_number()
        peer.workers[self._number] = self
        self._post(ToAgent.START, messages.encoded(order))
        if peer.why_lost:
            self.lost(peer.why_lost)

    def fileno(self) -> int:
        return self._reading

    def _post(self, operation: ToAgent, content: bytes = b"") -> None:
        self._peer.post(operation, content, self._number)

    def take(self, message: Message) -> None:
        """What its agent says of it, in that one's thread. Raises wire.WireError."""
        if message.operation is ToSession.OUTPUT:
            with self._lock:
                # Of what is too long for a reply the rest is not kept.
                if len(self._said) <= MOST_REPLY_BYTES:
                    self._said += message.content
                self._tell()
        elif message.operation is ToSession.STATE:
            self._is_stopped = message.value(bool)
            self._looked.set()
        else:
            self._exit = message.value(Exit)
            self._tell_over()

    def lost(self, why: str) -> None:
        """Nothing more will be known of it."""
        self._lost = why
        self._tell_over()

    def _tell_over(self) -> None:
        self._is_over.set()
        with self._lock:
            self._tell()
        self._looked.set()

    @property
    def is_stopped(self) -> bool:
        if self._is_over.is_set():
            return False
        self._looked.clear()
        self._is_stopped = False
        self._post(ToAgent.ASK_STATE)
        self._looked.wait(_LOOK_S)
        return self._is_stopped

    def _tell(self) -> None:
        if not self._has_told and self._telling >= 0:
            self._has_told = True
            os.write(self._telling, b".")

    def allow(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s + _DEADLINE_GRACE_S

    def _write(self, line: bytes) -> None:
        text = line.decode().rstrip("\n")
        asked = messages.Send(line=text, timeout_s=self._timeout_s)
        self._post(ToAgent.SEND, messages.encoded(asked))

    def received(self) -> Reply | Ended | None:
        with self._lock:
            if self._has_told:
                os.read(self._reading, 1)
                self._has_told = False
            said = bytes(self._said)
            self._said.clear()
            if said and self._is_over.is_set():
                # Its end is told next.
                self._tell()
        if said:
            return self._answered(said)
        if not self._is_over.is_set():
            return None
        self._close_pipes()
        return self._end(self._waited_s)

    def _print_stack(self) -> None:
        self._post(ToAgent.PRINT_STACK)
        self._wait()

    def _end(self, waited_s: float) -> Ended:
        return ended_of(self._exit, waited_s, self._lost)

    def _wait(self) -> None:
        if not self._is_over.wait(_END_S):
            self._peer.drop(f"it does not end worker {self.launch}")

    def hang_up(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._post(ToAgent.CLOSE)

    def close(self) -> bool:
        self.hang_up()
        self._wait()
        self.kill()
        return self._exit is not None and self._exit.by_itself

    def interrupt(self) -> None:
        if not self._is_over.is_set():
            self._post(ToAgent.KILL)

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
