"""Calculate the traffic and the time of each method of synchronizing gradients.

Consecutive ranks are on the same host, and all hosts have the same number of ranks. The ranks of a
host share the host's only link to other hosts. The argument `payload_bytes` is the size of all
gradients, `ranks` the number of ranks and `hosts` the number of hosts.

In formulas, S is `payload_bytes`, n the number of ranks, k the number of parameter servers, a the
latency of a message, b the bandwidth of a link in one direction, and t the time. Options take the
names of known models and links. docs/studies.md has all formulas and the sources of the numbers.
"""

from __future__ import annotations

import argparse
import enum
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.session.option import number_type


class LinkLevel(enum.StrEnum):
    """A level of links: INTRA are links inside a host, INTER the link of a host to other hosts."""

    INTRA = "intra"
    INTER = "inter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link between ranks or hosts, with its name, bandwidth and latency.

    Attributes:
        name: The name or the rate that the user gave.
        bytes_per_s: The bandwidth in each direction; both directions can be used at the same time.
        latency_s: The time of a message in addition to the time of its bytes.

    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """The messages and bytes on links of a LinkLevel whose times add up, as they cannot overlap.

    If more is sent in one direction of a link than in the other, the busier direction counts.

    Attributes:
        message_count: The number of messages that wait for each other, so that latencies add up.
        moved_bytes: The bytes that are moved one after the other: by these messages, and by the
            messages that share a link with them.

    """

    message_count: int
    moved_bytes: float

    def predict_seconds(self, link: Link) -> float:
        """Return the time over a link in seconds: messages x latency + bytes / bandwidth.

        Source: R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.
        """
        return self.message_count * link.latency_s + self.moved_bytes / link.bytes_per_s


LinkByLevel = Mapping[LinkLevel, Link]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The traffic of a method of synchronization in a step.

    Attributes:
        flows: The flow of each level of links that the method uses.
        sent_bytes: The bytes that the busiest rank sends; the rank receives as many bytes.
        server_bytes: The bytes that a parameter server receives, and then sends; None without
            servers.
        is_sequential: Whether the flows of the levels run one after the other, and not at the same
            time.

    """

    flows: Mapping[LinkLevel, Flow]
    sent_bytes: float
    server_bytes: float | None = None
    is_sequential: bool = False

    def predict_seconds(self, links: LinkByLevel) -> float:
        """Return the time in seconds over `links`, which must have a link for each level."""
        times_s = self._seconds_by_level(links).values()
        return sum(times_s) if self.is_sequential else max(times_s)

    def bottleneck(self, links: LinkByLevel) -> LinkLevel:
        """Return the level of links whose flow takes the most time over `links`."""
        times_s = self._seconds_by_level(links)
        return max(times_s, key=lambda level: times_s[level])

    def needed_bytes_per_s(self, links: LinkByLevel, limit_s: float) -> float | None:
        """Return the bandwidth that the bottleneck needs for a time of at most `limit_s` seconds.

        The other level keeps its link. Returns None if no bandwidth suffices, because of latencies
        or of the other level.
        """
        times_s = self._seconds_by_level(links)
        level = self.bottleneck(links)
        del times_s[level]
        if not self.is_sequential and max(times_s.values(), default=0.0) > limit_s:
            return None
        used_s = self.flows[level].message_count * links[level].latency_s
        used_s += sum(times_s.values()) if self.is_sequential else 0.0
        return self.flows[level].moved_bytes / (limit_s - used_s) if used_s < limit_s else None

    def _seconds_by_level(self, links: LinkByLevel) -> dict[LinkLevel, float]:
        """Return the time of the flow of each level, in seconds."""
        return {level: flow.predict_seconds(links[level]) for level, flow in self.flows.items()}


def ring_cost(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Return the cost of a ring all-reduce: t = 2(n-1) a + 2(n-1)/n S/b.

    S is `payload_bytes`, n is `ranks`, t the time, a the latency of a message, and b the bandwidth
    of a link. A ring all-reduce is a reduce-scatter and an all-gather, each with n-1 messages of
    S/n bytes. A single rank of each host sends to another host, and a single rank receives. So the
    link of a host carries as much as the link of a rank, at the same time, and `hosts` only decides
    which levels of links are used. No algorithm that adds on ranks can send less: P. Patarasuk and
    X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009.
    The document "tensorflow分布式" has the same formulas with other letters.
    """
    sent_bytes = 2 * (ranks - 1) / ranks * payload_bytes
    flow = Flow(message_count=2 * (ranks - 1), moved_bytes=sent_bytes)
    levels = [LinkLevel.INTRA] * (ranks > hosts) + [LinkLevel.INTER] * (hosts > 1)
    return Cost(flows=dict.fromkeys(levels, flow), sent_bytes=sent_bytes)


def naive_ring_cost(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Return the cost of a ring that sends whole gradients: t = 2(n-1) (a + S/b).

    The sum grows from rank to rank along the ring, and then goes around once more. So 2(n-1)
    messages of S bytes follow each other, and only one link is busy at a time. "Tensorflow
    Strategies on parallel computing" counts only one of the two turns around the ring.
    """
    # The way back goes from the last rank to the first, and ends before the last rank.
    inter_host_messages = 0 if hosts == 1 else 2 * (hosts - 1) + (ranks > hosts)
    message_count = {
        LinkLevel.INTRA: 2 * (ranks - 1) - inter_host_messages,
        LinkLevel.INTER: inter_host_messages,
    }
    return Cost(
        flows={
            level: Flow(message_count=count, moved_bytes=count * payload_bytes)
            for level, count in message_count.items()
            if count
        },
        sent_bytes=payload_bytes if ranks == 2 else 2 * payload_bytes,
        is_sequential=True,
    )


def dedicated_servers_cost(payload_bytes: float, ranks: int, hosts: int, servers: int) -> Cost:
    """Return the cost of k = `servers` parameter servers that have links of their own.

    The ranks are workers: each rank sends its gradients to the servers, and receives the sums. In
    one host t = 2 a + 2 max(S, n S/k) / b; the docstring of the module explains the letters. Over
    several hosts each server is a host of its own, and the workers of a host share the link of
    their host. The document "placement的估计" has an example with a single server: 8 workers with
    61.5 M gradients each send 492 M values to the server, and receive as many.
    """
    server_bytes = ranks * payload_bytes / servers
    level, workers = (LinkLevel.INTRA, 1) if hosts == 1 else (LinkLevel.INTER, ranks // hosts)
    flow = Flow(message_count=2, moved_bytes=2 * max(workers * payload_bytes, server_bytes))
    return Cost(flows={level: flow}, sent_bytes=payload_bytes, server_bytes=server_bytes)


def colocated_servers_cost(payload_bytes: float, ranks: int, hosts: int, servers: int) -> Cost:
    """Return the cost of k = `servers` parameter servers on ranks that also compute gradients.

    The hosts have equal numbers of servers, or numbers that differ by 1. Each server adds up an
    equal part of the gradients. A rank sends each server its part, except a server on the same
    rank, and receives the sums, which takes as long. So only two messages follow each other. With
    a server on each rank, the traffic is the same as in a ring. In the example of the document
    "placement的估计", each of 8 machines has a server. There a machine sends and receives 4 x 7/8
    of the gradients in all.
    """
    bytes_per_server = payload_bytes / servers
    ranks_per_host = ranks // hosts
    # The bytes that links of a level push in each direction, from hosts with fewer or more servers.
    pushed_bytes: dict[LinkLevel, list[float]] = defaultdict(list)
    for servers_of_host in {servers // hosts, -(-servers // hosts)}:
        held_bytes = servers_of_host * bytes_per_server
        if servers_of_host and ranks_per_host > 1:
            # A rank with a server pushes to the other servers of its host alone.
            own_bytes = bytes_per_server * (servers_of_host == ranks_per_host)
            into_server_bytes = (ranks_per_host - 1) * bytes_per_server
            pushed_bytes[LinkLevel.INTRA] += [held_bytes - own_bytes, into_server_bytes]
        if hosts > 1:
            out_bytes = ranks_per_host * (payload_bytes - held_bytes)
            pushed_bytes[LinkLevel.INTER] += [out_bytes, (ranks - ranks_per_host) * held_bytes]
    return Cost(
        flows={
            level: Flow(message_count=2, moved_bytes=2 * max(directions_bytes))
            for level, directions_bytes in pushed_bytes.items()
        },
        # The busiest rank pushes as a worker and answers as a server.
        sent_bytes=payload_bytes + (ranks - 2) * bytes_per_server,
        server_bytes=(ranks - 1) * bytes_per_server,
    )


# The models, dtypes, links and units that options can name, with their numbers.
KNOWN: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("known.toml").read_text(encoding="utf-8")
)

_QUANTITY_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)([A-Za-z/]*)", re.ASCII)
# A larger number is a mistake, and products of such numbers would overflow.
_MAX_NUMBER = 1e18


def _parse_quantity(
    text: str,
    factors_by_unit: Mapping[str, float],
    description: str,
    minimum: float = 1e-12,
    maximum: float = _MAX_NUMBER,
) -> float:
    """Parse a number with a unit, such as ``5us``, and return the number in the base unit.

    `factors_by_unit` maps each unit to its factor. Raises ArgumentTypeError for a text of another
    form, an unknown unit, and a result below `minimum` or above `maximum`. The message says that
    `description` was expected.
    """
    match = _QUANTITY_PATTERN.fullmatch(text)
    value = float(match[1]) * factors_by_unit.get(match[2], -1.0) if match else -1.0
    if not minimum <= value <= maximum:
        raise argparse.ArgumentTypeError(f"expected {description}, got {text[:60]!r}")
    return value


# Functions that parse the values of options: a number such as ``138.36M``, a size such as ``25MiB``
# in bytes, a time such as ``12ms`` in seconds, and an efficiency. Only a step without communication
# has the efficiency 1.
parse_parameters = functools.partial(
    _parse_quantity,
    factors_by_unit=KNOWN["counts_of_unit"],
    description="a number such as 25583592 or 138M",
    minimum=1,
)
parse_size = functools.partial(
    _parse_quantity,
    factors_by_unit=KNOWN["bytes_of_unit"],
    description="a size such as 553.36MB (10^6) or 25MiB (2^20)",
    minimum=1,
)
parse_time = functools.partial(
    _parse_quantity,
    factors_by_unit=KNOWN["seconds_of_unit"],
    description="a time such as 0.55s, 12ms or 5us",
)
parse_efficiency = functools.partial(
    _parse_quantity,
    factors_by_unit={"": 1.0},
    description="an efficiency below 1, such as 0.9",
    minimum=1e-6,
    maximum=0.999999,
)


def parse_link(text: str) -> Link:
    """Parse a link: a name or a rate and, optionally, a latency (else 0), as in ``125MB/s,5us``."""
    name, _, latency = text.partition(",")
    links = KNOWN["bytes_per_s_of_link"]
    expected = f"a rate such as 125MB/s or 10Gbit/s, or a link of {', '.join(links)}"
    latency_s = _parse_quantity(
        latency or "0s", KNOWN["seconds_of_unit"], "a latency such as 5us", minimum=0.0
    )
    return Link(
        name=name,
        bytes_per_s=links.get(name.lower())
        or _parse_quantity(name, KNOWN["bytes_per_s_of_unit"], expected),
        latency_s=latency_s,
    )


def parse_counts(text: str) -> list[int]:
    """Parse a comma list of whole numbers above 0, such as ``2,4``; drop repeated numbers.

    Raises ArgumentTypeError for other texts.
    """
    return list(dict.fromkeys(map(number_type(int, 1), text.split(","))))
