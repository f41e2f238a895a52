"""A simulated cluster: what groups of its hosts take, with noise, and who of them is slow."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.extensions.stragglers.roll import Times
from busbw.extensions.stragglers.rounds import Group, Round, pair

LATENCY_S, BANDWIDTH_S = 1e-4, 1e-2
# With heavy tails, how often a time has one, and how long it is on average, in noises.
_TAIL, _TAIL_NOISES = 0.05, 5


@dataclass(kw_only=True)
class Cluster:
    """`hosts` and `links` take that much longer (0.5 is 50 %), and so does a group with them.

    `noise` is the standard deviation of a time's logarithm. Hosts of the `rack` reach the others
    through one line, which the pairs that need it at the same time share, and one pair fills.
    `dead` hosts do not answer.
    """

    noise: float
    hosts: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[Group, float] = field(default_factory=dict)
    heavy: bool = False
    rack: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    seed: int = 0
    asked: list[Round] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def measure(self, groups: Round) -> Sequence[Times | str]:
        self.asked.append(groups)
        return [self._taken(group, sum(map(self._crosses, groups))) for group in groups]

    def _taken(self, group: Group, crossing: int) -> Times | str:
        if gone := self.dead.intersection(group):
            return f"{min(gone)} hangs"
        ring = map(pair, group, (*group[1:], group[0]))
        slow = [*(self.hosts.get(host, 0) for host in group), *(self.links.get(g, 0) for g in ring)]
        ratio = max(1 + max(slow), crossing if self._crosses(group) else 1)
        return {
            "latency": LATENCY_S * ratio * self._noise(),
            "bandwidth": BANDWIDTH_S * ratio * self._noise(),
        }

    def _crosses(self, group: Group) -> bool:
        return 0 < len(self.rack.intersection(group)) < len(group)

    def _noise(self) -> float:
        log = self._chance.gauss(0, self.noise)
        if self.heavy and self._chance.random() < _TAIL:
            log += self._chance.expovariate(1 / (_TAIL_NOISES * self.noise))
        return math.exp(log)
