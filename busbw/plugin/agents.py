"""Agents: what --agents and its options ask for, and the transport that they make.

A session without --agents starts its processes itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import driver
from busbw.agent.addresses import address_of, address_text
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
    handed_over = driver.handed_over(os.environ)
    listening = handed_over or driver.listening_at(settings.host, settings.port)
    if not settings.is_local:
        address = address_text(*listening.getsockname()[:2])
        say(_waiting_words(settings.count, address, launched=handed_over is not None))
    found = driver.AgentsTransport(
        bundle, listening, secret, settings.count, is_local=settings.is_local
    )
    try:
        yield found
    finally:
        found.close()


def _waiting_words(count: int, address: str, *, launched: bool) -> str:
    agents = plural(count, "agent")
    if launched:
        return f"busbw: listening at {address} for {agents}, which the launcher has started"
    return (
        f"busbw: listening for {agents}: on each host `python -m busbw agent --session={address} "
        f"--rank=I`, I from 0 to {count - 1}"
    )


def _secret(settings: AgentSettings) -> bytes:
    """A fresh one for agents of this session, else the user's."""
    if settings.is_local:
        return secrets.token_hex(32).encode()
    return secret_of(settings.secret_file, os.environ)
