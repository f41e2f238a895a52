"""Frames: how messages travel between a session and an agent, and why they can be believed.

A frame is the length of its body in 4 bytes, an HMAC-SHA256 of 32 bytes over its number and body,
and the body. Each direction of each connection has a key of its own, made of the secret and of a
fresh nonce of both sides, so that a frame that is changed, repeated, left out, sent back or taken
from another connection is refused. The length is checked before the body is read.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
import struct
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
