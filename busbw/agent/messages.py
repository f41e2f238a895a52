"""What a session and an agent tell each other: a frozen value each, JSON in a frame.

An agent reads no message of the session's kind that it would send itself, nor the other way round.
Bytes are written in base64. Knows no socket and no process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from busbw import wire

# Both sides of a connection must have the same.
PROTOCOL = 3

T = TypeVar("T")
M = TypeVar("M", bound="_Message")


@dataclass(frozen=True, kw_only=True)
class Order:
    """A worker to be started: by `python`, or where it is empty by the agent's own interpreter.

    `name` is that of its log; `arguments` say what it serves. Its environment is that of whoever
    starts it without `unset`, with `environment`, and with `defaults` for what neither has.
    """

    name: str
    python: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


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
class Rooms(ToAgent):
    """A part of the files that workers run, and the hash of all of them; `left` parts follow."""

    kind: ClassVar[str] = "rooms"
    hash: str
    part: str
    left: int


@dataclass(frozen=True, kw_only=True)
class Lock(ToAgent):
    """Wait `wait_s` for who measures here, unless that one is stopped and not `even_stopped`."""

    kind: ClassVar[str] = "lock"
    wait_s: float
    even_stopped: bool = True


@dataclass(frozen=True, kw_only=True)
class Ports(ToAgent):
    """Find `count` ports that are free."""

    kind: ClassVar[str] = "ports"
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
class Look(ToAgent):
    """Say whether a signal has stopped a worker."""

    kind: ClassVar[str] = "look"
    worker: int


@dataclass(frozen=True, kw_only=True)
class Stack(ToAgent):
    """Have a worker print its stack into its log, and kill it."""

    kind: ClassVar[str] = "stack"
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
class Unpacked(ToSession):
    """The files are there, and have the hash that the session said."""

    kind: ClassVar[str] = "unpacked"
    hash: str


@dataclass(frozen=True, kw_only=True)
class Locked(ToSession):
    """The host is ours alone; or not, `why` says who measures and `is_stopped` if it is stopped."""

    kind: ClassVar[str] = "locked"
    why: str = ""
    is_stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class Free(ToSession):
    """Ports that nothing listens on."""

    kind: ClassVar[str] = "free"
    ports: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Said(ToSession):
    """Bytes that a worker wrote as a reply, or a part of one."""

    kind: ClassVar[str] = "said"
    worker: int
    content: str


@dataclass(frozen=True, kw_only=True)
class Looked(ToSession):
    """Whether a signal has stopped a worker."""

    kind: ClassVar[str] = "looked"
    worker: int
    is_stopped: bool


@dataclass(frozen=True, kw_only=True)
class Over(ToSession):
    """Not there any more. `by_itself`: not killed by the agent; `exit_code` < 0 for a signal."""

    kind: ClassVar[str] = "over"
    worker: int
    exit_code: int
    by_itself: bool
    log: str
    oom_kills: int


def body_of(message: Hello | Proof | Join | ToAgent | ToSession) -> bytes:
    return json.dumps(wire.to_json(message)).encode()


def read(kind: type[T], body: bytes) -> T:
    """The message of `kind`, such as ToAgent, in the body of a frame. Raises wire.WireError."""
    return wire.from_json(kind, wire.parsed(body), "message")
