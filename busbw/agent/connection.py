"""One connection between a session and an agent: messages in, messages out, nothing awaited.

The owner selects on the channel and calls `receive` and `flush`. Other threads may `post`. Knows no
message but how to write and read them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from . import messages
from .channel import Channel
from .frames import MOST_BYTES, NO_KEY, Checker, Direction, Frame, Sealer, Splitter, key_of

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
