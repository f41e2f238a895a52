"""Workers on hosts that agents run on: the members of a group are spread over them.

An agent is one that this session started itself, here or through ssh, and starts again if it is
gone; or one that somebody else started, and that is gone for good.
"""

from __future__ import annotations

import copy
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from busbw import locks
from busbw.driver.bundle import Bundle
from busbw.driver.local import BusyError, order_of
from busbw.driver.transport import (
    AgentGone,
    AgentsError,
    AgentsMissing,
    IncomparableHosts,
    Starter,
    Transport,
)
from busbw.model.cluster import Cluster, ClusterMember, members_of
from busbw.model.launch import LaunchId
from busbw.model.words import plural

from . import messages
from .handshake import address_text
from .hub import Hub, Timing
from .messages import ToAgent
from .peers import AgentWorker, Peer
from .starters import AgentStarter

_PORTS_S = 10.0
_LOCK_SOON_S = 2.0
_LOOK_S = 0.2
# Of a local agent that is started again.
_AGAIN_S = 60.0
# Addresses of connections that say nothing.
_MOST_NAMED = 5


class AgentsTransport(Transport):
    """Workers on hosts of `count` agents, started by `starter`, else by somebody else."""

    def __init__(
        self,
        bundle: Bundle,
        listening: socket.socket | None,
        secret: bytes,
        count: int,
        *,
        starter: AgentStarter | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._count = count
        self.hub = Hub(listening, secret, bundle.sources(), ranks=count, timing=timing)
        self._starter = starter
        self._ranks = tuple(range(count))
        self._locking: frozenset[int] = frozenset()

    def of(self, ranks: Sequence[int]) -> AgentsTransport:
        """The same, that starts workers on the hosts of these agents alone."""
        found = copy.copy(self)
        found._ranks = tuple(ranks)
        return found

    @property
    def names(self) -> list[str]:
        """Of the hosts, by rank; where several agents are on one, with the rank."""
        peers = [self.hub.peers[rank] for rank in range(self._count)]
        several = len({peer.host for peer in peers}) < len(peers)
        return [f"{peer.host}/{peer.rank}" if several else peer.host for peer in peers]

    def join(self, wait_s: float) -> None:
        """Raises IncomparableHosts, AgentGone, AgentsMissing; AgentsError for a name twice."""
        ranks = range(self._count)
        for rank in ranks:
            self._start(rank, wait_s)
        self._wait_for(ranks, wait_s, once=ranks if self._starter is not None else ())
        if self._starter is None or not self._starter.is_here:
            _check_names([self.hub.peers[rank] for rank in ranks])

    def lock(self, wait_s: float, say: Callable[[str], None] = lambda words: None) -> None:
        """Keep other sessions from measuring on the hosts of agents, but for this one's own host.

        Those that measure there are waited for, which `say` is told. Raises BusyError and
        AgentGone.
        """
        machines = {"": -1, locks.machine_identity(): -1}
        for rank in range(self._count):
            machines.setdefault(self._peer(rank).machine, rank)
        self._locking = frozenset(machines.values()) - {-1}
        for rank in sorted(self._locking):
            peer = self._peer(rank)
            if holder := self._lock(peer, wait_s, say):
                raise BusyError(
                    f"another session has been measuring on {peer.host} for {wait_s:g} s ({holder})"
                )

    def _lock(self, peer: Peer, wait_s: float, say: Callable[[str], None] | None = None) -> str:
        """Who holds it, if not us. Without `say` one that is stopped is not waited for."""
        hub, peer.locked = self.hub, None
        asked = messages.Lock(wait_s=wait_s, even_stopped=say is not None)
        peer.post(ToAgent.LOCK, messages.encoded(asked))
        say = say or (lambda words: None)
        with hub.changed:
            if not hub.changed.wait_for(lambda: peer.locked or peer.why_lost, _LOCK_SOON_S):
                say(f"another busbw session measures on {peer.host}; waiting for its end")
                hub.changed.wait_for(lambda: peer.locked or peer.why_lost, wait_s + _PORTS_S)
        if peer.locked is None:
            peer.drop("it does not lock its host")
            raise AgentGone(peer.why_lost)
        return peer.locked.why

    def _start(self, rank: int, wait_s: float) -> None:
        if self._starter is not None:
            self._starter.start(rank, lambda sock, first: self.hub.adopt(sock, first, wait_s))

    def close(self) -> None:
        try:
            self.hub.close()
        finally:
            if self._starter is not None:
                self._starter.close()

    def interpreter(self, starter: Starter) -> str:
        return order_of(starter, LaunchId()).python or "the Python of its agent"

    def cluster_members(self, cluster: Cluster) -> tuple[ClusterMember, ...]:
        """As many on each agent, in the order of ranks, with ports that are free there."""
        each = self._each(cluster.processes)
        peers = [self._peer(rank) for rank in self._ranks]
        addresses = [
            address_text(peer.address, port) for peer in peers for port in self._ports(peer, each)
        ]
        return members_of(cluster, addresses, _hosts([peer.host for peer in peers]))

    def start(
        self, starter: Starter, launch: LaunchId, member: ClusterMember | None
    ) -> AgentWorker:
        """A process on the host that the member belongs to; one by itself is on the first."""
        peer = self._peer(self._rank_of(member) if member is not None else self._ranks[0])
        here = self._starter is not None and self._starter.is_here
        order = order_of(starter, launch, member)
        return AgentWorker(peer, order, launch, host="" if here else peer.host)

    def _each(self, members: int) -> int:
        if members % len(self._ranks):
            words = f"{members} processes cannot be shared equally by {len(self._ranks)} agents"
            raise AgentsError(words)
        return members // len(self._ranks)

    def _rank_of(self, member: ClusterMember) -> int:
        return self._ranks[member.index // self._each(member.count)]

    def _peer(self, rank: int) -> Peer:
        """The agent of this rank. Raises AgentGone for one that is gone for good."""
        peer = self.hub.peers[rank]
        if not peer.why_lost:
            return peer
        if self._starter is None:
            raise AgentGone(peer.why_lost)
        self.hub.expect_again(rank)
        try:
            self._start(rank, _AGAIN_S)
            self._wait_for([rank], _AGAIN_S)
        except AgentsMissing as error:
            raise AgentGone(str(error)) from error
        found = self.hub.peers[rank]
        # The lock of its host ends with the one before, which may be stopped and still there.
        holder = self._lock(found, _AGAIN_S) if rank in self._locking else ""
        if holder and found.locked is not None:
            waited = ", which" if found.locked.is_stopped else f" for {_AGAIN_S:g} s, which"
            stopped = ", stopped by a signal," if found.locked.is_stopped else ""
            words = f"the next one cannot lock its host{waited} {holder}{stopped} holds"
            raise AgentGone(f"{peer.why_lost}; {words}")
        return found

    def _wait_for(self, ranks: Sequence[int], wait_s: float, once: Iterable[int] = ()) -> None:
        """Until these have joined; of those of `once` an agent that is lost is started again."""
        hub, end_s = self.hub, time.monotonic() + wait_s
        again = set(once)
        while True:
            with hub.changed:
                left, left_s = self._missing(ranks), end_s - time.monotonic()
                lost = self._lost(left)
                if not left or hub.incomparable or left_s <= 0 or set(lost) - again:
                    break
                if not lost:
                    hub.changed.wait(min(_LOOK_S, left_s))
            for rank in lost:
                again.discard(rank)
                hub.expect_again(rank)
                self._start(rank, left_s)
        if hub.incomparable:
            raise IncomparableHosts("; ".join(dict.fromkeys(hub.incomparable)))
        if gone := hub.broke_off(left):
            raise AgentGone("; ".join(peer.why_lost for peer in gone))
        if left:
            raise AgentsMissing(self._missing_words(left, wait_s))

    def _missing(self, ranks: Iterable[int]) -> list[int]:
        return [rank for rank in ranks if not self.is_ready(rank)]

    def _lost(self, ranks: Sequence[int]) -> list[int]:
        """Those that joined and are gone, or that this session started and that have ended."""
        gone = {peer.rank for peer in self.hub.broke_off(ranks)}
        ended = self._starter.ended if self._starter is not None else lambda ranks: False
        return [rank for rank in ranks if rank in gone or ended([rank])]

    def is_ready(self, rank: int) -> bool:
        peer = self.hub.peers.get(rank)
        return peer is not None and peer.is_ready and not peer.why_lost

    def _missing_words(self, ranks: Sequence[int], wait_s: float) -> str:
        if self._starter is not None:
            waited = "" if self._starter.ended(ranks) else f"; it was waited for {wait_s:g} s"
            return f"an agent did not start on {self._starter.why(ranks)}{waited}"
        joined = dict(self.hub.peers)
        without = f"joined, but did not say within {wait_s:g} s that it has the session's files"
        found = [f"{joined[rank].name} {without}" for rank in ranks if rank in joined]
        absent = [rank for rank in ranks if rank not in joined]
        return "; ".join([*found, self._absent_words(absent, wait_s)] if absent else found)

    def _absent_words(self, ranks: Sequence[int], wait_s: float) -> str:
        words = "rank " if len(ranks) == 1 else "ranks "
        words += ", ".join(map(str, ranks))
        words = f"of {self._count} agents {words} did not join within {wait_s:g} s; "
        for address, count in self.hub.silent().most_common(_MOST_NAMED):
            words += f"{plural(count, 'connection')} from {address} said nothing or broke off; "
        if self.hub.unproven:
            connections = plural(self.hub.unproven, "connection")
            return f"{words}{connections} did not prove that they know the secret"
        return (
            f"{words}did you start `python -m busbw agent`, or `python -m busbw run` by a "
            "launcher, on every host?"
        )

    def _ports(self, peer: Peer, count: int) -> tuple[int, ...]:
        hub = self.hub
        peer.ports.clear()
        peer.post(ToAgent.FIND_PORTS, messages.encoded(count))
        with hub.changed:
            hub.changed.wait_for(lambda: peer.ports or peer.why_lost, _PORTS_S)
            found = peer.ports.popleft() if peer.ports else messages.Ports()
        if found.why:
            raise AgentsError(f"{peer.host}: {found.why}")
        if len(found.numbers) != count:
            peer.drop("it names no free ports")
            raise AgentGone(peer.why_lost)
        return found.numbers


def _check_names(peers: Sequence[Peer]) -> None:
    """Raises AgentsError if a machine has two names, and would be taken for two hosts."""
    first: dict[str, Peer] = {}
    for peer in peers:
        other = first.setdefault(peer.machine, peer) if peer.machine else peer
        if other.host != peer.host:
            raise AgentsError(
                f"{other.host} (rank {other.rank}) and {peer.host} (rank {peer.rank}) are the same "
                "machine, which would count as two hosts; accepted is one name for each host"
            )


def _hosts(names: Sequence[str]) -> int:
    """How many hosts there are; as many agents are on each, one host after the other."""
    runs = [(name, len(list(agents))) for name, agents in groupby(names)]
    if len({name for name, _ in runs}) < len(runs) or len({count for _, count in runs}) > 1:
        raise AgentsError(
            f"the agents are on {', '.join(names)}, by rank; accepted are as many on each host, "
            "with ranks that follow each other"
        )
    return len(runs)
