"""Hosts that ssh reaches: execnet starts a Python there, which becomes a Host.

The user's own ssh runs, with the user's configuration: nothing is installed on a host, no port is
opened, and a host key that ssh does not know is an error.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import execnet
from execnet.gateway_base import Popen2IO, get_execmodel
from execnet.gateway_bootstrap import bootstrap_exec

from busbw.driver import logs
from busbw.driver.folder import Folder
from busbw.driver.process import log_text

from . import bootstrap
from .host import BEAT_S

_EXIT_S = 5.0
# The other host's shell expands a `~` in the name of the Python.
_FIRST = (
    "import sys;sys.version_info<(3,11)and sys.exit("
    "'Python %d.%d is too old: expected 3.11 or newer'%sys.version_info[:2]);"
    "exec(eval(sys.stdin.readline()))"
)
_OPTIONS = (
    *("-T", "-a", "-x", "-o", "BatchMode=yes"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SshHosts:
    """The `hosts` by rank, as ssh takes them; `environment` is added to that of each."""

    hosts: tuple[str, ...]
    python: str = "python3"
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, host: str, connect_s: float) -> list[str]:
        options = [*_OPTIONS, "-o", f"ConnectTimeout={round(connect_s)}"]
        return ["ssh", *options, "--", host, f'exec {self.python} -I -u -c "{_FIRST}"']

    def engine(self, folder: Folder) -> SshEngine:
        return SshEngine(self, folder)


class _Ssh(Popen2IO):
    """The streams of an ssh, as execnet takes them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process.stdin, process.stdout, get_execmodel("thread"))
        self.wait = process.wait
        self.kill = process.kill


class SshEngine:
    """Connects to hosts by ssh; what ssh and the hosts log is in `folder`."""

    shares_machines = False

    def __init__(self, hosts: SshHosts, folder: Folder) -> None:
        self._hosts = hosts
        self._folder = folder
        self._connections: list[SshConnection] = []
        self._is_closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def join(self, wait_s: float) -> Sequence[str]:
        return self._hosts.hosts

    def connect(self, name: str, archive: bytes, wait_s: float) -> SshConnection:
        log = self._folder.log_path(f"host-{name.replace('/', '_')}")
        connection = SshConnection(self._hosts.command(name, wait_s), log)
        self._connections.append(connection)
        try:
            connection.open((dict(self._hosts.environment), archive), wait_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._is_closed.set()
        for connection in self._connections:
            connection.hang_up()
        for connection in self._connections:
            connection.close()

    def _beat(self) -> None:
        while not self._is_closed.wait(BEAT_S):
            for connection in list(self._connections):
                connection.send(None)


class SshConnection:
    """An ssh with a Host at its other end. Raises OSError where ssh cannot be started."""

    # The host says at which address sshd was reached.
    address = ""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._answers: dict[int, Future[tuple[Any, str]]] = {}
        self._numbers = itertools.count(1)
        self._channel: execnet.Channel | None = None
        self._why = ""
        with log.open("ab") as file:
            # In a session of its own: Ctrl-C is for this process, which ends it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )

    def open(self, first: tuple[dict[str, str], bytes], wait_s: float) -> None:
        """Start a Host, to which its variables and files are sent `first`.

        Reaching it may take `wait_s`, and starting the Python there as long again.
        """
        spec = execnet.XSpec(f"popen//id={self._process.pid}//execmodel=thread")
        # ssh gives up by itself where it reaches no host.
        late = threading.Timer(2 * wait_s, self._process.kill)
        late.start()
        try:
            io = _Ssh(self._process)
            bootstrap_exec(io, spec)
            if self._process.poll() is not None:
                raise EOFError
            channel = execnet.Gateway(io, spec).remote_exec(bootstrap)
            channel.setcallback(self._receive, endmarker=None)
            channel.send(first)
            self._channel = channel
        except (OSError, EOFError, AssertionError) as error:
            raise ConnectionError(self._reason()) from error
        finally:
            late.cancel()

    def call(self, *request: Any) -> Future[tuple[Any, str]]:
        answer: Future[tuple[Any, str]] = Future()
        number = next(self._numbers)
        self._answers[number] = answer
        if self._why or not self.send((number, *request)):
            self._lose()
        return answer

    def send(self, message: object) -> bool:
        """Return whether it is on its way."""
        try:
            if self._channel is not None:
                self._channel.send(message)
        except OSError:
            return False
        return self._channel is not None

    def hang_up(self) -> None:
        """End the Host, which closes its end of ssh; does not wait for it."""
        assert self._process.stdin is not None
        # OSError: ssh has ended, with what was to be sent.
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        self._why = self._why or "its connection was closed"
        self.hang_up()
        try:
            self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._lose()

    def _receive(self, message: tuple[int, Any, str] | None) -> None:
        """Take an answer, in execnet's thread; None once there are no more."""
        if message is None:
            self._lose()
            return
        number, value, why = message
        if answer := self._answers.pop(number, None):
            answer.set_result((value, why))

    def _lose(self) -> None:
        self._why = self._why or self._reason()
        while self._answers:
            _, answer = self._answers.popitem()
            answer.set_exception(ConnectionError(self._why))

    def _reason(self) -> str:
        """Return the line of the log that says why ssh or its host ended."""
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return "ssh does not end"
        # ssh ends its lines as a terminal does.
        reason = logs.reason(log_text(self._log, 0)).removesuffix("\\r")
        return reason or f"ssh ended with exit status {code}"
