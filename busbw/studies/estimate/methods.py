"""Ways to synchronise gradients: all-reduce by algorithm, and synchronous parameter servers.

Each function says which messages follow each other, over which links, and derives the formula.
Ranks are spread evenly over hosts and follow each other host by host (`Layout`); a host has one
link to the others, which its ranks share. What adding up costs is left out. S is `payload_bytes`,
n the ranks, w the workers, h the hosts, g = n/h or w/h the ranks of a host, k the servers, a the
latency of a step, b the bandwidth of one direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from .cost import Cost, Flow, Layout, Level, Part, one_flow

Method = Callable[[float, Layout], Cost]


class UnsupportedLayoutError(ValueError):
    """The method is not defined for this layout; the message says why."""


def reduce_scatter(payload_bytes: float, layout: Layout) -> Cost:
    """By a ring, (n-1) steps of S/n bytes: each rank sends and takes (n-1)/n S.

    For each n-th of the payload a partial sum has to leave n-1 ranks. In a ring each rank passes
    on, in each step, the partial sum that it just added its own part to; after n-1 steps each
    rank holds one complete sum. `payload_bytes` is what each rank begins with. Source: P. Patarasuk
    and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of
    Parallel and Distributed Computing 69, 2009.

    Ranks follow each other host by host, so that one of a host's ranks sends to another host and
    one takes from another: the host's link carries as much as a rank's. All links are used in each
    step, and the slower level decides.
    """
    n = layout.ranks
    sent_bytes = (n - 1) / n * payload_bytes
    levels = [Level.INTRA] if layout.per_host > 1 else []
    levels += [Level.INTER] if layout.hosts > 1 else []
    flows = tuple(
        Flow(level=level, steps=n - 1, out_bytes=sent_bytes, in_bytes=sent_bytes)
        for level in levels
    )
    return Cost(parts=(Part(flows=flows),), sent_bytes=sent_bytes)


def all_gather(payload_bytes: float, layout: Layout) -> Cost:
    """By a ring, the steps of `reduce_scatter` without the adding up.

    Each rank lacks n-1 parts of S/n and has to take them; in a ring it passes on in each step the
    part that it took in the one before. `payload_bytes` is what each rank ends with.
    """
    return reduce_scatter(payload_bytes, layout)


def naive_ring(payload_bytes: float, layout: Layout) -> Cost:
    """2(n-1) messages of S bytes one after another: t = 2(n-1) (a + S/b).

    The sum grows from rank to rank along the ring (n-1 messages) and the finished sum goes round
    once more (n-1 messages); only one link is busy at a time. "Tensorflow Strategies on parallel
    computing" gives m d/b for it, m ranks and d bytes: that leaves one of two passes out, and is
    `naive_ring_rule_s` here. Of 2(n-1) messages those that change hosts go over the hosts' links.
    """
    n, hosts, per_host = layout.ranks, layout.hosts, layout.per_host
    # Forth: h-1 changes of host. Back: from the last rank to the first, then as before, but the
    # last rank has it already.
    changes = 0 if hosts == 1 else 2 * (hosts - 1) + (per_host > 1)
    stays = 2 * (n - 1) - changes
    counts = ((Level.INTRA, stays), (Level.INTER, changes))
    return Cost(
        parts=tuple(
            one_flow(level, steps=count, sent_bytes=count * payload_bytes, taken_bytes=0.0)
            for level, count in counts
            if count
        ),
        sent_bytes=payload_bytes if n == 2 else 2 * payload_bytes,
    )


def ring(payload_bytes: float, layout: Layout) -> Cost:
    """2(n-1) steps of S/n bytes on all links at once: t = 2(n-1) a + 2(n-1)/n S/b.

    A reduce-scatter and an all-gather. No algorithm that adds up on ranks can send less: n-1
    partial sums of each n-th must leave a rank, and n-1 ranks must be told the sum. Source:
    Patarasuk and Yuan, 2009 (`reduce_scatter`); "tensorflow分布式" gives the bytes as 2(N-1) K/N
    and the time as 2D(n-1)/(nS).
    """
    scattered, gathered = reduce_scatter(payload_bytes, layout), all_gather(payload_bytes, layout)
    return Cost(
        parts=scattered.parts + gathered.parts,
        sent_bytes=scattered.sent_bytes + gathered.sent_bytes,
    )


def halving_doubling(payload_bytes: float, layout: Layout) -> Cost:
    """Recursive halving and doubling: t = 2 log2(n) a + 2(n-1)/n S/b for n a power of two.

    Ranks exchange S/2 with a neighbour, S/4 with the next pair, and so on until each has the sum
    of S/n: log2(n) steps, S/2 + S/4 + ... = (n-1)/n S bytes each way. The same backwards gathers
    the sums. With n = p + r, p the power of two below, r ranks first give their S to a partner and
    get the sum from it at last: 2 steps and 2 S/b more, which are not at the same time as the rest.

    Over hosts the nearest exchange first, so that what goes between hosts is smallest: inside
    (g-1)/g S, then S/g of each rank between hosts, (h-1)/h S for a host's link, each way and twice.
    Both g and h must be powers of two, else UnsupportedLayoutError. Source: R. Thakur, R.
    Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
    International Journal of High Performance Computing Applications 19, 2005.
    """
    n, hosts, per_host = layout.ranks, layout.hosts, layout.per_host
    if hosts == 1:
        return _folded(payload_bytes, n)
    if hosts & (hosts - 1) or per_host & (per_host - 1):
        raise UnsupportedLayoutError(
            f"{hosts} hosts of {per_host} ranks are not both powers of two"
        )
    parts = [
        _exchange(level, size, payload_bytes)
        for level, size in ((Level.INTRA, per_host), (Level.INTER, hosts))
        if size > 1
    ]
    return Cost(parts=(*parts, *reversed(parts)), sent_bytes=2 * (n - 1) / n * payload_bytes)


def _folded(payload_bytes: float, n: int) -> Cost:
    power = 1 << (n.bit_length() - 1)
    exchange = _exchange(Level.INTRA, power, payload_bytes)
    sent_bytes = 2 * (power - 1) / power * payload_bytes
    if power == n:
        return Cost(parts=(exchange, exchange), sent_bytes=sent_bytes)
    give = one_flow(Level.INTRA, steps=1, sent_bytes=payload_bytes, taken_bytes=0.0)
    return Cost(parts=(give, exchange, exchange, give), sent_bytes=sent_bytes + payload_bytes)


def _exchange(level: Level, size: int, payload_bytes: float) -> Part:
    """One way, halving or doubling, among `size` that have `payload_bytes` each."""
    moved_bytes = (size - 1) / size * payload_bytes
    steps = size.bit_length() - 1
    return one_flow(level, steps=steps, sent_bytes=moved_bytes, taken_bytes=moved_bytes)


def tree(payload_bytes: float, layout: Layout) -> Cost:
    """A binomial tree up and down: t = 2 ceil(log2 n) (a + S/b).

    In each step half of the ranks that still have a sum give it to the other half, S bytes, until
    one has all: ceil(log2 n) steps. The same backwards tells the others. Few steps but whole
    payloads: for small ones. Over hosts, a tree inside each, then one of the hosts. Source: Thakur,
    Rabenseifner, Gropp, 2005 (`halving_doubling`), reduce followed by broadcast; "tensorflow分布式"
    shows the tree and its depth of log2 n.
    """
    levels = ((Level.INTRA, layout.per_host), (Level.INTER, layout.hosts))
    depths = [(level, math.ceil(math.log2(size))) for level, size in levels if size > 1]
    up = [
        one_flow(level, steps=depth, sent_bytes=0.0, taken_bytes=depth * payload_bytes)
        for level, depth in depths
    ]
    down = [
        one_flow(level, steps=depth, sent_bytes=depth * payload_bytes, taken_bytes=0.0)
        for level, depth in reversed(depths)
    ]
    return Cost(parts=(*up, *down), sent_bytes=payload_bytes * sum(depth for _, depth in depths))


def hierarchical(payload_bytes: float, layout: Layout) -> Cost:
    """Two levels: reduce-scatter inside hosts, all-reduce between them, all-gather inside.

    t = 2(g-1) a + 2(g-1)/g S/b inside, and 2(h-1) a' + 2(h-1)/h S/b' between hosts.

    After the rings inside, each rank has the host's sum of S/g. The k-th ranks of all hosts then
    sum theirs in a ring, all g rings at once over the host's one link: g x 2(h-1)/h S/g bytes. A
    rank sends 2(g-1)/g S + 2(h-1)/h S/g = 2(n-1)/n S, as little as in one ring of all. With one
    host, and with one rank a host, it is that ring. Source: the "2D" all-reduce of N. Mikami et
    al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018, by rings.
    """
    n, hosts, per_host = layout.ranks, layout.hosts, layout.per_host
    inside: tuple[Part, ...] = ()
    if per_host > 1:
        inside = reduce_scatter(payload_bytes, Layout(ranks=per_host)).parts
    between: tuple[Part, ...] = ()
    if hosts > 1:
        moved_bytes, steps = 2 * (hosts - 1) / hosts * payload_bytes, 2 * (hosts - 1)
        between = (
            one_flow(Level.INTER, steps=steps, sent_bytes=moved_bytes, taken_bytes=moved_bytes),
        )
    # The all-gather has the messages of the reduce-scatter.
    return Cost(parts=(*inside, *between, *inside), sent_bytes=2 * (n - 1) / n * payload_bytes)


METHODS: Mapping[str, Method] = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "hierarchical": hierarchical,
    "tree": tree,
    "naive ring": naive_ring,
}


def naive_ring_rule_s(payload_bytes: float, ranks: int, bytes_per_s: float) -> float:
    """The rule m d/b of "Tensorflow Strategies on parallel computing" for the naive ring.

    Counted out it is 2(m-1) d/b: the same for two ranks, up to twice as long for many.
    """
    return ranks * payload_bytes / bytes_per_s


def ring_rule_s(payload_bytes: float, bytes_per_s: float) -> float:
    """The rule d/b of the same document for the ring: an m-th of m d/b, as when counted out."""
    return payload_bytes / bytes_per_s


def dedicated(payload_bytes: float, layout: Layout, servers: int) -> Cost:
    """Servers with links of their own: t = 2 a + 2 max(S, w S/k) / b in one host.

    Each worker sends S and takes S. Each server takes w S/k and sends as much, so that with fewer
    servers than workers their links decide. Spread over hosts, each server is a host of its own,
    and the workers of a host share its link: 2 max(g S, w S/k) / b. Both directions are used one
    after the other, so full duplex gains nothing. Source: "placement的估计", whose 61.5 M gradients
    of 8 workers are 492 M values into a server and 492 M out of it; M. Li et al., "Scaling
    distributed machine learning with the parameter server", OSDI 2014.
    """
    _check_servers(servers)
    workers = layout.ranks
    server_bytes = workers * payload_bytes / servers
    level = Level.INTRA if layout.hosts == 1 else Level.INTER
    together = 1 if layout.hosts == 1 else layout.per_host
    push = [
        Flow(level=level, steps=1, out_bytes=together * payload_bytes, in_bytes=0.0),
        Flow(level=level, steps=1, out_bytes=0.0, in_bytes=server_bytes),
    ]
    return Cost(parts=_there_and_back(push), sent_bytes=payload_bytes, server_bytes=server_bytes)


def colocated(payload_bytes: float, layout: Layout, servers: int) -> Cost:
    """Servers next to workers, on k of the w ranks: with k = w, t = 2 a + 2(w-1)/w S/b.

    What a worker pushes to the server on its own rank stays. Such a rank sends (k-1)/k S as a
    worker and takes (w-1) S/k as a server, at the same time, and the reverse when pulling: with
    k = w that is 2(w-1)/w S each way, as much as a ring moves, and both directions together are
    the 4 x 7/8 x S of 8 machines in "placement的估计". A rank without a server sends S.

    Over hosts, servers are spread as evenly as it goes. A host with c of them sends
    g S (1 - c/k) and takes (w-g) S c/k over its link; inside, its servers take (g-1) S/k each.
    """
    _check_servers(servers)
    if servers > layout.ranks:
        raise ValueError(f"{servers} servers cannot each be beside one of {layout.ranks} workers")
    workers, share_bytes = layout.ranks, payload_bytes / servers
    push = [
        flow
        for count in {servers // layout.hosts, -(-servers // layout.hosts)}
        for flow in _of_host(payload_bytes, layout, servers=servers, count=count)
    ]
    return Cost(
        parts=_there_and_back(push),
        # Pushing as a worker and pulled from as a server; a rank without a server sends S.
        sent_bytes=payload_bytes + (workers - 2) * share_bytes,
        server_bytes=(workers - 1) * share_bytes,
    )


def _of_host(payload_bytes: float, layout: Layout, *, servers: int, count: int) -> list[Flow]:
    """Pushing: the flows of a host with `count` servers, which may be none."""
    per_host, share_bytes = layout.per_host, payload_bytes / servers
    flows = []
    if count and per_host > 1:
        out_bytes, in_bytes = (count - 1) * share_bytes, (per_host - 1) * share_bytes
        flows.append(Flow(level=Level.INTRA, steps=1, out_bytes=out_bytes, in_bytes=in_bytes))
    if 0 < count < per_host:
        out_bytes = count * share_bytes
        flows.append(Flow(level=Level.INTRA, steps=1, out_bytes=out_bytes, in_bytes=0.0))
    if layout.hosts > 1:
        out_bytes = per_host * (payload_bytes - count * share_bytes)
        in_bytes = (layout.ranks - per_host) * count * share_bytes
        flows.append(Flow(level=Level.INTER, steps=1, out_bytes=out_bytes, in_bytes=in_bytes))
    return flows


def _there_and_back(push: list[Flow]) -> tuple[Part, Part]:
    pull = [
        Flow(level=one.level, steps=one.steps, out_bytes=one.in_bytes, in_bytes=one.out_bytes)
        for one in push
    ]
    return Part(flows=tuple(push)), Part(flows=tuple(pull))


def _check_servers(servers: int) -> None:
    if servers < 1:
        raise ValueError(f"{servers} servers serve no worker; expected one or more")
