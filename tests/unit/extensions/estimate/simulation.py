"""All-reduce algorithms carried out on numbers, message by message, and what each end moved.

No test lives here. Written from what the algorithms do, with no formula: each rank has one value
for each of `parts` parts of the payload, a step is a set of messages at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from busbw.extensions.estimate.methods import Layout


@dataclass(frozen=True)
class Message:
    """Parts of the payload from one rank to another, to be added there or to take their place."""

    source: int
    target: int
    parts: tuple[int, ...]
    add: bool


@dataclass
class World:
    """Ranks with their values, and counts of parts that were moved."""

    layout: Layout
    parts: int
    values: list[list[int]] = field(init=False)
    sent: Counter[int] = field(default_factory=Counter)
    host_out: Counter[int] = field(default_factory=Counter)
    host_in: Counter[int] = field(default_factory=Counter)
    steps: int = 0

    def __post_init__(self) -> None:
        ranks = range(self.layout.ranks)
        self.values = [[10**6 * rank + part for part in range(self.parts)] for rank in ranks]
        self.wanted = [sum(column) for column in zip(*self.values)]

    def host(self, rank: int) -> int:
        return rank // self.layout.per_host

    def step(self, messages: Iterable[Message]) -> None:
        """All messages at once: what is sent is what was there before."""
        loads = [(one, [self.values[one.source][part] for part in one.parts]) for one in messages]
        self.steps += 1
        for one, values in loads:
            for part, value in zip(one.parts, values):
                kept = self.values[one.target][part] if one.add else 0
                self.values[one.target][part] = kept + value
            self.sent[one.source] += len(values)
            if self.host(one.source) != self.host(one.target):
                self.host_out[self.host(one.source)] += len(values)
                self.host_in[self.host(one.target)] += len(values)

    @property
    def done(self) -> bool:
        return all(values == self.wanted for values in self.values)


Algorithm = Callable[[World], None]


def _ring_of(
    world: World, rings: Sequence[Sequence[int]], parts: Sequence[Sequence[tuple[int, ...]]]
) -> None:
    """Reduce-scatter and all-gather in several rings of equal size at once.

    `parts[i][k]` is the k-th share of the i-th ring, as a tuple.
    """
    size = len(rings[0])
    for add in (True, False):
        for step in range(size - 1):
            world.step(
                Message(
                    source=ring[place],
                    target=ring[(place + 1) % size],
                    parts=shares[(place - step + (0 if add else 1)) % size],
                    add=add,
                )
                for ring, shares in zip(rings, parts)
                for place in range(size)
            )


def _cut(parts: Sequence[int], count: int) -> list[tuple[int, ...]]:
    size = len(parts) // count
    return [tuple(parts[i * size : (i + 1) * size]) for i in range(count)]


def ring(world: World) -> None:
    ranks = range(world.layout.ranks)
    _ring_of(world, [ranks], [_cut(range(world.parts), len(ranks))])


def naive_ring(world: World) -> None:
    ranks, whole = world.layout.ranks, tuple(range(world.parts))
    for rank in range(ranks - 1):
        world.step([Message(rank, rank + 1, whole, add=True)])
    for rank in range(-1, ranks - 2):
        world.step([Message(rank % ranks, rank + 1, whole, add=False)])


def halving_doubling(world: World) -> None:
    ranks, whole = world.layout.ranks, tuple(range(world.parts))
    power = 1 << (ranks.bit_length() - 1)
    spare = range(power, ranks)
    if spare:
        world.step(Message(rank, rank - power, whole, add=True) for rank in spare)
    held = {rank: whole for rank in range(power)}
    trail = []
    distance = 1
    while distance < power:
        halves = {rank: _cut(parts, 2) for rank, parts in held.items()}
        upper = {rank: bool(rank & distance) for rank in held}
        world.step(
            Message(rank, rank ^ distance, halves[rank][not upper[rank]], add=True) for rank in held
        )
        held = {rank: halves[rank][upper[rank]] for rank in held}
        trail.append(distance)
        distance *= 2
    for distance in reversed(trail):
        world.step(Message(rank, rank ^ distance, held[rank], add=False) for rank in held)
        held = {rank: tuple(sorted(held[rank] + held[rank ^ distance])) for rank in held}
    if spare:
        world.step(Message(rank - power, rank, whole, add=False) for rank in spare)


def tree(world: World) -> None:
    """Binomial inside each host, then of the first ranks of the hosts, and back."""
    per_host, hosts = world.layout.per_host, world.layout.hosts
    whole = tuple(range(world.parts))
    trail: list[list[tuple[int, int]]] = []
    for size, stride, firsts in (
        (per_host, 1, range(0, per_host * hosts, per_host)),
        (hosts, per_host, range(1)),
    ):
        distance = 1
        while distance < size:
            pairs = [
                (first + (place + distance) * stride, first + place * stride)
                for first in firsts
                for place in range(0, size - distance, 2 * distance)
            ]
            world.step(Message(child, parent, whole, add=True) for child, parent in pairs)
            trail.append(pairs)
            distance *= 2
    for pairs in reversed(trail):
        world.step(Message(parent, child, whole, add=False) for child, parent in pairs)


def hierarchical(world: World) -> None:
    per_host, hosts = world.layout.per_host, world.layout.hosts
    inside = [range(host * per_host, (host + 1) * per_host) for host in range(hosts)]
    shares = _cut(range(world.parts), per_host)
    for add in (True, False):
        for step in range(per_host - 1):
            world.step(
                Message(
                    source=ranks[place],
                    target=ranks[(place + 1) % per_host],
                    parts=shares[(place - step + (0 if add else 1)) % per_host],
                    add=add,
                )
                for ranks in inside
                for place in range(per_host)
            )
        if add and hosts > 1:
            # After the rings inside, rank k of a host has the host's sum of share k + 1.
            across = [[ranks[place] for ranks in inside] for place in range(per_host)]
            owned = [_cut(shares[(place + 1) % per_host], hosts) for place in range(per_host)]
            _ring_of(world, across, owned)


ALGORITHMS: dict[str, Algorithm] = {
    "ring": ring,
    "naive ring": naive_ring,
    "halving-doubling": halving_doubling,
    "tree": tree,
    "hierarchical": hierarchical,
}
