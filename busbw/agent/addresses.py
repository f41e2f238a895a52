"""Where a session listens and its agents connect to, as text and numbers; opens no connection."""

from __future__ import annotations

import ipaddress
import socket

_ANY = (
    "every network of this host could connect there; accepted is the address of the one network "
    "that the agents are in"
)
_MOST_PORT = 65535


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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


def is_any(number: str) -> bool:
    """Whether the address stands for every network of a host."""
    return _mapped(number).is_unspecified


def is_loopback(number: str) -> bool:
    return _mapped(number).is_loopback


def _mapped(number: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address, of version 4 where it is one of those in the form of version 6."""
    found = ipaddress.ip_address(number.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found
