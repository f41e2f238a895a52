"""Workers on this host; members of a cluster reach each other at free ports of the loopback."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator

from busbw import storage, wire
from busbw.model.cluster import Cluster, ClusterMember, members_of
from busbw.model.launch import LaunchId

from . import network, pids
from .bundle import Bundle
from .process import Order, Process
from .transport import Ended, HostError, Hosts, Member, Reply, Starter, Transport, ended_of


class BusyError(Exception):
    """Another session measured on this machine until the timeout, or nothing can rule that out."""


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Raises BusyError after `wait_s`; `on_wait` gets the holder, such as ``pid 1234, ...``."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(storage.machine_lock(wait_s, on_wait))
        except storage.LockedError as error:
            raise BusyError(
                f"another session has been measuring on this machine for {wait_s:g} s ({error})"
            ) from error
        except OSError as error:
            raise BusyError(f"the machine cannot be locked: {storage.error_text(error)}") from error
        yield


class LocalTransport(Transport):
    """Workers on this host, started from the `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        ports = network.free_ports(cluster.processes, "127.0.0.1", socket.AF_INET)
        return members_of(cluster, (f"127.0.0.1:{port}" for port in ports))

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        try:
            return Worker(starter, self._bundle, launch, member)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # The session says how to raise the limit on open files.
                raise
            limit = pids.least_limit()
            most = f"; pids.max is {limit}" if limit is not None else ""
            words = f"a worker cannot be started on this host ({error.strerror}){most}"
            raise HostError(words) from error


def transport_of(hosts: Hosts | None, bundle: Bundle) -> Transport:
    """Return the transport that starts workers on `hosts`, or on this host without any."""
    return LocalTransport(bundle) if hosts is None else hosts.transport(bundle)


def order_of(starter: Starter, launch: LaunchId, member: ClusterMember | None = None) -> Order:
    arguments = [f"--framework={starter.framework}", f"--service={starter.service}"]
    arguments += [f"--device={starter.device}"] if starter.device else []
    arguments += [f"--ranks={starter.ranks}"] if starter.ranks is not None else []
    arguments += [f"--member={json.dumps(wire.to_json(member))}"] if member is not None else []
    return Order(
        name=f"{launch}.{starter.framework}",
        python="" if starter.python == sys.executable else starter.python,
        arguments=(*arguments, f"--launch={launch}"),
        environment=starter.environment,
        unset=tuple(sorted(starter.unset)),
        defaults=starter.defaults,
        without_proxy=member.host_names if member is not None else (),
    )


class Worker(Member):
    """A running worker. Every way out ends the process, whatever it is doing."""

    def __init__(
        self,
        starter: Starter,
        bundle: Bundle,
        launch: LaunchId,
        member: ClusterMember | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(launch, clock)
        self._process = Process(order_of(starter, launch, member), bundle, clock)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_stopped(self) -> bool:
        return self._process.is_stopped

    def fileno(self) -> int:
        return self._process.replies

    def _write(self, line: bytes) -> None:
        self._process.write(line)

    def received(self) -> Reply | Ended | None:
        read, waited_s = self._process.read(), self._waited_s
        return self._answered(read) if read else ended_of(self._process.ended(), waited_s)

    def _print_stack(self) -> None:
        self._process.print_stack()
        self._process.ended()

    def _end(self, waited_s: float) -> Ended:
        return ended_of(self._process.ended(), waited_s)

    def hang_up(self) -> None:
        self._process.close_pipes()

    def close(self) -> bool:
        self._process.close()
        return self._process.ended().by_itself

    def interrupt(self) -> None:
        self._process.interrupt()

    def kill(self) -> None:
        self._process.kill()
