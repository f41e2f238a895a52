"""The session's half: one transport for the processes of all hosts, in the order of ranks.

An Engine runs a Python on each host and connects a socket to it, over which execnet starts a Host.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import queue
import socket
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import execnet
from execnet.gateway_base import Popen2IO, get_execmodel
from execnet.gateway_bootstrap import bootstrap_exec

import busbw
from busbw import storage, wire
from busbw.driver.bundle import Bundle
from busbw.driver.local import order_of
from busbw.driver.process import Exit
from busbw.driver.transport import (
    Ended,
    HostError,
    HostLostError,
    HostsTransport,
    Member,
    Reply,
    Starter,
    ended_of,
)
from busbw.model.cluster import Cluster, ClusterMember, members_of
from busbw.model.launch import LaunchId

from . import bootstrap
from .host import BEAT_S, CLOSE, KILL, STACK

if TYPE_CHECKING:
    from .over_dask import DaskEngine, DaskLink
    from .over_ssh import SshEngine, SshLink

# How long a host may take to answer; ending a process takes a few seconds of that.
_ANSWER_S, _STATE_S = 30.0, 2.0
_CONNECT_S = 60.0

# What a Host imports, besides the files of its workers.
_HOST_FILES = ("driver/*.py", "extensions/__init__.py", "extensions/cluster/*.py")

Say: TypeAlias = Callable[[str], None]
# Runs a Python on each host, and gives a link to its stdin and stdout.
Engine: TypeAlias = "SshEngine | DaskEngine"
Link: TypeAlias = "SshLink | DaskLink"


def archive_of(bundle: Bundle) -> bytes:
    """Return the zip file from which `bootstrap` starts a Host."""
    package = Path(busbw.__file__).parent
    paths = [bundle.path / "__main__.py", *(bundle.path / "busbw").rglob("*.py")]
    files = {path.relative_to(bundle.path): path for path in paths}
    hosts = (path for pattern in _HOST_FILES for path in package.glob(pattern))
    files |= {path.relative_to(package.parent): path for path in hosts}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            archive.write(path, name)
    return content.getvalue()


class ClusterHost:
    """A host as the session sees it; `lost` says why it does not answer any more.

    `first` are variables for it, and the files of busbw. Raises HostError.
    """

    def __init__(self, name: str, link: Link, first: tuple[dict[str, str], bytes]) -> None:
        self.name = name
        self.lost = ""
        self._link = link
        try:
            greeting = self._start(first)
        except (OSError, EOFError, AssertionError, execnet.RemoteError) as error:
            raise HostError(f"{name}: {link.reason()}") from error
        if isinstance(greeting, str):
            raise HostError(f"{name}: {greeting}")
        self.machine: str = greeting[0] or name
        self.address: str = greeting[1] or link.address

    def begin(self, method: str, *values: Any) -> execnet.Channel | None:
        """Request a method of the Host; return the channel of its answers, None if it is lost."""
        try:
            answers = self._gateway.newchannel()
            self.requests.send((answers, method, *values))
        except OSError:
            self.drop()
            return None
        return answers

    def result(self, answers: execnet.Channel | None, timeout_s: float = _ANSWER_S) -> Any:
        """Raise HostLostError where the host does not answer, HostError where it refuses."""
        why = ""
        try:
            if answers is not None and not self.lost:
                return answers.receive(timeout_s)
        except execnet.RemoteError as error:
            raise HostError(f"{self.name}: {error}") from error
        except execnet.TimeoutError:
            why = "it does not answer"
        except (OSError, EOFError):
            pass
        self.drop(why)
        raise HostLostError(self.lost)

    def drop(self, why: str = "") -> None:
        """End the connection for good."""
        if not self.lost:
            self.lost = f"{self.name} is gone: {why or self._link.reason()}"
            _hang_up(self._link)
            self._link.close()

    def _start(self, first: tuple[dict[str, str], bytes]) -> Any:
        # Reaching a host may take as long as starting the Python there.
        self._link.stream.settimeout(2 * _CONNECT_S)
        with contextlib.ExitStack() as files:
            output = files.enter_context(self._link.stream.makefile("wb"))
            replies = files.enter_context(self._link.stream.makefile("rb"))
            stream: Any = Popen2IO(output, replies, get_execmodel("thread"))
            # execnet calls it where the Python ends at once; the link knows the reason.
            stream.wait = lambda: None
            spec = execnet.XSpec("popen//id=host//execmodel=thread")
            bootstrap_exec(stream, spec)
            # From here on the gateway closes them.
            files.pop_all()
        self._link.stream.settimeout(None)
        self._gateway = execnet.Gateway(stream, spec)
        self.requests = self._gateway.remote_exec(bootstrap)
        self.requests.send(first)
        return self.requests.receive(_CONNECT_S)


def _hang_up(link: Link) -> None:
    """End the input of a Python; the Host that runs there ends then."""
    with contextlib.suppress(OSError):
        link.stream.shutdown(socket.SHUT_WR)


class ClusterTransport(HostsTransport):
    """Worker processes on the hosts of an engine, as many on each."""

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        self._engine = engine
        self._first = (dict(engine.environment), archive_of(bundle))
        self._links: list[Link] = []
        self._hosts: list[ClusterHost] = []
        self._locked: set[int] = set()
        self._ranks: tuple[int, ...] = ()
        self._is_closed = threading.Event()

    def for_ranks(self, ranks: Sequence[int]) -> ClusterTransport:
        part = copy.copy(self)
        part._ranks = tuple(ranks)
        return part

    def join(self, wait_s: float) -> None:
        names = self._engine.join(wait_s)
        threading.Thread(target=self._beat, daemon=True).start()
        pool = ThreadPoolExecutor(len(names))
        try:
            self._hosts.extend(pool.map(self._connected, names))
        except BaseException:
            # The other threads wait for links, which end here.
            self.close()
            raise
        finally:
            pool.shutdown()
        machines = [host.machine for host in self._hosts]
        # The ranks of a machine follow each other.
        self._hosts.sort(key=lambda host: machines.index(host.machine))
        self.names = [host.name for host in self._hosts]
        self._ranks = tuple(range(len(names)))
        counts = Counter(machines)
        if max(counts.values()) > (min(counts.values()) if self._engine.shares_machines else 1):
            twice = max(machines, key=machines.count)
            same = [host.name for host in self._hosts if host.machine == twice]
            raise HostError(
                f"{' and '.join(same)} are the same machine, which would count as {len(same)} "
                "hosts; expected as many names for each machine, and one with --hosts"
            )

    def lock(self, wait_s: float, say: Say = lambda words: None) -> None:
        """Keep other sessions from measuring on any host; this one's own host is locked already."""
        machines = {storage.machine_identity(), *self.names}
        for rank, host in enumerate(self._hosts):
            if host.machine not in machines:
                machines.add(host.machine)
                self._locked.add(rank)
                _lock(host, wait_s, say)

    def close(self) -> None:
        self._is_closed.set()
        for link in self._links:
            _hang_up(link)
        for link in self._links:
            link.close()
        self._engine.close()

    def interpreter(self, starter: Starter) -> str:
        return order_of(starter, LaunchId()).python or "the Python of its host"

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        each = self._each(cluster.processes)
        hosts = [self._host(rank) for rank in self._ranks]
        requested = [(host, host.begin("ports", each, host.address)) for host in hosts]
        addresses = [
            f"[{host.address}]:{port}" if ":" in host.address else f"{host.address}:{port}"
            for host, answers in requested
            for port in host.result(answers)
        ]
        return members_of(cluster, addresses, len({host.machine for host in hosts}))

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Member:
        """Start a process on the host of the member; a process by itself is on the first host."""
        at = member.index // self._each(member.count) if member is not None else 0
        return ClusterWorker(self._host(self._ranks[at]), starter, launch, member)

    def _each(self, processes: int) -> int:
        each, left = divmod(processes, len(self._ranks))
        if left:
            hosts = len(self._ranks)
            raise HostError(f"{processes} processes cannot be shared equally by {hosts} hosts")
        return each

    def _connected(self, name: str) -> ClusterHost:
        try:
            link = self._engine.connect(name, _CONNECT_S)
        except OSError as error:
            raise HostError(f"{name}: {error}") from error
        self._links.append(link)
        return ClusterHost(name, link, self._first)

    def _host(self, rank: int) -> ClusterHost:
        """Return a host, which is reached again if it was lost. Raises HostLostError."""
        host = self._hosts[rank]
        if host.lost:
            try:
                host = self._connected(host.name)
                if rank in self._locked:
                    _lock(host, _CONNECT_S)
            except HostError as error:
                raise HostLostError(f"{self._hosts[rank].lost}; then {error}") from error
            self._hosts[rank] = host
        return host

    def _beat(self) -> None:
        while not self._is_closed.wait(BEAT_S):
            for host in list(self._hosts):
                with contextlib.suppress(OSError):
                    host.requests.send(None)


def _lock(host: ClusterHost, wait_s: float, say: Say = lambda words: None) -> None:
    answers, timeout_s = host.begin("lock", wait_s), wait_s + _ANSWER_S
    if host.result(answers, timeout_s):
        say(f"another busbw session measures on {host.name}; waiting for its end")
        host.result(answers, timeout_s)


class ClusterWorker(Member):
    """A worker process on a host; a byte in a socket tells `select` of a message."""

    def __init__(
        self,
        host: ClusterHost,
        starter: Starter,
        launch: LaunchId,
        member: ClusterMember | None,
    ) -> None:
        super().__init__(launch, time.monotonic)
        self.host = host.name
        self._at = host
        self._reading, self._telling = socket.socketpair()
        # bytes, the JSON of the Exit, whether the process is stopped; None once there are no more.
        self._messages: queue.SimpleQueue[bytes | str | bool | None] = queue.SimpleQueue()
        self._exit: Exit | None = None
        order = json.dumps(wire.to_json(order_of(starter, launch, member)))
        self._channel = host.begin("run", order)
        if self._channel is not None:
            self._channel.setcallback(self._receive, endmarker=None)

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal has stopped it, or its host, which does not answer then."""
        self._send(None)
        return bool(self._next(bool, _STATE_S)) or bool(self._at.lost)

    def fileno(self) -> int:
        return self._reading.fileno()

    def _write(self, line: bytes) -> None:
        if line:
            self._send(line)

    def received(self) -> Reply | Ended | None:
        content = self._next(bytes)
        return self._end(self._waited_s) if content is None else self._answered(content)

    def _print_stack(self) -> None:
        self._finish(STACK)

    def _end(self, waited_s: float) -> Ended:
        return ended_of(self._exit, waited_s, "" if self._exit is not None else self._at.lost)

    def hang_up(self) -> None:
        self._send(CLOSE)

    def close(self) -> bool:
        self.kill(CLOSE)
        return self._exit is not None and self._exit.by_itself

    def interrupt(self) -> None:
        self._send(KILL)

    def kill(self, how: str = KILL) -> None:
        self._finish(how)
        self._reading.close()
        self._telling.close()

    def _finish(self, how: str) -> None:
        self._send(how)
        self._next(type(None))

    def _send(self, message: bytes | str | None) -> None:
        # OSError: the process has ended, or its host is lost, of which there is a message.
        if self._channel is not None and self._exit is None:
            with contextlib.suppress(OSError):
                self._channel.send(message)

    def _receive(self, message: bytes | str | bool | None) -> None:
        """Keep a message, in a thread of execnet."""
        self._messages.put(message)
        # OSError: this worker was closed meanwhile.
        with contextlib.suppress(OSError):
            self._telling.send(b".")

    def _next(self, kind: type, timeout_s: float = _ANSWER_S) -> Any:
        """Return the next message of a type; None once the process or its host is gone."""
        while self._exit is None and not self._at.lost:
            try:
                message = self._messages.get(timeout=timeout_s)
            except queue.Empty:
                self._at.drop("it does not answer")
                break
            self._reading.recv(1)
            if message is None:
                self._at.drop()
            elif isinstance(message, str):
                self._exit = wire.from_json(Exit, json.loads(message), "exit")
            elif isinstance(message, kind):
                return message
        return None
