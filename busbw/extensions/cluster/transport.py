"""Start and use workers on the hosts of a cluster, from the session.

An engine (`over_ssh` or `over_dask`) runs a Python on each host, and connects a socket of this
process to the Python. Over the socket execnet starts a Host, which takes the session's requests.
"""

from __future__ import annotations

import contextlib
import copy
import json
import queue
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import execnet
from execnet.gateway_base import get_execmodel
from execnet.gateway_bootstrap import bootstrap as bootstrap_gateway
from execnet.gateway_socket import SocketIO

from busbw import storage, wire
from busbw.driver.bundle import MAIN_CODE, PACKAGE_FOLDER, Bundle
from busbw.driver.transport import (
    EndMethod,
    HostError,
    HostLostError,
    HostsTransport,
    Worker,
    WorkerExit,
    WorkerSpec,
)
from busbw.model.launch import LaunchId
from busbw.model.machine import GroupMember, ProcessGroup, group_members

from . import bootstrap
from .host import HEARTBEAT_S, StartRequest

if TYPE_CHECKING:
    from .over_dask import DaskEngine, DaskLink
    from .over_ssh import SshEngine, SshLink

# The longest time for the answer to a request, which may include the end of a process, and for the
# answer to the question whether a process is stopped.
_ANSWER_TIMEOUT_S, _IS_STOPPED_TIMEOUT_S = 30.0, 2.0
_CONNECT_TIMEOUT_S = 60.0

# The files of busbw that a Host imports, besides the files of its workers.
_HOST_FILES = ("driver/*.py", "extensions/__init__.py", "extensions/cluster/*.py")

# The environment variables to set on a host, and the contents of busbw's files by path.
FirstMessage: TypeAlias = tuple[dict[str, str], dict[str, bytes]]
# An engine starts a Python on each host, and returns a link to its stdin and stdout.
Engine: TypeAlias = "SshEngine | DaskEngine"
Link: TypeAlias = "SshLink | DaskLink"


def host_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the files of busbw from which `bootstrap` starts a Host: their contents by path."""
    paths = {path for pattern in _HOST_FILES for path in PACKAGE_FOLDER.glob(pattern)}
    files = {
        str(path.relative_to(PACKAGE_FOLDER.parent)): path.read_bytes()
        for path in bundle.files | paths
    }
    return {**files, "__main__.py": MAIN_CODE.encode()}


class _LinkIO(SocketIO):
    """The object with which execnet reads and writes the Unix socket of a Link to another Python.

    The constructor of execnet's class, which would set options of TCP, is replaced.
    """

    def __init__(self, stream: socket.socket) -> None:
        self.sock = stream
        self.execmodel = get_execmodel("thread")


class HostConnection:
    """The session's connection to a Host (busbw's process on another host).

    `link` is the connection to a Python on the host `name`. `first_message` is the message from
    which `bootstrap` starts the Host. Raises HostError if the Host cannot be started. `machine` is
    the identity of the host's machine, or `name` if unknown. `lost` is the reason why the host no
    longer answers, empty while the host answers.
    """

    def __init__(self, name: str, link: Link, first_message: FirstMessage) -> None:
        self.name = name
        self.lost = ""
        self._link = link
        try:
            greeting = self._start_host(first_message)
        except (OSError, EOFError, AssertionError, execnet.RemoteError) as error:
            raise HostError(f"{name}: {link.end_reason()}") from error
        if isinstance(greeting, str):
            raise HostError(f"{name}: {greeting}")
        self.machine: str = greeting[0] or name
        self.address: str = greeting[1] or link.address

    def send_request(self, method: str, *values: Any) -> execnet.Channel | None:
        """Request that the Host runs its method `method` with `values`; do not wait for the answer.

        Returns the channel on which the Host sends answers, or None if the host is lost.
        """
        try:
            channel = self._gateway.newchannel()
            self.requests.send((channel, method, *values))
        except OSError:
            self.disconnect()
            return None
        return channel

    def receive_answer(
        self, channel: execnet.Channel | None, timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> Any:
        """Wait for the next answer on `channel`, and return the answer.

        Raises HostError if the method of the Host failed, and HostLostError if the host is lost or
        does not answer within `timeout_s` seconds.
        """
        reason = ""
        try:
            if channel is not None and not self.lost:
                return channel.receive(timeout_s)
        except execnet.RemoteError as error:
            raise HostError(f"{self.name}: {error}") from error
        except execnet.TimeoutError:
            reason = "it does not answer"
        except (OSError, EOFError):
            pass
        self.disconnect(reason)
        raise HostLostError(self.lost)

    def disconnect(self, reason: str = "") -> None:
        """End the connection, and keep the reason in `lost`; do nothing if the host is lost.

        If `reason` is empty, the link says the reason.
        """
        if not self.lost:
            self.lost = f"{self.name} is gone: {reason or self._link.end_reason()}"
            _end_input(self._link)
            self._link.close()

    def _start_host(self, first_message: FirstMessage) -> Any:
        """Start the Host; return its greeting: (machine identity, address), or an error text."""
        # Reaching a host may take as long as starting the Python there, so the time is doubled.
        _set_receive_timeout(self._link.stream, 2 * _CONNECT_TIMEOUT_S)
        # With an interpreter in the specification, execnet sends itself to the Python.
        spec = execnet.XSpec(f"popen//python={self.name}//id=host//execmodel=thread")
        self._gateway = bootstrap_gateway(_LinkIO(self._link.stream), spec)
        _set_receive_timeout(self._link.stream, 0.0)
        self.requests = self._gateway.remote_exec(bootstrap)
        self.requests.send(first_message)
        return self.requests.receive(_CONNECT_TIMEOUT_S)


def _set_receive_timeout(stream: socket.socket, timeout_s: float) -> None:
    """Let the kernel end each read of `stream` after `timeout_s` seconds; 0 sets no limit.

    A timeout of Python's socket would change the mode of the socket when the timeout is removed. A
    read that execnet's thread begins at that moment would then fail with EAGAIN.
    """
    timeval = struct.pack("@ll", *divmod(round(timeout_s * 1e6), 1_000_000))
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)


def _end_input(link: Link) -> None:
    """End the input of the Python at the other end of `link`, so that its Host ends."""
    with contextlib.suppress(OSError):
        link.stream.shutdown(socket.SHUT_WR)


class ClusterTransport(HostsTransport):
    """A transport that starts workers on the hosts of an engine, the same number on each host.

    `bundle` has the files of busbw that are sent to the hosts.
    """

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        self._engine = engine
        self._first_message = (dict(engine.environment), host_files(bundle))
        self._links: list[Link] = []
        self._hosts: list[HostConnection] = []
        self._locked_indices: set[int] = set()
        self._host_indices: tuple[int, ...] = ()
        self._is_closed = threading.Event()

    def for_hosts(self, indices: Sequence[int]) -> ClusterTransport:
        """Return a copy that shares all connections, and starts workers on these hosts only."""
        part = copy.copy(self)
        part._host_indices = tuple(indices)
        return part

    def connect_hosts(self, wait_s: float) -> None:
        names = self._engine.connect_hosts(wait_s)
        threading.Thread(target=self._send_heartbeats, daemon=True).start()
        with ThreadPoolExecutor(len(names)) as pool, contextlib.ExitStack() as stack:
            # After an error the links are closed, because the other threads wait for them.
            stack.callback(self.close)
            self._hosts.extend(pool.map(self._connect_host, names))
            stack.pop_all()
        machines = [host.machine for host in self._hosts]
        # The ranks on a machine follow each other.
        self._hosts.sort(key=lambda host: machines.index(host.machine))
        self.names = [host.name for host in self._hosts]
        self._host_indices = tuple(range(len(names)))
        counts = Counter(machines)
        if max(counts.values()) > (min(counts.values()) if self._engine.shares_machines else 1):
            ((machine, count),) = counts.most_common(1)
            same = [host.name for host in self._hosts if host.machine == machine]
            raise HostError(
                f"{' and '.join(same)} are the same machine, which would count as {count} hosts; "
                "expected as many names for each machine, and one with --hosts"
            )

    def lock(self, wait_s: float, report: Callable[[str], None] = lambda text: None) -> None:
        """Keep other sessions from measuring on any host, until the transport is closed.

        A machine is locked once, and the machine of this session is locked already. Raises
        HostError if another session still measures on a host after `wait_s` seconds.
        """
        machines = {storage.machine_identity(), *self.names}
        for index, host in enumerate(self._hosts):
            if host.machine not in machines:
                machines.add(host.machine)
                self._locked_indices.add(index)
                _lock_host(host, wait_s, report)

    def close(self) -> None:
        self._is_closed.set()
        for link in self._links:
            _end_input(link)
        for link in self._links:
            link.close()
        self._engine.close()

    def group_members(self, cluster: ProcessGroup) -> tuple[GroupMember, ...]:
        hosts = [self._reachable_host(index) for index in self._host_indices]
        count = cluster.processes // len(hosts)
        requested = [
            (host, host.send_request("send_free_ports", count, host.address)) for host in hosts
        ]
        addresses = [
            f"[{host.address}]:{port}" if ":" in host.address else f"{host.address}:{port}"
            for host, channel in requested
            for port in host.receive_answer(channel)
        ]
        return group_members(cluster, addresses, len({host.machine for host in hosts}))

    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> Worker:
        """Start a worker, without waiting for it, on the host to which `member` belongs.

        If `member` is None, the worker starts on the first host. Raises HostLostError if the host
        is lost and cannot be reached again.
        """
        index = member.index * len(self._host_indices) // member.process_count if member else 0
        if worker_spec.python == sys.executable:
            worker_spec = replace(worker_spec, python="")
        request = StartRequest(worker_spec=worker_spec, launch=launch, member=member)
        return RemoteWorker(self._reachable_host(self._host_indices[index]), request)

    def _connect_host(self, name: str) -> HostConnection:
        """Connect to the host `name`, and start a Host there. Raises HostError if this fails."""
        try:
            link = self._engine.connect(name, _CONNECT_TIMEOUT_S)
        except OSError as error:
            raise HostError(f"{name}: {error}") from error
        self._links.append(link)
        return HostConnection(name, link, self._first_message)

    def _reachable_host(self, index: int) -> HostConnection:
        """Return the connection to the host `index`, after connecting again if the host was lost.

        Raises HostLostError if the host cannot be reached again.
        """
        host = self._hosts[index]
        if host.lost:
            try:
                host = self._connect_host(host.name)
                if index in self._locked_indices:
                    _lock_host(host, _CONNECT_TIMEOUT_S)
            except HostError as error:
                raise HostLostError(f"{self._hosts[index].lost}; then {error}") from error
            self._hosts[index] = host
        return host

    def _send_heartbeats(self) -> None:
        """Send each host an empty message every few seconds, until the transport is closed.

        A host ends its workers if it receives no message.
        """
        while not self._is_closed.wait(HEARTBEAT_S):
            for host in list(self._hosts):
                with contextlib.suppress(OSError):
                    host.requests.send(None)


def _lock_host(
    host: HostConnection, wait_s: float, report: Callable[[str], None] = lambda text: None
) -> None:
    """Lock the machine of a host until this session ends.

    `report` is called with a sentence before waiting for another session. Raises HostError if the
    other session does not end within `wait_s` seconds.
    """
    channel = host.send_request("lock_machine", wait_s)
    timeout_s = wait_s + _ANSWER_TIMEOUT_S
    if host.receive_answer(channel, timeout_s):
        report(f"another busbw session measures on {host.name}; waiting for its end")
        host.receive_answer(channel, timeout_s)


class RemoteWorker(Worker):
    """A worker process on another host: the connection `host` starts the worker of `request`.

    A thread of execnet queues each message of the host, and writes a byte into a socket, so that
    the descriptor of the socket becomes readable.
    """

    def __init__(self, host: HostConnection, request: StartRequest) -> None:
        super().__init__(request.launch)
        self.host = host.name
        self._connection = host
        self._socket, self._wake_sender = socket.socketpair()
        # Bytes of a reply, the text of a WorkerExit, or whether the process is stopped; None ends
        # them.
        self._messages: queue.SimpleQueue[bytes | str | bool | None] = queue.SimpleQueue()
        self._exit: WorkerExit | None = None
        self._channel = host.send_request("run_worker", json.dumps(wire.to_json(request)))
        if self._channel is None:
            self._queue_message(None)
        else:
            self._channel.setcallback(self._queue_message, endmarker=None)

    @property
    def is_suspended(self) -> bool:
        """Whether a signal has stopped the process, or its host does not answer."""
        self._send_message(None)
        return bool(self._next_message(bool, _IS_STOPPED_TIMEOUT_S) or self._connection.lost)

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, line: bytes) -> None:
        self._send_message(line)

    def read(self) -> bytes:
        return self._next_message(bytes) or b""

    def request_end(self, ending: EndMethod) -> None:
        self._send_message(ending.value)

    def wait(self) -> WorkerExit:
        self._next_message(type(None))
        self._socket.close()
        self._wake_sender.close()
        return self._exit or WorkerExit(exit_code=None, lost_host_text=self._connection.lost)

    def _send_message(self, message: bytes | str | None) -> None:
        """Send a message; ignore errors, because a queued message says that the process ended."""
        if self._channel is not None and self._exit is None:
            with contextlib.suppress(OSError):
                self._channel.send(message)

    def _queue_message(self, message: bytes | str | bool | None) -> None:
        """Queue a message of the host; execnet calls this method in a thread of its own."""
        self._messages.put(message)
        # Sending fails if `wait` has already closed the socket.
        with contextlib.suppress(OSError):
            self._wake_sender.send(b".")

    def _next_message(self, kind: type, timeout_s: float = _ANSWER_TIMEOUT_S) -> Any:
        """Return the next message of the type `kind`, and discard other messages before it.

        Returns None if the process has ended or its host is lost. If the host sends nothing for
        `timeout_s` seconds, the connection to the host is ended.
        """
        while self._exit is None and not self._connection.lost:
            try:
                message = self._messages.get(timeout=timeout_s)
            except queue.Empty:
                self._connection.disconnect("it does not answer")
                break
            self._socket.recv(1)
            if message is None:
                self._connection.disconnect()
            elif isinstance(message, str):
                self._exit = wire.from_json(WorkerExit, json.loads(message), "exit")
            elif isinstance(message, kind):
                return message
        return None
