"""An agent: what the session asks for, its workers, and when all of it is over.

One thread does everything, so that workers are started by the thread that lives as long as the
agent. On a lost connection, a missed sign of life, a signal or a deadline that has passed every
worker is killed with what it started.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from busbw import locks, wire
from busbw.driver.folder import Folder
from busbw.driver.process import Exit, Process, free_ports, is_stopped

from . import messages
from .connection import Connection, FrameError, Lost, PipeChannel
from .handshake import JoinError, NotYet, Place, joined, welcomed
from .messages import FilesError, Lock, Locked, Unpacking


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


_NAME = re.compile(r"[\w-][\w.-]{0,200}")
_CANNOT_START = 127


class OrderError(Exception):
    """The session asks for what no session does."""


class Overdue(Exception):
    """A worker did not answer in time, and the session did not end it."""


class Workers:
    """All workers of an agent; what there is to say of them goes to `post`."""

    def __init__(
        self,
        folder: Folder,
        post: Callable[[messages.ToSession], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._post = post
        self._clock = clock
        self._running: dict[int, Process] = {}

    @property
    def reading(self) -> dict[int, int]:
        """The numbers of workers by the descriptors of their replies."""
        return {one.replies: number for number, one in self._running.items() if one.can_answer}

    @property
    def are_ending(self) -> bool:
        return any(one.is_ending for one in self._running.values())

    def do(self, asked: messages.ToAgent) -> None:
        if isinstance(asked, messages.Start):
            self._start(asked)
        elif isinstance(asked, messages.AskState):
            one = self._running.get(asked.worker)
            stopped = one is not None and one.is_stopped
            self._post(messages.State(worker=asked.worker, is_stopped=stopped))
        elif isinstance(asked, (messages.Send, messages.PrintStack, messages.Close, messages.Kill)):
            one = self._running.get(asked.worker)
            # Its end may have been reported a moment ago.
            if one is not None:
                _do(one, asked)

    def _start(self, asked: messages.Start) -> None:
        """Start a worker; one that cannot be started is over at once, and its log says why."""
        number, order = asked.worker, asked.order
        if not _NAME.fullmatch(order.name) or number in self._running:
            raise OrderError(f"worker {number}: {order.name[:80]!r} cannot be started")
        try:
            self._running[number] = process = Process(order, self._folder, self._clock)
        except OSError as error:
            why = f"{order.python or 'python'}: {error.strerror or error}"
            exit_ = Exit(exit_code=_CANNOT_START, log=why)
            self._post(messages.Exited(worker=number, exit=exit_))
            return
        os.set_blocking(process.requests, False)

    def read(self, number: int) -> None:
        content = self._running[number].read()
        if content:
            text = base64.b64encode(content).decode()
            self._post(messages.Output(worker=number, content=text))

    def look(self) -> None:
        """Report those that are over. Raises Overdue if one is late and still there."""
        for number, one in list(self._running.items()):
            if one.is_ending:
                found = one.look()
                if found is not None:
                    del self._running[number]
                    self._post(messages.Exited(worker=number, exit=found))
            elif one.is_overdue:
                raise Overdue(f"{one.name} did not answer by its deadline")

    def end_all(self) -> None:
        for one in self._running.values():
            one.interrupt()
        for one in self._running.values():
            one.kill()
        self._running.clear()


def _do(
    one: Process, asked: messages.Send | messages.PrintStack | messages.Close | messages.Kill
) -> None:
    """Raises OrderError for a request to a worker that has not read the others."""
    if isinstance(asked, messages.Send):
        line = asked.line.encode() + b"\n" if asked.line else b""
        if not one.write(line, asked.timeout_s):
            raise OrderError(f"{one.name} does not read its requests")
    elif isinstance(asked, messages.PrintStack):
        one.print_stack()
    elif isinstance(asked, messages.Close):
        one.close()
    else:
        # Its exit code is that of the signal, unless it was over before.
        one.interrupt()
        one.end()


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_S = 0.02
_IDLE_S = 1.0
# What has not been sent; workers are not read meanwhile.
_MOST_WAITING_BYTES = 2**22
_MOST_PORTS = 1024


class AgentError(Exception):
    """Why an agent ended before its session; the message is the sentence that the user reads."""


def take_part(place: Place, secret: bytes, wait_s: float) -> None:
    """Join a session and serve it until it is over. Raises JoinError and AgentError."""
    _serve(*joined(place, secret, wait_s))


def _serve(connection: Connection, welcome: messages.Welcome) -> None:
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


class Agent:
    """One agent, welcomed by its session."""

    def __init__(
        self,
        connection: Connection,
        folder: Folder,
        welcome: messages.Welcome,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._welcome = welcome
        self._clock = clock
        self._workers = Workers(folder, connection.post, clock)
        self._unpacking = Unpacking(folder.path)
        self._lock = MachineLock(clock)
        self._has_files = False
        self._is_over = False

    def serve(self, stopped: int) -> None:
        """No worker is left. Raises AgentError if it ends otherwise or `stopped` can be read."""
        try:
            while not self._is_over:
                self._turn(stopped)
        except (Lost, FrameError, wire.WireError) as error:
            raise AgentError(f"the connection to the session is lost: {error}") from error
        except (OrderError, Overdue, FilesError) as error:
            raise AgentError(str(error)) from error
        finally:
            self._workers.end_all()
            self._lock.close()

    def _turn(self, stopped: int) -> None:
        self._beat()
        self._connection.flush()
        full = self._connection.waiting_bytes > _MOST_WAITING_BYTES
        reading = {} if full else self._workers.reading
        channel = self._connection.channel
        writing = [channel.writing] if self._connection.waiting_bytes else []
        is_looking = self._workers.are_ending or self._lock.is_awaited
        wait_s = _LOOK_S if is_looking else min(_IDLE_S, self._welcome.beat_s)
        watched: list[Any] = [self._connection, stopped, *reading]
        ready, _, _ = select.select(watched, writing, [], wait_s)
        if stopped in ready:
            raise AgentError("a signal ended this agent")
        for descriptor in ready:
            if descriptor in reading:
                self._workers.read(reading[descriptor])
        if self._connection in ready:
            self._connection.receive()
            while not self._is_over and (body := self._connection.body()) is not None:
                self._do(messages.read(messages.ToAgent, body))
        self._workers.look()
        locked = self._lock.look()
        if locked is not None:
            self._connection.post(locked)

    def _beat(self) -> None:
        """Give a sign of life when it is time. Raises Lost if the session has given none."""
        now_s, connection = self._clock(), self._connection
        if now_s - connection.heard_s > self._welcome.missed_s:
            raise Lost(f"no sign of life for {self._welcome.missed_s:g} s")
        if now_s - connection.beat_s >= self._welcome.beat_s:
            connection.beat_s = now_s
            connection.post(messages.Alive())

    def _do(self, asked: messages.ToAgent) -> None:
        if isinstance(asked, messages.Files):
            self._unpack(asked)
        elif isinstance(asked, messages.Lock):
            self._lock.ask(asked)
        elif isinstance(asked, messages.FindPorts):
            self._connection.post(messages.FreePorts(ports=self._free_ports(asked.count)))
        elif isinstance(asked, messages.Goodbye):
            self._is_over = True
        elif isinstance(asked, messages.Start) and not self._has_files:
            raise OrderError("the session starts a worker before it has sent its files")
        else:
            self._workers.do(asked)

    def _unpack(self, asked: messages.Files) -> None:
        if self._has_files:
            raise FilesError("the session sends its files twice")
        found = self._unpacking.add(asked)
        if found:
            self._has_files = True
            self._connection.post(messages.FilesReady(hash=found))

    def _free_ports(self, count: int) -> tuple[int, ...]:
        if not 0 <= count <= _MOST_PORTS:
            raise OrderError(f"the session asks for {count} ports")
        own, _ = self._connection.channel.addresses()
        family = socket.AF_INET6 if ":" in own else socket.AF_INET
        return free_ports(count, own, family)


_CONNECTION = "SSH_CONNECTION"
_UNKNOWN = "UNKNOWN"


def take_part_over_stdio(*, rank: int, host: str, secret: str) -> int:
    """The exit code. What anything else prints goes to stderr, the session's log of this host."""
    try:
        own = own_address(os.environ.get(_CONNECTION, ""))
        place = Place(host="the other end of ssh", rank=rank, name=host, own_address=own)
        _serve(*welcomed(_channel(own), place, secret.encode()))
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
            f"sshd does not say this host's address ({_CONNECTION} is {connection[:100]!r}); other "
            "hosts could not connect to it"
        )
    return words[2]


def _channel(own: str) -> PipeChannel:
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return PipeChannel(reading, writing, own)
