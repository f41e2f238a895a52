"""The session's half: one transport for the processes of all hosts, in the order of ranks."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import socket
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import busbw
from busbw import storage, wire
from busbw.driver.bundle import Bundle
from busbw.driver.local import BusyError, order_of
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

from .host import CLOSE, KILL, STACK

# How long a host may take to answer; ending a process takes a few seconds of that.
_ANSWER_S, _STATE_S = 30.0, 2.0
_CONNECT_S = 60.0
_LOCK_LOOK_S = 0.2

# What a Host imports, besides the files of its workers.
_HOST_FILES = ("driver/*.py", "extensions/__init__.py", "extensions/cluster/*.py")

Say: TypeAlias = Callable[[str], None]


class Connection(Protocol):
    """A connection to the Host on one host."""

    address: str

    def call(self, *request: Any) -> Future[tuple[Any, str]]:
        """Send the name of a method of Host and its values; the Future is what `Host.call` returns.

        It raises OSError, with the reason, where the host does not answer any more.
        """

    def close(self) -> None:
        """End the Host, with its processes."""


class Engine(Protocol):
    """What reaches hosts and starts a Host on each."""

    # Whether several hosts may be one machine.
    shares_machines: bool

    def join(self, wait_s: float) -> Sequence[str]:
        """Wait for the hosts; return their names in the order of ranks. Raises HostError."""

    def connect(self, name: str, archive: bytes, wait_s: float) -> Connection:
        """Start a Host from the files in `archive`. Raises OSError with the reason."""

    def close(self) -> None:
        """End all that was started."""


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
    """A host as the session sees it; `lost` says why it does not answer any more."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.lost = ""
        self._connection = connection
        self.machine, address = self.call("describe")
        self.address: str = address or connection.address

    def begin(self, *request: Any) -> Future[tuple[Any, str]]:
        return self._connection.call(*request)

    def result(self, answer: Future[tuple[Any, str]], timeout_s: float = _ANSWER_S) -> Any:
        """Raise HostLostError where the host does not answer, HostError where it refuses."""
        try:
            value, why = answer.result(0.0 if self.lost else timeout_s)
        except TimeoutError as error:
            self.drop("it does not answer")
            raise HostLostError(self.lost) from error
        except (OSError, CancelledError) as error:
            self.drop(str(error))
            raise HostLostError(self.lost) from error
        if why:
            raise HostError(f"{self.name}: {why}")
        return value

    def call(self, *request: Any, timeout_s: float = _ANSWER_S) -> Any:
        return self.result(self.begin(*request), timeout_s)

    def drop(self, why: str) -> None:
        """End the connection for good."""
        if not self.lost:
            self.lost = f"{self.name} is gone: {why}"
            self._connection.close()


class ClusterTransport(HostsTransport):
    """Worker processes on the hosts of an engine, as many on each."""

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        self._engine = engine
        self._archive = archive_of(bundle)
        self._hosts: list[ClusterHost] = []
        self._locked: set[int] = set()
        self._ranks: tuple[int, ...] = ()

    def for_ranks(self, ranks: Sequence[int]) -> ClusterTransport:
        """Return a transport that starts processes on the hosts of these ranks alone."""
        part = copy.copy(self)
        part._ranks = tuple(ranks)
        return part

    def join(self, wait_s: float) -> None:
        names = self._engine.join(wait_s)
        pool = ThreadPoolExecutor(len(names))
        try:
            self._hosts.extend(pool.map(self._connected, names))
        except BaseException:
            # What the other threads wait for ends with it.
            self._engine.close()
            raise
        finally:
            pool.shutdown()
        self.names = names
        self._ranks = tuple(range(len(names)))
        self._check_machines()

    def lock(self, wait_s: float, say: Say = lambda words: None) -> None:
        """Keep other sessions from measuring on any host; this one's own host is locked already."""
        machines = {"", storage.machine_identity()}
        for rank, host in enumerate(self._hosts):
            if host.machine not in machines:
                machines.add(host.machine)
                self._locked.add(rank)
                _lock(host, wait_s, say)

    def close(self) -> None:
        self._engine.close()

    def interpreter(self, starter: Starter) -> str:
        return order_of(starter, LaunchId()).python or "the Python of its host"

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        each = self._each(cluster.processes)
        hosts = [self._host(rank) for rank in self._ranks]
        asked = [(host, host.begin("ports", each, host.address)) for host in hosts]
        addresses = [
            f"[{host.address}]:{port}" if ":" in host.address else f"{host.address}:{port}"
            for host, answer in asked
            for port in host.result(answer)
        ]
        return members_of(cluster, addresses, len({host.machine or host.name for host in hosts}))

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
            return ClusterHost(name, self._engine.connect(name, self._archive, _CONNECT_S))
        except HostLostError as error:
            raise HostError(str(error)) from error
        except OSError as error:
            raise HostError(f"{name}: {error}") from error

    def _host(self, rank: int) -> ClusterHost:
        """Return a host, which is reached again if it was lost. Raises HostLostError."""
        host = self._hosts[rank]
        if host.lost:
            try:
                host = self._connected(host.name)
                if rank in self._locked:
                    _lock(host, _CONNECT_S)
            except (HostError, BusyError) as error:
                raise HostLostError(f"{self._hosts[rank].lost}; then {error}") from error
            self._hosts[rank] = host
        return host

    def _check_machines(self) -> None:
        """Raise HostError unless as many hosts are on each machine, one machine after the other."""
        machines = [host.machine or host.name for host in self._hosts]
        runs = [(machine, len(list(hosts))) for machine, hosts in groupby(machines)]
        if len(runs) < len(machines) and not self._engine.shares_machines:
            twice = next(machine for machine in machines if machines.count(machine) > 1)
            names = [name for name, machine in zip(self.names, machines) if machine == twice]
            raise HostError(
                f"{' and '.join(names)} are the same machine, which would count as "
                f"{len(names)} hosts; expected one name for each machine"
            )
        if len(runs) > len(set(machines)) or len({count for _, count in runs}) > 1:
            raise HostError(
                f"{', '.join(self.names)}: expected as many on each machine, with names that "
                "follow each other in this order"
            )


def _lock(host: ClusterHost, wait_s: float, say: Say = lambda words: None) -> None:
    end_s, has_said = time.monotonic() + wait_s, False
    while holder := host.call("lock"):
        if time.monotonic() >= end_s:
            raise BusyError(
                f"another session has been measuring on {host.name} for {wait_s:g} s ({holder})"
            )
        if not has_said:
            say(f"another busbw session measures on {host.name}; waiting for its end")
            has_said = True
        time.sleep(_LOCK_LOOK_S)


class ClusterWorker(Member):
    """A worker process on a host; a byte in a socket tells `select` that its host answered."""

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
        order = order_of(starter, launch, member)
        self._name = order.name
        self._reading, self._telling = socket.socketpair()
        self._listening: Future[tuple[Any, str]] | None = None
        self._closing: Future[tuple[Any, str]] | None = None
        self._exit: Exit | None = None
        self._lost = ""
        self._starting = host.begin("start", json.dumps(wire.to_json(order)))

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal has stopped it, or its host, which does not answer then."""
        return bool(self._answer("is_stopped", timeout_s=_STATE_S)) or bool(self._lost)

    def fileno(self) -> int:
        return self._reading.fileno()

    def _write(self, line: bytes) -> None:
        self._result(self._starting)
        if line:
            self._at.begin("write", self._name, line)
        if self._listening is None:
            self._listening = self._at.begin("listen", self._name)
            # In a thread of the engine.
            self._listening.add_done_callback(self._tell)

    def _tell(self, answer: object) -> None:
        # OSError: it was closed meanwhile.
        with contextlib.suppress(OSError):
            self._telling.send(b".")

    def received(self) -> Reply | Ended | None:
        self._reading.recv(1)
        answer, self._listening = self._listening, None
        value = self._result(answer)
        if isinstance(value, bytes):
            reply = self._answered(value)
            if reply is None:
                self._write(b"")
            return reply
        if value is not None:
            self._exit = _exit_of(value)
        return self._end(self._waited_s)

    def _result(self, answer: Future[tuple[Any, str]] | None, timeout_s: float = _ANSWER_S) -> Any:
        """Return None once the host is lost."""
        try:
            return self._at.result(answer, timeout_s) if answer is not None else None
        except HostError as error:
            self._lost = self._lost or str(error)
            return None

    def _answer(self, method: str, *values: str, timeout_s: float = _ANSWER_S) -> Any:
        if self._lost or self._exit is not None:
            return None
        return self._result(self._at.begin(method, self._name, *values), timeout_s)

    def _print_stack(self) -> None:
        self._finish(STACK)

    def _end(self, waited_s: float) -> Ended:
        return ended_of(self._exit, waited_s, self._lost)

    def _finish(self, how: str) -> None:
        ended = self._answer("end", how)
        if ended is not None:
            self._exit = _exit_of(ended)

    def hang_up(self) -> None:
        if self._closing is None:
            self._closing = self._at.begin("end", self._name, CLOSE)

    def close(self) -> bool:
        self.hang_up()
        ended = self._result(self._closing)
        self._exit = _exit_of(ended) if ended is not None else self._exit
        self.kill()
        return self._exit is not None and self._exit.by_itself

    def interrupt(self) -> None:
        if self._exit is None:
            self._at.begin("end", self._name, KILL)

    def kill(self) -> None:
        self._finish(KILL)
        self._reading.close()
        self._telling.close()


def _exit_of(text: str) -> Exit:
    return wire.from_json(Exit, json.loads(text), "exit")
