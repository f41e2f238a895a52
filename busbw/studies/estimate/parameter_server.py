"""A parameter server, synchronous: workers push gradients, servers add up, workers pull parameters.

The payload is cut evenly over k servers. S is `payload_bytes`, w the workers, h the hosts of the
workers, g = w/h, a the latency, b the bandwidth of one direction. Pulling begins when all have
pushed; a server sends each worker its part. What adding up costs is left out.
"""

from __future__ import annotations

from .cost import Cost, Flow, Layout, Level, Part


def dedicated(payload_bytes: float, layout: Layout, servers: int) -> Cost:
    """Servers with links of their own: t = 2 a + 2 max(S, w S/k) / b in one host.

    Each worker sends S and takes S. Each server takes w S/k and sends as much, so that with fewer
    servers than workers their links decide. Spread over hosts, each server is a host of its own,
    and the workers of a host share its link: 2 max(g S, w S/k) / b. Both directions are used one
    after the other, so full duplex gains nothing. Source: "placement的估计", whose 61.5 M gradients
    of 8 workers are 492 M values into a server and 492 M out of it; M. Li et al., "Scaling
    distributed machine learning with the parameter server", OSDI 2014.
    """
    _check(servers)
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
    """Servers beside workers, on k of the w ranks: with k = w, t = 2 a + 2(w-1)/w S/b.

    What a worker pushes to the server beside it stays. Such a rank sends (k-1)/k S as a worker and
    takes (w-1) S/k as a server, at the same time, and the other way round when pulling: with k = w
    that is 2(w-1)/w S each way, as much as a ring moves, and both directions together are the
    4 x 7/8 x S of 8 machines in "placement的估计". A rank without a server sends S.

    Over hosts, servers are spread as evenly as it goes. A host with c of them sends
    g S (1 - c/k) and takes (w-g) S c/k over its link; inside, its servers take (g-1) S/k each.
    """
    _check(servers)
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


def _check(servers: int) -> None:
    if servers < 1:
        raise ValueError(f"{servers} servers serve nobody; expected one or more")
