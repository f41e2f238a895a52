"""Search for slow hosts and links: measure all pairs or groups, then test the candidates.

A candidate is a host or link that looks slow in the first rounds. Only later rounds decide whether
the candidate is slow. In the later rounds a candidate is measured with hosts that look healthy.
Other hosts that look healthy are measured at the same time, as control pairs.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.extensions.stragglers.groups import (
    HostGroup,
    RoundMeasurer,
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
    fit_excesses_of_groups,
    fit_excesses_of_pairs,
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
        measurer: The RoundMeasurer that measures rounds of groups, and has the names of the hosts.
        min_loss: The smallest loss that counts as slow; 0.05 is 5 %.
        in_pairs: Whether every pair of hosts is measured. Otherwise hosts are measured in larger
            groups, which needs more than MAX_HOSTS_IN_PAIRS hosts, and links are not tested.

    """

    measurer: RoundMeasurer
    min_loss: float
    in_pairs: bool
    # The racks that the times of each quantity show.
    _racks: dict[str, Racks] = field(default_factory=dict)
    # The pairs without a time after all repetitions.
    _failed_pairs: list[HostGroup] = field(default_factory=list)
    # How many hosts are slow with all other hosts.
    _slow_host_count: int = 0

    def run(self) -> SearchResult:
        """Measure all hosts, test the hosts and links that look slow, and return the result.

        Raises HostError if no host has answered in several successive rounds.
        """
        rounds = self._measure_all_hosts()
        times = {group: seconds for measured in rounds for group, seconds in measured.items()}
        fit_by_quantity = {
            quantity: self._fit_excesses(rounds, quantity)
            for quantity in next(iter(times.values()))
        }
        tests, controls = self._test_candidates(
            self._choose_candidates(fit_by_quantity, len(rounds))
        )
        slow = [test.make_measured_component() for test in tests if test.is_confirmed]
        cleared = [
            test.make_measured_component()
            for test in tests
            if not (test.is_confirmed or test.is_open)
        ]
        racks = {name: self._measure_single_pairs(name, far) for name, far in self._racks.items()}
        fast = [] if slow else self._test_fastest_links(fit_by_quantity, controls)
        unreachable = self.measurer.unreachable_hosts
        silent: list[HostGroup] = [(host,) for host in unreachable]
        silent += filter(unreachable.isdisjoint, self._failed_pairs)
        return SearchResult(
            hosts=tuple(self.measurer.hosts),
            slow=tuple(sorted(slow, key=lambda finding: -finding.ratio)),
            fast=tuple(fast),
            cleared=tuple(cleared),
            unreachable=tuple(
                UnreachableComponent(
                    name=_group_name(group),
                    hosts=group,
                    reason=self.measurer.failure_reasons[group],
                )
                for group in sorted(silent)
            ),
            undecided=tuple(map(_group_name, self._undecided_groups(tests))),
            racks=racks,
            detectable=self._detectable_losses(fit_by_quantity, slow, cleared, controls),
            ratios={
                quantity: {host: math.exp(log) for (host,), log in fit.host_excesses.items()}
                for quantity, fit in fit_by_quantity.items()
            },
            links_measured=self.in_pairs,
            times={", ".join(group): seconds for group, seconds in times.items()},
        )

    def _measure_all_hosts(self) -> list[dict[HostGroup, TimesByQuantity]]:
        """Measure every two hosts together, or all hosts in larger groups.

        If a pair fails, and both its hosts answer other hosts, the pair is measured again. Returns,
        for each round, the times of the groups that answered.
        """
        rng = self.measurer.rng
        hosts = rng.sample(self.measurer.hosts, len(self.measurer.hosts))
        plan = rounds_of_pairs(hosts) if self.in_pairs else rounds_of_groups(hosts, rng)
        rounds = [self.measurer.measure_round(groups) for groups in plan]
        if self.in_pairs:
            for groups, times in [*zip(plan, rounds)] * _REPETITIONS:
                times.update(self.measurer.measure_round(g for g in groups if g not in times))
            self._failed_pairs = [
                pair for groups, times in zip(plan, rounds) for pair in groups if pair not in times
            ]
        return rounds

    def _fit_excesses(
        self, rounds: Sequence[Mapping[HostGroup, TimesByQuantity]], quantity: str
    ) -> ExcessFit:
        """Return how much slower than usual each host and link is in a quantity.

        If the times show racks, the racks are also stored in `_racks`, and only pairs of hosts in
        the same rack count. If a few hosts are slow with all other hosts, the usual time is the
        time of the other hosts.

        Args:
            rounds: For each round, the times of the groups that answered.
            quantity: The quantity, such as ``all-reduce 16M``.

        """
        times_s = [{g: times[quantity] for g, times in measured.items()} for measured in rounds]
        if not self.in_pairs:
            return fit_excesses_of_groups(times_s)
        pairs = {group: time_s for measured in times_s for group, time_s in measured.items()}
        racks = find_racks(pairs, MIN_GROUP_LOSS)
        if racks is not None and len(racks.host_groups[1]) == 1:
            self._slow_host_count = max(self._slow_host_count, len(racks.host_groups) - 1)
            return fit_excesses_of_pairs(pairs, racks.host_groups[0])
        if racks is not None:
            self._racks[quantity] = racks
            pairs = {group: s for group, s in pairs.items() if not racks.crosses_racks(group)}
        return fit_excesses_of_pairs(pairs)

    def _choose_candidates(
        self, fit_by_quantity: Mapping[str, ExcessFit], round_count: int
    ) -> list[Candidate]:
        """Return the hosts and links that look slow, with the quantities in which they look slow.

        The hosts come before the links, because more times of a host are known, and because a slow
        host explains its slow links. Hosts and links are each sorted by excess, the largest first.

        Args:
            fit_by_quantity: The ExcessFit of each quantity.
            round_count: The number of rounds from which each ExcessFit was computed.

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
        max_hosts = max(self._slow_host_count, (len(self.measurer.hosts) - 2) // 2)
        return [
            *_candidates_with_largest_excesses(hosts, max_hosts),
            *_candidates_with_largest_excesses(links, _MAX_LINK_CANDIDATES),
        ]

    def _test_candidates(
        self,
        candidates: Sequence[Candidate],
        direction: int = 1,
        false_alarm_probability: float = PAIRS_FALSE_ALARM_RISK,
    ) -> tuple[list[SequentialTest], LogTimes]:
        """Measure further rounds, and test in them whether the candidates are slow (or fast).

        Control pairs are measured at the same time, for comparison. Without a candidate, a few
        rounds of control pairs are measured, to know the noise.

        Args:
            candidates: The hosts and links to test, the most important first.
            direction: 1 to test whether the candidates are slow, -1 whether they are fast.
            false_alarm_probability: The largest acceptable probability that any candidate is called
                slow (or fast) by chance. Each test gets an equal part of it.

        Returns:
            A test for each candidate, and the logarithms of the times of the control pairs.

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
            times = self.measurer.measure_round([*pairs.values(), *controls])
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

    def _test_fastest_links(
        self, fit_by_quantity: Mapping[str, ExcessFit], control_log_times: LogTimes
    ) -> list[MeasuredComponent]:
        """Test the fastest link of each quantity, and return the links that are far too fast.

        A fast link is a warning: if most hosts are slow, most links are slow, and a link between
        two healthy hosts seems fast. A quantity in which every host has a fast link is not tested,
        because then no host is slow.

        Args:
            fit_by_quantity: The ExcessFit of each quantity. If hosts were measured in groups larger
                than pairs, an ExcessFit of the control pairs is used instead.
            control_log_times: The logarithms of the times of the control pairs.

        """
        candidates: list[Candidate] = []
        for quantity, logs in control_log_times.items():
            times_s = {pair: math.exp(log) for by_pair in logs for pair, log in by_pair.items()}
            fit = fit_by_quantity[quantity] if self.in_pairs else fit_excesses_of_pairs(times_s)
            limit = max(math.log1p(MIN_GROUP_LOSS), _MIN_FAST_STDDEVS * fit.log_time_stddev)
            fast = [link for link, excess in fit.link_excesses.items() if excess < -limit]
            if 0 < len({*itertools.chain(*fast)}) < len(self.measurer.reachable_hosts):
                candidates.append((min(fast, key=fit.link_excesses.__getitem__), quantity))
        tests = (
            self._test_candidates(candidates, -1, FAST_PAIRS_FALSE_ALARM_RISK)[0]
            if candidates
            else []
        )
        return [test.make_measured_component() for test in tests if test.is_confirmed]

    def _detectable_losses(
        self,
        fit_by_quantity: Mapping[str, ExcessFit],
        slow: Sequence[MeasuredComponent],
        cleared: Sequence[MeasuredComponent],
        control_log_times: LogTimes,
    ) -> dict[str, float]:
        """Return, for each quantity, the smallest loss that would be found in any host or link.

        For example, 0.15 means that a host with a loss of 15 % would have been found. This loss is
        the largest of three: the loss that the noise of the control pairs can hide, the losses that
        cleared hosts and links can still have, and the losses that untested hosts and links showed
        in the first rounds. Links have quantities of their own, such as ``all-reduce 16M of a
        link``.

        Args:
            fit_by_quantity: The ExcessFit of each quantity in the first rounds.
            slow: The hosts and links that were found slow, which do not count.
            cleared: The hosts and links that were tested, and are not slow.
            control_log_times: The logarithms of the times of the control pairs.

        """
        ratios = {(group.hosts, group.quantity): 1.0 for group in slow} | {
            (group.hosts, group.quantity): group.ratio * (1 + self.min_loss) for group in cleared
        }
        losses: dict[str, float] = {}
        for quantity, logs in control_log_times.items():
            least = detectable_loss([[*by_pair.values()] for by_pair in logs], self.min_loss)
            fit = fit_by_quantity[quantity]
            for group, excess in {**fit.host_excesses, **fit.link_excesses}.items():
                name = quantity if len(group) == 1 else f"{quantity} of a link"
                ratio = ratios.get((group, quantity), math.exp(excess))
                losses[name] = max(losses.get(name, least), ratio - 1)
        return losses

    def _choose_test_pairs(
        self, candidates: Sequence[HostGroup], tests: Sequence[SequentialTest]
    ) -> tuple[dict[HostGroup, HostGroup], list[HostGroup]]:
        """Choose the pairs of the next round: a pair for each candidate, and control pairs.

        A candidate link is a pair already. A candidate host gets a partner that looks healthy, and
        that is not known to be in another rack. The control pairs consist of the hosts that remain.
        Hosts that were found slow are in no pair.

        Args:
            candidates: The hosts and links to measure. The first candidates get their pairs first.
            tests: The tests so far, which say which hosts are slow.

        Returns:
            The pair of each candidate, and the control pairs. A candidate has no pair if too few
            hosts remain.

        """
        slow = {test.hosts for test in tests if test.is_confirmed}
        excluded = {*candidates, *slow}
        free = [host for host in self.measurer.reachable_hosts if (host,) not in excluded]
        self.measurer.rng.shuffle(free)
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
        """Return the hosts and links whose tests are open, and still matter for the result.

        The tests of a slow or unreachable host, and of its links, do not matter any more, because a
        slow host explains its slow links. A link is also left out while a test of one of its hosts
        is open.
        """
        slow = {test.hosts for test in tests if test.is_confirmed}
        pending = dict.fromkeys(test.hosts for test in tests if test.is_open)
        return [
            group
            for group in pending
            if slow.isdisjoint((host,) for host in group)
            and (len(group) == 1 or pending.keys().isdisjoint((host,) for host in group))
            and self.measurer.unreachable_hosts.isdisjoint(group)
        ]

    def _are_in_different_racks(self, first: str, second: str) -> bool:
        """Return whether the times of any quantity show that two hosts are in different racks."""
        return any(racks.crosses_racks((first, second)) for racks in self._racks.values())

    def _measure_single_pairs(self, quantity: str, racks: Racks) -> Racks:
        """Measure pairs of hosts one at a time, and return `racks` with their ratio `alone`.

        Pairs across two racks and pairs in a rack are measured alternately. If either kind gives no
        time, `racks` is returned unchanged.

        Args:
            quantity: The quantity whose times show the racks.
            racks: The racks.

        """
        pairs = list(itertools.combinations(self.measurer.reachable_hosts, 2))
        logs: dict[bool, list[float]] = {True: [], False: []}
        for is_across in (True, False) * _SINGLE_PAIR_ROUNDS:
            side = [pair for pair in pairs if racks.crosses_racks(pair) is is_across]
            times = self.measurer.measure_round([self.measurer.rng.choice(side)] if side else [])
            logs[is_across] += [math.log(seconds[quantity]) for seconds in times.values()]
        if not all(logs.values()):
            return racks
        return replace(
            racks, alone=math.exp(statistics.median(logs[True]) - statistics.median(logs[False]))
        )


def _group_name(group: HostGroup) -> str:
    """Return the name of a host or link in the result, such as ``host a`` or ``link a - b``."""
    return f"{'host' if len(group) == 1 else 'link'} {' - '.join(group)}"


def _candidates_with_largest_excesses(
    excesses: Mapping[Candidate, float], max_groups: int
) -> list[Candidate]:
    """Return the candidates of the hosts or links with the largest excesses, the largest first.

    A host or link can have several candidates, one for each quantity in which it looks slow.

    Args:
        excesses: The excess of each candidate.
        max_groups: The largest number of different hosts or links in the result.

    """
    ordered = sorted(excesses, key=lambda candidate: -excesses[candidate])
    groups = list(dict.fromkeys(group for group, _ in ordered))[:max_groups]
    return [candidate for candidate in ordered if candidate[0] in groups]
