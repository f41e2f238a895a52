"""Agents: what --agents and its options ask for, and the transport that they make.

A session without --agents starts its processes itself.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import driver
from busbw.agent.joining import address_text
from busbw.agent.secret import secret_of
from busbw.model import plural

from .parsing import checked, flag, seconds_of, whole

LOCAL = "local"
_LOOPBACK = "127.0.0.1"
# Only with agents on other hosts.
_OF_OTHERS = ("listen", "secret_file")


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """How many agents there are, and where they connect to; `is_local`: the session starts them.

    The secret is read when the session begins to listen, from `secret_file` or the environment.
    """

    count: int
    is_local: bool
    host: str
    port: int
    wait_s: float
    secret_file: Path | None = None


def agent_settings_of(texts: Mapping[str, str], processes: int) -> AgentSettings | None:
    """What the options ask for; None without --agents. Raises ValueError."""
    text, wait_s = texts["agents"], seconds_of("agents_wait", texts["agents_wait"])
    if text in ("", LOCAL):
        for name in _OF_OTHERS:
            if texts[name]:
                raise ValueError(
                    f"{flag(name)}: there are no --agents=N that connect from elsewhere"
                )
    if not text:
        return None
    if texts["topology"]:
        raise ValueError("--agents: not with --topology, which measures nothing")
    if text == LOCAL:
        return AgentSettings(count=processes, is_local=True, host=_LOOPBACK, port=0, wait_s=wait_s)
    return _of_others(texts, _count(text, processes), wait_s)


def _of_others(texts: Mapping[str, str], count: int, wait_s: float) -> AgentSettings:
    host, port = (
        checked("listen", address_of, texts["listen"]) if texts["listen"] else (_LOOPBACK, 0)
    )
    path = Path(os.path.expanduser(texts["secret_file"])) if texts["secret_file"] else None
    return AgentSettings(
        count=count,
        is_local=False,
        host=host,
        port=port,
        wait_s=wait_s,
        secret_file=path,
    )


def _count(text: str, processes: int) -> int:
    if not text.isdecimal():
        raise ValueError(f"--agents: {text!r}; accepted are {LOCAL} and a whole number from 1")
    count = whole("agents", text, least=1)
    if processes % count:
        raise ValueError(
            f"--agents: {count} agents cannot share --processes={processes} equally; accepted is "
            f"--processes={count}, or a multiple of it"
        )
    return count


def address_of(text: str) -> tuple[str, int]:
    """The address in ``HOST:PORT``, port 0 for a free one; the host as a number.

    Raises ValueError, also for an address that stands for every network of this host.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r}; accepted is HOST:PORT")
    if not host:
        raise ValueError(f"{text!r}: {_ANY}")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][4]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{text!r}: there is no host {host!r}") from error
    number = str(found[0])
    if _is_any(number):
        raise ValueError(f"{text!r}: {_ANY}")
    return number, int(port)


_ANY = (
    "every network of this host could connect there; accepted is the address of the one network "
    "that the agents are in"
)


def _is_any(number: str) -> bool:
    found = ipaddress.ip_address(number.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return bool(found.is_unspecified or (mapped is not None and mapped.is_unspecified))


@contextlib.contextmanager
def transport_of(
    settings: AgentSettings | None, bundle: driver.Bundle, say: Callable[[str], None]
) -> Iterator[driver.LocalTransport | driver.AgentsTransport]:
    """Where processes are started; no agent of this session is left.

    Raises SecretError for what is no secret, OSError for what is no address of this host.
    """
    if settings is None:
        yield driver.LocalTransport(bundle)
        return
    secret = _secret(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.create_server((settings.host, settings.port), family=family)
    host, port = listening.getsockname()[:2]
    if not settings.is_local:
        say(
            f"busbw: listening for {plural(settings.count, 'agent')}: on each host "
            f"`python -m busbw agent --session={address_text(host, port)} --rank=I`, "
            f"I from 0 to {settings.count - 1}"
        )
    found = driver.AgentsTransport(
        bundle, listening, secret, settings.count, is_local=settings.is_local
    )
    try:
        yield found
    finally:
        found.close()


def _secret(settings: AgentSettings) -> bytes:
    """A fresh one for agents of this session, else the user's."""
    if settings.is_local:
        return secrets.token_hex(32).encode()
    return secret_of(settings.secret_file, os.environ)
