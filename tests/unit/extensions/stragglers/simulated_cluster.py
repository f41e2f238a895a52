"""A simulated cluster: the times of its groups of hosts, with noise and slow hosts and links.

No test lives here. Hosts are numbers here, and strings of digits for the search.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.extensions.stragglers.groups import Round, RoundMeasurer, TimesByQuantity
from busbw.extensions.stragglers.result import SearchResult
from busbw.extensions.stragglers.search import MAX_HOSTS_IN_PAIRS, HostSearch

LATENCY_S, BANDWIDTH_S = 1e-4, 1e-2
# With heavy tails: the share of times with a tail, and its mean length in noises.
_TAIL, _TAIL_NOISES = 0.05, 5


@dataclass(kw_only=True)
class Cluster:
    """Groups with the `hosts` and `links` take that much longer (0.5 is 50 %).

    `noise` is the standard deviation of a time's logarithm. Hosts of the `rack` reach the others
    through one connection, which the pairs that need it at the same time share, and one pair fills.
    `unreachable` hosts do not answer.
    """

    noise: float
    hosts: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    heavy: bool = False
    rack: frozenset[int] = frozenset()
    unreachable: frozenset[int] = frozenset()
    seed: int = 0
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def measure(self, groups: Round) -> Sequence[TimesByQuantity | str]:
        self.rounds.append(groups)
        numbers = [sorted(map(int, group)) for group in groups]
        return [self._measure(group, sum(map(self._crosses, numbers))) for group in numbers]

    def _measure(self, group: Sequence[int], crossing: int) -> TimesByQuantity | str:
        if missing := self.unreachable.intersection(group):
            return f"{min(missing)} hangs"
        ring = zip(group, (*group[1:], group[0]))
        losses = [self.hosts.get(host, 0) for host in group]
        losses += [self.links.get((min(link), max(link)), 0) for link in ring]
        ratio = max(1 + max(losses), crossing if self._crosses(group) else 1)
        return {
            "latency": LATENCY_S * ratio * self._noise(),
            "bandwidth": BANDWIDTH_S * ratio * self._noise(),
        }

    def _crosses(self, group: Sequence[int]) -> bool:
        return 0 < len(self.rack.intersection(group)) < len(group)

    def _noise(self) -> float:
        log = self._chance.gauss(0, self.noise)
        if self.heavy and self._chance.random() < _TAIL:
            log += self._chance.expovariate(1 / (_TAIL_NOISES * self.noise))
        return math.exp(log)


def search(
    cluster: Cluster, count: int, seed: int = 0, min_loss: float = 0.05, in_pairs: bool = False
) -> SearchResult:
    """Search the first `count` hosts of a cluster; `seed` gives the random order of hosts."""
    measurer = RoundMeasurer(list(map(str, range(count))), cluster.measure, random.Random(seed))
    return HostSearch(measurer, min_loss, in_pairs or count <= MAX_HOSTS_IN_PAIRS).run()


def slow_groups(result: SearchResult) -> set[tuple[int, ...]]:
    return {tuple(sorted(map(int, slow.hosts))) for slow in result.slow}
