"""Agents on hosts that OpenSSH reaches: the session runs ssh, and talks to an agent through it.

What an agent needs goes over ssh's stdin (`busbw.agent.remote`), so that a host needs Python and a
framework only. The frames go the same way: no port is opened for them, and ssh encrypts them. Where
ssh ends, the agent at its other end does, and everything that it started.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import busbw
from busbw.agent import remote

from .bundle import Bundle
from .starting import EXIT_GRACE_S, Adopt, AgentStarter, child

_FOLDERS = ("agent", "model")
_FILES = ("__init__.py", "wire.py", "locks.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class SshHosts:
    """The `hosts`, as ssh takes them, by rank; their `python`, and variables that its agents get.

    A host has `connect_s` seconds to answer.
    """

    hosts: tuple[str, ...]
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)
    connect_s: float = 60.0


class SshAgents(AgentStarter):
    """Agents, by rank, at the other ends of ssh."""

    def __init__(
        self,
        bundle: Bundle,
        hosts: SshHosts,
        secret: bytes,
        *,
        exit_grace_s: float = EXIT_GRACE_S,
    ) -> None:
        super().__init__(bundle, exit_grace_s=exit_grace_s)
        self._hosts = hosts
        self._secret = secret
        self._files = _files(Path(busbw.__file__).parent)

    def start(self, rank: int, adopt: Adopt) -> None:
        self._end(rank, 0.0)
        command = command_of(self._hosts, self._hosts.hosts[rank])
        ours, theirs = socket.socketpair()
        with theirs, self._log(rank).open("ab") as log:
            channel = theirs.fileno()
            self._running[rank] = child(command, channel, channel, log.fileno())
        adopt(ours, self._first(rank))

    def place(self, rank: int) -> str:
        return self._hosts.hosts[rank]

    def _first(self, rank: int) -> bytes:
        return remote.pack(
            {
                "files": self._files,
                "environment": dict(self._hosts.environment),
                "rank": rank,
                "host": self._hosts.hosts[rank],
                "secret": self._secret.decode(),
            }
        )


def command_of(hosts: SshHosts, host: str) -> Sequence[str]:
    """The other host's shell takes the Python's name as it is, so that ``~`` works there."""
    options = ["-T", "-a", "-x", "-o", "BatchMode=yes"]
    options += ["-o", f"ConnectTimeout={max(1, round(hosts.connect_s))}"]
    program = f"exec {hosts.python} -I -c {shlex.quote(remote.FIRST)}"
    return ["ssh", *options, "--", host, program]


def _files(package: Path) -> dict[str, str]:
    paths = [package / name for name in _FILES]
    paths += sorted(path for folder in _FOLDERS for path in (package / folder).rglob("*.py"))
    return {path.relative_to(package.parent).as_posix(): path.read_text() for path in paths}
