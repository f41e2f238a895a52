"""Calculate the traffic and the time of each method of synchronizing gradients.

Consecutive ranks are on the same host, and all hosts have the same number of ranks. The ranks of a
host share the host's only link to other hosts. The argument `payload_bytes` is the size of all
gradients, `ranks` the number of all ranks and `hosts` the number of hosts.

In formulas, S is `payload_bytes`, n the number of ranks, k the number of parameter servers, a the
latency of a message, b the bandwidth of a link in one direction, and t the time. Options take the
names of known models and links. docs/studies.md has all formulas and the sources of the numbers,
such as the documents "tensorflow分布式" and "placement的估计".
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


class LinkPlace(enum.StrEnum):
    """The place of a link: INTRA, inside a host, or INTER, from a host to the other hosts."""

    INTRA = "intra"
    INTER = "inter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link between ranks or hosts, with its name, bandwidth and latency.

    Attributes:
        name: The name or the rate that the user gave, such as ``10gbe`` or ``125MB/s``.
        bytes_per_s: The bandwidth in each direction; both directions can be used at the same time.
        latency_s: The fixed time of each message in seconds. The time of its bytes comes on top.

    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """The messages at a LinkPlace that follow each other in a step, and so decide the level's time.

    Messages on other links of the level are sent at the same time. If the two directions of a link
    carry different numbers of bytes, the busier direction counts.

    Attributes:
        message_count: The number of messages that wait for each other, so that latencies add up.
        moved_bytes: The bytes that are sent one after the other: the bytes of these messages, and
            the bytes of other messages that share a link with these messages.

    """

    message_count: int
    moved_bytes: float

    def predict_seconds(self, link: Link) -> float:
        """Return the time over `link` in seconds: messages x latency + bytes / bandwidth.

        Source: R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.
        """
        return self.message_count * link.latency_s + self.moved_bytes / link.bytes_per_s


LinkByPlace = Mapping[LinkPlace, Link]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The traffic that a method of synchronizing gradients causes in a training step.

    Attributes:
        flows: The flow at each level of links that the method uses.
        sent_bytes: The bytes that the busiest rank sends; the rank receives as many bytes.
        server_bytes: The bytes that each parameter server receives, and then sends; None if the
            method has no servers.
        is_sequential: Whether the flows of the levels run one after the other. Otherwise the flows
            run at the same time.

    """

    flows: Mapping[LinkPlace, Flow]
    sent_bytes: float
    server_bytes: float | None = None
    is_sequential: bool = False

    def predict_seconds(self, links: LinkByPlace) -> float:
        """Return the time of communication in a step, in seconds, over the links of all levels.

        `links` must have a link for each level in `flows`.
        """
        times_s = self._seconds_by_level(links).values()
        return sum(times_s) if self.is_sequential else max(times_s)

    def bottleneck_level(self, links: LinkByPlace) -> LinkPlace:
        """Return the level whose flow takes the most time over its link in `links`."""
        times_s = self._seconds_by_level(links)
        return max(times_s, key=lambda level: times_s[level])

    def needed_bytes_per_s(self, links: LinkByPlace, limit_s: float) -> float | None:
        """Return the bandwidth that the bottleneck needs for a time of at most `limit_s` seconds.

        `links` has the link inside hosts and the link between hosts. The bottleneck is the link
        whose messages take the most time. The other link keeps its bandwidth. Returns None if no
        bandwidth suffices, because the latencies or the messages over the other link already take
        more than `limit_s` seconds.
        """
        times_s = self._seconds_by_level(links)
        level = self.bottleneck_level(links)
        del times_s[level]
        if not self.is_sequential and max(times_s.values(), default=0.0) > limit_s:
            return None
        used_s = self.flows[level].message_count * links[level].latency_s
        used_s += sum(times_s.values()) if self.is_sequential else 0.0
        return self.flows[level].moved_bytes / (limit_s - used_s) if used_s < limit_s else None

    def _seconds_by_level(self, links: LinkByPlace) -> dict[LinkPlace, float]:
        """Return the time of the flow of each level over its link in `links`, in seconds."""
        return {level: flow.predict_seconds(links[level]) for level, flow in self.flows.items()}


def ring_cost(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Return the cost of a ring all-reduce: t = 2(n-1) a + 2(n-1)/n S/b.

    S is `payload_bytes`, n is `ranks`, t the time, a the latency of a message, and b the bandwidth
    of a link. A ring all-reduce is a reduce-scatter and an all-gather, each with n-1 messages of
    S/n bytes. A single rank of each host sends to another host, and a single rank receives. So the
    link between two hosts carries as many bytes as the link between two ranks of a host, at the
    same time. `hosts` only decides which levels of links are used.

    No algorithm that adds on ranks can send less: P. Patarasuk and X. Yuan, "Bandwidth optimal
    all-reduce algorithms for clusters of workstations", JPDC 69, 2009. The document
    "tensorflow分布式" has the same formulas with other letters.
    """
    sent_bytes = 2 * (ranks - 1) / ranks * payload_bytes
    flow = Flow(message_count=2 * (ranks - 1), moved_bytes=sent_bytes)
    levels = [LinkPlace.INTRA] * (ranks > hosts) + [LinkPlace.INTER] * (hosts > 1)
    return Cost(flows=dict.fromkeys(levels, flow), sent_bytes=sent_bytes)


def naive_ring_cost(payload_bytes: float, ranks: int, hosts: int) -> Cost:
    """Return the cost of a ring that sends whole gradients: t = 2(n-1) (a + S/b).

    S is `payload_bytes`, n is `ranks`, t the time, a the latency of a message, and b the bandwidth
    of a link. The first turn around the ring adds up the gradients from rank to rank. The second
    turn brings the sum to all ranks. So 2(n-1) messages of S bytes follow each other, and only one
    link is busy at a time. The document "Tensorflow Strategies on parallel computing" counts only
    one of these two turns.
    """
    # The way back goes from the last rank to the first, and ends before the last rank.
    inter_host_messages = 0 if hosts == 1 else 2 * (hosts - 1) + (ranks > hosts)
    message_count = {
        LinkPlace.INTRA: 2 * (ranks - 1) - inter_host_messages,
        LinkPlace.INTER: inter_host_messages,
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


def dedicated_parameter_servers_cost(
    payload_bytes: float, ranks: int, hosts: int, servers: int
) -> Cost:
    """Return the cost of parameter servers that are not on ranks, and that have links of their own.

    Each rank sends its gradients to the servers, and then receives the sums. On one host
    t = 2 a + 2 max(S, n S/k) / b. Here S is `payload_bytes`, n is `ranks`, k is `servers`, t the
    time, a the latency of a message, and b the bandwidth of a link. If there are several hosts,
    each server is an additional host, and the ranks of a host share the link of their host.

    The document "placement的估计" has an example with a single server. There 8 ranks with 61.5 M
    gradients each send 492 M values in all to the server, and receive as many.
    """
    server_bytes = ranks * payload_bytes / servers
    level, workers = (LinkPlace.INTRA, 1) if hosts == 1 else (LinkPlace.INTER, ranks // hosts)
    flow = Flow(message_count=2, moved_bytes=2 * max(workers * payload_bytes, server_bytes))
    return Cost(flows={level: flow}, sent_bytes=payload_bytes, server_bytes=server_bytes)


def colocated_parameter_servers_cost(
    payload_bytes: float, ranks: int, hosts: int, servers: int
) -> Cost:
    """Return the cost of `servers` parameter servers on ranks that also compute gradients.

    The servers are spread over the hosts as evenly as possible. Each server adds up an equal part
    of the gradients. First each rank sends every server its part; a server on the same rank needs
    no message. Afterwards each rank receives the sums, which takes as long. All servers are served
    at the same time, so the cost has the latency of two messages. With a server on each rank, the
    traffic is the same as in a ring.

    The document "placement的估计" has an example with a server on each of 8 machines. There each
    machine sends 2 x 7/8 of the size of all gradients, and receives as much.
    """
    bytes_per_server = payload_bytes / servers
    ranks_per_host = ranks // hosts
    # The bytes that links of a level push in each direction, from hosts with fewer or more servers.
    pushed_bytes: dict[LinkPlace, list[float]] = defaultdict(list)
    for servers_of_host in {servers // hosts, -(-servers // hosts)}:
        held_bytes = servers_of_host * bytes_per_server
        if servers_of_host and ranks_per_host > 1:
            # A rank with a server pushes to the other servers of its host alone.
            own_bytes = bytes_per_server * (servers_of_host == ranks_per_host)
            into_server_bytes = (ranks_per_host - 1) * bytes_per_server
            pushed_bytes[LinkPlace.INTRA] += [held_bytes - own_bytes, into_server_bytes]
        if hosts > 1:
            out_bytes = ranks_per_host * (payload_bytes - held_bytes)
            pushed_bytes[LinkPlace.INTER] += [out_bytes, (ranks - ranks_per_host) * held_bytes]
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

    Raises ArgumentTypeError for a text of another form, an unknown unit, and a result below
    `minimum` or above `maximum`.

    Args:
        text: The number, directly followed by its unit.
        factors_by_unit: Maps each unit to its factor, which is 1 for the base unit.
        description: A phrase for the expected texts, for the message of the error.
        minimum: The smallest allowed result.
        maximum: The largest allowed result.

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
    """Parse a link, such as ``10gbe`` or ``125MB/s,5us``: a name or a rate, and perhaps a latency.

    The latency is 0 if `text` has none. Raises ArgumentTypeError for other texts.
    """
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


def parse_count_list(text: str) -> list[int]:
    """Parse whole numbers above 0 that are separated by commas, such as ``2,4``.

    Repeated numbers are dropped. Raises ArgumentTypeError for other texts.
    """
    return list(dict.fromkeys(map(number_type(int, 1), text.split(","))))
