"""One connection between a session and an agent: frames in, frames out, nothing awaited.

A frame is the length of its body in 4 bytes, an HMAC-SHA256 of 32 bytes over its number and body,
and the body. Each direction of each connection has a key of its own, made of the secret and of a
fresh nonce of both sides, so that a frame that is changed, repeated, left out, sent back or taken
from another connection is refused. The length is checked before the body is read.

The owner selects on the channel and calls `receive` and `flush`. Other threads may `post`.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import os
import secrets
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from . import messages

# Before the other side has proved that it knows the secret, and after.
MOST_UNPROVEN_BYTES = 1024
MOST_BYTES = 2**20

NONCE_BYTES = 32

# The session's first frame is sent before there is a key: its HMAC is a checksum.
NO_KEY = b"busbw: no key"

_LENGTH = struct.Struct(">I")
_COUNTER = struct.Struct(">Q")
_PROOF_BYTES = hashlib.sha256().digest_size
_HEAD_BYTES = _LENGTH.size + _PROOF_BYTES


class FrameError(Exception):
    """What arrived is no frame of the other side; nothing after it can be believed."""


class Direction(enum.Enum):
    """Who sends."""

    TO_AGENT = b"from the session to an agent"
    TO_SESSION = b"from an agent to the session"


def fresh_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def key_of(secret: bytes, direction: Direction, session: bytes, agent: bytes) -> bytes:
    """The key of one direction of a connection; `session` and `agent` are the nonces of both."""
    if not len(session) == len(agent) == NONCE_BYTES:
        raise FrameError(f"a nonce has {NONCE_BYTES} bytes")
    return hmac.digest(secret, b"busbw\0" + direction.value + b"\0" + session + agent, "sha256")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it came; nothing has been checked but its length."""

    proof: bytes
    body: bytes


class Sealer:
    """Makes frames with `key`, each with the next number."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0

    def sealed(self, body: bytes) -> bytes:
        if len(body) > MOST_BYTES:
            raise ValueError(f"a frame of {len(body)} bytes; the most is {MOST_BYTES}")
        proof = _proof(self._key, self._counter, body)
        self._counter += 1
        return _LENGTH.pack(len(body)) + proof + body


class Checker:
    """Checks that frames were made with `key`, each with the next number."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0

    def checked(self, frame: Frame) -> bytes:
        """The body of `frame`. Raises FrameError if it is not the next one of the other side."""
        if not hmac.compare_digest(frame.proof, _proof(self._key, self._counter, frame.body)):
            raise FrameError(f"frame {self._counter} was not made with the secret")
        self._counter += 1
        return frame.body


class Splitter:
    """Cuts what is received into frames; `most_bytes` is the longest body that it takes."""

    def __init__(self, most_bytes: int = MOST_UNPROVEN_BYTES) -> None:
        self.most_bytes = most_bytes
        self._buffer = bytearray()

    def add(self, received: bytes) -> None:
        self._buffer += received

    def frame(self) -> Frame | None:
        """The next frame; None while it is incomplete. Raises FrameError if it is too long."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self.most_bytes:
            raise FrameError(f"a frame of {length} bytes; the most is {self.most_bytes}")
        end = _HEAD_BYTES + length
        if len(self._buffer) < end:
            return None
        proof, body = self._buffer[_LENGTH.size : _HEAD_BYTES], self._buffer[_HEAD_BYTES:end]
        del self._buffer[:end]
        return Frame(bytes(proof), bytes(body))


def _proof(key: bytes, counter: int, body: bytes) -> bytes:
    return hmac.digest(key, _COUNTER.pack(counter) + body, "sha256")


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
