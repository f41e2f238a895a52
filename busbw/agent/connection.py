"""One connection between a session and an agent: messages in, messages out, nothing awaited.

The owner selects on the channel and calls `receive` and `flush`. Other threads may `post`. Knows no
message but how to write and read them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from . import messages
from .frames import MOST_BYTES, NO_KEY, Checker, Direction, Frame, Sealer, Splitter, key_of


class Channel(ABC):
    """Bytes in both directions. `reading` and `writing` are the descriptors to select on."""

    reading: int
    writing: int

    @abstractmethod
    def addresses(self) -> tuple[str, str]:
        """Our address and the other side's; empty where there is none. Raises OSError."""

    @abstractmethod
    def receive(self, most: int) -> bytes:
        """Read once; empty at the end. Raises BlockingIOError where there is nothing, OSError."""

    @abstractmethod
    def send(self, content: bytes) -> int:
        """Write once; how much was written. Raises BlockingIOError where none can be, OSError."""

    @abstractmethod
    def close(self) -> None:
        """Close both directions; the descriptors are -1 then."""


class SocketChannel(Channel):
    """A connected socket: of TCP, or one end of a pair."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.reading = self.writing = sock.fileno()

    def addresses(self) -> tuple[str, str]:
        if self._socket.family not in (socket.AF_INET, socket.AF_INET6):
            return "", ""
        return self._socket.getsockname()[0], self._socket.getpeername()[0]

    def receive(self, most: int) -> bytes:
        return self._socket.recv(most)

    def send(self, content: bytes) -> int:
        return self._socket.send(content)

    def close(self) -> None:
        self._socket.close()
        self.reading = self.writing = -1


class PipeChannel(Channel):
    """Two descriptors, which need not be sockets; they are closed with the channel."""

    def __init__(self, reading: int, writing: int, own_address: str = "") -> None:
        for one in (reading, writing):
            os.set_blocking(one, False)
        self.reading, self.writing = reading, writing
        self._own_address = own_address

    def addresses(self) -> tuple[str, str]:
        return self._own_address, ""

    def receive(self, most: int) -> bytes:
        return os.read(self.reading, most)

    def send(self, content: bytes) -> int:
        return os.write(self.writing, content)

    def close(self) -> None:
        for one in {self.reading, self.writing} - {-1}:
            os.close(one)
        self.reading = self.writing = -1


_READ_AT_ONCE = 65536

Message: TypeAlias = (
    messages.Hello | messages.Proof | messages.Join | messages.ToAgent | messages.ToSession
)


class Lost(Exception):
    """The connection is over; the message says how."""


class Connection:
    """Frames over a channel; `first` goes before them. Until `prove`, `frame` is unchecked."""

    def __init__(
        self, channel: Channel, clock: Callable[[], float] = time.monotonic, first: bytes = b""
    ) -> None:
        self.channel = channel
        self._clock = clock
        self._splitter = Splitter()
        self._sealer = Sealer(NO_KEY)
        self._checker = Checker(NO_KEY)
        self._waiting = bytearray(first)
        self._lock = threading.Lock()
        self.heard_s = self.beat_s = clock()

    def fileno(self) -> int:
        return self.channel.reading

    def prove(self, secret: bytes, sends: Direction, session: bytes, agent: bytes) -> None:
        other = next(one for one in Direction if one is not sends)
        self._sealer = Sealer(key_of(secret, sends, session, agent))
        self._checker = Checker(key_of(secret, other, session, agent))

    def trust(self) -> None:
        """Take long frames from now on: the other side has proved that it knows the secret."""
        self._splitter.most_bytes = MOST_BYTES

    def post(self, message: Message) -> None:
        body = messages.body_of(message)
        with self._lock:
            self._waiting += self._sealer.sealed(body)

    @property
    def waiting_bytes(self) -> int:
        return len(self._waiting)

    def flush(self) -> None:
        """Send what can be sent now. Raises Lost."""
        with self._lock:
            try:
                while self._waiting:
                    sent = self.channel.send(bytes(self._waiting[:_READ_AT_ONCE]))
                    del self._waiting[:sent]
            except BlockingIOError:
                return
            except OSError as error:
                raise Lost(error.strerror or str(error)) from error

    def receive(self) -> None:
        """Read once what is there. Raises Lost at the end."""
        try:
            read = self.channel.receive(_READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError as error:
            raise Lost(error.strerror or str(error)) from error
        if not read:
            raise Lost("it was closed")
        self._splitter.add(read)

    def frame(self) -> Frame | None:
        """The next frame, unchecked; None while it is incomplete. Raises FrameError."""
        return self._splitter.frame()

    def checked(self, frame: Frame) -> bytes:
        """The body of a frame of the other side. Raises FrameError for any other."""
        body = self._checker.checked(frame)
        self.heard_s = self._clock()
        return body

    def body(self) -> bytes | None:
        """The body of the next frame; None while it is incomplete. Raises FrameError."""
        frame = self.frame()
        return None if frame is None else self.checked(frame)

    def close(self) -> None:
        self.channel.close()
