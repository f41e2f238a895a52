"""How an agent joins a session: where it connects to, and how both prove that they know the secret.

The agent proves it first, and says nothing of itself before the session has proved it, too. The
secret comes from a file that only its owner can read, from the environment or from stdin; never
from a command line, which every user of a host can see.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import socket
import stat
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from busbw import locks, wire
from busbw.model.variables import SECRET

from . import messages
from .connection import Connection, Direction, FrameError, Lost, Silent, fresh_nonce
from .messages import Welcome

# How long either side may take to prove that it knows the secret.
HANDSHAKE_S = 10.0
_AGAIN_S = 0.2


class JoinError(Exception):
    """Why this host takes no part; the message is the sentence that the user reads."""


class SessionOver(JoinError):
    """The session listened, and does no more: it has ended without this host."""


class NotYet(Exception):
    """Nothing listens, or what listens has no room now."""


class _Refused(NotYet):
    """Nothing listens there."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The session's `host` and `port`, and this agent's `rank` and `name` in it.

    `own_address` is where other hosts reach this one; empty: as the session sees its connection.
    Without a `port` the session is at the other end of what `host` names.
    """

    host: str
    port: int = 0
    rank: int
    name: str
    own_address: str = ""

    @property
    def address(self) -> str:
        return address_text(self.host, self.port) if self.port else self.host


def joined(place: Place, secret: bytes, wait_s: float) -> tuple[Connection, Welcome]:
    """A connection to the session, which has welcomed this agent. Raises JoinError.

    A session that does not listen yet, or says nothing yet, is waited for, `wait_s` at most. One
    that took a connection, of which it need not have known, and then does not listen any more is
    over.
    """
    end_s = time.monotonic() + wait_s
    reached = False
    while True:
        try:
            connection = _connected(place, max(1.0, end_s - time.monotonic()))
            reached = True
            return welcomed(connection, place, secret, max(0.0, end_s - time.monotonic()))
        except NotYet as error:
            if reached and isinstance(error, _Refused):
                raise SessionOver(f"the session at {place.address} is over") from error
            if time.monotonic() > end_s:
                words = f"no session at {place.address} within {wait_s:g} s ({error})"
                raise JoinError(words) from error
        time.sleep(_AGAIN_S)


def _connected(place: Place, wait_s: float) -> Connection:
    try:
        sock = socket.create_connection((place.host, place.port), timeout=min(wait_s, HANDSHAKE_S))
        return Connection(sock)
    except ConnectionRefusedError as error:
        raise _Refused(error.strerror or str(error)) from error
    except OSError as error:
        raise NotYet(error.strerror or str(error)) from error


def welcomed(
    connection: Connection, place: Place, secret: bytes, hello_s: float = HANDSHAKE_S
) -> tuple[Connection, Welcome]:
    """The `connection`, which is closed unless the session welcomes this agent.

    A session may listen long before it answers: its first word may take `hello_s`. Raises
    JoinError, and NotYet where the session says nothing.
    """
    try:
        session = _hello(connection, place, max(hello_s, HANDSHAKE_S))
        return connection, _welcome(connection, place, secret, session)
    except BaseException:
        connection.close()
        raise


def _hello(connection: Connection, place: Place, wait_s: float) -> bytes:
    """The session's nonce."""
    try:
        said = connection.receive(time.monotonic() + wait_s)
        return bytes.fromhex(messages.decoded(messages.Hello, said).nonce)
    except Lost as error:
        raise NotYet(str(error)) from error
    except (FrameError, wire.WireError, ValueError) as error:
        raise JoinError(f"what listens at {place.address} is no session: {error}") from error


def _welcome(connection: Connection, place: Place, secret: bytes, session: bytes) -> Welcome:
    nonce, end_s = fresh_nonce(), time.monotonic() + HANDSHAKE_S
    join = messages.Join(
        rank=place.rank,
        host=place.name,
        python=platform.python_version(),
        address=place.own_address,
        machine=locks.machine_identity(),
    )
    try:
        connection.prove(secret, Direction.TO_SESSION, session, nonce)
        proof = messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex())
        connection.send(messages.encoded(proof))
        _answer(connection, place, end_s)
        connection.send(messages.encoded(join))
        found = _answer(connection, place, end_s)
    except Silent as error:
        words = f"the session at {place.address} has said nothing for {HANDSHAKE_S:g} s"
        raise JoinError(f"{words}; is the network between them cut?") from error
    except (Lost, FrameError) as error:
        raise JoinError(
            f"the session at {place.address} does not have the same secret, or is over ({error})"
        ) from error
    connection.trust()
    return found


def _answer(connection: Connection, place: Place, end_s: float) -> Welcome:
    """The session's answer, made with the secret. Raises JoinError for one that is no welcome."""
    body = connection.receive(end_s)
    try:
        found = messages.decoded(Welcome, body)
    except wire.WireError as error:
        raise JoinError(f"the session at {place.address} says no welcome: {error}") from error
    if found.refused:
        raise JoinError(f"the session at {place.address} refused this host: {found.refused}")
    return found


LEAST_CHARACTERS = 16
_MOST_BYTES = 4096


class SecretError(ValueError):
    """There is no secret, or none that may be used; the message says what is accepted."""


def secret_of(
    path: Path | None, environment: MutableMapping[str, str], stdin: TextIO | None = None
) -> bytes:
    """Taken out of `environment`, so that no process inherits it. A terminal is not read."""
    of_environment = environment.pop(SECRET, "")
    if path is not None:
        return _checked(_content(path), f"the secret in {path}")
    if of_environment:
        return _checked(of_environment, f"the secret in {SECRET}")
    if stdin is not None and not stdin.isatty():
        return _checked(stdin.readline(_MOST_BYTES), "the secret on stdin")
    accepted = f"in the file that --secret-file names, or in the variable {SECRET}"
    raise SecretError(f"there is no secret; accepted is one {accepted}")


def _content(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            mode = stat.S_IMODE(found.st_mode)
            if not stat.S_ISREG(found.st_mode):
                raise SecretError(f"{path} is no file")
            if found.st_uid not in (os.getuid(), 0):
                raise SecretError(f"{path} belongs to another user")
            if mode & 0o077:
                raise SecretError(
                    f"{path} has mode {mode:o}, others may read it; accepted is a file of its "
                    f"owner alone: chmod 600 {path}"
                )
            return file.read(_MOST_BYTES).decode()
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{path} is no text") from error


def _checked(text: str, what: str) -> bytes:
    found = text.strip()
    if len(found) < LEAST_CHARACTERS:
        raise SecretError(f"{what} is shorter than {LEAST_CHARACTERS} characters")
    return found.encode()


_ANY = (
    "every network of this host could connect there; accepted is the address of the one network "
    "that the agents are in"
)
_MOST_PORT = 65535


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of where a session listens. Raises ValueError."""
    host, port = split_address(text, least_port=1)
    if not host:
        raise ValueError(f"expected HOST:PORT, got {text!r}")
    return host, port


def split_address(text: str, least_port: int = 0) -> tuple[str, int]:
    """The host, which may be empty, and the port in ``HOST:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or not least_port <= int(port) <= _MOST_PORT:
        raise ValueError(f"{text!r}; accepted is HOST:PORT")
    return host, int(port)


def address_of(text: str) -> tuple[str, int]:
    """Port 0 for a free one; the host as a number. Raises ValueError, also for every network."""
    host, port = split_address(text)
    if not host:
        raise ValueError(f"{text!r}: {_ANY}")
    try:
        number = number_of(host)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{text!r}: there is no host {host!r}") from error
    if is_any(number):
        raise ValueError(f"{text!r}: {_ANY}")
    return number, port


def number_of(host: str) -> str:
    """The first address of a host. Raises OSError and UnicodeError where it has none."""
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def is_number(address: str) -> bool:
    """Whether the address is a number of IP, and no name."""
    try:
        _mapped(address)
    except ValueError:
        return False
    return True


def is_any(number: str) -> bool:
    """Whether the address stands for every network of a host."""
    return _mapped(number).is_unspecified


def is_loopback(number: str) -> bool:
    return _mapped(number).is_loopback


def _mapped(number: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address, of version 4 where it is one of those in the form of version 6."""
    found = ipaddress.ip_address(number.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found
