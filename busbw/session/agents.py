"""What --agents, --hosts and their options ask for, and the transport that they make.

`busbw.hosts` is imported where it is asked for: other sessions need not wait for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import files
from busbw.driver.bundle import Bundle
from busbw.driver.local import LocalTransport
from busbw.driver.transport import Transport
from busbw.model import variables
from busbw.model.words import plural

from .forms import checked, flag, seconds, whole
from .option import usage_error

if TYPE_CHECKING:
    from busbw.hosts.starters import SshHosts

SLICE = "tpu"
NONE = "none"
_ANY_PYTHON = "python3"

# As ssh takes it: no option of ssh, and nothing that a shell would read.
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")
_PYTHON = re.compile(r"(?!-)[A-Za-z0-9_.~+/-]{1,500}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def ssh_hosts_of(
    texts: Mapping[str, str], environment: Mapping[str, str], wait_s: float
) -> SshHosts:
    """What the options ask for. Raises ValueError."""
    from busbw.hosts.starters import SshHosts

    hosts = checked("hosts", lambda text: _hosts(text, environment), texts["hosts"])
    names = checked("host_env", _names, texts["host_env"])
    return SshHosts(
        hosts=hosts,
        python=checked("host_python", _python, texts["host_python"] or _ANY_PYTHON),
        environment={name: environment[name] for name in sorted(names) if name in environment},
        connect_s=wait_s,
    )


def _hosts(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    if text == SLICE:
        from busbw.hosts import launchers

        found, source = launchers.hosts_of_slice(environment)
        if not found:
            raise ValueError(f"{SLICE}: this host is none of a TPU slice, as {source} says")
    elif text.startswith("@"):
        found = _of_file(text[1:])
    else:
        found = tuple(one.strip() for one in text.split(","))
    for host in found:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host[:100]!r} is no host; accepted is what ssh connects to")
        if found.count(host) > 1:
            raise ValueError(
                f"{host!r} is there twice; accepted is each host once, and as many processes on "
                "each as --processes shares out"
            )
    return found


def _of_file(name: str) -> tuple[str, ...]:
    """A host in each line; what follows a ``#`` is a comment."""
    try:
        lines = files.content(Path(name).expanduser()).decode().splitlines()
    except (files.InputError, UnicodeDecodeError) as error:
        words = error if isinstance(error, files.InputError) else "no text"
        raise ValueError(f"@{name}: {words}") from error
    found = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
    if not found:
        raise ValueError(f"@{name}: no hosts; accepted is one in each line")
    return found


def _python(text: str) -> str:
    if not _PYTHON.fullmatch(text):
        raise ValueError(f"{text!r}; accepted is a command or a path, without spaces")
    return text


def _names(text: str) -> frozenset[str]:
    """Those of the list; by default the variables that change the software, not the machine."""
    if not text:
        return variables.STACK
    if text == NONE:
        return frozenset()
    names = frozenset(one.strip() for one in text.split(","))
    for name in sorted(names):
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is no variable; accepted are names, or {NONE}")
    return names


LOCAL = "local"
_LOOPBACK = "127.0.0.1"
# Only with agents that somebody starts.
_OF_OTHERS = ("listen", "secret_file")
# Only with hosts that ssh reaches.
_OF_HOSTS = ("host_python", "host_env")


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """How many agents there are, which this session starts on this host, and waits for."""

    count: int
    wait_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenSettings(AgentSettings):
    """Agents that others start. The secret is read when the session begins to listen."""

    host: str
    port: int
    secret_file: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SshSettings(AgentSettings):
    """Agents that this session starts through ssh."""

    hosts: SshHosts


def agent_settings_of(
    texts: Mapping[str, str], processes: int | None, environment: Mapping[str, str]
) -> AgentSettings | None:
    """None without --agents and --hosts; `processes` None: one an agent. Raises ValueError."""
    text, wait_s = texts["agents"], seconds(texts["agents_wait"])
    _check_together(texts)
    if texts["hosts"]:
        hosts = ssh_hosts_of(texts, environment, wait_s)
        count = len(hosts.hosts)
        _check_shares("hosts", f"{count} hosts", count, processes)
        return SshSettings(count=count, wait_s=wait_s, hosts=hosts)
    if not text:
        return None
    if text == LOCAL:
        return AgentSettings(count=processes or 1, wait_s=wait_s)
    count = _count(text)
    _check_shares("agents", f"{count} agents", count, processes)
    return _of_others(texts, count, wait_s)


def _check_together(texts: Mapping[str, str]) -> None:
    """Raise ValueError for options that have nothing to say in this session."""
    agents, hosts = texts["agents"], texts["hosts"]
    if agents and hosts:
        raise ValueError("--hosts: starts agents itself; accepted is one of --hosts and --agents")
    if texts["topology"] and (agents or hosts):
        raise ValueError(
            f"--{'hosts' if hosts else 'agents'}: not with --topology, which measures nothing"
        )
    for name in _OF_OTHERS:
        if texts[name] and agents in ("", LOCAL):
            raise ValueError(f"{flag(name)}: there are no --agents=N that connect from elsewhere")
    for name in _OF_HOSTS:
        if texts[name] and not hosts:
            raise ValueError(f"{flag(name)}: there are no --hosts that it is for")


def _of_others(texts: Mapping[str, str], count: int, wait_s: float) -> ListenSettings:
    from busbw.hosts.handshake import address_of

    host, port = (
        checked("listen", address_of, texts["listen"]) if texts["listen"] else (_LOOPBACK, 0)
    )
    path = Path(os.path.expanduser(texts["secret_file"])) if texts["secret_file"] else None
    return ListenSettings(count=count, wait_s=wait_s, host=host, port=port, secret_file=path)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"--agents: {text!r}; accepted are {LOCAL} and a whole number from 1")
    return checked("agents", whole(1), text)


def _check_shares(name: str, words: str, count: int, processes: int | None) -> None:
    if processes is not None and processes % count:
        raise ValueError(
            f"{flag(name)}: {words} cannot share --processes={processes} equally; accepted is "
            f"--processes={count}, or a multiple of it"
        )


@contextlib.contextmanager
def transport_of(
    settings: AgentSettings | None,
    bundle: Bundle,
    say: Callable[[str], None],
    environment: MutableMapping[str, str],
) -> Iterator[Transport]:
    """Where processes are started; no agent of this session is left.

    `environment` may have the secret, which that of this process no longer has.
    Raises UsageError for what is no secret, OSError for what is no address of this host.
    """
    found: Transport
    if settings is None:
        found = LocalTransport(bundle)
    else:
        found = _agents(settings, bundle, say, environment)
    try:
        yield found
    finally:
        found.close()


def _agents(
    settings: AgentSettings,
    bundle: Bundle,
    say: Callable[[str], None],
    environment: MutableMapping[str, str],
) -> Transport:
    from busbw.hosts import peers
    from busbw.hosts.agents import AgentsTransport
    from busbw.hosts.handshake import SecretError, address_text, secret_of
    from busbw.hosts.starters import LocalAgents, SshAgents

    count = settings.count
    if isinstance(settings, ListenSettings):
        with usage_error(SecretError):
            secret = secret_of(settings.secret_file, environment)
        handed_over = peers.handed_over(os.environ)
        listening = handed_over or peers.listening_at(settings.host, settings.port)
        address = address_text(*listening.getsockname()[:2])
        say(_waiting_words(count, address, launched=handed_over is not None))
        return AgentsTransport(bundle, listening, secret, count)
    # Nobody else has to know it.
    secret = secrets.token_hex(32).encode()
    if isinstance(settings, SshSettings):
        say(f"busbw: starting {plural(count, 'agent')} through ssh")
        starter = SshAgents(bundle, settings.hosts, secret)
        return AgentsTransport(bundle, None, secret, count, starter=starter)
    listening = peers.listening_at(_LOOPBACK, 0)
    local = LocalAgents(bundle, listening.getsockname()[1], secret)
    return AgentsTransport(bundle, listening, secret, count, starter=local)


def _waiting_words(count: int, address: str, *, launched: bool) -> str:
    agents = plural(count, "agent")
    if launched:
        return f"busbw: listening at {address} for {agents}, which the launcher has started"
    return (
        f"busbw: listening for {agents}: on each host `python -m busbw agent --session={address} "
        f"--rank=I`, I from 0 to {count - 1}"
    )
