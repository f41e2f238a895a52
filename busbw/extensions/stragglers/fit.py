"""Fit the times of groups as host + host + link, such that slow hosts and links move no others.

All values are logarithms: twice as slow is as far from the middle as twice as fast.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from busbw.extensions.stragglers.liveness import Group

# The standard deviation of a normal distribution over its median absolute deviation.
_MAD = 1.4826
# Racks share a slow connection if a pair by itself loses less than this share of the loss.
_SHARED = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """The excesses of hosts and links as logarithms of ratios; `spread` is that of the noise."""

    hosts: Mapping[str, float]
    links: Mapping[Group, float]
    spread: float


def fit_pairs(times_s: Mapping[Group, float], good: Collection[str] = ()) -> Fit:
    """Fit pairs of hosts, each of which was measured with most of the others.

    The excess of a host is in the lower half of its pairs, because a slow partner or a single slow
    link is in the upper half. The excess of a link is what its slower host does not explain. If
    some hosts are known to be `good`, a host's pairs with these decide.
    """
    logs: dict[str, dict[str, float]] = defaultdict(dict)
    for (first, second), time_s in times_s.items():
        logs[first][second] = logs[second][first] = math.log(time_s)
    medians = {}
    for host, partners in logs.items():
        with_good = [log for partner, log in partners.items() if partner in good]
        medians[host] = statistics.median_low(with_good or partners.values())
    level = statistics.median_low(log for host, log in medians.items() if not good or host in good)
    hosts = {host: log - level for host, log in medians.items()}
    links: dict[Group, float] = {
        (first, second): logs[first][second] - level - max(0.0, hosts[first], hosts[second])
        for first, second in times_s
    }
    return Fit(hosts=hosts, links=links, spread=spread(links.values()))


def fit_groups(rounds: Iterable[Mapping[Group, float]]) -> Fit:
    """Fit rounds that divide all hosts into groups: a slow host's group is slow in every round."""
    excesses: dict[str, list[float]] = defaultdict(list)
    noise = []
    for times_s in filter(None, rounds):
        level = statistics.median(map(math.log, times_s.values()))
        for group, time_s in times_s.items():
            noise.append(math.log(time_s) - level)
            for host in group:
                excesses[host].append(noise[-1])
    hosts = {host: statistics.median_low(logs) for host, logs in excesses.items()}
    return Fit(hosts=hosts, links={}, spread=spread(noise))


def spread(values: Collection[float]) -> float:
    """Return a standard deviation that outliers do not move."""
    middle = statistics.median(values)
    return _MAD * statistics.median(abs(value - middle) for value in values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Racks:
    """Sets of hosts, the largest first, and the time of a pair between them over one within.

    `alone` is this ratio while no other pair is measured, None if that was not measured.
    """

    hosts: tuple[Group, ...]
    ratio: float
    alone: float | None = None

    @property
    def is_shared(self) -> bool:
        """Whether pairs between racks are slow only at the same time, as behind one switch."""
        return self.alone is not None and math.log(self.alone) < _SHARED * math.log(self.ratio)

    def between(self, group: Group) -> bool:
        return not any({*group} <= {*rack} for rack in self.hosts)


# The share of pairs that must be as fast or slow as the racks say. Among fewer hosts chance finds
# racks. Racks of two hosts alone are what a round of pairs looks like that was faster.
_CONSISTENT, _LEAST_HOSTS, _A_PAIR = 0.95, 6, 2


def find_racks(times_s: Mapping[Group, float], least: float) -> Racks | None:
    """Find two or more sets of hosts such that pairs within are fast and pairs between are slow.

    Or one such set, and hosts by themselves that are slow with all others. None if no limit divides
    the pairs so, or if the loss between is below `least` (0.2 is 20 %). Of several limits the one
    with the least variance on both sides is taken (Otsu).
    """
    logs = {group: math.log(time_s) for group, time_s in times_s.items()}
    hosts = sorted({host for group in logs for host in group})
    best, least_variance = None, math.inf
    for limit in sorted(logs.values())[:-1] if len(hosts) >= _LEAST_HOSTS else ():
        racks = Racks(hosts=_joined(hosts, [g for g, log in logs.items() if log <= limit]), ratio=1)
        near = [log for group, log in logs.items() if not racks.between(group)]
        far = [log for group, log in logs.items() if racks.between(group)]
        consistent = sum(log <= limit for log in near) + sum(log > limit for log in far)
        plausible = near and far and _are_racks(racks.hosts, len(hosts))
        if not plausible or consistent < _CONSISTENT * len(logs):
            continue
        ratio = math.exp(statistics.median(far) - statistics.median(near))
        variance = sum(statistics.pvariance(side) * len(side) for side in (near, far))
        if ratio > 1 + least and variance < least_variance:
            best, least_variance = Racks(hosts=racks.hosts, ratio=ratio), variance
    return best


def _are_racks(sets: Sequence[Group], hosts: int) -> bool:
    """Tell whether sets are racks: of several hosts each, or half of all and single others."""
    sizes = [len(group) for group in sets]
    if len(sets) > 1 and set(sizes[1:]) == {1}:
        return 2 * sizes[0] >= hosts
    return 1 not in sizes and max(sizes) > _A_PAIR


def _joined(hosts: Sequence[str], pairs: Iterable[Group]) -> tuple[Group, ...]:
    """Return the sets of hosts that the pairs connect, the largest first."""
    sets = {host: {host} for host in hosts}
    for first, second in pairs:
        sets[first] |= sets[second]
        sets.update(dict.fromkeys(sets[first], sets[first]))
    groups = {tuple(sorted(connected)) for connected in sets.values()}
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))
