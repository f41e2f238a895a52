"""What communication costs, and what it leaves of a training step: pure arithmetic.

Messages over links, as bytes and steps, and their time; then efficiency, step time, buckets and the
bandwidth wanted. Which messages a method sends is said in `methods`. Seconds, bytes and bytes per
second; Ts is a step's computing alone (forward and backward), Tt its communication.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# The ends of a search, below and beyond any possible link, in bytes/s.
_ANY_BANDWIDTH = (1e-6, 1e24)
_HALVINGS = 64


class Level(str, enum.Enum):
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """What one end of a link of `level` sends and takes, in `steps` steps one after another."""

    level: Level
    steps: int
    out_bytes: float
    in_bytes: float

    def seconds(self, link: Link) -> float:
        """Steps x latency + bytes / bandwidth (the alpha-beta model).

        R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994. Where
        both directions are used at the same time, the fuller one decides; at half duplex they
        take turns.
        """
        both = max if link.full_duplex else sum
        return self.steps * link.latency_s + both((self.out_bytes, self.in_bytes)) / (
            link.bytes_per_s
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Flows at the same time, those of the ends that have the most to do: the slowest decides."""

    flows: tuple[Flow, ...]

    def slowest(self, links: Links) -> tuple[float, Level]:
        """Seconds of the slowest flow, and the level of its link."""
        times = [(flow.seconds(links[flow.level]), flow.level) for flow in self.flows]
        return max(times, key=lambda one: one[0])


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
        return frozenset(flow.level for part in self.parts for flow in part.flows)

    @property
    def steps(self) -> int:
        """How many messages have to follow each other."""
        return sum(max(flow.steps for flow in part.flows) for part in self.parts)

    def seconds(self, links: Links) -> float:
        """The time over `links`, which hold all `levels`."""
        return sum(part.slowest(links)[0] for part in self.parts)

    def bottleneck(self, links: Links) -> Level:
        """The level whose links take most of the time."""
        spent = dict.fromkeys(sorted(self.levels), 0.0)
        for part in self.parts:
            seconds, level = part.slowest(links)
            spent[level] += seconds
        return max(spent, key=lambda level: spent[level])


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """`ranks` spread evenly over `hosts`; raises ValueError where that cannot be."""

    ranks: int
    hosts: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ValueError(f"{self.ranks} ranks have nothing to exchange; expected two or more")
        if self.hosts < 1 or self.ranks % self.hosts:
            raise ValueError(f"{self.ranks} ranks cannot be spread evenly over {self.hosts} hosts")

    @property
    def per_host(self) -> int:
        """Ranks in each host."""
        return self.ranks // self.hosts


def one_flow(level: Level, *, steps: int, sent_bytes: float, taken_bytes: float) -> Part:
    """A part in which one kind of end decides."""
    return Part(flows=(Flow(level=level, steps=steps, out_bytes=sent_bytes, in_bytes=taken_bytes),))


def efficiency(communication_s: float, compute_s: float) -> float:
    """P = Ts / (Ts + Tt) = 1 / (1 + Tt/Ts).

    n ranks do n times the work in Ts + Tt instead of Ts, so that the gain is n P. Source:
    "tensorflow分布式", formula (1), which prints a later form of it without the 1 +.
    """
    return 1 / (1 + communication_s / compute_s)


def communication_for_s(wanted_efficiency: float, compute_s: float) -> float:
    """Tt = (1-P)/P Ts, what a step may wait for: formula (1) solved for Tt, its (2)."""
    return (1 - wanted_efficiency) / wanted_efficiency * compute_s


def step_s(communication_s: float, compute_s: float, overlap: float = 0.0) -> float:
    """Tp = Ts + max(0, Tt - overlap x Ts): what could not be done meanwhile comes on top.

    `overlap` is the share of the computing, 0 to 1, at the end of which gradients are ready to be
    sent while the rest is computed: the backward pass, about 2/3 where it costs twice the forward
    one. This is the best there is: gradients that come, and go, evenly. Without it Tp = Ts + Tt.
    """
    return compute_s + max(0.0, communication_s - overlap * compute_s)


def bucketed_step_s(
    buckets: Sequence[float],
    seconds_of: Callable[[float], float],
    compute_s: float,
    overlap: float = 0.0,
) -> float:
    """The same with gradients that are sent in the sizes of `buckets`, in bytes and in this order.

    The backward pass, the last `overlap` of Ts, makes gradients evenly; a bucket is sent when it
    is full and the one before has gone, which takes `seconds_of` its bytes. The last bucket is
    ready when the computing ends, so that at least its time comes on top. Source: the schedule of
    S. Li et al., "PyTorch distributed: experiences on accelerating data parallel training", VLDB
    2020, section 3.2.3.
    """
    whole_bytes = math.fsum(buckets)
    made_bytes = 0.0
    free_s = 0.0
    for bucket in buckets:
        made_bytes += bucket
        ready_s = compute_s * (1 - overlap * (1 - made_bytes / whole_bytes))
        free_s = max(free_s, ready_s) + seconds_of(bucket)
    return free_s


def bandwidth_to_hide(moved_bytes: float, compute_s: float) -> float:
    """Bytes per second with which `moved_bytes`, both directions, take no longer than Ts.

    Source: "placement的估计", (received + sent) / time of an iteration.
    """
    return moved_bytes / compute_s


def least_bandwidth(step_of: Callable[[float], float], limit_s: float) -> float | None:
    """The least bandwidth in bytes/s whose step takes no longer than `limit_s`; None: none does.

    `step_of` gives the step's time for a bandwidth and never rises with it. For one link without
    latency and a ring this is formula (3) of "tensorflow分布式", 2 D P (n-1) / (n (1-P) Ts).
    """
    low, high = (math.log(end) for end in _ANY_BANDWIDTH)
    if step_of(math.exp(high)) > limit_s:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if step_of(math.exp(middle)) <= limit_s:
            high = middle
        else:
            low = middle
    return math.exp(high)


def buckets_of(gradients: Sequence[float], bucket_bytes: float) -> tuple[float, ...]:
    """Bytes of each bucket that is reduced at once, in the order in which they are full.

    `gradients` are bytes of each tensor in the order of the forward pass; the backward pass makes
    them from the last to the first. A bucket is full as soon as it holds `bucket_bytes`; a tensor
    is not cut, so that it may hold more, as in PyTorch's DistributedDataParallel (`bucket_cap_mb`,
    25 MiB by default; without its smaller first bucket).
    """
    full: list[float] = []
    held_bytes = 0.0
    for gradient in reversed(gradients):
        held_bytes += gradient
        if held_bytes >= bucket_bytes:
            full.append(held_bytes)
            held_bytes = 0.0
    return (*full, held_bytes) if held_bytes else tuple(full)


def even_buckets(payload_bytes: float, bucket_bytes: float) -> tuple[float, ...]:
    """The same where tensors are not known: full buckets, and the rest last."""
    count = int(payload_bytes // bucket_bytes)
    rest_bytes = payload_bytes - count * bucket_bytes
    return (bucket_bytes,) * count + ((rest_bytes,) if rest_bytes > 0 else ())
