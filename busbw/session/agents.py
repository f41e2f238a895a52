"""What --agents, --hosts and their options ask for, and the transport that they make.

`busbw.hosts` is imported where it is asked for: other sessions need not wait for it.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.driver.bundle import Bundle
from busbw.driver.local import LocalTransport
from busbw.driver.transport import Transport
from busbw.model import variables
from busbw.model.words import plural

from .forms import LOCAL
from .option import usage_error

if TYPE_CHECKING:
    from busbw.hosts.starters import SshHosts

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """How many agents there are, and for how long this session waits for them.

    It starts them through ssh on `hosts`; with an `address` others start them, which connect to it
    with the secret of `secret_file`, read when the session begins to listen; else on this host.
    """

    count: int
    wait_s: float
    hosts: SshHosts | None = None
    address: tuple[str, int] | None = None
    secret_file: Path | None = None


def agent_settings_of(
    values: Mapping[str, Any], environment: Mapping[str, str]
) -> AgentSettings | None:
    """None without --agents and --hosts. Raises ValueError."""
    agents, hosts = values["agents"], values["hosts"]
    processes, wait_s = values["processes"], values["agents_wait"]
    if agents == LOCAL:
        return AgentSettings(count=processes or 1, wait_s=wait_s)
    name, count = ("hosts", len(hosts)) if hosts else ("agents", agents)
    if not count:
        return None
    if processes is not None and processes % count:
        raise ValueError(
            f"--{name}: {count} {name} cannot share --processes={processes} equally; accepted is "
            f"--processes={count}, or a multiple of it"
        )
    if hosts:
        return AgentSettings(count=count, wait_s=wait_s, hosts=ssh_hosts_of(values, environment))
    return AgentSettings(
        count=count,
        wait_s=wait_s,
        address=values["listen"] or (_LOOPBACK, 0),
        secret_file=values["secret_file"],
    )


def ssh_hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> SshHosts:
    """Processes get variables that change the software, not the machine, if none are named."""
    from busbw.hosts.starters import SshHosts

    names = values["host_env"] if values["host_env"] is not None else variables.STACK
    return SshHosts(
        hosts=values["hosts"],
        python=values["host_python"] or "python3",
        environment={name: environment[name] for name in sorted(names) if name in environment},
        connect_s=values["agents_wait"],
    )


def transport_of(
    settings: AgentSettings | None,
    bundle: Bundle,
    say: Callable[[str], None],
    environment: MutableMapping[str, str],
) -> Transport:
    """Where processes are started; `environment` has the secret, this process' no longer.

    Raises UsageError for what is no secret, OSError for what is no address of this host.
    """
    if settings is None:
        return LocalTransport(bundle)
    from busbw.hosts.agents import AgentsTransport
    from busbw.hosts.handshake import SecretError, secret_of
    from busbw.hosts.starters import AgentStarter

    if settings.address is not None:
        with usage_error(SecretError):
            secret = secret_of(settings.secret_file, environment)
        listening = _listening(settings.address, settings.count, say)
        return AgentsTransport(bundle, listening, secret, settings.count)
    if settings.hosts is not None:
        say(f"busbw: starting {plural(settings.count, 'agent')} through ssh")
    # Nobody else has to know it.
    secret = secrets.token_hex(32).encode()
    starter = AgentStarter(bundle, secret, settings.hosts)
    return AgentsTransport(bundle, None, secret, settings.count, starter=starter)


def _listening(address: tuple[str, int], count: int, say: Callable[[str], None]) -> socket.socket:
    """What a launcher has handed over, or listens at `address`; `say` is told where that is."""
    from busbw.hosts import peers
    from busbw.hosts.handshake import address_text

    handed_over, agents = peers.handed_over(os.environ), plural(count, "agent")
    listening = handed_over or peers.listening_at(*address)
    text = address_text(*listening.getsockname()[:2])
    say(
        f"busbw: listening at {text} for {agents}, which the launcher has started"
        if handed_over is not None
        else f"busbw: listening for {agents}: on each host `python -m busbw agent "
        f"--session={text} --rank=I`, I from 0 to {count - 1}"
    )
    return listening
