"""What starts a session's agents, where the session does so itself: processes of this host.

Each is an agent, or an ssh that has one at its other end. All goes through the channel that it is
started with: no port is opened for it. It has a process group of its own and is killed when the
thread that started it ends. Knows no worker.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import busbw
from busbw.driver import logs
from busbw.driver.bundle import Bundle
from busbw.driver.process import child, is_over, log_text, without_secret
from busbw.driver.transport import AgentsMissing

from . import remote, serve

EXIT_GRACE_S = 5.0
_LOOK_S = 0.02

# Hands the session's end of a connection over, with what is to be sent first.
Adopt: TypeAlias = Callable[[socket.socket, bytes], None]

_HERE = "this host"
# As sshd says which address was reached.
_REACHED = {serve.CONNECTION: "127.0.0.1 0 127.0.0.1 0"}
# What an agent imports.
_FOLDERS = ("hosts", "driver", "model")
_FILES = ("__init__.py", "wire.py", "locks.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class SshHosts:
    """The `hosts` by rank, as ssh takes them, with `connect_s` to answer; what agents there get."""

    hosts: tuple[str, ...]
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)
    connect_s: float = 60.0


class AgentStarter:
    """Starts agents by rank, through ssh or on this host, and ends them; logs are in the `bundle`.

    With its session an agent has `exit_grace_s` to exit by itself, and as long again once it is
    asked to.
    """

    def __init__(
        self,
        bundle: Bundle,
        secret: bytes,
        hosts: SshHosts | None = None,
        *,
        exit_grace_s: float = EXIT_GRACE_S,
    ) -> None:
        self._bundle = bundle
        self._secret = secret
        self._hosts = hosts
        self._exit_grace_s = exit_grace_s
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._files = _files(Path(busbw.__file__).parent)

    @property
    def is_here(self) -> bool:
        """Whether all of them are on this host, which need not be named then."""
        return self._hosts is None

    def start(self, rank: int, adopt: Adopt) -> None:
        """Start the agent of this rank; one that is still there is ended first.

        Raises AgentsMissing where nothing can be started.
        """
        self._end(rank, 0.0)
        # For those who look for it: the program reads no words.
        command = [sys.executable, "-I", "-c", remote.FIRST, "agent", f"--rank={rank}"]
        name, given = os.uname().nodename, _REACHED
        # The folder of one that is killed here is removed with the bundle.
        environment = without_secret(os.environ, TMPDIR=str(self._bundle.temporary))
        if self._hosts is not None:
            name, given = self._hosts.hosts[rank], dict(self._hosts.environment)
            command, environment = command_of(self._hosts, name), without_secret(os.environ)
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._log(rank).open("ab") as log:
                channel = theirs.fileno()
                streams = (channel, channel, log.fileno())
                self._running[rank] = child(command, streams, environment)
        except OSError as error:
            ours.close()
            why = f"{command[0]} cannot be started: {error.strerror or error}"
            raise AgentsMissing(f"an agent did not start on {self._place(rank)}: {why}") from error
        own = {"rank": rank, "host": name, "secret": self._secret.decode()}
        adopt(ours, remote.pack({"files": self._files, "environment": given, **own}))

    def pid(self, rank: int) -> int:
        """The process id of an agent, or of the ssh that leads to it."""
        return self._running[rank].pid

    def ended(self, ranks: Sequence[int]) -> bool:
        return any(is_over(self._running[rank]) for rank in ranks)

    def why(self, ranks: Sequence[int]) -> str:
        """Return where one of them is that did not start, and why it says that it ended."""
        over = [rank for rank in ranks if is_over(self._running[rank])]
        rank = (over or list(ranks))[0]
        said = logs.reason(log_text(self._log(rank), 0))
        said = said or _end_of(_killed(self._running[rank]) if over else None)
        return f"{self._place(rank)}: {said}"

    def _place(self, rank: int) -> str:
        return f"{_HERE if self._hosts is None else self._hosts.hosts[rank]} (rank {rank})"

    def close(self) -> None:
        for rank in list(self._running):
            self._end(rank, self._exit_grace_s)

    def _end(self, rank: int, grace_s: float) -> None:
        process = self._running.pop(rank, None)
        if process is None:
            return
        try:
            if not _ends(process, grace_s):
                # It was not told, or does not listen. Its workers end with it.
                process.terminate()
                _ends(process, self._exit_grace_s)
        finally:
            _killed(process)

    def _log(self, rank: int) -> Path:
        return self._bundle.log_path(f"agent{rank}")


def _ends(process: subprocess.Popen[bytes], within_s: float) -> bool:
    end_s = time.monotonic() + within_s
    while not (over := is_over(process)) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)
    return over


def _killed(process: subprocess.Popen[bytes]) -> int:
    """Its exit code, once it is killed with what it started, where it is over, too."""
    # The id of a process that was waited for may belong to another one.
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _end_of(exit_code: int | None) -> str:
    if exit_code is None:
        return "it says nothing"
    if exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}, without a word"
    return f"ended with exit status {exit_code}, without a word"


def command_of(hosts: SshHosts, host: str) -> list[str]:
    """The other host's shell takes the Python's name as it is, so that ``~`` works there."""
    options = ["-T", "-a", "-x", "-o", "BatchMode=yes"]
    options += ["-o", f"ConnectTimeout={max(1, round(hosts.connect_s))}"]
    program = f"exec {hosts.python} -I -c {shlex.quote(remote.FIRST)}"
    return ["ssh", *options, "--", host, program]


def _files(package: Path) -> dict[str, str]:
    paths = [package / name for name in _FILES]
    paths += sorted(path for folder in _FOLDERS for path in (package / folder).rglob("*.py"))
    return {path.relative_to(package.parent).as_posix(): path.read_text() for path in paths}
