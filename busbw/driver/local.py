"""Workers on this host, started by the driver itself.

Members of a cluster reach each other at free ports of the loopback.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from busbw import wire
from busbw.agent import processes
from busbw.agent.messages import Order
from busbw.agent.processes import is_stopped
from busbw.model import Cluster, ClusterMember, LaunchId

from .bundle import Bundle
from .transport import Ended, Member, Replies, Reply, Request, Starter, Transport, request_line

LOCAL_HOST = "127.0.0.1"

STACK_GRACE_S = 1.0
EXIT_GRACE_S = 5.0


class LocalTransport(Transport):
    """Workers on this host, started from the `bundle`."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """On the loopback, at ports that are free now."""
        return local_members(cluster)

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """A new process."""
        return Worker(starter, self._bundle, launch, member)


def local_members(cluster: Cluster) -> tuple[ClusterMember, ...]:
    """A member on this host for each role, on a port that is free now."""
    roles = cluster.roles
    addresses: dict[str, tuple[str, ...]] = {}
    for role, port in zip(roles, free_ports(len(roles)), strict=True):
        addresses[role.task] = (*addresses.get(role.task, ()), f"{LOCAL_HOST}:{port}")
    return tuple(ClusterMember(role=role, addresses=addresses) for role in roles)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports of the loopback that nothing listens on."""
    return processes.free_ports(count, LOCAL_HOST, socket.AF_INET)


def order_of(starter: Starter, launch: LaunchId, member: ClusterMember | None = None) -> Order:
    """What is to be started, on this host or another one."""
    arguments = [f"--framework={starter.framework}", f"--capability={starter.capability.value}"]
    arguments += [f"--device={starter.device}"] if starter.device else []
    arguments += [f"--ranks={starter.ranks}"] if starter.ranks is not None else []
    arguments += [f"--member={json.dumps(wire.to_json(member))}"] if member is not None else []
    return Order(
        name=f"{launch}.{starter.framework}",
        python="" if starter.python == sys.executable else starter.python,
        arguments=(*arguments, f"--launch={launch}"),
        environment=starter.environment,
        unset=tuple(sorted(starter.unset)),
        defaults=starter.defaults.get(starter.capability, {}),
    )


def environment_of(starter: Starter) -> dict[str, str]:
    """The environment of a worker of `starter` on this host."""
    return processes.environment_of(order_of(starter, LaunchId()), os.environ)


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
        self.launch = launch
        self._clock = clock
        self._replies = Replies()
        self._begun_s = clock()
        self._process = processes.Process(order_of(starter, launch, member), bundle)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, as Linux says."""
        return is_stopped(self.pid)

    def fileno(self) -> int:
        """The descriptor of the replies, so that `select` can watch several workers at once."""
        return self._process.replies

    def send(self, request: Request | None) -> None:
        """Send `request` (None: just listen) without waiting; the reply is read by `received`."""
        self._begun_s = self._clock()
        self._replies.expect(request)
        # One that exited while it started may have logged why already.
        if request is not None:
            self._process.write(request_line(request))

    def received(self) -> Reply | Ended | None:
        """Read what there is, once `select` says so; None while a reply is incomplete.

        An Ended at the end of the pipe, and for anything that is not a reply to the request; the
        process has ended then.
        """
        read = self._process.read()
        if not read:
            return self._gone()
        try:
            return self._replies.add(read)
        except wire.WireError as error:
            return self._refused(str(error))

    def _refused(self, why: str) -> Ended:
        """Kill a worker that answers something else; no later reply could be trusted."""
        waited_s = self._clock() - self._begun_s
        self.kill()
        return replace(self._ended(None, waited_s), refused=why)

    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""
        waited_s, stopped = self._clock() - self._begun_s, self.is_stopped
        self._process.print_stack()
        if not stopped:
            self._process.waited(STACK_GRACE_S)
        self.kill()
        return replace(self._ended(None, waited_s), stopped=stopped)

    def _gone(self) -> Ended:
        """The pipe is closed: the process is exiting, or must be killed.

        One that must be killed did not die by itself: it hung, and is not why others failed.
        """
        ended = self._process.waited(EXIT_GRACE_S)
        waited_s = self._clock() - self._begun_s
        self.kill()
        return self._ended(self._process.exit_code if ended else None, waited_s)

    def _ended(self, exit_code: int | None, waited_s: float) -> Ended:
        return Ended(
            exit_code=exit_code,
            log=self._process.log_end(),
            oom_kills=self._process.oom_kills(),
            waited_s=waited_s,
        )

    def hang_up(self) -> None:
        """Close the pipes, at which the worker exits by itself; does not wait for it."""
        self._process.close_pipes()

    def close(self) -> bool:
        """Wait for the worker to exit, and kill it if it does not; whether it exited."""
        self._process.close_pipes()
        ended = self._process.waited(EXIT_GRACE_S)
        self.kill()
        return ended

    def interrupt(self) -> None:
        """Kill the process, from any thread; the thread that asks then sees its end."""
        self._process.interrupt()

    def kill(self) -> None:
        """Kill the worker's whole process group, with what it started, and wait for the worker."""
        self._process.kill()
