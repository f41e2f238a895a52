"""Which hosts are measured together: rounds of groups that share no host, and run at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

Group = tuple[int, ...]
Round = tuple[Group, ...]


def pairings(hosts: Sequence[int]) -> tuple[Round, ...]:
    """Rounds in which every two hosts meet once: an edge colouring of the complete graph.

    By the circle method: of n hosts n - 1 rounds, n where n is odd and one has no partner.
    """
    turning: list[int | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    found = []
    for _ in range(len(turning) - 1):
        half = len(turning) // 2
        met = zip(turning[:half], reversed(turning[half:]))
        found.append(tuple(pair(a, b) for a, b in met if a is not None and b is not None))
        turning[1:] = [turning[-1], *turning[1:-1]]
    return tuple(found)


def pair(one: int, other: int) -> Group:
    return (min(one, other), max(one, other))


def partitions(
    hosts: Sequence[int], size: int, count: int, shuffler: random.Random
) -> tuple[Round, ...]:
    """`count` rounds that share out all hosts by chance, in groups of `size` or one more."""
    found = []
    for _ in range(count):
        order = list(hosts)
        shuffler.shuffle(order)
        groups = max(1, len(order) // size)
        found.append(tuple(tuple(sorted(order[at::groups])) for at in range(groups)))
    return tuple(found)
