"""Start and use workers on the hosts of a cluster, from the session.

An engine (`over_ssh` or `over_dask`) starts a Python process on each host, and connects a socket of
the session to this process. Over the socket execnet starts a Host, which answers the session's
requests.
"""

from __future__ import annotations

import contextlib
import copy
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from busbw.model.machine import GroupMember, ProcessGroupSize, group_members

from .host import HEARTBEAT_S

if TYPE_CHECKING:
    from .over_dask import DaskEngine, DaskLink
    from .over_ssh import SshEngine, SshLink

# The longest time for the answer to a request, which may include the end of a process, and for the
# answer to the question whether a process is stopped.
_ANSWER_TIMEOUT_S, _IS_SUSPENDED_TIMEOUT_S = 30.0, 2.0
_CONNECT_TIMEOUT_S = 60.0

# The bytes of replies that a worker of a host reads at once.
_READ_BYTES = 65536

# The files of busbw that a Host imports, besides the files of its workers.
_HOST_FILES = ("driver/*.py", "extensions/cluster/*.py")


def unpack_and_serve(channel: object, variables: dict[str, str], files: dict[str, bytes]) -> None:
    """Unpack busbw on a host, and answer the requests of the session until the session ends.

    This function runs on the host. execnet sends its source to a new interpreter there, which has
    only the standard library. So the function uses no global name of this file.

    Args:
        channel: execnet's channel to the session.
        variables: The environment variables to set on the host.
        files: Maps the path of each file of busbw to the content of the file.

    """
    import os
    import sys
    import tempfile
    from pathlib import Path

    os.environ.update(variables)
    with tempfile.TemporaryDirectory(prefix="busbw-files.") as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        sys.path.insert(0, folder)
        from busbw.extensions.cluster.host import Host

        host = Host(folder)
    host.serve(channel)
    # A normal exit would wait for the session, which may be unreachable.
    os._exit(0)


class _LinkIO(SocketIO):
    """The object with which execnet reads and writes the Unix socket of an SshLink or a DaskLink.

    The constructor replaces that of execnet's class, which would set options of TCP.
    """

    def __init__(self, stream: socket.socket) -> None:
        self.sock = stream
        self.execmodel = get_execmodel("thread")


class HostConnection:
    """The session's connection to a Host (the process of busbw on another host).

    The constructor starts the Host in the Python process to which `link` is connected. `variables`
    are the environment variables to set on the host. `files` maps the path of each file of busbw to
    its content. Raises HostError if the Host cannot be started.

    Attributes:
        name: The name of the host.
        machine: The identity of the host's machine, or `name` if the identity is unknown.
        address: The address at which other hosts reach the host, without a port.
        has_lock: Whether the session has locked the host's machine over this connection.
        lost: A text on why the host no longer answers; empty while the host answers.

    """

    def __init__(
        self,
        name: str,
        link: SshLink | DaskLink,
        variables: Mapping[str, str],
        files: Mapping[str, bytes],
    ) -> None:
        self.name = name
        self.has_lock = False
        self.lost = ""
        self._link = link
        # A timer ends the connection if the host is silent, because execnet would wait forever. A
        # timeout of the socket would change the mode of the socket when the timeout is removed, and
        # a read that execnet begins at that moment would fail. Reaching a host may take as long as
        # starting the Python there, so the time is doubled.
        timer = threading.Timer(2 * _CONNECT_TIMEOUT_S, link.stream.shutdown, [socket.SHUT_RDWR])
        timer.start()
        try:
            # With an interpreter in the specification, execnet sends itself to the Python.
            spec = execnet.XSpec(f"popen//python={name}//id=host//execmodel=thread")
            self._gateway = bootstrap_gateway(_LinkIO(link.stream), spec)
            self._requests = self._gateway.remote_exec(
                unpack_and_serve, variables=dict(variables), files=dict(files)
            )
            machine, address = self._requests.receive()
        except execnet.RemoteError as error:
            # The last line of a traceback on the host is the reason, such as a full disk.
            raise HostError(f"{name}: {str(error).splitlines()[-1]}") from error
        except (OSError, EOFError, AssertionError) as error:
            raise HostError(f"{name}: {link.end_reason()}") from error
        finally:
            timer.cancel()
        self.machine = machine or name
        self.address = address or link.address
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def send_request(self, method: str, *values: Any) -> execnet.Channel:
        """Request that the Host runs a method, and return the channel for the answers at once.

        `method` is the name of a method of the class Host, and `values` are the arguments of the
        method. Raises HostLostError if the host is lost.
        """
        try:
            channel = self._gateway.newchannel()
            self._requests.send((channel, method, *values))
        except OSError as error:
            raise self.disconnect() from error
        return channel

    def wait_for_answer(
        self, wait: Callable[[float], Any], timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> Any:
        """Wait for an answer of the Host, and return the result of `wait`.

        `wait` is a method of the channel of a request: `receive`, which returns the answer, or
        `waitclose`. `wait` is called with `timeout_s`. Raises HostError if the requested method of
        the Host failed, and HostLostError if the host is lost or does not answer within `timeout_s`
        seconds.
        """
        try:
            return wait(timeout_s)
        except execnet.RemoteError as error:
            raise HostError(f"{self.name}: {error}") from error
        except (OSError, EOFError) as error:
            is_silent = isinstance(error, execnet.TimeoutError)
            raise self.disconnect("it does not answer" if is_silent else "") from error

    def lock(self, wait_s: float, report: Callable[[str], None]) -> None:
        """Lock the machine of the host until this session ends.

        If another session measures there, `report` is called with a sentence, and the method waits
        for the end of that session. Raises HostError if that session does not end within `wait_s`
        seconds.
        """
        self.has_lock = True
        channel = self.send_request("lock_machine", wait_s)
        timeout_s = wait_s + _ANSWER_TIMEOUT_S
        if self.wait_for_answer(channel.receive, timeout_s):
            report(f"another busbw session measures on {self.name}; waiting for its end")
            self.wait_for_answer(channel.receive, timeout_s)

    def disconnect(self, reason: str = "") -> HostLostError:
        """End the connection, and return the error that the caller raises.

        `reason` says why the connection ends. If `reason` is empty, the reason of the SshLink or
        DaskLink is used. The reason is kept in `lost`. If the host is lost already, this method
        only returns an error with the first reason.
        """
        if not self.lost:
            self.lost = f"{self.name} is gone: {reason or self._link.end_reason()}"
            self._link.close()
        return HostLostError(self.lost)

    def _send_heartbeats(self) -> None:
        """Send the Host an empty message every few seconds, until the connection ends.

        A Host that receives no message for some time ends its workers and itself.
        """
        with contextlib.suppress(OSError):
            while True:
                time.sleep(HEARTBEAT_S)
                self._requests.send(None)


class ClusterTransport(HostsTransport):
    """A transport that starts workers on the hosts of an engine, the same number on each host.

    `engine` reaches the hosts by ssh or through Dask. `bundle` has the files of busbw that are sent
    to the hosts. `variables` are the environment variables to set on the hosts.
    """

    def __init__(
        self, bundle: Bundle, engine: SshEngine | DaskEngine, variables: Mapping[str, str]
    ) -> None:
        self._engine = engine
        self._variables = variables
        paths = {path for pattern in _HOST_FILES for path in PACKAGE_FOLDER.glob(pattern)}
        self._files = {
            str(path.relative_to(PACKAGE_FOLDER.parent)): path.read_bytes()
            for path in bundle.files | paths
        }
        self._files["__main__.py"] = MAIN_CODE.encode()
        self._links: list[SshLink | DaskLink] = []
        self._hosts: list[HostConnection] = []
        self._host_indices: tuple[int, ...] = ()

    def for_hosts(self, indices: Sequence[int]) -> ClusterTransport:
        """Return a transport that starts workers only on the hosts with the given indices.

        The new transport shares the connections of this transport.
        """
        part = copy.copy(self)
        part._host_indices = tuple(indices)
        return part

    def connect_hosts(self, wait_s: float) -> None:
        names = self._engine.connect_hosts(wait_s)
        # After an error the other threads wait for their hosts until `close` is called. So the pool
        # is not used in a `with` block, whose end would wait for the threads.
        self._hosts.extend(ThreadPoolExecutor(len(names)).map(self._connect_host, names))
        machines = [host.machine for host in self._hosts]
        # The ranks on a machine follow each other.
        self._hosts.sort(key=lambda host: machines.index(host.machine))
        self.names = [host.name for host in self._hosts]
        self._host_indices = tuple(range(len(names)))
        counts = Counter(machines)
        if max(counts.values()) > (min(counts.values()) if self._engine.shares_machines else 1):
            machine = max(machines, key=machines.count)
            same = [host.name for host in self._hosts if host.machine == machine]
            raise HostError(
                f"{' and '.join(same)} are the same machine; expected as many names for each "
                "machine, and one with --hosts"
            )

    def lock(self, wait_s: float, report: Callable[[str], None] = lambda text: None) -> None:
        """Keep other sessions from measuring on any host, until the transport is closed.

        A machine with several hosts is locked once. The machine of this session is locked already.
        If another session measures on a host, `report` is called with a sentence. Raises HostError
        if that session does not end within `wait_s` seconds.
        """
        for machine, host in {host.machine: host for host in self._hosts}.items():
            if machine not in (storage.boot_and_lock_identity(), host.name):
                host.lock(wait_s, report)

    def close(self) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda link: link.close(), self._links))
        self._engine.close()

    def group_members(self, process_group: ProcessGroupSize) -> tuple[GroupMember, ...]:
        hosts = [self._reconnect_if_lost(index) for index in self._host_indices]
        count = process_group.processes // len(hosts)
        addresses = list[str]()
        for host in hosts:
            channel = host.send_request("send_free_addresses", count, host.address)
            addresses += host.wait_for_answer(channel.receive)
        return group_members(process_group, addresses, len({host.machine for host in hosts}))

    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> Worker:
        """Start a worker on the host to which `member` belongs, and return the worker at once.

        If `member` is None, the worker starts on the first host. Raises HostLostError if the host
        is lost and cannot be reached again.
        """
        index = member.index * len(self._host_indices) // member.process_count if member else 0
        if worker_spec.python == sys.executable:
            worker_spec = replace(worker_spec, python="")
        host = self._reconnect_if_lost(self._host_indices[index])
        return RemoteWorker(host, worker_spec, launch, member)

    def _connect_host(self, name: str) -> HostConnection:
        """Connect to the host `name`, start a Host there, and return the connection.

        Raises HostError if the host cannot be reached, or if the Host cannot be started.
        """
        with storage.reraise_as(HostError, OSError, where=f"{name}: "):
            link = self._engine.connect(name, _CONNECT_TIMEOUT_S)
        self._links.append(link)
        return HostConnection(name, link, self._variables, self._files)

    def _reconnect_if_lost(self, index: int) -> HostConnection:
        """Return the connection to the host with the index `index`.

        If the host was lost, connect again first, and lock its machine again if it was locked.
        Raises HostLostError if the host cannot be reached again.
        """
        host = self._hosts[index]
        if host.lost:
            with storage.reraise_as(HostLostError, HostError, where=f"{host.lost}; then "):
                self._hosts[index] = self._connect_host(host.name)
                if host.has_lock:
                    self._hosts[index].lock(_CONNECT_TIMEOUT_S, lambda text: None)
        return self._hosts[index]


class RemoteWorker(Worker):
    """A worker process on another host.

    The constructor starts the worker. A thread of execnet writes the replies of the worker into a
    socket, from which the method `read` reads.

    Args:
        host: The connection to the host.
        worker_spec: How the worker is started.
        launch: The launch to which the worker belongs.
        member: Which process of its group the worker is; None for a single process.

    Raises:
        HostLostError: The host is lost.

    """

    def __init__(
        self,
        host: HostConnection,
        worker_spec: WorkerSpec,
        launch: LaunchId,
        member: GroupMember | None,
    ) -> None:
        super().__init__(launch)
        self.host = host.name
        self._connection = host
        self._socket, self._reply_sender = socket.socketpair()
        # The data of the WorkerExit; empty while the worker runs.
        self._exit: dict[str, Any] = {}
        self._channel = host.send_request("run_worker", wire.to_json((worker_spec, launch, member)))
        self._channel.setcallback(self._handle_message, endmarker={})

    @property
    def is_suspended(self) -> bool:
        """Whether a signal has stopped the process, or its host does not answer."""
        with contextlib.suppress(HostError):
            channel = self._connection.send_request("send_is_suspended", self._channel.id)
            return bool(self._connection.wait_for_answer(channel.receive, _IS_SUSPENDED_TIMEOUT_S))
        return bool(self._connection.lost)

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, line: bytes) -> None:
        # `read` notices the end of the worker.
        with contextlib.suppress(OSError):
            self._channel.send(line)

    def read(self) -> bytes:
        return self._socket.recv(_READ_BYTES)

    def request_end(self, ending: EndMethod) -> None:
        # An error says that the worker has ended already.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
            self._channel.send(ending.value)

    def wait(self) -> WorkerExit:
        self._socket.close()
        with contextlib.suppress(HostError):
            self._connection.wait_for_answer(self._channel.waitclose)
        if not self._exit:
            error = self._connection.disconnect()
            return WorkerExit(exit_code=None, lost_host_text=str(error))
        return wire.from_json(WorkerExit, self._exit, "exit")

    def _handle_message(self, message: bytes | dict[str, Any]) -> None:
        """Pass bytes of a reply on to `read`, or keep the JSON data of the WorkerExit.

        After a WorkerExit there are no more replies. execnet calls this method in a thread of its
        own for each message, and once with an empty dictionary when the channel is closed.
        """
        if isinstance(message, dict):
            self._exit = message or self._exit
            self._reply_sender.close()
        else:
            # Sending fails if nobody reads any more.
            with contextlib.suppress(OSError):
                self._reply_sender.sendall(message)
