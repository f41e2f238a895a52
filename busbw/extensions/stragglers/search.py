"""Search for slow hosts and links: measure all pairs or groups, then test the candidates.

A candidate is a host or link that looks slow in the first rounds. Only later rounds decide whether
it is slow. In these rounds the candidate is measured with other hosts that look healthy. Control
pairs of such hosts are measured at the same time.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.extensions.stragglers.groups import (
    HostGroup,
    Liveness,
    TimesByQuantity,
    rounds_of_groups,
    rounds_of_pairs,
    sorted_pair,
)
from busbw.extensions.stragglers.result import (
    FAST_PAIRS_FALSE_ALARM_RISK,
    PAIRS_FALSE_ALARM_RISK,
    SearchResult,
    UnreachableComponent,
)
from busbw.extensions.stragglers.statistics import (
    MIN_GROUP_LOSS,
    ExcessFit,
    MeasuredComponent,
    Racks,
    SequentialTest,
    detectable_loss,
    find_racks,
    fit_groups,
    fit_pairs,
)

# A host (a group of a single host) or a link (a pair), and the quantity in which it may be slow.
Candidate = tuple[HostGroup, str]
# The logarithms of the times of control pairs: for each quantity, a mapping for each round.
LogTimes = dict[str, list[dict[HostGroup, float]]]

# Among fewer hosts a slow host cannot be told from a slow link. At most MAX_HOSTS_IN_PAIRS hosts
# are measured in pairs, and more hosts in larger groups.
MIN_HOSTS, MAX_HOSTS_IN_PAIRS = 4, 32
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
_REPETITIONS = 2
# How often a pair is measured by itself to compare racks. A pair seems fast below the usual time by
# _MIN_FAST_STDDEVS standard deviations of the noise, as hardly any pair of a healthy cluster does.
_SINGLE_PAIR_ROUNDS, _MIN_FAST_STDDEVS = 5, 4.0


@dataclass
class HostSearch:
    """A search for slow hosts and slow links between hosts.

    Attributes:
        liveness: Measures rounds of groups, and has the names of the hosts.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        in_pairs: Whether every pair of hosts is measured; otherwise hosts are measured in larger
            groups, which needs more than MAX_HOSTS_IN_PAIRS hosts.

    """

    liveness: Liveness
    min_loss: float
    in_pairs: bool
    # The racks that the times of each quantity show.
    _racks: dict[str, Racks] = field(default_factory=dict)
    # The pairs without a time after all repetitions.
    _failed_pairs: list[HostGroup] = field(default_factory=list)
    # How many hosts are slow with all other hosts.
    _slow_host_count: int = 0

    def run(self) -> SearchResult:
        """Measure all hosts, test the candidates, and return the result.

        Raises HostError after several successive rounds without an answer.
        """
        rounds = self._measure_all_hosts()
        times = {group: seconds for measured in rounds for group, seconds in measured.items()}
        fits = {
            quantity: self._fit_quantity(rounds, quantity)
            for quantity in next(iter(times.values()))
        }
        tests, controls = self._test_candidates(self._choose_candidates(fits, len(rounds)))
        slow = [test.describe() for test in tests if test.is_confirmed]
        cleared = [test.describe() for test in tests if not (test.is_confirmed or test.is_open)]
        racks = {name: self._measure_single_pairs(name, far) for name, far in self._racks.items()}
        fast = [] if slow else self._find_fast_links(fits, controls)
        unreachable = self.liveness.unreachable
        silent: list[HostGroup] = [(host,) for host in unreachable]
        silent += filter(unreachable.isdisjoint, self._failed_pairs)
        return SearchResult(
            hosts=tuple(self.liveness.hosts),
            slow=tuple(sorted(slow, key=lambda finding: -finding.ratio)),
            fast=tuple(fast),
            cleared=tuple(cleared),
            unreachable=tuple(
                UnreachableComponent(
                    name=_group_name(group), hosts=group, reason=self.liveness.reasons[group]
                )
                for group in sorted(silent)
            ),
            undecided=tuple(map(_group_name, self._undecided_groups(tests))),
            racks=racks,
            detectable=self._detectable_losses(fits, slow, cleared, controls),
            ratios={
                quantity: {host: math.exp(log) for (host,), log in fit.host_excesses.items()}
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
        rng = self.liveness.rng
        hosts = rng.sample(self.liveness.hosts, len(self.liveness.hosts))
        plan = rounds_of_pairs(hosts) if self.in_pairs else rounds_of_groups(hosts, rng)
        rounds = [self.liveness.measure_round(groups) for groups in plan]
        if self.in_pairs:
            for groups, times in [*zip(plan, rounds)] * _REPETITIONS:
                times.update(self.liveness.measure_round(g for g in groups if g not in times))
            self._failed_pairs = [
                pair for groups, times in zip(plan, rounds) for pair in groups if pair not in times
            ]
        return rounds

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
        racks = find_racks(pairs, MIN_GROUP_LOSS)
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
            hosts |= {
                (host, quantity): log for host, log in fit.host_excesses.items() if log > limit
            }
            links |= {
                (link, quantity): log for link, log in fit.link_excesses.items() if log > noise
            }
        max_hosts = max(self._slow_host_count, (len(self.liveness.hosts) - 2) // 2)
        return [
            *_largest_excesses(hosts, max_hosts),
            *_largest_excesses(links, _MAX_LINK_CANDIDATES),
        ]

    def _test_candidates(
        self,
        candidates: Sequence[Candidate],
        direction: int = 1,
        false_alarm_probability: float = PAIRS_FALSE_ALARM_RISK,
    ) -> tuple[list[SequentialTest], LogTimes]:
        """Test each candidate in further rounds, in which control pairs are measured, too.

        The tests are whether the candidates are slow or, with the `direction` -1, fast, and share
        the `false_alarm_probability`. Returns the tests, and the times of the control pairs.
        Without a candidate a few rounds of control pairs are measured.
        """
        tests = [
            SequentialTest(
                name=_group_name(group),
                hosts=group,
                quantity=quantity,
                min_loss=self.min_loss,
                direction=direction,
                false_alarm_probability=false_alarm_probability / len(candidates),
            )
            for group, quantity in candidates
        ]
        logs: LogTimes = {}
        idle = 0
        for number in range(_MAX_TEST_ROUNDS_FACTOR * _MAX_TEST_ROUNDS):
            counts = {test.hosts: len(test.excesses) for test in tests}
            pending = [g for g in self._undecided_groups(tests) if counts[g] < _MAX_TEST_ROUNDS]
            if (not pending and number >= _MIN_TEST_ROUNDS) or idle == _MAX_IDLE_ROUNDS:
                break
            # If there are too few partners, the candidates with the fewest rounds get them.
            pairs, controls = self._choose_test_pairs(
                sorted(pending, key=lambda g: counts[g]), tests
            )
            times = self.liveness.measure_round([*pairs.values(), *controls])
            measured = {group: times[group] for group in controls if group in times}
            is_idle = not measured or not any(group in times for group in pairs.values())
            idle = idle + bool(pending) if is_idle else 0
            for quantity in next(iter(measured.values()), ()):
                logs.setdefault(quantity, []).append(
                    {group: math.log(times_s[quantity]) for group, times_s in measured.items()}
                )
            for test in tests:
                if measured and pairs.get(test.hosts) in times:
                    log = math.log(times[pairs[test.hosts]][test.quantity])
                    test.add_round(
                        log - statistics.median(logs[test.quantity][-1].values()), measured
                    )
        return tests, logs

    def _find_fast_links(
        self, fits: Mapping[str, ExcessFit], control_logs: LogTimes
    ) -> list[MeasuredComponent]:
        """Return for each quantity the fastest link, if it is far faster than most links.

        If half of the hosts or more are slow, most links are slow, so that links of the other hosts
        seem fast. But if every host has a fast link, no host is slow. For hosts that were measured
        in groups, the links are those of the control pairs.
        """
        candidates: list[Candidate] = []
        for quantity, logs in control_logs.items():
            times_s = {pair: math.exp(log) for by_pair in logs for pair, log in by_pair.items()}
            fit = fits[quantity] if self.in_pairs else fit_pairs(times_s)
            limit = max(math.log1p(MIN_GROUP_LOSS), _MIN_FAST_STDDEVS * fit.log_time_stddev)
            fast = [link for link, excess in fit.link_excesses.items() if excess < -limit]
            if 0 < len({*itertools.chain(*fast)}) < len(self.liveness.reachable):
                candidates.append((min(fast, key=fit.link_excesses.__getitem__), quantity))
        tests = (
            self._test_candidates(candidates, -1, FAST_PAIRS_FALSE_ALARM_RISK)[0]
            if candidates
            else []
        )
        return [test.describe() for test in tests if test.is_confirmed]

    def _detectable_losses(
        self,
        fits: Mapping[str, ExcessFit],
        slow: Sequence[MeasuredComponent],
        cleared: Sequence[MeasuredComponent],
        control_logs: LogTimes,
    ) -> dict[str, float]:
        """Return the smallest loss that the search finds in any host, and in any link, by quantity.

        The noise of the control pairs can hide a loss. A `cleared` host or link can have a ratio
        that is `min_loss` above the ratio of its test. A host or link without a test can have the
        loss that its first rounds show. Hosts and links in `slow` do not count.
        """
        ratios = {(group.hosts, group.quantity): 1.0 for group in slow} | {
            (group.hosts, group.quantity): group.ratio * (1 + self.min_loss) for group in cleared
        }
        losses: dict[str, float] = {}
        for quantity, logs in control_logs.items():
            least = detectable_loss([[*by_pair.values()] for by_pair in logs], self.min_loss)
            fit = fits[quantity]
            for group, excess in {**fit.host_excesses, **fit.link_excesses}.items():
                name = quantity if len(group) == 1 else f"{quantity} of a link"
                ratio = ratios.get((group, quantity), math.exp(excess))
                losses[name] = max(losses.get(name, least), ratio - 1)
        return losses

    def _choose_test_pairs(
        self, candidates: Sequence[HostGroup], tests: Sequence[SequentialTest]
    ) -> tuple[dict[HostGroup, HostGroup], list[HostGroup]]:
        """Choose the pairs to measure in the next round: for the candidates, and for comparison.

        A candidate is a host or a link. A link is its own pair. A host gets a free host as its
        partner, which is not known to be in another rack. Candidates are served in the given order;
        a candidate has no pair if too few hosts are free. The remaining free hosts form the control
        pairs. Hosts that are slow according to `tests` are in no pair.

        Returns:
            The pair of each candidate that has a pair, and the control pairs.

        """
        slow = {test.hosts for test in tests if test.is_confirmed}
        excluded = {*candidates, *slow}
        free = [host for host in self.liveness.reachable if (host,) not in excluded]
        self.liveness.rng.shuffle(free)
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

    def _undecided_groups(self, tests: Sequence[SequentialTest]) -> list[HostGroup]:
        """Return the reachable hosts and links with an open test that can change the result.

        A test cannot change the result if a host of the group is slow in another test: a slow host
        explains its slow links. A link also waits for the open tests of its hosts.
        """
        slow = {test.hosts for test in tests if test.is_confirmed}
        pending = dict.fromkeys(test.hosts for test in tests if test.is_open)
        return [
            group
            for group in pending
            if slow.isdisjoint((host,) for host in group)
            and (len(group) == 1 or pending.keys().isdisjoint((host,) for host in group))
            and self.liveness.unreachable.isdisjoint(group)
        ]

    def _are_in_different_racks(self, first: str, second: str) -> bool:
        """Return whether two hosts are in different racks, by the times of any quantity."""
        return any(racks.crosses_racks((first, second)) for racks in self._racks.values())

    def _measure_single_pairs(self, quantity: str, racks: Racks) -> Racks:
        """Return the `racks` of `quantity`, with their ratio `alone` if it can be measured.

        Pairs across racks and pairs in a rack are measured alternately, a single pair at a time.
        """
        pairs = list(itertools.combinations(self.liveness.reachable, 2))
        logs: dict[bool, list[float]] = {True: [], False: []}
        for is_across in (True, False) * _SINGLE_PAIR_ROUNDS:
            side = [pair for pair in pairs if racks.crosses_racks(pair) is is_across]
            times = self.liveness.measure_round([self.liveness.rng.choice(side)] if side else [])
            logs[is_across] += [math.log(seconds[quantity]) for seconds in times.values()]
        if not all(logs.values()):
            return racks
        return replace(
            racks, alone=math.exp(statistics.median(logs[True]) - statistics.median(logs[False]))
        )


def _group_name(group: HostGroup) -> str:
    """Return the name of a host or a link in the result, such as ``host a`` or ``link a - b``."""
    return f"{'host' if len(group) == 1 else 'link'} {' - '.join(group)}"


def _largest_excesses(excesses: Mapping[Candidate, float], max_groups: int) -> list[Candidate]:
    """Return all candidates of the `max_groups` hosts or links with the largest excesses.

    A host or link is a candidate in each quantity in which it may be slow. The candidate with the
    largest excess is the first.
    """
    ordered = sorted(excesses, key=lambda candidate: -excesses[candidate])
    groups = list(dict.fromkeys(group for group, _ in ordered))[:max_groups]
    return [candidate for candidate in ordered if candidate[0] in groups]
