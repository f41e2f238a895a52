"""Agents, and strangers that may become one, as the hub keeps them in its own thread."""

from __future__ import annotations

import base64
import ipaddress
import os
import socket
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import NamedTuple, Protocol

from busbw import wire
from busbw.agent import messages
from busbw.agent.connection import Connection
from busbw.agent.frames import fresh_nonce

# The number of the descriptor.
DESCRIPTOR = "BUSBW_LISTENING"

# Agents of a large slice that connect before the session accepts any.
BACKLOG = 1024


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens at this address, a number. Raises OSError if it is none of ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def hand_over(listening: socket.socket, environment: MutableMapping[str, str]) -> None:
    os.set_inheritable(listening.fileno(), True)
    environment[DESCRIPTOR] = str(listening.fileno())


def handed_over(environment: MutableMapping[str, str]) -> socket.socket | None:
    """None of its own processes inherit it. Raises OSError if the descriptor is no socket."""
    text = environment.pop(DESCRIPTOR, "")
    if not text:
        return None
    if not text.isdecimal():
        raise OSError(f"{DESCRIPTOR}={text!r} is no descriptor")
    os.set_inheritable(int(text), False)
    return socket.socket(fileno=int(text))


class Listener(Protocol):
    """What is told of a worker on an agent's host, by the thread of the hub."""

    def said(self, content: bytes) -> None:
        """It has written this."""

    def looked(self, looked: messages.Looked) -> None:
        """Whether it is stopped, which was asked."""

    def over(self, over: messages.Over) -> None:
        """It has ended."""

    def lost(self, why: str) -> None:
        """Nothing more will be known of it."""


class Peer:
    """An agent that has proved that it knows the secret."""

    def __init__(
        self, connection: Connection, join: messages.Join, wake: Callable[[], None]
    ) -> None:
        self.connection = connection
        self.rank = join.rank
        self.host = join.host
        self.address = join.address or connection.channel.addresses()[1]
        self.machine = join.machine
        self.is_ready = False
        self.locked: messages.Locked | None = None
        self.why_lost = ""
        self.workers: dict[int, Listener] = {}
        self.ports: deque[tuple[int, ...]] = deque()
        self._wake = wake
        self._numbers = 0

    @property
    def name(self) -> str:
        return f"the agent on {self.host} (rank {self.rank})"

    def post(self, message: messages.ToAgent) -> None:
        """Send a message, from any thread; nothing is sent to one that is gone."""
        if not self.why_lost:
            self.connection.post(message)
            self._wake()

    def note(self, message: messages.Unpacked | messages.Locked | messages.Free) -> None:
        if isinstance(message, messages.Unpacked):
            self.is_ready = True
        elif isinstance(message, messages.Locked):
            self.locked = message
        else:
            self.ports.append(message.ports)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers


class Stranger:
    """A connection from `address` that has not joined; at first it has proved nothing yet."""

    def __init__(self, connection: Connection, deadline_s: float, address: str = "") -> None:
        self.connection = connection
        self.deadline_s = deadline_s
        self.address = address
        self.nonce = fresh_nonce()
        self.is_proven = False


class Adopted(NamedTuple):
    """A connection that the session made, what it sends first, and how long it waits."""

    sock: socket.socket
    first: bytes
    wait_s: float

    def close(self) -> None:
        self.sock.close()


def is_number(address: str) -> bool:
    """Whether the address is a number of IP, and no name."""
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def tell(listener: Listener, message: messages.Said | messages.Looked | messages.Over) -> None:
    if isinstance(message, messages.Said):
        listener.said(_decoded(message.content))
    elif isinstance(message, messages.Looked):
        listener.looked(message)
    else:
        listener.over(message)


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise wire.WireError("content: not base64") from error
