"""An agent: what the session asks for, its workers, and when all of it is over.

One thread does everything but wait for the host's lock, so that workers are started by the thread
that lives as long as the agent. On a lost connection, a missed sign of life, a signal or a deadline
that has passed every worker is killed with what it started.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from busbw import locks, wire
from busbw.driver.folder import Folder
from busbw.driver.network import UnreachableError, free_ports
from busbw.driver.process import Exit, Order, Process, is_stopped

from . import messages
from .connection import Connection, FrameError, Lost
from .handshake import JoinError, NotYet, Place, joined, welcomed
from .messages import FilesError, Locked, Message, ToAgent, ToSession, Welcome

_NAME = re.compile(r"[\w-][\w.-]{0,200}")
_CANNOT_START = 127
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_S = 0.02
_IDLE_S = 1.0
_MOST_PORTS = 1024


class AgentError(Exception):
    """Why an agent ended before its session; the message is the sentence that the user reads."""


class OrderError(AgentError):
    """The session asks for what no session does, or what cannot be."""


def take_part(place: Place, secret: bytes, wait_s: float) -> None:
    """Join a session and serve it until it is over. Raises JoinError and AgentError."""
    _serve(*joined(place, secret, wait_s))


def _serve(connection: Connection, welcome: Welcome) -> None:
    with contextlib.ExitStack() as ends:
        ends.callback(connection.close)
        stopped = ends.enter_context(_woken_by_signals())
        folder = Folder()
        ends.callback(folder.remove)
        Agent(connection, folder, welcome).serve(stopped)


@contextlib.contextmanager
def _woken_by_signals() -> Iterator[int]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing)
    # Called in vain: the descriptor says it.
    before = {one: signal.signal(one, lambda number, frame: None) for one in _SIGNALS}
    try:
        yield reading
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(reading)
        os.close(writing)


class MachineLock:
    """The lock of this host, which a thread waits for; `close` releases it."""

    def __init__(self, say: Callable[[Locked], None]) -> None:
        self._say = say
        self._held = contextlib.ExitStack()

    def ask(self, asked: messages.Lock) -> None:
        """Have it said once whether the lock is ours."""
        threading.Thread(target=self._wait, args=(asked,), daemon=True).start()

    def _wait(self, asked: messages.Lock) -> None:
        def look(holder: locks.Holder) -> None:
            if not asked.even_stopped and is_stopped(holder.process):
                raise locks.Busy(holder)

        try:
            self._held.enter_context(locks.machine(asked.wait_s, look))
        except locks.Busy as busy:
            found = Locked(why=busy.holder.text, is_stopped=is_stopped(busy.holder.process))
        except OSError as error:
            found = Locked(why=f"it cannot be locked: {error.strerror or error}")
        else:
            found = Locked()
        self._say(found)

    def close(self) -> None:
        self._held.close()


class Agent:
    """One agent, welcomed by its session, and its workers by number."""

    def __init__(
        self,
        connection: Connection,
        folder: Folder,
        welcome: Welcome,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._welcome = welcome
        self._clock = clock
        self._beat_s = clock()
        self._workers: dict[int, Process] = {}
        self._lock = MachineLock(self._locked)
        self._has_files = False
        self._is_over = False

    def serve(self, stopped: int) -> None:
        """No worker is left. Raises AgentError if it ends otherwise or `stopped` can be read."""
        try:
            while self._takes_orders():
                self._turn(stopped)
        except (Lost, FrameError, wire.WireError) as error:
            raise AgentError(f"the connection to the session is lost: {error}") from error
        except FilesError as error:
            raise AgentError(str(error)) from error
        finally:
            for one in self._workers.values():
                one.interrupt()
            for one in self._workers.values():
                one.kill()
            self._lock.close()

    def _takes_orders(self) -> bool:
        """Do what has been asked; the first may have come with the welcome."""
        while not self._is_over and (body := self._connection.body()) is not None:
            self._do(messages.read(ToAgent, body))
        return not self._is_over

    def _turn(self, stopped: int) -> None:
        self._beat()
        replies = {one.replies: n for n, one in self._workers.items() if one.can_answer}
        is_ending = any(one.is_ending for one in self._workers.values())
        wait_s = _LOOK_S if is_ending else min(_IDLE_S, self._welcome.beat_s)
        connection = self._connection.fileno()
        ready, _, _ = select.select([connection, stopped, *replies], [], [], wait_s)
        if stopped in ready:
            raise AgentError("a signal ended this agent")
        for number in (replies[one] for one in ready if one in replies):
            content = self._workers[number].read()
            if content:
                self._say(ToSession.OUTPUT, content, number)
        if connection in ready:
            self._connection.read()
        self._look()

    def _say(self, operation: ToSession, content: bytes = b"", worker: int = 0) -> None:
        self._connection.send(Message(operation, content, worker).body)

    def _locked(self, found: Locked) -> None:
        # Of a connection that is lost the other thread knows.
        with contextlib.suppress(Lost):
            self._say(ToSession.LOCKED, messages.encoded(found))

    def _beat(self) -> None:
        """Give a sign of life when it is time. Raises Lost if the session has given none."""
        now_s, welcome = self._clock(), self._welcome
        if now_s - self._connection.heard_s > welcome.missed_s:
            raise Lost(f"no sign of life for {welcome.missed_s:g} s")
        if now_s - self._beat_s >= welcome.beat_s:
            self._beat_s = now_s
            self._say(ToSession.ALIVE)

    def _look(self) -> None:
        """Report workers that are over. Raises AgentError if one is late and still there."""
        for number, one in list(self._workers.items()):
            if one.is_ending:
                found = one.look()
                if found is not None:
                    del self._workers[number]
                    self._say(ToSession.EXITED, messages.encoded(found), number)
            elif one.is_overdue:
                raise AgentError(f"{one.name} did not answer by its deadline")

    def _do(self, asked: Message) -> None:
        if asked.operation is ToAgent.FILES:
            self._unpack(asked.content)
        elif asked.operation is ToAgent.LOCK:
            self._lock.ask(asked.value(messages.Lock))
        elif asked.operation is ToAgent.FIND_PORTS:
            self._say(ToSession.FREE_PORTS, messages.encoded(self._ports(asked.value(int))))
        elif asked.operation is ToAgent.GOODBYE:
            self._is_over = True
        elif asked.operation is ToAgent.START:
            self._start(asked.worker, asked.value(Order))
        elif asked.operation is ToAgent.ASK_STATE:
            one = self._workers.get(asked.worker)
            stopped = one is not None and one.is_stopped
            self._say(ToSession.STATE, messages.encoded(stopped), asked.worker)
        # The end of a worker may have been reported a moment ago.
        elif (one := self._workers.get(asked.worker)) is not None:
            _tell(one, asked)

    def _unpack(self, packed: bytes) -> None:
        if self._has_files:
            raise FilesError("the session sends its files twice")
        messages.unpack(packed, self._folder.path)
        self._has_files = True
        self._say(ToSession.READY)

    def _ports(self, count: int) -> messages.Ports:
        if not 0 <= count <= _MOST_PORTS:
            raise OrderError(f"the session asks for {count} ports")
        own, _ = self._connection.addresses
        family = socket.AF_INET6 if ":" in own else socket.AF_INET
        try:
            return messages.Ports(numbers=free_ports(count, own, family))
        except UnreachableError as error:
            return messages.Ports(why=str(error))

    def _start(self, number: int, order: Order) -> None:
        """Start a worker; one that cannot be started is over at once, and its log says why."""
        if not self._has_files:
            raise OrderError("the session starts a worker before it has sent its files")
        if not _NAME.fullmatch(order.name) or number in self._workers:
            raise OrderError(f"worker {number}: {order.name[:80]!r} cannot be started")
        try:
            self._workers[number] = process = Process(order, self._folder, self._clock)
        except (OSError, ValueError) as error:
            # The latter for what no process can have, such as a variable with "=" in its name.
            why = f"{order.python or 'python'}: {getattr(error, 'strerror', '') or error}"
            over = Exit(exit_code=_CANNOT_START, log=why, reason=why)
            self._say(ToSession.EXITED, messages.encoded(over), number)
            return
        os.set_blocking(process.requests, False)


def _tell(one: Process, asked: Message) -> None:
    """Raises OrderError for a request to a worker that has not read the others."""
    if asked.operation is ToAgent.SEND:
        sent = asked.value(messages.Send)
        line = sent.line.encode() + b"\n" if sent.line else b""
        if not one.write(line, sent.timeout_s):
            raise OrderError(f"{one.name} does not read its requests")
    elif asked.operation is ToAgent.PRINT_STACK:
        one.print_stack()
    elif asked.operation is ToAgent.CLOSE:
        one.close()
    elif asked.operation is ToAgent.KILL:
        # Its exit code is that of the signal, unless it was over before.
        one.interrupt()
        one.end()


CONNECTION = "SSH_CONNECTION"
_UNKNOWN = "UNKNOWN"


def take_part_over_stdio(*, rank: int, host: str, secret: str) -> int:
    """The exit code. What anything else prints goes to stderr, the session's log of this host."""
    try:
        own = own_address(os.environ.get(CONNECTION, ""))
        place = Place(host="the other end of ssh", rank=rank, name=host, own_address=own)
        _serve(*welcomed(_connection(own), place, secret.encode()))
    except NotYet as error:
        why = f"the session at {place.address} is over ({error})"
    except (JoinError, AgentError) as error:
        why = str(error)
    else:
        return 0
    print(f"busbw agent: {why}", file=sys.stderr, flush=True)
    return 1


def own_address(connection: str) -> str:
    """In SSH_CONNECTION: client, port, server, port. Raises JoinError where sshd says none."""
    words = connection.split()
    if len(words) != 4 or words[2] == _UNKNOWN:
        raise JoinError(
            f"sshd does not say this host's address ({CONNECTION} is {connection[:100]!r}); other "
            "hosts could not connect to it"
        )
    return words[2]


def _connection(own: str) -> Connection:
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Connection(None, reading, writing, own)
