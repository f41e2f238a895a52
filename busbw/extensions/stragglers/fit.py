"""Times of groups as host + host + link, fitted so that a few slow ones move none of the others.

Everything is a logarithm: what is twice as slow is as far away as what is half as slow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .rounds import Group

# Of a normal distribution, the standard deviation by the median absolute one.
_MAD = 1.4826


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What hosts and links take beyond the others, as logarithms of ratios; `spread` is the noise.

    `level` is the logarithm of the seconds that a pair of two good hosts takes.
    """

    level: float
    hosts: Mapping[int, float]
    links: Mapping[Group, float]
    spread: float


def of_pairs(times_s: Mapping[Group, float], good: Sequence[int] = ()) -> Fit:
    """Of pairs of hosts that each met most of the others.

    A host is as slow as in the lower half of its pairs: a slow partner, or one slow link, is in
    the upper one. A link is as slow as what its slower host leaves over. Where some hosts are known
    to be `good`, all are as slow as in pairs with these.
    """
    logs = {group: math.log(time_s) for group, time_s in times_s.items()}
    of_host: dict[int, list[float]] = {}
    for only_good in (True, False):
        # One that met no good host is as slow as with those that it met.
        there = set(of_host)
        for group, log in logs.items():
            for host, other in (group, group[::-1]):
                if host not in there and (not only_good or not good or other in good):
                    of_host.setdefault(host, []).append(log)
    rows = {host: statistics.median_low(found) for host, found in of_host.items()}
    level = statistics.median_low(rows[host] for host in good or rows if host in rows)
    hosts = {host: row - level for host, row in rows.items()}
    links = {
        group: log - level - max(0.0, *(hosts[host] for host in group))
        for group, log in logs.items()
    }
    return Fit(level=level, hosts=hosts, links=links, spread=spread(links.values()))


def of_groups(rounds: Sequence[Mapping[Group, float]]) -> Fit:
    """Of rounds that share out all hosts in groups: a slow host's group is slow in every round."""
    found: dict[int, list[float]] = {}
    noise = []
    for times_s in filter(None, rounds):
        level = statistics.median(map(math.log, times_s.values()))
        for group, time_s in times_s.items():
            noise.append(math.log(time_s) - level)
            for host in group:
                found.setdefault(host, []).append(noise[-1])
    hosts = {host: statistics.median_low(excess) for host, excess in found.items()}
    return Fit(level=0.0, hosts=hosts, links={}, spread=spread(noise))


def spread(values: Iterable[float]) -> float:
    """A standard deviation that outliers do not move."""
    found = list(values)
    middle = statistics.median(found)
    return _MAD * statistics.median(abs(one - middle) for one in found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Racks:
    """Hosts that are near each other, and how much longer a pair between them takes than within.

    `alone` is that ratio while no other pair is measured.
    """

    hosts: tuple[Group, ...]
    ratio: float
    alone: float | None = None

    def between(self, group: Group) -> bool:
        return not any({*group} <= {*rack} for rack in self.hosts)


# Of the pairs, how many must be as near or far as their hosts' racks say; with fewer hosts chance
# finds racks. Racks of two alone are what one round of pairs looks like that was a fast one.
_CONSISTENT, _LEAST_HOSTS, _A_PAIR = 0.95, 6, 2


def racks(times_s: Mapping[Group, float], least: float) -> Racks | None:
    """Hosts in two or more sets, such that pairs within are fast and pairs between are not.

    Or one such set, and hosts by themselves that are slow with everybody. None where no time tells
    them apart, or where that is less than `least` (0.2 is 20 %).
    """
    logs = {group: math.log(time_s) for group, time_s in times_s.items()}
    hosts = sorted({host for group in logs for host in group})
    best, left = None, math.inf
    for limit in sorted(logs.values())[:-1] if len(hosts) >= _LEAST_HOSTS else ():
        sets = _joined(hosts, [group for group, log in logs.items() if log <= limit])
        found = Racks(hosts=sets, ratio=1.0)
        near = [log for group, log in logs.items() if not found.between(group)]
        far = [log for group, log in logs.items() if found.between(group)]
        right = sum(log <= limit for log in near) + sum(log > limit for log in far)
        told_apart = near and far and _are_racks(sets, len(hosts))
        if not told_apart or right < _CONSISTENT * len(logs):
            continue
        ratio = math.exp(statistics.median(far) - statistics.median(near))
        # What the two leave over of the squares: the limit by Otsu's rule.
        over = sum(statistics.pvariance(some) * len(some) for some in (near, far))
        if ratio > 1 + least and over < left:
            best, left = replace(found, ratio=ratio), over
    return best


def _are_racks(sets: Sequence[Group], hosts: int) -> bool:
    """Or half of the hosts, and each of the others by itself."""
    sizes = [len(one) for one in sets]
    if len(sets) > 1 and set(sizes[1:]) == {1}:
        return 2 * sizes[0] >= hosts
    return 1 not in sizes and max(sizes) > _A_PAIR


def _joined(hosts: Sequence[int], pairs: Iterable[Group]) -> tuple[Group, ...]:
    """The sets that the pairs join, the largest first."""
    of = {host: {host} for host in hosts}
    for a, b in pairs:
        of[a] |= of[b]
        for host in of[a]:
            of[host] = of[a]
    found = {id(one): tuple(sorted(one)) for one in of.values()}
    return tuple(sorted(found.values(), key=lambda one: (-len(one), one)))
