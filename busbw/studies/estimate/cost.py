"""What a way of communicating costs: messages over links, as bytes and steps, and their time.

Values and arithmetic only; which messages a method sends is said by the file of its family.
Seconds, bytes and bytes per second.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


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
