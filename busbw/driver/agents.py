"""Workers on hosts that agents run on: the members of a group are spread over them.

An agent is one that this session started itself, on this host, and starts again if it is gone; or
one that somebody started elsewhere, and that is gone for good.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from itertools import groupby

from busbw.agent import messages
from busbw.agent.addresses import address_text
from busbw.model import Cluster, ClusterMember, LaunchId, plural

from .agent_worker import AgentWorker
from .bundle import Bundle
from .hub import Hub, Peer, Timing
from .local import order_of
from .local_agents import LocalAgents
from .transport import Starter, Transport

_PORTS_S = 10.0
# Of a local agent that is started again.
_AGAIN_S = 60.0


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
            left, differ, unproven = missing(), list(hub.incomparable), hub.unproven
        if differ:
            raise IncomparableHosts("; ".join(dict.fromkeys(differ)))
        if left:
            raise AgentsMissing(self._missing_words(left, wait_s, unproven))

    def is_ready(self, rank: int) -> bool:
        """Whether the agent of this rank has joined, and has the files that workers run."""
        peer = self.hub.peers.get(rank)
        return peer is not None and peer.is_ready and not peer.why_lost

    def _missing_words(self, ranks: Sequence[int], wait_s: float, unproven: int) -> str:
        words = "rank " if len(ranks) == 1 else "ranks "
        words += ", ".join(map(str, ranks))
        if self._local is not None:
            return f"an agent of this host did not start ({words}): {self._local.why(ranks[0])}"
        words = f"of {self._count} agents {words} did not join within {wait_s:g} s; "
        if unproven:
            connections = plural(unproven, "connection")
            return f"{words}{connections} did not prove that they know the secret"
        return (
            f"{words}did you start `python -m busbw agent`, or `python -m busbw run` by a "
            "launcher, on every host?"
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
