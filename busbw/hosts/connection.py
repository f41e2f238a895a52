"""One connection between a session and an agent: frames in, frames out, each within a deadline.

A frame is the length of its body in 4 bytes, an HMAC-SHA256 of 32 bytes over its number and body,
and the body. Each direction of each connection has a key of its own, made of the secret and of a
fresh nonce of both sides, so that a frame that is changed, repeated, left out, sent back or taken
from another connection is refused. The length is checked before the body is read.

One thread reads and closes; any thread may send.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import os
import secrets
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass

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
_READ_AT_ONCE = 65536
# For the other side to read what it is sent.
_SEND_S = 10.0


class FrameError(Exception):
    """What arrived is no frame of the other side; nothing after it can be believed."""


class Lost(Exception):
    """The connection is over; the message says how."""


class Silent(Lost):
    """The other side is there, and says nothing."""


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


class Key:
    """Makes frames of one direction, or checks them, each with the next number."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0

    def sealed(self, body: bytes) -> bytes:
        if len(body) > MOST_BYTES:
            raise ValueError(f"a frame of {len(body)} bytes; the most is {MOST_BYTES}")
        return _LENGTH.pack(len(body)) + self._next(body) + body

    def checked(self, frame: Frame) -> bytes:
        """The body of `frame`. Raises FrameError if it is not the next one of the other side."""
        number = self._counter
        if not hmac.compare_digest(frame.proof, self._next(frame.body)):
            raise FrameError(f"frame {number} was not made with the secret")
        return frame.body

    def _next(self, body: bytes) -> bytes:
        found = hmac.digest(self._key, _COUNTER.pack(self._counter) + body, "sha256")
        self._counter += 1
        return found


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


class Connection:
    """Frames over a socket, or two descriptors; it closes them. Until `prove` there is no key.

    `addresses` are ours and the other side's, empty where there are none.
    """

    def __init__(
        self, sock: socket.socket | None, reading: int = -1, writing: int = -1, address: str = ""
    ) -> None:
        self._socket, self._reading, self._writing = sock, reading, writing
        self.addresses = address, ""
        if sock is not None:
            self._reading = self._writing = sock.fileno()
            # Of one that has been reset already, reading says so.
            with contextlib.suppress(OSError):
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.addresses = sock.getsockname()[0], sock.getpeername()[0]
        for one in (self._reading, self._writing):
            os.set_blocking(one, False)
        self._splitter = Splitter()
        self._sends, self._receives = Key(NO_KEY), Key(NO_KEY)
        self._lock = threading.Lock()
        self.heard_s = time.monotonic()

    def fileno(self) -> int:
        return self._reading

    def prove(self, secret: bytes, sends: Direction, session: bytes, agent: bytes) -> None:
        other = next(one for one in Direction if one is not sends)
        self._sends = Key(key_of(secret, sends, session, agent))
        self._receives = Key(key_of(secret, other, session, agent))

    def trust(self) -> None:
        """Take long frames from now on: the other side has proved that it knows the secret."""
        self._splitter.most_bytes = MOST_BYTES

    def send(self, body: bytes) -> None:
        """Raises Lost, also where the other side does not read."""
        with self._lock:
            self._write(self._sends.sealed(body), _SEND_S)

    def write(self, content: bytes, wait_s: float) -> None:
        """Send what is no frame. Raises Lost."""
        with self._lock:
            self._write(content, wait_s)

    def _write(self, content: bytes, wait_s: float) -> None:
        end_s, rest = time.monotonic() + wait_s, memoryview(content)
        while rest:
            try:
                rest = rest[os.write(self._writing, rest) :]
            except BlockingIOError:
                if not _ready(self._writing, select.POLLOUT, end_s):
                    raise Silent(f"it has read nothing for {wait_s:g} s") from None
            except OSError as error:
                raise Lost(error.strerror or str(error)) from error

    def receive(self, end_s: float) -> bytes:
        """The body of the next frame. Raises Lost, Silent after `end_s` (monotonic), FrameError."""
        return self.checked(self.received(end_s))

    def received(self, end_s: float) -> Frame:
        """The same, unchecked."""
        while (frame := self._splitter.frame()) is None:
            if not _ready(self._reading, select.POLLIN, end_s):
                raise Silent("it says nothing")
            self.read()
        return frame

    def read(self) -> None:
        """Read once what is there. Raises Lost at the end."""
        try:
            read = os.read(self._reading, _READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError as error:
            raise Lost(error.strerror or str(error)) from error
        if not read:
            raise Lost("it was closed")
        self._splitter.add(read)

    def body(self) -> bytes | None:
        """The body of the next frame; None while it is incomplete. Raises FrameError."""
        frame = self._splitter.frame()
        return None if frame is None else self.checked(frame)

    def checked(self, frame: Frame) -> bytes:
        """The body of a frame of the other side. Raises FrameError for any other."""
        body = self._receives.checked(frame)
        self.heard_s = time.monotonic()
        return body

    def shut(self) -> None:
        """End a connection over a socket, from any thread: whoever reads sees its end."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.shut()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            else:
                for one in {self._reading, self._writing} - {-1}:
                    os.close(one)
            self._reading = self._writing = -1


def _ready(descriptor: int, event: int, end_s: float) -> bool:
    """Whether it can be read or written, or has ended, before `end_s`."""
    waiting = select.poll()
    waiting.register(descriptor, event)
    return bool(waiting.poll(1000 * max(0.0, end_s - time.monotonic())))
