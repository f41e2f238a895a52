"""What a session and an agent tell each other: an operation, a worker and bytes, in a frame.

Where the bytes are a value, it is JSON with checked fields, and has a class here or in the driver.
Until both sides are proved, a frame is such a value alone. Neither reads an operation that it would
say itself. The files that workers run travel packed. Knows no socket and no process.
"""

from __future__ import annotations

import enum
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from busbw import wire
from busbw.model.limits import Seconds

# Both sides of a connection must have the same.
PROTOCOL = 5

T = TypeVar("T")
Side = TypeVar("Side", bound="Operation")


class Operation(enum.Enum):
    """What one side says, by the word for it in a frame."""


class ToAgent(Operation):
    """What a session says."""

    # The answer to ALIVE.
    BEAT = "beat"
    # The files that workers run, as `pack` packs them.
    FILES = "files"
    # A Lock.
    LOCK = "lock"
    # How many free ports to find.
    FIND_PORTS = "find-ports"
    # An Order; the worker has this number from then on.
    START = "start"
    # A Send.
    SEND = "send"
    ASK_STATE = "ask-state"
    # Have it print its stack into its log, and kill it.
    PRINT_STACK = "print-stack"
    # Close its channel, wait for its end, and kill it if it does not.
    CLOSE = "close"
    # With all that it started.
    KILL = "kill"
    GOODBYE = "goodbye"


class ToSession(Operation):
    """What an agent says."""

    # That it lives, every `beat_s`.
    ALIVE = "alive"
    # The files are there.
    READY = "ready"
    # A Locked.
    LOCKED = "locked"
    # Ports that nothing listens on.
    FREE_PORTS = "free-ports"
    # Bytes that a worker wrote as a reply, or a part of one.
    OUTPUT = "output"
    # Whether a signal has stopped a worker.
    STATE = "state"
    # An Exit: a worker is not there any more.
    EXITED = "exited"


def encoded(value: object) -> bytes:
    return json.dumps(wire.to_json(value)).encode()


def decoded(kind: type[T], content: bytes, location: str = "message") -> T:
    """The value that `encoded` was given. Raises wire.WireError."""
    return wire.from_json(kind, wire.parsed(content), location)


@dataclass(frozen=True, slots=True)
class Message:
    """`worker` is 0 where none is meant."""

    operation: Operation
    content: bytes = b""
    worker: int = 0

    @property
    def body(self) -> bytes:
        return f"{self.operation.value} {self.worker}\n".encode() + self.content

    def value(self, kind: type[T]) -> T:
        """What the content is. Raises wire.WireError."""
        return decoded(kind, self.content, self.operation.value)


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The first frame of each side, the session's before anything is known of the other one.

    The HMAC of an agent's proves that it knows the secret; it says no more.
    """

    protocol: int
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Join:
    """An agent's second frame, once the session has proved itself, too. A `rank` joins once.

    Other hosts reach this one at `address`; where it is empty, as the session sees its connection.
    Agents with the same `machine` are on the same one.
    """

    rank: int
    host: str
    python: str
    address: str = ""
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class Welcome:
    """The session's answer to a Hello and to a Join: its HMAC proves that it knows the secret, too.

    `refused` says why the agent takes no part. It gives a sign of life every `beat_s`, which the
    session answers; either is missed after `missed_s`.
    """

    protocol: int
    refused: str = ""
    beat_s: Seconds = 2.0
    missed_s: Seconds = 10.0


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Wait `wait_s` for who measures here, unless that one is stopped and not `even_stopped`."""

    wait_s: float
    even_stopped: bool = True


@dataclass(frozen=True, kw_only=True)
class Locked:
    """The host is ours alone; or not, `why` says who measures and `is_stopped` if it is stopped."""

    why: str = ""
    is_stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Free ports of the agent's host; or none, and `why` processes cannot connect to any there."""

    numbers: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Send:
    """Give a worker the request in `line`, or none, and at most `timeout_s` until it answers."""

    line: str = ""
    timeout_s: float


_HEAD = re.compile(rb"([a-z-]{1,20}) (\d{1,9})")


def read(side: type[Side], body: bytes) -> Message:
    """The message of this side in the body of a frame. Raises wire.WireError."""
    head, _, content = body.partition(b"\n")
    found = _HEAD.fullmatch(head)
    known = {one.value: one for one in side}
    name = found[1].decode() if found else ""
    if found is None or name not in known:
        said = name or ascii(head[:60])
        raise wire.WireError(f"message: expected one of {', '.join(known)}, got {said}")
    return Message(known[name], content, int(found[2]))


_MOST_UNPACKED_BYTES = 2**26


class FilesError(Exception):
    """They are no files of busbw, or cannot be written."""


def pack(files: Mapping[str, bytes]) -> bytes:
    texts = {path: content.decode() for path, content in files.items()}
    return zlib.compress(json.dumps(texts).encode())


def unpack(packed: bytes, folder: Path) -> None:
    """Write all files below `folder`, or none. Raises FilesError."""
    files = _unpacked(packed)
    try:
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(content)
    except OSError as error:
        raise FilesError(f"they cannot be written: {error.strerror or error}") from error


def _unpacked(packed: bytes) -> dict[str, bytes]:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _MOST_UNPACKED_BYTES)
        texts = json.loads(text) if unpacking.eof else None
    except (zlib.error, ValueError, RecursionError) as error:
        raise FilesError(f"they cannot be unpacked: {error}") from error
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in texts.values()):
        raise FilesError("they cannot be unpacked: no files")
    for path in texts:
        _check_path(path)
    try:
        return {path: text.encode() for path, text in texts.items()}
    except UnicodeEncodeError as error:
        raise FilesError(f"they cannot be unpacked: {error.reason}") from error


def _check_path(path: str) -> None:
    """Raise FilesError for a path that is not below the folder, or no file of Python's."""
    parts = PurePosixPath(path)
    strange = parts.is_absolute() or ".." in parts.parts or str(parts) != path
    if strange or not path.isprintable() or parts.suffix != ".py":
        raise FilesError(f"{path[:80]!r} is no path of a file of busbw")
