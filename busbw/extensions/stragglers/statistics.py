"""Estimate how slow each host and link is, and test whether a candidate really is slow.

A candidate is a host or a link that may be slow. The time of a pair depends on both its hosts and
on the link between them. The functions compute with logarithms of times and ratios, so that twice
as slow and twice as fast are at the same distance from 1. The functions use medians, so that slow
hosts and links do not change the estimates of other hosts and links.

The test is Wald's sequential probability ratio test (1945). A round of the test shows either
"slower" or "not slower": the candidate is slower than its control pairs by more than `min_loss`, or
it is not. A healthy candidate shows "slower" in at most half of the rounds, whatever the
distribution of the noise. A slow candidate shows "slower" in the fraction SLOWER_FRACTION of the
rounds. After each round, the test decides for "slow", decides for "not slow", or needs a further
round. The decision "slow" is wrong with a probability of at most `false_alarm_probability`.

The same test decides which chips compute or copy more slowly than others, and which links between
chips are slow. There each chip is compared with the median of all chips. With the direction -1, the
test decides whether a pair or a chip is faster than others. Such pairs and chips are a warning: if
most hosts are slow, the median is the time of slow hosts, and healthy hosts seem fast.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.extensions.stragglers.groups import HostGroup
from busbw.extensions.stragglers.worker import ChipTimes
from busbw.stats.launches import robust_stddev


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredComponent:
    """A host, link or chip that was tested in a quantity, such as ``all-reduce 16M``.

    Attributes:
        name: The name of the component in sentences, such as ``host a`` or ``link a - b``.
        hosts: The host, or the two hosts of a link. A chip has its host, and a link between chips
            has the host of the receiving chip.
        quantity: The quantity in which the component was tested.
        ratio: The time of the component divided by the median time of the components with which it
            was compared. A ratio above 1 is slow, and a ratio below 1 is fast.
        p: An upper limit of the probability that a healthy component seems as slow (or as fast) by
            chance. The limit follows from Ville's inequality.
        rounds: The number of rounds of the test.
        control_pairs: The names of the pairs with which the component was compared, such as
            ``b - c``; empty for a chip, which is compared with all chips.

    """

    name: str
    hosts: tuple[str, ...]
    quantity: str
    ratio: float
    p: float
    rounds: int
    control_pairs: tuple[str, ...]


# The fraction of rounds in which a slow candidate is slower than its control pairs, and the
# probability that the test misses a slow candidate.
SLOWER_FRACTION, MISS_PROBABILITY = 0.85, 0.05


@dataclass(kw_only=True)
class SequentialTest:
    """A test whether a candidate is slow, which ends as soon as its rounds are enough to decide.

    The test is a sequential probability ratio test. A candidate is a host, a link or a chip.

    Attributes:
        name: The name of the candidate in sentences, such as ``host a`` or ``link a - b``.
        hosts: The host, or the two hosts of a link. A chip has its host, and a link between chips
            has the host of the receiving chip.
        quantity: The quantity in which the candidate may be slow, such as ``all-reduce 16M``.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        false_alarm_probability: The largest acceptable probability that the test ends with "slow"
            for a healthy candidate.
        direction: 1 to test whether the candidate is slower than others, -1 whether it is faster.
        control_pairs: The control pairs of the rounds so far, each pair once. Empty for a chip,
            which is compared with all chips.
        excesses: The excess of the candidate in each round, which is the logarithm of a ratio: the
            candidate's time divided by the median time of the control pairs, or of all chips.
        evidence: The logarithm of the likelihood ratio after the rounds so far. A positive number
            is evidence that the candidate is slow (or fast), and a negative number that the
            candidate is healthy.

    """

    name: str
    hosts: HostGroup
    quantity: str
    min_loss: float
    false_alarm_probability: float
    direction: int = 1
    control_pairs: dict[HostGroup, None] = field(default_factory=dict)
    excesses: list[float] = field(default_factory=list)
    evidence: float = 0.0

    def add_round(self, excess: float, control_pairs: Iterable[HostGroup] = ()) -> None:
        """Add a round to the test, unless the test has ended.

        The evidence grows if `direction` * `excess` is above log(1 + `min_loss`), and otherwise
        shrinks. How far the excess is above or below that limit does not matter.

        Args:
            excess: The logarithm of a ratio: the candidate's time divided by the median time of the
                control pairs, or of all chips.
            control_pairs: The control pairs of the round. The pairs are only recorded, because
                `excess` already contains their times. Empty for a chip.

        """
        if self.is_open:
            self.excesses.append(excess)
            self.control_pairs |= dict.fromkeys(control_pairs)
            is_slower = self.direction * excess > math.log1p(self.min_loss)
            self.evidence += math.log((SLOWER_FRACTION if is_slower else 1 - SLOWER_FRACTION) / 0.5)

    @property
    def is_confirmed(self) -> bool:
        """Whether the test has ended with the decision that the candidate is slow (or fast)."""
        return self.evidence >= math.log((1 - MISS_PROBABILITY) / self.false_alarm_probability)

    @property
    def is_open(self) -> bool:
        """Whether the test has not decided yet, and needs more rounds."""
        return not self.is_confirmed and self.evidence > math.log(MISS_PROBABILITY)

    def make_measured_component(self) -> MeasuredComponent:
        """Return the candidate with the result of the rounds so far, at least a single round."""
        return MeasuredComponent(
            name=self.name,
            hosts=self.hosts,
            quantity=self.quantity,
            ratio=math.exp(statistics.median(self.excesses)),
            p=min(1.0, math.exp(-self.evidence)),
            rounds=len(self.excesses),
            control_pairs=tuple(map(" - ".join, self.control_pairs)),
        )


def detectable_loss(control_log_times: Sequence[Sequence[float]], min_loss: float) -> float:
    """Return the smallest loss that the test of a candidate would detect in spite of the noise.

    A candidate with this loss is slower than its control pairs, by more than `min_loss`, in the
    fraction SLOWER_FRACTION (85 %) of the rounds. A loss of 0.15 is 15 %. The noise is the
    deviation of the control pairs from the median of their round. If a round has only a single
    control pair, the noise is the deviation of this pair from the median of all rounds.

    Args:
        control_log_times: For each round, the logarithm of the time of each control pair.
        min_loss: The smallest loss that counts as slow.

    """
    overall = statistics.median(itertools.chain(*control_log_times))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else overall)
        for logs in control_log_times
        for log in logs
    )
    low = excesses[int((1 - SLOWER_FRACTION) * len(excesses))]
    return math.expm1(math.log1p(min_loss) - min(0.0, low))


# Racks share a connection if the loss of a pair that is measured by itself is less than this
# fraction of the loss of pairs that are measured at once.
_MAX_SINGLE_PAIR_LOSS = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcessFit:
    """How much slower than usual each host and link is in a quantity, and the noise of the times.

    An excess is the logarithm of a ratio: a time divided by the usual time. The usual time is the
    median over the hosts or groups. So an excess of 0 is usual, and a positive excess is slow.
    Hosts are measured in pairs or in larger groups.

    Attributes:
        host_excesses: The excess of each host. The key is a tuple with the host alone, ``(host,)``.
        link_excesses: The excess of each link: the excess of its pair of hosts, minus the excess of
            the slower host if this host is slow. Empty if hosts were measured in larger groups.
        log_time_stddev: The noise, as a standard deviation that outliers hardly change: of
            `link_excesses` or, if hosts were measured in larger groups, of the excesses of the
            groups.

    """

    host_excesses: Mapping[HostGroup, float]
    link_excesses: Mapping[HostGroup, float]
    log_time_stddev: float


def fit_excesses_of_pairs(
    times_s: Mapping[HostGroup, float], healthy_hosts: Collection[str] = ()
) -> ExcessFit:
    """Return how much slower than usual each host and link is, estimated from pairs of hosts.

    The excess of a host is the lower median of the excesses of its pairs, because a slow partner or
    a single slow link makes only few of these pairs slow. The excess of a link is the excess of its
    pair, minus the excess of the slower of its two hosts. Nothing is subtracted if both hosts are
    as fast as usual or faster.

    Args:
        times_s: The time of each pair in seconds. Each host was measured with most other hosts.
        healthy_hosts: The hosts that set the usual time. If this is not empty, the excess of a host
            is the median of its pairs with these hosts alone.

    """
    logs: dict[str, dict[str, float]] = defaultdict(dict)
    for (first, second), time_s in times_s.items():
        logs[first][second] = logs[second][first] = math.log(time_s)
    healthy = healthy_hosts or logs.keys()
    medians = {
        host: statistics.median_low(
            [log for partner, log in partners.items() if partner in healthy] or partners.values()
        )
        for host, partners in logs.items()
    }
    level = statistics.median_low(log for host, log in medians.items() if host in healthy)
    hosts = {host: log - level for host, log in medians.items()}
    links: dict[HostGroup, float] = {
        (first, second): logs[first][second] - level - max(0.0, hosts[first], hosts[second])
        for first, second in times_s
    }
    return ExcessFit(
        host_excesses={(host,): excess for host, excess in hosts.items()},
        link_excesses=links,
        log_time_stddev=robust_stddev(links.values()),
    )


def fit_excesses_of_groups(rounds: Iterable[Mapping[HostGroup, float]]) -> ExcessFit:
    """Return how much slower than usual each host is, estimated from groups of hosts.

    Each round divides all hosts into other groups, at random. So a slow host shows, because its
    group is slow in every round. The excess of a host is the lower median of the excesses of its
    groups. Links get no excess.

    Args:
        rounds: For each round, the seconds of each group that has a time.

    """
    excesses: dict[str, list[float]] = defaultdict(list)
    noise = []
    for times_s in filter(None, rounds):
        level = statistics.median(map(math.log, times_s.values()))
        for group, time_s in times_s.items():
            noise.append(math.log(time_s) - level)
            for host in group:
                excesses[host].append(noise[-1])
    hosts: dict[HostGroup, float] = {
        (host,): statistics.median_low(logs) for host, logs in excesses.items()
    }
    return ExcessFit(host_excesses=hosts, link_excesses={}, log_time_stddev=robust_stddev(noise))


@dataclass(frozen=True, kw_only=True, slots=True)
class Racks:
    """The racks of a cluster: sets of hosts, with slow connections between the sets.

    Attributes:
        host_groups: The racks, each as the sorted names of its hosts. The largest rack is the
            first.
        ratio: The time of a pair with hosts in two racks, divided by the time of a pair in a single
            rack, while many pairs are measured at once.
        alone: The same ratio, while only a single pair is measured at a time. None if no single
            pair was measured.

    """

    host_groups: tuple[HostGroup, ...]
    ratio: float
    alone: float | None = None

    @property
    def has_shared_connection(self) -> bool:
        """Whether pairs across racks are slow because they share a connection, such as a switch.

        A single pair across racks is then much faster than many such pairs at once. False if
        `alone` is None.
        """
        return self.alone is not None and math.log(self.alone) < _MAX_SINGLE_PAIR_LOSS * math.log(
            self.ratio
        )

    def crosses_racks(self, group: HostGroup) -> bool:
        """Return whether `group` has hosts in more than one rack, or a host in no rack."""
        return not any({*group} <= {*rack} for rack in self.host_groups)


# The fraction of pairs that must be as fast or slow as the racks say, the smallest number of hosts
# with racks, and a size that not all racks may have: a single round of pairs that was faster than
# the other rounds looks like racks of two hosts.
_MIN_CONSISTENT_FRACTION, _MIN_HOSTS_WITH_RACKS, _PAIR_SIZE = 0.95, 6, 2
# Among fewer chips, a slow chip moves the median. The smallest loss between racks, or between fast
# hosts and most hosts, that is reported: smaller losses are usual between parts of a network.
_MIN_CHIPS, MIN_GROUP_LOSS = 3, 0.2


def find_racks(times_s: Mapping[HostGroup, float], min_loss: float) -> Racks | None:
    """Find the racks of the hosts: pairs in a rack are fast, and pairs across racks are slow.

    The time of every pair is tried as the limit between fast and slow pairs. Of the limits that
    give racks, the limit with the least variance among the fast and among the slow pairs is chosen
    (Otsu's method). If single hosts are slow with all other hosts, the result is a large rack of
    the other hosts, and a rack of its own for each slow host.

    Args:
        times_s: The time of each pair of hosts in seconds.
        min_loss: The smallest loss of pairs across racks that counts; 0.2 is 20 %.

    Returns:
        The racks; None for fewer than six hosts, or if no limit gives racks whose connections lose
        more than `min_loss`.

    """
    logs = {group: math.log(time_s) for group, time_s in times_s.items()}
    # Maps each host to the hosts that are connected to it by pairs that are fast at the limit.
    sets = {host: frozenset([host]) for group in logs for host in group}
    best_racks = None
    least_variance = math.inf
    pairs = sorted(logs, key=logs.__getitem__)
    for first, second in pairs[:-1] if len(sets) >= _MIN_HOSTS_WITH_RACKS else ():
        connected = sets[first] | sets[second]
        sets |= dict.fromkeys(connected, connected)
        inside = [log for (a, b), log in logs.items() if sets[a] == sets[b]]
        across = [log for (a, b), log in logs.items() if sets[a] != sets[b]]
        groups = sorted(map(sorted, {*sets.values()}), key=lambda hosts: (-len(hosts), hosts))
        limit = logs[first, second]
        consistent_count = sum(log <= limit for log in inside) + sum(log > limit for log in across)
        is_plausible = inside and across and _are_plausible_rack_sizes(list(map(len, groups)))
        if is_plausible and consistent_count >= _MIN_CONSISTENT_FRACTION * len(logs):
            ratio = math.exp(statistics.median(across) - statistics.median(inside))
            variance = sum(statistics.pvariance(side) * len(side) for side in (inside, across))
            if ratio > 1 + min_loss and variance < least_variance:
                best_racks = Racks(host_groups=tuple(map(tuple, groups)), ratio=ratio)
                least_variance = variance
    return best_racks


def _are_plausible_rack_sizes(host_counts: Sequence[int]) -> bool:
    """Return whether sets of hosts with these sizes can be racks.

    Sets are plausible in two cases. Either each set has several hosts, and the largest set has more
    than two. Or the largest set has at least half of all hosts, and each other set is a single
    host.

    Args:
        host_counts: The number of hosts of each set, in descending order.

    """
    if {*host_counts[1:]} == {1}:
        return 2 * host_counts[0] >= sum(host_counts)
    return host_counts[-1] > 1 and host_counts[0] > _PAIR_SIZE


def find_deviating_chips(
    processes: Sequence[ChipTimes],
    hosts: Sequence[str],
    min_loss: float,
    false_alarm_probability: float,
) -> tuple[list[MeasuredComponent], dict[str, float]]:
    """Find the chips, and the links between chips, that are much slower or faster than most.

    Args:
        processes: The times of the chips of each process. The processes are in the order of
            `hosts`, and each host has the same number of processes.
        hosts: The names of the hosts.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %. A chip counts as fast if the
            median time of all chips is longer by this loss, and by MIN_GROUP_LOSS or more.
        false_alarm_probability: The largest acceptable probability that a chip or link is returned
            although all chips and links are equally fast, except for noise.

    Returns:
        The slow and fast chips and links, the slowest first, and the smallest detectable loss of
        each quantity. A fast chip has a ratio below 1. Quantities with times of fewer than three
        chips or links are left out.

    """
    # The host of each chip, and the rows of each quantity, by the ranks of chips and links.
    host_of: dict[str, str] = {}
    times_s: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
    for index, process in enumerate(processes):
        host = hosts[index * len(hosts) // len(processes)]
        host_of |= dict.fromkeys(process["computing"], host)
        for quantity, process_times_s in process.items():
            times_s[quantity] |= process_times_s
    quantities = {name: rows for name, rows in times_s.items() if len(rows) >= _MIN_CHIPS}
    # Each chip is tested twice: whether it is slow, and whether it is fast.
    risk_per_test = false_alarm_probability / max(1, 2 * sum(map(len, quantities.values())))
    min_losses = {1: min_loss, -1: max(min_loss, MIN_GROUP_LOSS)}
    deviating = []
    losses = {}
    for quantity, rows in quantities.items():
        medians = [statistics.median(row) for row in zip(*rows.values())]
        for (ranks, row), direction in itertools.product(rows.items(), min_losses):
            test = SequentialTest(
                name=" to ".join(f"chip {rank} of host {host_of[rank]}" for rank in ranks.split()),
                hosts=(host_of[ranks.split()[-1]],),
                quantity=quantity,
                min_loss=min_losses[direction],
                direction=direction,
                false_alarm_probability=risk_per_test,
            )
            for time_s, median_s in zip(row, medians):
                test.add_round(math.log(time_s / median_s))
            if test.is_confirmed:
                deviating.append(test.make_measured_component())
        logs = [list(map(math.log, round_s)) for round_s in zip(*rows.values())]
        losses[quantity] = detectable_loss(logs, min_loss)
    return sorted(deviating, key=lambda chip: -chip.ratio), losses
