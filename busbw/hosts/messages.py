"""What a session and an agent tell each other: a frozen value each, JSON in a frame.

An agent reads no message of the session's kind that it would send itself, nor the other way round.
Bytes are written in base64. The files that a worker runs travel packed, in parts, and are checked
by hash: an agent starts nothing before it has all of them. Knows no socket and no process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, TypeVar

from busbw import wire
from busbw.driver.process import Exit, Order

# Both sides of a connection must have the same.
PROTOCOL = 4

T = TypeVar("T")
M = TypeVar("M", bound="_Message")


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The session's first frame on a connection, before anything is known of the other side."""

    kind: ClassVar[str] = "hello"
    protocol: int
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Proof:
    """An agent's first frame: its HMAC proves that it knows the secret, and it says no more."""

    kind: ClassVar[str] = "proof"
    protocol: int
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Join:
    """An agent's second frame, once the session has proved itself, too. A `rank` joins once.

    Other hosts reach this one at `address`; where it is empty, as the session sees its connection.
    Agents with the same `machine` are on the same one.
    """

    kind: ClassVar[str] = "join"
    rank: int
    host: str
    python: str
    address: str = ""
    machine: str = ""


class _Message:
    """What one side says once both are proved; each kind is a class below that of its side."""

    kind: ClassVar[str]

    @classmethod
    def of_kind(cls: type[M], kind: str) -> type[M]:  # noqa: PYI019 Python 3.10 has no Self
        """The class of this kind. Raises ValueError with the known ones."""
        known = {one.kind: one for one in cls.__subclasses__()}
        if kind not in known:
            raise ValueError(f"expected one of {', '.join(known)}, got {kind[:60]!r}")
        return known[kind]


class ToAgent(_Message):
    """A message of the session."""


class ToSession(_Message):
    """A message of an agent."""


@dataclass(frozen=True, kw_only=True)
class Welcome(ToAgent):
    """The session's answer to a Proof and to a Join: its HMAC proves that it knows the secret, too.

    `refused` says why the agent takes no part. A sign of life is sent every `beat_s`, and missed
    after `missed_s`.
    """

    kind: ClassVar[str] = "welcome"
    protocol: int
    refused: str = ""
    beat_s: float = 2.0
    missed_s: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Beat(ToAgent):
    """The session's sign of life."""

    kind: ClassVar[str] = "beat"


@dataclass(frozen=True, kw_only=True)
class Files(ToAgent):
    """A part of the files that workers run, and the hash of all of them; `left` parts follow."""

    kind: ClassVar[str] = "files"
    hash: str
    content: str
    left: int


@dataclass(frozen=True, kw_only=True)
class Lock(ToAgent):
    """Wait `wait_s` for who measures here, unless that one is stopped and not `even_stopped`."""

    kind: ClassVar[str] = "lock"
    wait_s: float
    even_stopped: bool = True


@dataclass(frozen=True, kw_only=True)
class FindPorts(ToAgent):
    """Find `count` ports that are free."""

    kind: ClassVar[str] = "find-ports"
    count: int


@dataclass(frozen=True, kw_only=True)
class Start(ToAgent):
    """Start a worker, which is called `worker` from then on."""

    kind: ClassVar[str] = "start"
    worker: int
    order: Order


@dataclass(frozen=True, kw_only=True)
class Send(ToAgent):
    """Give a worker the request in `line`, or none, and at most `timeout_s` until it answers."""

    kind: ClassVar[str] = "send"
    worker: int
    line: str = ""
    timeout_s: float


@dataclass(frozen=True, kw_only=True)
class AskState(ToAgent):
    """Say whether a signal has stopped a worker."""

    kind: ClassVar[str] = "ask-state"
    worker: int


@dataclass(frozen=True, kw_only=True)
class PrintStack(ToAgent):
    """Have a worker print its stack into its log, and kill it."""

    kind: ClassVar[str] = "print-stack"
    worker: int


@dataclass(frozen=True, kw_only=True)
class Close(ToAgent):
    """Close a worker's channel, wait for its end, and kill it if it does not."""

    kind: ClassVar[str] = "close"
    worker: int


@dataclass(frozen=True, kw_only=True)
class Kill(ToAgent):
    """Kill a worker with all that it started."""

    kind: ClassVar[str] = "kill"
    worker: int


@dataclass(frozen=True, kw_only=True)
class Goodbye(ToAgent):
    """The session is over."""

    kind: ClassVar[str] = "goodbye"


@dataclass(frozen=True, kw_only=True)
class Alive(ToSession):
    """An agent's sign of life."""

    kind: ClassVar[str] = "alive"


@dataclass(frozen=True, kw_only=True)
class FilesReady(ToSession):
    """The files are there, and have the hash that the session said."""

    kind: ClassVar[str] = "files-ready"
    hash: str


@dataclass(frozen=True, kw_only=True)
class Locked(ToSession):
    """The host is ours alone; or not, `why` says who measures and `is_stopped` if it is stopped."""

    kind: ClassVar[str] = "locked"
    why: str = ""
    is_stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class FreePorts(ToSession):
    """Ports that nothing listens on."""

    kind: ClassVar[str] = "free-ports"
    ports: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Output(ToSession):
    """Bytes that a worker wrote as a reply, or a part of one."""

    kind: ClassVar[str] = "output"
    worker: int
    content: str


@dataclass(frozen=True, kw_only=True)
class State(ToSession):
    """Whether a signal has stopped a worker."""

    kind: ClassVar[str] = "state"
    worker: int
    is_stopped: bool


@dataclass(frozen=True, kw_only=True)
class Exited(ToSession):
    """A worker is not there any more."""

    kind: ClassVar[str] = "exited"
    worker: int
    exit: Exit


def body_of(message: Hello | Proof | Join | ToAgent | ToSession) -> bytes:
    return json.dumps(wire.to_json(message)).encode()


def read(kind: type[T], body: bytes) -> T:
    """The message of `kind`, such as ToAgent, in the body of a frame. Raises wire.WireError."""
    return wire.from_json(kind, wire.parsed(body), "message")


# As base64 and in JSON below the limit of a frame.
_PART_BYTES = 2**19
_MOST_PACKED_BYTES = 2**26


class FilesError(Exception):
    """The files are not those that the session said."""


def hash_of(files: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for path, content in sorted(files.items()):
        found.update(f"{len(path.encode())} {path} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def parts_of(files: Mapping[str, bytes]) -> tuple[Files, ...]:
    texts = {path: content.decode() for path, content in files.items()}
    packed = zlib.compress(json.dumps(texts).encode())
    cut = [packed[i : i + _PART_BYTES] for i in range(0, len(packed), _PART_BYTES)]
    name = hash_of(files)
    return tuple(
        Files(hash=name, content=base64.b64encode(part).decode(), left=len(cut) - 1 - index)
        for index, part in enumerate(cut)
    )


class Unpacking:
    """Parts as they come, and the folder that the files are written into at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packed = bytearray()

    def add(self, part: Files) -> str:
        """After the last part the hash of what was written, else empty. Raises FilesError."""
        try:
            self._packed += base64.b64decode(part.content, validate=True)
        except ValueError as error:
            raise FilesError("a part is not base64") from error
        if len(self._packed) > _MOST_PACKED_BYTES:
            raise FilesError(f"more than {_MOST_PACKED_BYTES} bytes")
        if part.left:
            return ""
        files = _unpacked(bytes(self._packed))
        found = hash_of(files)
        if found != part.hash:
            raise FilesError(f"their hash is {found}, and not {part.hash[:80]}")
        try:
            for path, content in files.items():
                self._write(path, content)
        except OSError as error:
            raise FilesError(f"they cannot be written: {error.strerror or error}") from error
        return found

    def _write(self, path: str, content: bytes) -> None:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)


def _unpacked(packed: bytes) -> dict[str, bytes]:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _MOST_PACKED_BYTES)
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
