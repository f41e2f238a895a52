"""Three hosts of the tests as a place for sessions: what can fail on one of them, or on its cable.

The session runs on the first, which measures nothing; ssh leads from it to the others. A host is
a network namespace: they share processes' ids and files, so that what is left can be seen here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from busbw.agent import remote
from tests.hosts import debian, required
from tests.hosts.namespaces import HostError
from tests.hosts.network import Network, network
from tests.hosts.sshd import clients, sshd

from .place import Place

MEASURING = ("host1", "host2")
DELAY_S = 0.0005
RATE_BITS_PER_S = 10**9
_PROGRAMS = ("ssh", "sshd")
# The name of the machine's lock among the sockets of a host.
_LOCK = "@busbw-machine"


class Hosts(Place):
    """The hosts; those that measure are numbered by their rank."""

    # An agent that hears nothing ends after 10 s.
    soon_s = 15.0
    # The folders of agents are the session's to look for.
    options = (f"--host-python={sys.executable}", "--host-env=TMPDIR")

    def __init__(self, network: Network) -> None:
        self._network = network
        self._first, *self._measuring = network.hosts
        self._stopped: list[int] = []

    def start(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """A process of the first host."""
        return self._first.start(command, **how)

    def processes(self) -> set[int]:
        """All but sshd."""
        return {one for host in self._network.hosts for one in _but_sshd(host.processes())}

    def locks(self) -> list[str]:
        """Those of the hosts that measure."""
        return [
            f"the machine's lock of {host.name}"
            for host in self._measuring
            if any(_LOCK in _sockets(process) for process in host.processes()[:1])
        ]

    def agent(self, rank: int) -> list[int]:
        """The agent of a host."""
        return [one for one in self._measuring[rank].processes() if remote.FIRST in _words(one)]

    def ssh(self, rank: int) -> list[int]:
        """The client of ssh that leads to a host."""
        return clients(self._first, self._measuring[rank].name)

    def busbw(self, rank: int) -> list[int]:
        """All that a session has started on a host: its agent, and what that started."""
        return _but_sshd(self._measuring[rank].processes())

    def stop(self, rank: int) -> bool:
        """Stop all of that until the session is over; whether there is any."""
        # A worker that is started meanwhile is found the second time.
        for process in (*self.busbw(rank), *self.busbw(rank)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
                self._stopped.append(process)
        return bool(self._stopped)

    def cut(self, rank: int) -> None:
        """Cut the cable of a host."""
        self._network.cut(self._measuring[rank])

    def resume(self) -> None:
        """Continue what was stopped."""
        for process in self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        self._stopped.clear()

    def restore(self) -> None:
        """Connect every host again."""
        self._network.heal()


@contextlib.contextmanager
def hosts(folder: Path) -> Iterator[Place]:
    """Connected hosts that run sshd, with its keys in `folder`; none is left.

    Raises SystemExit where the machine can have none.
    """
    if reason := missing():
        print(f"kills: --layout=hosts: {reason}", file=sys.stderr)
        raise SystemExit(2)
    count = 1 + len(MEASURING)
    try:
        with (
            network(count, delay_s=DELAY_S, rate_bits_per_s=RATE_BITS_PER_S) as made,
            sshd(made.hosts, folder),
        ):
            yield Hosts(made)
    except HostError as error:
        raise SystemExit(f"kills: --layout=hosts: {error}") from error


def missing() -> str:
    """Why this machine can have no hosts with sshd; empty if it can."""
    if reason := required.missing_here():
        return reason
    packages = debian.missing_packages(_PROGRAMS)
    if not packages:
        return ""
    return f"not installed: {', '.join(packages)} (Debian: apt-get install {' '.join(packages)})"


def _but_sshd(processes: Sequence[int]) -> list[int]:
    return [one for one in processes if not _name(one).startswith("sshd")]


def _name(process: int) -> str:
    """What a process is called; one that is gone as sshd, which nobody looks at."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return "sshd"


def _words(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def _sockets(process: int) -> str:
    """The sockets of the process's host, as the kernel lists them."""
    try:
        return Path(f"/proc/{process}/net/unix").read_text(errors="replace")
    except OSError:
        return ""
