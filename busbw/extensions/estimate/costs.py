"""What each method of synchronizing gradients moves over which links, and how long that takes.

Ranks follow each other host by host. A host has one link to the others, which its ranks share. S is
`payload_bytes`, n the ranks, h the hosts, g the ranks of a host, k the parameter servers, a the
latency of a step, b the bandwidth of one direction; docs/studies.md has all formulas.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Level(enum.StrEnum):
    """The links inside a host, or the one link of a host to the others."""

    INTRA = "intra"
    INTER = "inter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link: `bytes_per_s` in each direction at the same time, `latency_s` of each step."""

    name: str
    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """Bytes of the busiest end of a link in its busier direction, moved in `steps` one by one."""

    steps: int
    moved_bytes: float

    def seconds(self, link: Link) -> float:
        """Return steps x latency + bytes / bandwidth.

        R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.
        """
        return self.steps * link.latency_s + self.moved_bytes / link.bytes_per_s


Links = Mapping[Level, Link]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The flows of each level, at the same time unless they are `sequential`.

    `sent_bytes` is what the busiest rank sends; it receives as much. `server_bytes` is what a
    parameter server receives, and then sends; None without servers.
    """

    flows: Mapping[Level, Flow]
    sent_bytes: float
    server_bytes: float | None = None
    sequential: bool = False

    def seconds(self, links: Links) -> float:
        """Return the time over `links`, which have all levels of the flows."""
        times_s = self._times_s(links).values()
        return sum(times_s) if self.sequential else max(times_s)

    def bottleneck(self, links: Links) -> Level:
        """Return the level that takes the most time."""
        times_s = self._times_s(links)
        return max(times_s, key=lambda level: times_s[level])

    def needed_bytes_per_s(self, links: Links, limit_s: float) -> float | None:
        """Return the bandwidth of the bottleneck that `limit_s` needs; None if none suffices."""
        times_s, level = self._times_s(links), self.bottleneck(links)
        del times_s[level]
        if not self.sequential and max(times_s.values(), default=0.0) > limit_s:
            return None
        used_s = self.flows[level].steps * links[level].latency_s
        used_s += sum(times_s.values()) if self.sequential else 0.0
        return self.flows[level].moved_bytes / (limit_s - used_s) if used_s < limit_s else None

    def _times_s(self, links: Links) -> dict[Level, float]:
        return {level: flow.seconds(links[level]) for level, flow in self.flows.items()}


def ring(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Cost a reduce-scatter and an all-gather of S/n a step: t = 2(n-1) a + 2(n-1)/n S/b.

    Of the ranks of a host one sends to another host and one receives, so that the link of the host
    carries as much as that of a rank, at the same time. No algorithm that adds on ranks can send
    less: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", JPDC 69, 2009. "tensorflow分布式" has 2(N-1) K/N bytes and 2D(n-1)/(nS) seconds.
    """
    sent_bytes = 2 * (ranks - 1) / ranks * payload_bytes
    flow = Flow(steps=2 * (ranks - 1), moved_bytes=sent_bytes)
    levels = [Level.INTRA] * (ranks > hosts) + [Level.INTER] * (hosts > 1)
    return Cost(flows=dict.fromkeys(levels, flow), sent_bytes=sent_bytes)


def naive_ring(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Cost 2(n-1) messages of S bytes one after another: t = 2(n-1) (a + S/b).

    The sum grows along the ring and goes around once more; only one link is busy at a time.
    "Tensorflow Strategies on parallel computing" counts one of the two passes.
    """
    # The way back goes from the last rank to the first, and ends before the last rank.
    between = 0 if hosts == 1 else 2 * (hosts - 1) + (ranks > hosts)
    steps = {Level.INTRA: 2 * (ranks - 1) - between, Level.INTER: between}
    return Cost(
        flows={
            level: Flow(steps=count, moved_bytes=count * payload_bytes)
            for level, count in steps.items()
            if count
        },
        sent_bytes=payload_bytes if ranks == 2 else 2 * payload_bytes,
        sequential=True,
    )


def dedicated_servers(payload_bytes: float, ranks: int, hosts: int, servers: int) -> Cost:
    """Cost servers with links of their own: t = 2 a + 2 max(S, n S/k) / b in one host.

    Over several hosts each server is a host, and the workers of a host share its link.
    "placement的估计": 61.5 M gradients of 8 workers are 492 M values into a server and out of it.
    """
    server_bytes = ranks * payload_bytes / servers
    level, workers = (Level.INTRA, 1) if hosts == 1 else (Level.INTER, ranks // hosts)
    flow = Flow(steps=2, moved_bytes=2 * max(workers * payload_bytes, server_bytes))
    return Cost(flows={level: flow}, sent_bytes=payload_bytes, server_bytes=server_bytes)


def colocated_servers(payload_bytes: float, ranks: int, hosts: int, servers: int) -> Cost:
    """Cost servers on k of the workers' ranks, spread evenly: with k = n as a ring, but t = 2 a.

    What a worker pushes to the server on its rank stays there: "placement的估计" has 4 x 7/8 x S
    for both directions of 8 machines together. Pulling is pushing backwards.
    """
    share_bytes, per_host = payload_bytes / servers, ranks // hosts
    moved_bytes: dict[Level, float] = {}
    for count in {servers // hosts, -(-servers // hosts)}:
        held_bytes = count * share_bytes
        if count and per_host > 1:
            # A rank with a server pushes to the other servers of its host alone.
            out_bytes = held_bytes if count < per_host else held_bytes - share_bytes
            busier_bytes = max(out_bytes, (per_host - 1) * share_bytes)
            moved_bytes[Level.INTRA] = max(busier_bytes, moved_bytes.get(Level.INTRA, 0.0))
        if hosts > 1:
            out_bytes = per_host * (payload_bytes - held_bytes)
            busier_bytes = max(out_bytes, (ranks - per_host) * held_bytes)
            moved_bytes[Level.INTER] = max(busier_bytes, moved_bytes.get(Level.INTER, 0.0))
    return Cost(
        flows={
            level: Flow(steps=2, moved_bytes=2 * push_bytes)
            for level, push_bytes in moved_bytes.items()
        },
        # The busiest rank pushes as a worker and answers as a server.
        sent_bytes=payload_bytes + (ranks - 2) * share_bytes,
        server_bytes=(ranks - 1) * share_bytes,
    )
