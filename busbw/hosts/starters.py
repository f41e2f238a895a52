"""What starts a session's agents, where the session does so itself: processes of this host.

Each is an agent, or an ssh that has one at its other end. It has a process group of its own and is
killed when the thread that started it ends. Knows no worker.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import busbw
from busbw.driver.bundle import Bundle
from busbw.driver.process import LOG_CHARACTERS, child, log_end
from busbw.model.variables import SECRET

from . import remote
from .handshake import address_text

EXIT_GRACE_S = 5.0

# Hands the session's end of a connection over, with what is to be sent first.
Adopt: TypeAlias = Callable[[socket.socket, bytes], None]


class AgentStarter(ABC):
    """Starts agents by rank, and ends them; their logs are in the `bundle`.

    `is_here`: all of them are on this host, which need not be named then. With its session an agent
    has `exit_grace_s` to exit by itself, and as long again once it is asked to.
    """

    is_here = False

    def __init__(self, bundle: Bundle, *, exit_grace_s: float = EXIT_GRACE_S) -> None:
        self._bundle = bundle
        self._exit_grace_s = exit_grace_s
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def start(self, rank: int, adopt: Adopt) -> None:
        """Start the agent of this rank; one that is still there is ended first."""

    @abstractmethod
    def place(self, rank: int) -> str:
        """Where the agent of this rank is, in messages."""

    def pid(self, rank: int) -> int:
        """The process id of an agent, or of the ssh that leads to it."""
        return self._running[rank].pid

    def ended(self, ranks: Sequence[int]) -> bool:
        return any(self._running[rank].poll() is not None for rank in ranks)

    def why(self, ranks: Sequence[int]) -> str:
        """Where one of them is that did not start, and the last line that it wrote or its end."""
        over = [rank for rank in ranks if self._running[rank].poll() is not None]
        rank = (over or list(ranks))[0]
        lines = log_end(self._log(rank), 0)[-LOG_CHARACTERS:].splitlines()
        said = lines[-1] if lines else _end_of(self._running[rank].poll())
        return f"{self.place(rank)} (rank {rank}): {said}"

    def close(self) -> None:
        for rank in list(self._running):
            self._end(rank, self._exit_grace_s)

    def _end(self, rank: int, grace_s: float) -> None:
        process = self._running.pop(rank, None)
        if process is None:
            return
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            # It was not told, or does not listen. Its workers end with it.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._exit_grace_s)
        finally:
            # The id of a process that was waited for may belong to another one.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _log(self, rank: int) -> Path:
        return self._bundle.log_path(f"agent{rank}")


def _end_of(exit_code: int | None) -> str:
    if exit_code is None:
        return "it says nothing"
    if exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}, without a word"
    return f"ended with exit status {exit_code}, without a word"


_HOST = "127.0.0.1"
# As `python -m busbw`, with the package that this process has, wherever that lies.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from busbw.__main__ import main; "
    "sys.exit(main())"
)


def start_agent(
    address: str,
    rank: int,
    secret: bytes,
    *options: str,
    log: int,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """An agent on this host that connects to `address`; `log` is where it writes."""
    command = [sys.executable, "-c", _PROGRAM, str(Path(busbw.__file__).parents[1]), "agent"]
    inherited = {name: text for name, text in os.environ.items() if name != SECRET}
    command += [f"--session={address}", f"--rank={rank}", *options]
    process = child(command, (subprocess.PIPE, log, log), {**inherited, **environment})
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(secret + b"\n")
    return process


class LocalAgents(AgentStarter):
    """Agents, by rank, that connect to `port` of this host."""

    is_here = True

    def __init__(self, bundle: Bundle, port: int, secret: bytes) -> None:
        super().__init__(bundle)
        self._address = address_text(_HOST, port)
        self._secret = secret

    def start(self, rank: int, adopt: Adopt) -> None:
        self._end(rank, 0.0)
        with self._log(rank).open("ab") as log:
            # The folder of an agent that is killed is removed with the bundle.
            self._running[rank] = start_agent(
                self._address,
                rank,
                self._secret,
                log=log.fileno(),
                environment={"TMPDIR": str(self._bundle.temporary)},
            )

    def place(self, rank: int) -> str:
        return "this host"


_FOLDERS = ("hosts", "driver", "model")
_FILES = ("__init__.py", "wire.py", "locks.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class SshHosts:
    """The `hosts` by rank, as ssh takes them, with `connect_s` to answer; what agents there get."""

    hosts: tuple[str, ...]
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)
    connect_s: float = 60.0


class SshAgents(AgentStarter):
    """Agents at the other ends of ssh, through which all goes: no port is opened for them."""

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
            self._running[rank] = child(command, (channel, channel, log.fileno()))
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
