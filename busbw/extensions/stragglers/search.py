"""Search for slow hosts and links: measure all pairs or groups, then test the candidates.

A candidate is a host or link that looks slow in the first rounds. Only later rounds decide whether
it is slow. In these rounds the candidate is measured with other hosts that look healthy. Control
pairs of such hosts are measured at the same time.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.extensions.stragglers.liveness import (
    HostGroup,
    Liveness,
    MeasureGroups,
    Round,
    TimesByQuantity,
    sorted_pair,
)
from busbw.extensions.stragglers.result import (
    PAIRS_FALSE_ALARM_RISK,
    SearchResult,
    UnreachableComponent,
)
from busbw.extensions.stragglers.statistics import (
    ExcessFit,
    Racks,
    SequentialTest,
    detectable_loss,
    find_racks,
    fit_groups,
    fit_pairs,
)

# A host (a group of a single host) or a link (a pair), and the quantity in which it may be slow.
Candidate = tuple[HostGroup, str]
# The test of each candidate.
TestByCandidate = Mapping[Candidate, SequentialTest]

# Among fewer hosts a slow host cannot be told from a slow link.
MIN_HOSTS = 4
# The most hosts that are measured in pairs; the usual number of hosts in the groups in which more
# hosts are measured; and the fewest groups, for which groups may be smaller.
MAX_HOSTS_IN_PAIRS, _GROUP_SIZE, _MIN_GROUPS = 32, 16, 8
# A link is a candidate above this many standard deviations of the noise. At most this many links
# are tested.
_MIN_LINK_STDDEVS, _MAX_LINK_CANDIDATES = 2.0, 8
# There are at least _MIN_TEST_ROUNDS, which show the noise even without a candidate. After
# _MAX_TEST_ROUNDS a candidate is undecided. All candidates together may have
# _MAX_TEST_ROUNDS_FACTOR times as many rounds.
_MIN_TEST_ROUNDS, _MAX_TEST_ROUNDS, _MAX_TEST_ROUNDS_FACTOR = 4, 40, 3
# The number of successive rounds without a time for any candidate after which the test ends.
_MAX_IDLE_ROUNDS = 4
# How often a pair without a time is measured again if both hosts answer other hosts.
_RETRIES = 2
# The smallest loss between racks that is reported, and how often a pair is measured by itself.
_MIN_RACK_LOSS, _SINGLE_PAIR_ROUNDS = 0.2, 5


@dataclass
class HostSearch:
    """A search for slow hosts and slow links between hosts.

    Attributes:
        hosts: The names of the hosts.
        measure_groups: A function that measures a round of groups.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        in_pairs: Whether every pair of hosts is measured; otherwise hosts are measured in larger
            groups. Always True for at most MAX_HOSTS_IN_PAIRS hosts, whatever the argument is.
        seed: The seed of the random order of hosts.
        report_progress: A function that is called with a text on the progress before each round.

    """

    hosts: Sequence[str]
    measure_groups: MeasureGroups
    min_loss: float = 0.05
    in_pairs: bool = False
    seed: int = 0
    report_progress: Callable[[str], None] = lambda progress: None
    # The racks that the times of each quantity show.
    _racks: dict[str, Racks] = field(default_factory=dict)
    # The pairs without a time after all retries, though both hosts answer other hosts.
    _failed_pairs: list[HostGroup] = field(default_factory=list)
    # How many hosts are slow with all other hosts.
    _slow_host_count: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._liveness = Liveness(self.hosts, self.measure_groups, self._rng)
        self.in_pairs = self.in_pairs or len(self.hosts) <= MAX_HOSTS_IN_PAIRS

    def run(self) -> SearchResult:
        """Measure all hosts, test the candidates, and return the result.

        Raises NoHostAnswersError after several successive rounds without an answer.
        """
        rounds = self._measure_all_hosts()
        times = {group: seconds for measured in rounds for group, seconds in measured.items()}
        fits = {
            quantity: self._fit_quantity(rounds, quantity)
            for quantity in _measured_quantities(times)
        }
        tests, controls = self._test_candidates(self._choose_candidates(fits, len(rounds)))
        slow = [
            t.describe_slow(_group_name(g), g, name) for (g, name), t in tests.items() if t.is_slow
        ]
        racks = {quantity: self._measure_single_pairs(quantity) for quantity in self._racks}
        silent: dict[HostGroup, str] = {
            (h,): reason for h, reason in self._liveness.unreachable.items()
        }
        silent |= {
            g: self._liveness.reasons[g] for g in self._failed_pairs if self._is_reachable(g)
        }
        return SearchResult(
            hosts=tuple(self.hosts),
            slow=tuple(sorted(slow, key=lambda finding: -finding.ratio)),
            unreachable=tuple(
                UnreachableComponent(name=_group_name(group), hosts=group, reason=reason)
                for group, reason in sorted(silent.items())
            ),
            undecided=tuple(map(_group_name, self._undecided_groups(tests))),
            racks=racks,
            detectable={name: detectable_loss(c, self.min_loss) for name, c in controls.items()},
            ratios={
                quantity: {host: math.exp(log) for host, log in fit.host_excesses.items()}
                for quantity, fit in fits.items()
            },
            links_measured=self.in_pairs,
            times={", ".join(group): seconds for group, seconds in times.items()},
        )

    def _measure_all_hosts(self) -> list[dict[HostGroup, TimesByQuantity]]:
        """Measure every two hosts together, or all hosts in larger groups.

        A pair without a time is measured again if both its hosts answer other hosts. Returns, for
        each round, the times of the groups that answered.
        """
        hosts = self._rng.sample(self.hosts, len(self.hosts))
        plan = rounds_of_pairs(hosts) if self.in_pairs else rounds_of_groups(hosts, self._rng)
        rounds = []
        for number, groups in enumerate(plan, 1):
            self.report_progress(f"round {number} of {len(plan)}: {len(groups)} groups at once")
            rounds.append(self._liveness.measure_round(groups))
        for _ in range(_RETRIES if self.in_pairs else 0):
            self._failed_pairs = []
            for groups, times in zip(plan, rounds):
                missing = [g for g in groups if g not in times and self._is_reachable(g)]
                if missing:
                    self.report_progress(f"{len(missing)} pairs that gave no time, again")
                    times.update(self._liveness.measure_round(missing))
                    self._failed_pairs += [group for group in missing if group not in times]
        return rounds

    def _is_reachable(self, group: HostGroup) -> bool:
        """Return whether every host of `group` is still measured."""
        return not self._liveness.unreachable.keys() & {*group}

    def _fit_quantity(
        self, rounds: Sequence[Mapping[HostGroup, TimesByQuantity]], quantity: str
    ) -> ExcessFit:
        """Return the ExcessFit of the times of a quantity in all `rounds`.

        If the times show racks, only pairs in a rack are fitted, and `_racks` keeps the racks. If
        single hosts are slow with all other hosts, only pairs with the other hosts count.
        """
        times_s = [{g: times[quantity] for g, times in measured.items()} for measured in rounds]
        if not self.in_pairs:
            return fit_groups(times_s)
        pairs = {group: time_s for measured in times_s for group, time_s in measured.items()}
        racks = find_racks(pairs, _MIN_RACK_LOSS)
        if racks is not None and len(racks.host_groups[1]) == 1:
            self._slow_host_count = max(self._slow_host_count, len(racks.host_groups) - 1)
            return fit_pairs(pairs, racks.host_groups[0])
        if racks is not None:
            self._racks[quantity] = racks
            pairs = {group: s for group, s in pairs.items() if not racks.crosses_racks(group)}
        return fit_pairs(pairs)

    def _choose_candidates(
        self, fit_by_quantity: Mapping[str, ExcessFit], round_count: int
    ) -> list[Candidate]:
        """Return the candidates: first hosts, then links, each kind with the largest excess first.

        `fit_by_quantity` has the ExcessFit of each quantity, and `round_count` is the number of
        rounds behind each ExcessFit. Hosts come first because more times are known of a host, and a
        slow host explains its slow links.
        """
        min_excess = math.log1p(self.min_loss)
        hosts: dict[Candidate, float] = {}
        links: dict[Candidate, float] = {}
        for quantity, fit in fit_by_quantity.items():
            noise = max(min_excess, _MIN_LINK_STDDEVS * fit.log_time_stddev)
            # The excess of a host is the median of several times.
            limit = max(min_excess / 2, noise / math.sqrt(round_count))
            hosts |= {((h,), quantity): log for h, log in fit.host_excesses.items() if log > limit}
            links |= {
                (link, quantity): log for link, log in fit.link_excesses.items() if log > noise
            }
        max_hosts = max(1, self._slow_host_count, (len(self.hosts) - 2) // 2)
        return [
            *_largest_excesses(hosts, max_hosts),
            *_largest_excesses(links, _MAX_LINK_CANDIDATES),
        ]

    def _test_candidates(
        self, candidates: Sequence[Candidate]
    ) -> tuple[TestByCandidate, dict[str, list[list[float]]]]:
        """Test each candidate in further rounds, in which control pairs are measured, too.

        Returns the tests, and the logarithms of the times of the control pairs: by quantity, a list
        for each round. Without a candidate a few rounds of control pairs are measured.
        """
        tests = {
            candidate: SequentialTest(
                min_loss=self.min_loss,
                false_alarm_probability=PAIRS_FALSE_ALARM_RISK / len(candidates),
            )
            for candidate in candidates
        }
        logs: dict[str, list[list[float]]] = {}
        idle = 0
        for number in range(_MAX_TEST_ROUNDS_FACTOR * _MAX_TEST_ROUNDS):
            counts = {group: len(test.excesses) for (group, _), test in tests.items()}
            pending = [g for g in self._undecided_groups(tests) if counts[g] < _MAX_TEST_ROUNDS]
            if (not pending and number >= _MIN_TEST_ROUNDS) or idle == _MAX_IDLE_ROUNDS:
                break
            self.report_progress(f"test {number + 1}: {len(pending)} candidates")
            # If there are too few partners, the candidates with the fewest rounds get them.
            pairs, controls = self._choose_test_pairs(
                sorted(pending, key=lambda g: counts[g]), tests
            )
            times = self._liveness.measure_round([*pairs.values(), *controls])
            measured = [times[group] for group in controls if group in times]
            is_idle = not measured or not any(group in times for group in pairs.values())
            idle = idle + bool(pending) if is_idle else 0
            for quantity in _measured_quantities(times) if measured else ():
                logs.setdefault(quantity, []).append([math.log(s[quantity]) for s in measured])
            for (group, quantity), test in tests.items():
                if measured and pairs.get(group) in times:
                    log = math.log(times[pairs[group]][quantity])
                    test.add_round(log - statistics.median(logs[quantity][-1]))
        return tests, logs

    def _choose_test_pairs(
        self, candidates: Sequence[HostGroup], tests: TestByCandidate
    ) -> tuple[dict[HostGroup, HostGroup], list[HostGroup]]:
        """Choose the pairs to measure in the next round: for the candidates, and for comparison.

        A candidate is a host or a link. A link is its own pair. A host gets a free host as its
        partner, which is not known to be in another rack. Candidates are served in the given order;
        a candidate has no pair if too few hosts are free. The remaining free hosts form the control
        pairs. Hosts that are slow according to `tests` are in no pair.

        Returns:
            The pair of each candidate that has a pair, and the control pairs.

        """
        slow = {group for (group, _), test in tests.items() if test.is_slow}
        excluded = {group[0] for group in (*candidates, *slow) if len(group) == 1}
        free = [host for host in self._liveness.reachable if host not in excluded]
        self._rng.shuffle(free)
        pairs: dict[HostGroup, HostGroup] = {}
        for group in candidates:
            near = [host for host in free if not self._are_in_different_racks(group[0], host)]
            if len(group) == 1 and len(free) > 2 and near:
                pairs[group] = sorted_pair(group[0], near[-1])
            elif {*group} <= {*free} and len(free) > 3:
                pairs[group] = group
            free = [host for host in free if host not in pairs.get(group, ())]
        controls: list[HostGroup] = []
        while free:
            host = free.pop()
            partner = next((h for h in free if not self._are_in_different_racks(host, h)), None)
            if partner is not None:
                free.remove(partner)
                controls.append(sorted_pair(host, partner))
        return pairs, [g for g in controls if g not in slow and g not in self._failed_pairs]

    def _undecided_groups(self, tests: TestByCandidate) -> list[HostGroup]:
        """Return the reachable hosts and links with an open test that can change the result.

        A test cannot change the result if a host of the group is slow in another test: a slow host
        explains its slow links. A link also waits for the open tests of its hosts.
        """
        hosts = [(group, test) for (group, _), test in tests.items() if len(group) == 1]
        slow = {group[0] for group, test in hosts if test.is_slow}
        unhealthy = slow | {group[0] for group, test in hosts if test.is_open}
        pending = dict.fromkeys(group for (group, _), test in tests.items() if test.is_open)
        return [
            group
            for group in pending
            if (slow if len(group) == 1 else unhealthy).isdisjoint(group)
            and self._is_reachable(group)
        ]

    def _are_in_different_racks(self, first: str, second: str) -> bool:
        """Return whether two hosts are in different racks, by the times of any quantity."""
        return any(racks.crosses_racks((first, second)) for racks in self._racks.values())

    def _measure_single_pairs(self, quantity: str) -> Racks:
        """Return the racks of `quantity`, with their ratio `alone` if it can be measured.

        Pairs across racks and pairs in a rack are measured alternately, a single pair at a time.
        """
        racks = self._racks[quantity]
        pairs = list(itertools.combinations(self._liveness.reachable, 2))
        sides = [[g for g in pairs if racks.crosses_racks(g) is far] for far in (True, False)]
        logs: tuple[list[float], list[float]] = ([], [])
        for _ in range(_SINGLE_PAIR_ROUNDS if all(sides) else 0):
            for side, side_logs in zip(sides, logs):
                times = self._liveness.measure_round([self._rng.choice(side)])
                side_logs.extend(math.log(seconds[quantity]) for seconds in times.values())
        if not all(logs):
            return racks
        between, inside = map(statistics.median, logs)
        return replace(racks, alone=math.exp(between - inside))


def _group_name(group: HostGroup) -> str:
    """Return the name of a host or a link in the result, such as ``host a`` or ``link a - b``."""
    return f"{'host' if len(group) == 1 else 'link'} {' - '.join(group)}"


def _measured_quantities(times: Mapping[HostGroup, TimesByQuantity]) -> list[str]:
    """Return the quantities of which at least one group has a time, without repetitions."""
    return list(dict.fromkeys(quantity for seconds in times.values() for quantity in seconds))


def _largest_excesses(excesses: Mapping[Candidate, float], max_groups: int) -> list[Candidate]:
    """Return all candidates of the `max_groups` hosts or links with the largest excesses.

    A host or link is a candidate in each quantity in which it may be slow. The candidate with the
    largest excess is the first.
    """
    ordered = sorted(excesses, key=lambda candidate: -excesses[candidate])
    groups = list(dict.fromkeys(group for group, _ in ordered))[:max_groups]
    return [candidate for candidate in ordered if candidate[0] in groups]


def rounds_of_pairs(hosts: Sequence[str]) -> tuple[Round, ...]:
    """Return rounds in which every two hosts are measured together once.

    An even number n of hosts needs n - 1 rounds, and an odd number n needs n rounds, in each of
    which a host has no partner (the circle method, which colors the edges of a complete graph).
    """
    circle: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    half = len(circle) // 2
    rounds = []
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]))
        rounds.append(
            tuple(sorted_pair(a, b) for a, b in facing if a is not None and b is not None)
        )
        circle[1:] = [circle[-1], *circle[1:-1]]
    return tuple(rounds)


def rounds_of_groups(hosts: Sequence[str], rng: random.Random) -> tuple[Round, ...]:
    """Return rounds that divide all hosts at random into groups of about the same size.

    A round has 8 groups or more, with 18 hosts or fewer in each group. The number of rounds grows
    with the logarithm of the number of hosts.
    """
    groups = len(hosts) // min(_GROUP_SIZE, len(hosts) // _MIN_GROUPS)
    rounds = math.ceil(math.log2(len(hosts))) - 2
    orders = [rng.sample(hosts, len(hosts)) for _ in range(rounds)]
    return tuple(
        tuple(tuple(sorted(order[first::groups])) for first in range(groups)) for order in orders
    )
