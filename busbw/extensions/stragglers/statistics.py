"""The statistics of slow hosts and links: a robust fit, and a sequential test of a candidate.

The time of a pair depends on both its hosts and on the link between them. All values are logarithms
of times or ratios, so that twice as slow and twice as fast are at the same distance. Slow hosts and
links do not change the fit of others.

In each round of the test, a candidate is slower than its control pairs by more than `min_loss`, or
not. A candidate that is not slow behaves like a coin that shows "slower" in at most half of the
rounds, whatever the distribution of the noise, because its median is no larger. Wald's sequential
probability ratio test (1945) compares the probabilities 1/2 and SLOWER_FRACTION. The test ends with
"slow", which is wrong with a probability of at most `false_alarm_probability`, or with "not slow".

The same test decides which chips compute or copy more slowly than others, and which links between
chips are slow: in each round every chip is compared with the median of all chips. With the opposite
direction, the test decides whether pairs or chips are faster: if half of the hosts or more are
slow, the median is the time of slow hosts, and the other hosts seem fast.
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
        hosts: The host, or the two hosts of a link.
        quantity: The quantity in which the component seemed slow.
        ratio: The time of the component divided by the median time of the others.
        p: An upper limit of the probability that a component like the others seems so slow or so
            fast (Ville's inequality).
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
# probability that the test misses such a candidate.
SLOWER_FRACTION, MISS_PROBABILITY = 0.85, 0.05


@dataclass(kw_only=True)
class SequentialTest:
    """A sequential test whether a candidate is slow, which ends when the rounds so far decide.

    Attributes:
        name: The name of the candidate in sentences, such as ``host a`` or ``link a - b``.
        hosts: The host, or the two hosts of a link.
        quantity: The quantity in which the candidate may be slow.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        false_alarm_probability: The largest acceptable probability that the test ends with "slow"
            for a healthy candidate.
        direction: 1 to test whether the candidate is slower than others, -1 whether it is faster.
        control_pairs: The control pairs of the rounds so far, each pair once.
        excesses: For each round, the logarithm of the candidate's time divided by the median time
            of the control pairs, or of all chips.
        evidence: The logarithm of the likelihood ratio of slow (or fast) to healthy after the
            rounds so far.

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

        `excess` is the logarithm of the candidate's time divided by the median time of the
        components with which the candidate is compared: the `control_pairs`, which are only
        recorded, or all chips. The evidence grows if `direction` * `excess` is above log(1 +
        `min_loss`), and otherwise shrinks, whatever the size of the excess.
        """
        if self.is_open:
            self.excesses.append(excess)
            self.control_pairs |= dict.fromkeys(control_pairs)
            is_slower = self.direction * excess > math.log1p(self.min_loss)
            self.evidence += math.log((SLOWER_FRACTION if is_slower else 1 - SLOWER_FRACTION) / 0.5)

    @property
    def is_confirmed(self) -> bool:
        """Whether the candidate is slow (or fast) according to the rounds so far."""
        return self.evidence >= math.log((1 - MISS_PROBABILITY) / self.false_alarm_probability)

    @property
    def is_open(self) -> bool:
        """Whether the test needs more rounds."""
        return not self.is_confirmed and self.evidence > math.log(MISS_PROBABILITY)

    def describe(self) -> MeasuredComponent:
        """Return the candidate with the result of at least one round."""
        return MeasuredComponent(
            name=self.name,
            hosts=self.hosts,
            quantity=self.quantity,
            ratio=math.exp(statistics.median(self.excesses)),
            p=min(1.0, math.exp(-self.evidence)),
            rounds=len(self.excesses),
            control_pairs=tuple(map(" - ".join, self.control_pairs)),
        )


def detectable_loss(control_logs: Sequence[Sequence[float]], min_loss: float) -> float:
    """Return the smallest loss that a round shows with the probability SLOWER_FRACTION.

    A loss of 0.15 is 15 %. To estimate the noise, each time of a control pair is compared with the
    median of its round or, if the round has a single control pair, with the median of all rounds.

    Args:
        control_logs: The logarithms of the times of the control pairs, a sequence for each round.
        min_loss: The smallest loss that counts as slow.

    """
    overall = statistics.median(itertools.chain(*control_logs))
    excesses = sorted(
        log - (statistics.median(logs) if len(logs) > 1 else overall)
        for logs in control_logs
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

    An excess is the logarithm of a time divided by the usual time, the median over the hosts or
    groups. Hosts are measured in pairs or in larger groups.

    Attributes:
        host_excesses: The excess of each host. The key is a tuple with the host alone, ``(host,)``.
        link_excesses: The excess of each link: the excess of its pair of hosts, minus the larger
            excess of the two hosts if that is positive. Empty if hosts were measured in larger
            groups.
        log_time_stddev: The noise: the standard deviation of `link_excesses` or, if hosts were
            measured in larger groups, of the excesses of the groups. Outliers hardly change it.

    """

    host_excesses: Mapping[HostGroup, float]
    link_excesses: Mapping[HostGroup, float]
    log_time_stddev: float


def fit_pairs(times_s: Mapping[HostGroup, float], healthy_hosts: Collection[str] = ()) -> ExcessFit:
    """Return the ExcessFit of pairs of hosts; each host was measured with most other hosts.

    The excess of a host is the lower median of the excesses of its pairs, because a slow partner or
    a single slow link makes only few pairs slow. The excess of a link is the excess of its pair
    minus the larger excess of its two hosts; only a positive excess of a host is subtracted.

    Args:
        times_s: The time of each pair in seconds.
        healthy_hosts: If not empty, only pairs with these hosts count for the excess of a host, and
            the usual time is the time of these hosts.

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


def fit_groups(rounds: Iterable[Mapping[HostGroup, float]]) -> ExcessFit:
    """Return the ExcessFit of rounds, each of which divides all hosts into groups, without links.

    A slow host shows because its group is slow in every round. Each round maps the groups that have
    a time to their seconds.
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
    """Sets of hosts with slow connections between the sets.

    Attributes:
        host_groups: The sets, each as the sorted names of its hosts; the largest is the first.
        ratio: The time of a pair across two sets, divided by the time of a pair in a set, if many
            pairs are measured at once.
        alone: The same ratio if only a single pair is measured at a time; None if single pairs were
            not measured.

    """

    host_groups: tuple[HostGroup, ...]
    ratio: float
    alone: float | None = None

    @property
    def is_shared(self) -> bool:
        """Whether pairs between racks are much slower only if many pairs are measured at once.

        The pairs then share a connection, such as a switch. False if `alone` is None.
        """
        return self.alone is not None and math.log(self.alone) < _MAX_SINGLE_PAIR_LOSS * math.log(
            self.ratio
        )

    def crosses_racks(self, group: HostGroup) -> bool:
        """Return whether the hosts of `group` are not all in the same rack."""
        return not any({*group} <= {*rack} for rack in self.host_groups)


# The fraction of pairs that must be as fast or slow as the racks say, the smallest number of hosts
# with racks, and a size that not all racks may have: a single round of pairs that was faster than
# the other rounds looks like racks of two hosts.
_MIN_CONSISTENT_FRACTION, _MIN_HOSTS_WITH_RACKS, _PAIR_SIZE = 0.95, 6, 2
# Among fewer chips, a slow chip moves the median. The smallest loss between racks, or between fast
# hosts and most hosts, that is reported: smaller losses are usual between parts of a network.
_MIN_CHIPS, MIN_GROUP_LOSS = 3, 0.2


def find_racks(times_s: Mapping[HostGroup, float], min_loss: float) -> Racks | None:
    """Find sets of hosts (racks) such that pairs in a set are fast, and pairs across sets slow.

    A single large set is accepted, too, if every other host is slow with all hosts. A time limit
    divides the pairs into fast and slow pairs; of several limits, the limit with the least variance
    on its two sides is chosen (Otsu's method).

    Args:
        times_s: The time of each pair of hosts in seconds.
        min_loss: The smallest loss of pairs across sets that counts; 0.2 is 20 %.

    Returns:
        The sets; None for fewer than six hosts, or if no limit divides the pairs into such sets
        with a loss above `min_loss`.

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
    """Return whether sets with these numbers of hosts, in descending order, can be racks.

    Either all sets have several hosts, and the largest set has more than two. Or a single set has
    at least half of the hosts, and each other set has a single host.
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
    """Return the slow and fast chips and links, and the detectable loss of each quantity.

    The slowest chip or link is the first. Fast chips and links have ratios below 1. A quantity is
    left out if fewer than three chips or links have times of it.

    Args:
        processes: The times of each process. The processes are in the order of `hosts`, and each
            host has the same number of processes.
        hosts: The names of the hosts.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %. A chip is fast if the median
            chip loses MIN_GROUP_LOSS or more relative to the fast chip.
        false_alarm_probability: The largest acceptable probability that any chip is returned
            although no chip differs from the others by more than that.

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
                deviating.append(test.describe())
        logs = [list(map(math.log, round_s)) for round_s in zip(*rows.values())]
        losses[quantity] = detectable_loss(logs, min_loss)
    return sorted(deviating, key=lambda chip: -chip.ratio), losses
