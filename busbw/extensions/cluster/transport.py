"""The session's half: one transport for the workers of all hosts, in the order of ranks.

An Engine runs a Python on each host and connects a socket to it, over which execnet starts a Host.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import queue
import socket
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import execnet
from execnet.gateway_base import Popen2IO, get_execmodel
from execnet.gateway_bootstrap import bootstrap_exec

from busbw import storage, wire
from busbw.driver.bundle import MAIN, Bundle, package_folder
from busbw.driver.transport import (
    Ending,
    Exit,
    HostError,
    HostLostError,
    HostsTransport,
    Starter,
    Worker,
)
from busbw.model.cluster import Cluster, ClusterMember, members_of
from busbw.model.launch import LaunchId

from . import bootstrap
from .host import BEAT_S, Order

if TYPE_CHECKING:
    from .over_dask import DaskEngine, DaskLink
    from .over_ssh import SshEngine, SshLink

# How long a host may take to answer; ending a process takes a few seconds of that.
_ANSWER_S, _STATE_S = 30.0, 2.0
_CONNECT_S = 60.0

# What a Host imports, besides the files of its workers.
_HOST_FILES = ("driver/*.py", "extensions/__init__.py", "extensions/cluster/*.py")

Report: TypeAlias = Callable[[str], None]
# Runs a Python on each host, and gives a link to its stdin and stdout.
Engine: TypeAlias = "SshEngine | DaskEngine"
Link: TypeAlias = "SshLink | DaskLink"


def archive_of(bundle: Bundle) -> bytes:
    """Return the zip file from which `bootstrap` starts a Host."""
    package = package_folder()
    host_files = [path for pattern in _HOST_FILES for path in package.glob(pattern)]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", MAIN)
        for path in {*bundle.files, *host_files}:
            archive.write(path, path.relative_to(package.parent))
    return content.getvalue()


class ClusterHost:
    """A host as the session sees it; `lost` says why the host does not answer any more.

    `first` are variables for the host, and the files of busbw. Raises HostError.
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
        """Return an answer. Raises HostLostError without an answer, HostError for a refusal."""
        reason = ""
        try:
            if answers is not None and not self.lost:
                return answers.receive(timeout_s)
        except execnet.RemoteError as error:
            raise HostError(f"{self.name}: {error}") from error
        except execnet.TimeoutError:
            reason = "it does not answer"
        except (OSError, EOFError):
            pass
        self.drop(reason)
        raise HostLostError(self.lost)

    def drop(self, reason: str = "") -> None:
        """End the connection for good."""
        if not self.lost:
            self.lost = f"{self.name} is gone: {reason or self._link.reason()}"
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
    """Workers on the hosts of an engine, as many on each."""

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
        with ThreadPoolExecutor(len(names)) as pool, contextlib.ExitStack() as stack:
            # The other threads would wait for links, which end here.
            stack.callback(self.close)
            self._hosts.extend(pool.map(self._connected, names))
            stack.pop_all()
        machines = [host.machine for host in self._hosts]
        # The ranks of a machine follow each other.
        self._hosts.sort(key=lambda host: machines.index(host.machine))
        self.names = [host.name for host in self._hosts]
        self._ranks = tuple(range(len(names)))
        counts = Counter(machines)
        if max(counts.values()) > (min(counts.values()) if self._engine.shares_machines else 1):
            ((machine, count),) = counts.most_common(1)
            same = [host.name for host in self._hosts if host.machine == machine]
            raise HostError(
                f"{' and '.join(same)} are the same machine, which would count as {count} hosts; "
                "expected as many names for each machine, and one with --hosts"
            )

    def lock(self, wait_s: float, report: Report = lambda text: None) -> None:
        """Keep other sessions from measuring on any host; this one's own host is locked already."""
        machines = {storage.machine_identity(), *self.names}
        for rank, host in enumerate(self._hosts):
            if host.machine not in machines:
                machines.add(host.machine)
                self._locked.add(rank)
                _lock(host, wait_s, report)

    def close(self) -> None:
        self._is_closed.set()
        for link in self._links:
            _hang_up(link)
        for link in self._links:
            link.close()
        self._engine.close()

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        hosts = [self._host(rank) for rank in self._ranks]
        count = cluster.processes // len(hosts)
        requested = [(host, host.begin("ports", count, host.address)) for host in hosts]
        addresses = [
            f"[{host.address}]:{port}" if ":" in host.address else f"{host.address}:{port}"
            for host, answers in requested
            for port in host.result(answers)
        ]
        return members_of(cluster, addresses, len({host.machine for host in hosts}))

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """Start a worker on the host of the member; a worker by itself is on the first host."""
        index = member.index * len(self._ranks) // member.count if member is not None else 0
        if starter.python == sys.executable:
            starter = replace(starter, python="")
        order = Order(starter=starter, launch=launch, member=member)
        return RemoteWorker(self._host(self._ranks[index]), order)

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


def _lock(host: ClusterHost, wait_s: float, report: Report = lambda text: None) -> None:
    answers, timeout_s = host.begin("lock", wait_s), wait_s + _ANSWER_S
    if host.result(answers, timeout_s):
        report(f"another busbw session measures on {host.name}; waiting for its end")
        host.result(answers, timeout_s)


class RemoteWorker(Worker):
    """A worker on a host; a byte in a socket tells `select` of a message."""

    def __init__(self, host: ClusterHost, order: Order) -> None:
        super().__init__(order.launch)
        self.host = host.name
        self._cluster_host = host
        self._socket, self._signals = socket.socketpair()
        # bytes, the JSON of the Exit, whether the process is stopped; None once there are no more.
        self._messages: queue.SimpleQueue[bytes | str | bool | None] = queue.SimpleQueue()
        self._exit: Exit | None = None
        self._channel = host.begin("run", json.dumps(wire.to_json(order)))
        if self._channel is None:
            self._keep(None)
        else:
            self._channel.setcallback(self._keep, endmarker=None)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, or its host, which does not answer then."""
        self._send(None)
        return bool(self._next(bool, _STATE_S)) or bool(self._cluster_host.lost)

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, line: bytes) -> None:
        self._send(line)

    def read(self) -> bytes:
        return self._next(bytes) or b""

    def end(self, ending: Ending) -> None:
        self._send(ending.value)

    def wait(self) -> Exit:
        self._next(type(None))
        self._socket.close()
        self._signals.close()
        return self._exit or Exit(exit_code=None, lost=self._cluster_host.lost)

    def _send(self, message: bytes | str | None) -> None:
        # OSError: the process has ended, or its host is lost, of which there is a message.
        if self._channel is not None and self._exit is None:
            with contextlib.suppress(OSError):
                self._channel.send(message)

    def _keep(self, message: bytes | str | bool | None) -> None:
        """Keep a message, in a thread of execnet."""
        self._messages.put(message)
        # OSError: this worker has ended.
        with contextlib.suppress(OSError):
            self._signals.send(b".")

    def _next(self, kind: type, timeout_s: float = _ANSWER_S) -> Any:
        """Return the next message of a type; None once the process or its host is gone."""
        while self._exit is None and not self._cluster_host.lost:
            try:
                message = self._messages.get(timeout=timeout_s)
            except queue.Empty:
                self._cluster_host.drop("it does not answer")
                break
            self._socket.recv(1)
            if message is None:
                self._cluster_host.drop()
            elif isinstance(message, str):
                self._exit = wire.from_json(Exit, json.loads(message), "exit")
            elif isinstance(message, kind):
                return message
        return None
