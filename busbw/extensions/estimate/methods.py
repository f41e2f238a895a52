"""Ways to synchronise gradients, as messages over links, and a training step that does.

Ranks follow each other host by host; a host has one link to the others, which its ranks share. S
is `payload_bytes`, n the ranks, w the workers, h the hosts, g the ranks of a host, k the servers, a
the latency of a step, b the bandwidth of one direction; docs/studies.md has all formulas.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Level(enum.StrEnum):
    """Which links a message goes over: those inside a host, or the one link of a host to others."""

    INTRA = "intra"
    INTER = "inter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link's end: `bytes_per_s` in one direction, and `latency_s`, what each step over it costs.

    With `full_duplex` both directions have the bandwidth at the same time, without they share it.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    full_duplex: bool = True


Links = Mapping[Level, Link]


class Flow(NamedTuple):
    """What one end of a link of `level` sends and takes, in `steps` steps one after another."""

    level: Level
    steps: int
    out_bytes: float
    in_bytes: float

    def seconds(self, link: Link) -> float:
        """Steps x latency + bytes / bandwidth; the fuller direction decides, or they take turns.

        R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.
        """
        both = max if link.full_duplex else sum
        moved_bytes = both((self.out_bytes, self.in_bytes))
        return self.steps * link.latency_s + moved_bytes / link.bytes_per_s


# Flows at the same time, those of the ends that have the most to do: the slowest decides.
Part = tuple[Flow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Parts one after another. `sent_bytes` is what the busiest rank sends; it takes as much.

    `server_bytes` is what a parameter server takes, and then sends; None where there is none.
    """

    parts: tuple[Part, ...]
    sent_bytes: float
    server_bytes: float | None = None

    @property
    def levels(self) -> frozenset[Level]:
        """The levels of the links that are needed."""
        return frozenset(flow.level for part in self.parts for flow in part)

    @property
    def steps(self) -> int:
        """How many messages have to follow each other."""
        return sum(max(flow.steps for flow in part) for part in self.parts)

    def seconds(self, links: Links) -> float:
        """The time over `links`, which hold all `levels`."""
        return sum(self._spent(links).values())

    def bottleneck(self, links: Links) -> Level:
        """The level whose links take most of the time."""
        spent = self._spent(links)
        return max(spent, key=lambda level: spent[level])

    def _spent(self, links: Links) -> dict[Level, float]:
        spent = dict.fromkeys(sorted(self.levels), 0.0)
        for part in self.parts:
            seconds, level = max((one.seconds(links[one.level]), one.level) for one in part)
            spent[level] += seconds
        return spent


class UnsupportedLayoutError(ValueError):
    """Ranks that cannot be laid out so, or a method that is not defined for the layout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """`ranks` spread evenly over `hosts`; raises UnsupportedLayoutError where that cannot be."""

    ranks: int
    hosts: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise UnsupportedLayoutError(
                f"{self.ranks} ranks have nothing to exchange; expected two or more"
            )
        if self.hosts < 1 or self.ranks % self.hosts:
            raise UnsupportedLayoutError(
                f"{self.ranks} ranks cannot be spread evenly over {self.hosts} hosts"
            )

    @property
    def per_host(self) -> int:
        return self.ranks // self.hosts

    @property
    def sizes(self) -> tuple[tuple[Level, int], ...]:
        """How many ranks of a host, and how many hosts, where there are several."""
        both = ((Level.INTRA, self.per_host), (Level.INTER, self.hosts))
        return tuple((level, size) for level, size in both if size > 1)


Method = Callable[[float, Layout], Cost]


def ring(payload_bytes: float, layout: Layout) -> Cost:
    """A reduce-scatter and an all-gather, (n-1) steps of S/n: t = 2(n-1) a + 2(n-1)/n S/b.

    Of a host's ranks one sends to another host and one takes, so that the host's link carries as
    much as a rank's, at the same time. No algorithm that adds up on ranks can send less. P.
    Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
    JPDC 69, 2009. "tensorflow分布式" gives 2(N-1) K/N bytes and 2D(n-1)/(nS) seconds.
    """
    n = layout.ranks
    half_bytes = (n - 1) / n * payload_bytes
    half = tuple(Flow(level, n - 1, half_bytes, half_bytes) for level, _ in layout.sizes)
    return Cost(parts=(half, half), sent_bytes=2 * half_bytes)


def naive_ring(payload_bytes: float, layout: Layout) -> Cost:
    """2(n-1) messages of S bytes one after another: t = 2(n-1) (a + S/b).

    The sum grows along the ring and goes round once more; only one link is busy at a time.
    """
    n, hosts = layout.ranks, layout.hosts
    # Forth: h-1 changes of host. Back: from the last rank to the first, then as before, but the
    # last rank has it already.
    changes = 0 if hosts == 1 else 2 * (hosts - 1) + (layout.per_host > 1)
    counts = ((Level.INTRA, 2 * (n - 1) - changes), (Level.INTER, changes))
    return Cost(
        parts=tuple((Flow(level, k, k * payload_bytes, 0.0),) for level, k in counts if k),
        sent_bytes=payload_bytes if n == 2 else 2 * payload_bytes,
    )


def halving_doubling(payload_bytes: float, layout: Layout) -> Cost:
    """Recursive halving and doubling: t = 2 log2(n) a + 2(n-1)/n S/b for n a power of two.

    With n = p + r, p the power of two below, r ranks first give their S to a partner and get the
    sum from it at last. Over hosts the nearest exchange first; both g and h must be powers of two,
    else UnsupportedLayoutError. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
    communication operations in MPICH", IJHPCA 19, 2005.
    """
    n, hosts = layout.ranks, layout.hosts
    power = 1 << (n.bit_length() - 1)
    if hosts > 1 and power != n:
        both = f"{hosts} hosts of {layout.per_host} ranks"
        raise UnsupportedLayoutError(
            f"halving-doubling all-reduce: {both} are not both powers of two"
        )
    there: list[Part] = []
    for level, size in layout.sizes if hosts > 1 else ((Level.INTRA, power),):
        moved_bytes = (size - 1) / size * payload_bytes
        there.append((Flow(level, size.bit_length() - 1, moved_bytes, moved_bytes),))
    sent_bytes = 2 * (power - 1) / power * payload_bytes
    if power == n:
        return Cost(parts=(*there, *reversed(there)), sent_bytes=sent_bytes)
    give = (Flow(Level.INTRA, 1, payload_bytes, 0.0),)
    return Cost(parts=(give, *there, *there, give), sent_bytes=sent_bytes + payload_bytes)


def tree(payload_bytes: float, layout: Layout) -> Cost:
    """A binomial tree up and down: t = 2 ceil(log2 n) (a + S/b).

    Over hosts a tree inside each, then one of the hosts. "tensorflow分布式" has the depth.
    """
    depths = [(level, math.ceil(math.log2(size))) for level, size in layout.sizes]
    up = [(Flow(level, depth, 0.0, depth * payload_bytes),) for level, depth in depths]
    down = [(Flow(level, d, d * payload_bytes, 0.0),) for level, d in reversed(depths)]
    return Cost(parts=(*up, *down), sent_bytes=payload_bytes * sum(depth for _, depth in depths))


def hierarchical(payload_bytes: float, layout: Layout) -> Cost:
    """Reduce-scatter inside hosts, all-reduce between them, all-gather inside.

    Between hosts all g rings of the k-th ranks share a host's one link. N. Mikami et al.,
    "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018, by rings.
    """
    parts: dict[Level, Part] = {}
    for level, size in layout.sizes:
        steps = (size - 1) * (2 if level is Level.INTER else 1)
        moved_bytes = steps / size * payload_bytes
        parts[level] = (Flow(level, steps, moved_bytes, moved_bytes),)
    inside = [part for level, part in parts.items() if level is Level.INTRA]
    sent_bytes = 2 * (layout.ranks - 1) / layout.ranks * payload_bytes
    return Cost(parts=(*parts.values(), *inside), sent_bytes=sent_bytes)


METHODS: Mapping[str, Method] = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "hierarchical": hierarchical,
    "tree": tree,
    "naive ring": naive_ring,
}


def dedicated(payload_bytes: float, layout: Layout, servers: int) -> Cost:
    """Servers with links of their own: t = 2 a + 2 max(S, w S/k) / b in one host.

    Spread over hosts, each server is a host, and the workers of a host share its link.
    "placement的估计": 61.5 M gradients of 8 workers are 492 M values into a server and out of it.
    """
    server_bytes = layout.ranks * payload_bytes / servers
    level = Level.INTRA if layout.hosts == 1 else Level.INTER
    together = 1 if layout.hosts == 1 else layout.per_host
    push = (Flow(level, 1, together * payload_bytes, 0.0), Flow(level, 1, 0.0, server_bytes))
    return _pushed(push, payload_bytes, server_bytes)


def colocated(payload_bytes: float, layout: Layout, servers: int) -> Cost:
    """Servers next to workers, on k of the w ranks: with k = w, t = 2 a + 2(w-1)/w S/b.

    What a worker pushes to the server on its own rank stays: with k = w both directions together
    are the 4 x 7/8 x S of 8 machines in "placement的估计". Over hosts, servers are spread evenly.
    """
    if servers > layout.ranks:
        raise UnsupportedLayoutError(f"{servers} servers beside fewer workers")
    workers, share_bytes = layout.ranks, payload_bytes / servers
    push = tuple(
        flow
        for count in {servers // layout.hosts, -(-servers // layout.hosts)}
        for flow in _of_host(payload_bytes, layout, share_bytes=share_bytes, count=count)
    )
    # Pushing as a worker and pulled from as a server; a rank without a server sends S.
    sent_bytes = payload_bytes + (workers - 2) * share_bytes
    return _pushed(push, sent_bytes, (workers - 1) * share_bytes)


def _of_host(payload_bytes: float, layout: Layout, *, share_bytes: float, count: int) -> list[Flow]:
    """Pushing: the flows of a host with `count` servers, which may be none."""
    per_host, held_bytes = layout.per_host, count * share_bytes
    flows = []
    if count and per_host > 1:
        out_bytes, in_bytes = held_bytes - share_bytes, (per_host - 1) * share_bytes
        flows.append(Flow(Level.INTRA, 1, out_bytes, in_bytes))
    if 0 < count < per_host:
        flows.append(Flow(Level.INTRA, 1, held_bytes, 0.0))
    if layout.hosts > 1:
        in_bytes = (layout.ranks - per_host) * held_bytes
        out_bytes = per_host * (payload_bytes - held_bytes)
        flows.append(Flow(Level.INTER, 1, out_bytes, in_bytes))
    return flows


def _pushed(push: Part, sent_bytes: float, server_bytes: float) -> Cost:
    """Pushing and then pulling, the same messages backwards."""
    pull = tuple(Flow(one.level, one.steps, one.in_bytes, one.out_bytes) for one in push)
    return Cost(parts=(push, pull), sent_bytes=sent_bytes, server_bytes=server_bytes)


Seconds = Callable[[float], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStep:
    """One step: `buckets` are bytes in the order of sending, none where all go at once.

    `compute_s` is None where it was not said. `overlap` is the share of the computing, 0 to 1, at
    the end of which gradients are ready to be sent while the rest is computed: the backward pass.
    """

    payload_bytes: float
    buckets: tuple[float, ...] = ()
    compute_s: float | None = None
    overlap: float = 0.0

    def communication_s(self, seconds_of: Seconds) -> float:
        return sum(map(seconds_of, self.buckets)) or seconds_of(self.payload_bytes)

    def step_s(self, seconds_of: Seconds) -> float:
        """Tp = Ts + max(0, Tt - overlap x Ts): what could not be done meanwhile comes on top.

        A bucket is sent when it is full and the one before has gone (S. Li et al., "PyTorch
        distributed", VLDB 2020, section 3.2.3). There must be a `compute_s`.
        """
        assert self.compute_s is not None
        if not self.buckets:
            hidden_s = self.overlap * self.compute_s
            return self.compute_s + max(0.0, seconds_of(self.payload_bytes) - hidden_s)
        # Most buckets are alike.
        seconds_of = functools.cache(seconds_of)
        whole_bytes = math.fsum(self.buckets)
        made_bytes = free_s = 0.0
        for bucket in self.buckets:
            made_bytes += bucket
            ready_s = self.compute_s * (1 - self.overlap * (1 - made_bytes / whole_bytes))
            free_s = max(free_s, ready_s) + seconds_of(bucket)
        return free_s


def buckets_of(gradients: Sequence[float], bucket_bytes: float) -> tuple[float, ...]:
    """Bytes of each bucket that is reduced at once, in the order in which they are full.

    `gradients` are tensors in the order of the forward pass, and made from the last to the first.
    A tensor is not cut, as in PyTorch; one alone stands for tensors that are not known, and is.
    """
    if len(gradients) == 1:
        count, rest_bytes = divmod(gradients[0], bucket_bytes)
        return (bucket_bytes,) * int(count) + ((rest_bytes,) if rest_bytes else ())
    full, held_bytes = [], 0.0
    for gradient in reversed(gradients):
        held_bytes += gradient
        if held_bytes >= bucket_bytes:
            full.append(held_bytes)
            held_bytes = 0.0
    return (*full, held_bytes) if held_bytes else tuple(full)
