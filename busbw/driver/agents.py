"""Workers on hosts that agents run on: the members of a group are spread over them.

An agent is one that this session started itself, on this host, and starts again if it is gone; or
one that somebody started elsewhere, and that is gone for good.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from busbw import wire
from busbw.agent import messages
from busbw.agent.joining import address_text
from busbw.model import Cluster, ClusterMember, LaunchId

from .bundle import Bundle
from .hub import Hub, Peer, Timing
from .local import order_of
from .local_agents import LocalAgents
from .transport import (
    MOST_REPLY_BYTES,
    Ended,
    Member,
    Replies,
    Reply,
    Request,
    Starter,
    Transport,
    request_line,
)

# An agent needs a few seconds at most to end a worker.
_END_S = 30.0
_PORTS_S = 10.0
# Of a local agent that is started again.
_AGAIN_S = 60.0
# Where nothing is said of it.
_LONG_S = 600.0
# The session kills a worker at its deadline; an agent only if the session does not.
_DEADLINE_GRACE_S = 30.0


class AgentsError(Exception):
    """Why agents cannot measure; the message is the sentence that the user reads."""


class AgentGone(AgentsError):
    """A member of the session is gone for good."""


class AgentsMissing(AgentsError):
    """Not all agents have joined in time."""


class IncomparableHosts(AgentsError):
    """Hosts that cannot measure together, since they do not run the same."""


class AgentsTransport(Transport):
    """Workers on the hosts of `count` agents that connect to `listening`.

    `local`: they are started here, by this session.
    """

    def __init__(
        self,
        bundle: Bundle,
        listening: socket.socket,
        secret: bytes,
        count: int,
        *,
        is_local: bool = False,
        timing: Timing | None = None,
    ) -> None:
        self._count = count
        self.hub = Hub(listening, secret, bundle.sources(), ranks=count, timing=timing)
        self._local: LocalAgents | None = None
        if is_local:
            port = listening.getsockname()[1]
            self._local = LocalAgents(bundle, port, secret)

    def join(self, wait_s: float) -> None:
        """Wait until all agents have joined. Raises IncomparableHosts and AgentsMissing."""
        if self._local is not None:
            for rank in range(self._count):
                self._local.start(rank)
        self._wait_for(range(self._count), wait_s)

    def close(self) -> None:
        """Say goodbye to all agents, and end those that this session started."""
        try:
            self.hub.close()
        finally:
            if self._local is not None:
                self._local.close()

    def hosts(self) -> tuple[str, ...]:
        """The host of each agent, by rank."""
        return tuple(self.hub.peers[rank].host for rank in range(self._count))

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """As many on each agent, in the order of ranks, with ports that are free there."""
        roles = cluster.roles
        each = self._each(len(roles))
        peers = [self._peer(rank) for rank in range(self._count)]
        found = [
            address_text(peer.address, port) for peer in peers for port in self._ports(peer, each)
        ]
        addresses: dict[str, tuple[str, ...]] = {}
        for role, address in zip(roles, found, strict=True):
            addresses[role.task] = (*addresses.get(role.task, ()), address)
        hosts = _hosts([peer.host for peer in peers])
        return tuple(ClusterMember(role=role, addresses=addresses, hosts=hosts) for role in roles)

    def start(
        self, starter: Starter, launch: LaunchId, member: ClusterMember | None
    ) -> AgentWorker:
        """A process on the host that the member belongs to; one by itself is on the first."""
        peer = self._peer(self._rank_of(member) if member is not None else 0)
        return AgentWorker(self.hub, peer, order_of(starter, launch, member), launch)

    def _each(self, members: int) -> int:
        if members % self._count:
            words = f"{members} processes cannot be shared equally by {self._count} agents"
            raise AgentsError(words)
        return members // self._count

    def _rank_of(self, member: ClusterMember) -> int:
        """The rank of the agent that starts the member."""
        place = member.role.index
        for task, addresses in member.addresses.items():
            if task == member.role.task:
                break
            place += len(addresses)
        return place // self._each(sum(map(len, member.addresses.values())))

    def _peer(self, rank: int) -> Peer:
        """The agent of this rank. Raises AgentGone for one that is gone for good."""
        peer = self.hub.peers[rank]
        if not peer.why_lost:
            return peer
        if self._local is None:
            raise AgentGone(peer.why_lost)
        self.hub.expect_again(rank)
        self._local.start(rank)
        try:
            self._wait_for([rank], _AGAIN_S)
        except AgentsMissing as error:
            raise AgentGone(str(error)) from error
        return self.hub.peers[rank]

    def _wait_for(self, ranks: Sequence[int], wait_s: float) -> None:
        hub = self.hub

        def missing() -> list[int]:
            return [rank for rank in ranks if not self.is_ready(rank)]

        with hub.changed:
            end_s = time.monotonic() + wait_s
            while missing() and not hub.incomparable and time.monotonic() < end_s:
                # An agent of this session that ends is not waited for.
                if self._local is not None and self._local.ended(missing()):
                    break
                hub.changed.wait(min(0.2, max(0.0, end_s - time.monotonic())))
            left, differ = missing(), list(hub.incomparable)
        if differ:
            raise IncomparableHosts("; ".join(dict.fromkeys(differ)))
        if left:
            raise AgentsMissing(self._missing_words(left, wait_s))

    def is_ready(self, rank: int) -> bool:
        """Whether the agent of this rank has joined, and has the files that workers run."""
        peer = self.hub.peers.get(rank)
        return peer is not None and peer.is_ready and not peer.why_lost

    def _missing_words(self, ranks: Sequence[int], wait_s: float) -> str:
        words = "rank " if len(ranks) == 1 else "ranks "
        words += ", ".join(map(str, ranks))
        if self._local is not None:
            return f"an agent of this host did not start ({words}): {self._local.why(ranks[0])}"
        return (
            f"of {self._count} agents {words} did not join within {wait_s:g} s; did you start "
            "`python -m busbw agent` on every host?"
        )

    def _ports(self, peer: Peer, count: int) -> tuple[int, ...]:
        """Ports that are free on an agent's host. Raises AgentGone."""
        hub = self.hub
        peer.ports.clear()
        peer.post(messages.Ports(count=count))
        with hub.changed:
            hub.changed.wait_for(lambda: peer.ports or peer.why_lost, _PORTS_S)
            found = peer.ports.popleft() if peer.ports else ()
        if len(found) != count:
            hub.drop(peer, "it names no free ports")
            raise AgentGone(peer.why_lost)
        return found


def _hosts(names: Sequence[str]) -> int:
    """How many hosts there are; as many agents are on each, one host after the other."""
    runs = [(name, len(list(agents))) for name, agents in groupby(names)]
    if len({name for name, _ in runs}) < len(runs) or len({count for _, count in runs}) > 1:
        raise AgentsError(
            f"the agents are on {', '.join(names)}, by rank; accepted are as many on each host, "
            "with ranks that follow each other"
        )
    return len(runs)


class AgentWorker(Member):
    """A worker on an agent's host. Its replies come by a queue, of which `fileno` tells."""

    def __init__(
        self,
        hub: Hub,
        peer: Peer,
        order: messages.Order,
        launch: LaunchId,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch = launch
        self._hub = hub
        self._peer = peer
        self._clock = clock
        self._replies = Replies()
        self._said = bytearray()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._over: messages.Over | None = None
        self._lost = ""
        self._begun_s = clock()
        self._timeout_s = _LONG_S
        self._is_closing = False
        self._reading, self._telling = os.pipe()
        self._has_told = False
        self._number = peer.next_number()
        peer.workers[self._number] = self
        peer.post(messages.Start(worker=self._number, order=order))
        if peer.why_lost:
            self.lost(peer.why_lost)

    def fileno(self) -> int:
        """The descriptor that can be read when there is something to receive."""
        return self._reading

    def said(self, content: bytes) -> None:
        """The thread of the hub: it has written this."""
        with self._lock:
            # Of what is too long for a reply the rest is not kept.
            if len(self._said) <= MOST_REPLY_BYTES:
                self._said += content
            self._tell()

    def over(self, over: messages.Over) -> None:
        """The thread of the hub: it has ended."""
        with self._lock:
            self._over = over
            self._tell()
        self._ended.set()

    def lost(self, why: str) -> None:
        """Any thread: nothing more will be known of it."""
        with self._lock:
            if self._over is None:
                self._lost = why
            self._tell()
        self._ended.set()

    def _tell(self) -> None:
        if not self._has_told and self._telling >= 0:
            self._has_told = True
            os.write(self._telling, b".")

    def allow(self, timeout_s: float) -> None:
        """Have the agent end everything if the next request takes much longer."""
        self._timeout_s = timeout_s + _DEADLINE_GRACE_S

    def send(self, request: Request | None) -> None:
        """Send `request` (None: just listen) without waiting; the reply is read by `received`."""
        self._begun_s = self._clock()
        self._replies.expect(request)
        line = request_line(request).decode().rstrip("\n") if request is not None else ""
        self._peer.post(messages.Send(worker=self._number, line=line, timeout_s=self._timeout_s))

    def received(self) -> Reply | Ended | None:
        """What it has said; an Ended once it is over, lost, or says what is no reply."""
        with self._lock:
            if self._has_told:
                os.read(self._reading, 1)
                self._has_told = False
            said = bytes(self._said)
            self._said.clear()
            if said and self._ended.is_set():
                # Its end is told next.
                self._tell()
        if not said:
            return self._end(None) if self._ended.is_set() else None
        try:
            return self._replies.add(said)
        except wire.WireError as error:
            return self._refused(str(error))

    def _refused(self, why: str) -> Ended:
        waited_s = self._clock() - self._begun_s
        self.kill()
        return replace(self._end(waited_s), exit_code=None, refused=why)

    def timed_out(self) -> Ended:
        """Have the worker print its stack into the log, then kill it."""
        waited_s = self._clock() - self._begun_s
        self._peer.post(messages.Stack(worker=self._number))
        self._wait()
        self.kill()
        return replace(self._end(waited_s), exit_code=None)

    def _end(self, waited_s: float | None) -> Ended:
        over = self._over
        if waited_s is None:
            waited_s = self._clock() - self._begun_s
            self._close_pipes()
        if over is None:
            return Ended(exit_code=None, log="", oom_kills=0, waited_s=waited_s, lost=self._lost)
        return Ended(
            exit_code=over.exit_code if over.by_itself else None,
            log=over.log,
            oom_kills=over.oom_kills,
            waited_s=waited_s,
        )

    def _wait(self) -> None:
        """Wait for its end. An agent that does not end it is taken for gone."""
        if not self._ended.wait(_END_S):
            self._hub.drop(self._peer, f"it does not end worker {self.launch}")

    def hang_up(self) -> None:
        """Close the channel, at which the worker exits by itself; does not wait for it."""
        if not self._is_closing:
            self._is_closing = True
            self._peer.post(messages.Close(worker=self._number))

    def close(self) -> bool:
        """Wait for the worker to exit; the agent kills it if it does not. Whether it exited."""
        self.hang_up()
        self._wait()
        self.kill()
        return self._over is not None and self._over.by_itself

    def interrupt(self) -> None:
        """Kill the process, from any thread; the thread that asks then sees its end."""
        if not self._ended.is_set():
            self._peer.post(messages.Kill(worker=self._number))

    def kill(self) -> None:
        """Kill the worker, with what it started, and wait for it."""
        self.interrupt()
        self._wait()
        self._peer.workers.pop(self._number, None)
        self._close_pipes()

    def _close_pipes(self) -> None:
        with self._lock:
            for descriptor in (self._reading, self._telling):
                if descriptor >= 0:
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
            self._reading = self._telling = -1
