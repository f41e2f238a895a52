"""Search for slow hosts and links: measure all pairs or groups, then test the candidates.

A host or link that looks slow in the first rounds is a candidate.
Whether it is slow is decided by later rounds alone, in which it is measured with other hosts that
look healthy, next to control pairs of such hosts.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.extensions.stragglers.fit import Fit, Racks, find_racks, fit_groups, fit_pairs
from busbw.extensions.stragglers.liveness import Group, Liveness, Measure, Round, Times, pair
from busbw.extensions.stragglers.result import (
    PAIRS_RISK,
    NoAnswer,
    Result,
)
from busbw.extensions.stragglers.sequential import SequentialTest, detectable_loss

# A host or a link, and the quantity in which it may be slow.
Candidate = tuple[Group, str]
Tests = Mapping[Candidate, SequentialTest]

# Among fewer hosts a slow host cannot be told from a slow link.
LEAST_HOSTS = 4
# More hosts are measured in groups of at most this size instead of pairs.
MOST_IN_PAIRS, _GROUP, _LEAST_GROUPS = 32, 16, 8
# The standard deviations by which a candidate exceeds the noise, and the most links to test.
_CANDIDATE_DEVIATIONS, _MOST_LINKS = 2.0, 8
# Test rounds that show the noise if there is no candidate, the rounds of a candidate after which it
# is undecided, and how many times as many all candidates may take together.
_LEAST_TESTS, _MOST_TESTS, _SHARES = 4, 40, 3
# Rounds without a partner for any candidate after which none is expected.
_MOST_IDLE = 4
# How often a pair without a time is measured again, of hosts that answer others.
_RETRIES = 2
# The loss between racks that is worth telling, and how often pairs are measured by themselves.
_RACK_LOSS, _ALONE = 0.2, 5


@dataclass
class Search:
    """A search among hosts for those that take more than `least` (0.05 is 5 %) longer.

    With `in_pairs` every two hosts are measured together, however many there are.
    """

    hosts: Sequence[str]
    measure: Measure
    least: float = 0.05
    in_pairs: bool = False
    seed: int = 0
    report: Callable[[str], None] = lambda progress: None
    _racks: dict[str, Racks] = field(default_factory=dict)
    _broken: list[Group] = field(default_factory=list)
    # The number of hosts that are slow with all others.
    _slow_with_all: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._liveness = Liveness(self.hosts, self.measure, self._chance)
        self.in_pairs = self.in_pairs or len(self.hosts) <= MOST_IN_PAIRS

    def run(self) -> Result:
        """Measure all, and then the candidates. Raises NoHostAnswersError."""
        rounds = self._measure_all()
        times = {group: seconds for measured in rounds for group, seconds in measured.items()}
        fits = {quantity: self._fit(rounds, quantity) for quantity in _quantities(times)}
        tests, controls = self._test(self._candidates(fits, len(rounds)))
        slow = [t.finding(_name(g), g, name) for (g, name), t in tests.items() if t.is_slow]
        racks = {quantity: self._measure_alone(quantity) for quantity in self._racks}
        silent: dict[Group, str] = {
            (h,): reason for h, reason in self._liveness.unreachable.items()
        }
        silent |= {g: self._liveness.reasons[g] for g in self._broken if self._is_reachable(g)}
        return Result(
            hosts=tuple(self.hosts),
            slow=tuple(sorted(slow, key=lambda finding: -finding.ratio)),
            unreachable=tuple(
                NoAnswer(name=_name(group), hosts=group, reason=reason)
                for group, reason in sorted(silent.items())
            ),
            undecided=tuple(map(_name, self._undecided(tests))),
            racks=racks,
            detectable={name: detectable_loss(c, self.least) for name, c in controls.items()},
            ratios={
                quantity: {host: math.exp(log) for host, log in fit.hosts.items()}
                for quantity, fit in fits.items()
            },
            links_measured=self.in_pairs,
            times={", ".join(group): seconds for group, seconds in times.items()},
        )

    def _measure_all(self) -> list[dict[Group, Times]]:
        """Measure every two hosts together, or all hosts in groups, and return times by round."""
        hosts = self._chance.sample(self.hosts, len(self.hosts))
        plan = pairings(hosts) if self.in_pairs else partitions(hosts, self._chance)
        rounds = []
        for number, groups in enumerate(plan, 1):
            self.report(f"round {number} of {len(plan)}: {len(groups)} groups at once")
            rounds.append(self._liveness.measure_round(groups))
        for _ in range(_RETRIES if self.in_pairs else 0):
            self._broken = []
            for groups, times in zip(plan, rounds):
                missing = [g for g in groups if g not in times and self._is_reachable(g)]
                if missing:
                    self.report(f"{len(missing)} pairs that gave no time, again")
                    times.update(self._liveness.measure_round(missing))
                    self._broken += [group for group in missing if group not in times]
        return rounds

    def _is_reachable(self, group: Group) -> bool:
        return not self._liveness.unreachable.keys() & {*group}

    def _fit(self, rounds: Sequence[Mapping[Group, Times]], quantity: str) -> Fit:
        """Fit the times of a quantity, of pairs within racks if there are racks."""
        times_s = [{group: times[quantity] for group, times in some.items()} for some in rounds]
        if not self.in_pairs:
            return fit_groups(times_s)
        pairs = {group: time_s for some in times_s for group, time_s in some.items()}
        racks = find_racks(pairs, _RACK_LOSS)
        if racks is not None and len(racks.hosts[1]) == 1:
            self._slow_with_all = max(self._slow_with_all, len(racks.hosts) - 1)
            return fit_pairs(pairs, racks.hosts[0])
        if racks is not None:
            self._racks[quantity] = racks
            pairs = {group: s for group, s in pairs.items() if not racks.between(group)}
        return fit_pairs(pairs)

    def _candidates(self, fits: Mapping[str, Fit], rounds: int) -> list[Candidate]:
        """Return hosts, and then links, each with the largest excess first.

        Hosts come first because they are known better and explain the excess of their links.
        """
        least = math.log1p(self.least)
        hosts: dict[Candidate, float] = {}
        links: dict[Candidate, float] = {}
        for quantity, fit in fits.items():
            noise = max(least, _CANDIDATE_DEVIATIONS * fit.spread)
            # The excess of a host is the median of several times.
            limit = max(least / 2, noise / math.sqrt(rounds))
            hosts |= {((h,), quantity): log for h, log in fit.hosts.items() if log > limit}
            links |= {(link, quantity): log for link, log in fit.links.items() if log > noise}
        most = max(1, self._slow_with_all, (len(self.hosts) - 2) // 2)
        return [*_largest(hosts, most), *_largest(links, _MOST_LINKS)]

    def _test(self, candidates: Sequence[Candidate]) -> tuple[Tests, dict[str, list[list[float]]]]:
        """Test each candidate in further rounds.

        Also return the logarithms of the times of the control pairs, by quantity and round.
        """
        tests = {
            candidate: SequentialTest(least=self.least, risk=PAIRS_RISK / len(candidates))
            for candidate in candidates
        }
        logs: dict[str, list[list[float]]] = {}
        idle = 0
        for number in range(_SHARES * _MOST_TESTS):
            counts = {group: len(test.excesses) for (group, _), test in tests.items()}
            pending = [g for g in self._undecided(tests) if counts[g] < _MOST_TESTS]
            if (not pending and number >= _LEAST_TESTS) or idle == _MOST_IDLE:
                break
            self.report(f"test {number + 1}: {len(pending)} candidates")
            # There may be too few partners for all: those with the fewest rounds come first.
            pairs, controls = self._plan_test(sorted(pending, key=lambda g: counts[g]), tests)
            times = self._liveness.measure_round([*pairs.values(), *controls])
            measured = [times[group] for group in controls if group in times]
            is_idle = not measured or not any(group in times for group in pairs.values())
            idle = idle + bool(pending) if is_idle else 0
            for quantity in _quantities(times) if measured else ():
                logs.setdefault(quantity, []).append([math.log(s[quantity]) for s in measured])
            for (group, quantity), test in tests.items():
                if measured and pairs.get(group) in times:
                    log = math.log(times[pairs[group]][quantity])
                    test.add(log - statistics.median(logs[quantity][-1]))
        return tests, logs

    def _plan_test(
        self, candidates: Sequence[Group], tests: Tests
    ) -> tuple[dict[Group, Group], list[Group]]:
        """Return the pair of each candidate for which there are partners, and control pairs.

        Hosts of different racks make no pair.
        """
        slow = {group for (group, _), test in tests.items() if test.is_slow}
        excluded = {group[0] for group in (*candidates, *slow) if len(group) == 1}
        free = [host for host in self._liveness.reachable if host not in excluded]
        self._chance.shuffle(free)
        pairs: dict[Group, Group] = {}
        for group in candidates:
            near = [host for host in free if not self._between_racks(group[0], host)]
            if len(group) == 1 and len(free) > 2 and near:
                pairs[group] = pair(group[0], near[-1])
            elif {*group} <= {*free} and len(free) > 3:
                pairs[group] = group
            free = [host for host in free if host not in pairs.get(group, ())]
        controls: list[Group] = []
        while free:
            host = free.pop()
            partner = next((h for h in free if not self._between_racks(host, h)), None)
            if partner is not None:
                free.remove(partner)
                controls.append(pair(host, partner))
        return pairs, [g for g in controls if g not in slow and g not in self._broken]

    def _undecided(self, tests: Tests) -> list[Group]:
        """Return the reachable hosts and links of which a test is open and may change the result.

        A link of a host that was not found healthy is explained by that host.
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

    def _between_racks(self, first: str, second: str) -> bool:
        return any(racks.between((first, second)) for racks in self._racks.values())

    def _measure_alone(self, quantity: str) -> Racks:
        """Measure pairs between racks and pairs within, each pair by itself."""
        racks = self._racks[quantity]
        pairs = list(itertools.combinations(self._liveness.reachable, 2))
        sides = [[g for g in pairs if racks.between(g) is far] for far in (True, False)]
        logs: tuple[list[float], list[float]] = ([], [])
        for _ in range(_ALONE if all(sides) else 0):
            for side, side_logs in zip(sides, logs):
                times = self._liveness.measure_round([self._chance.choice(side)])
                side_logs.extend(math.log(seconds[quantity]) for seconds in times.values())
        if not all(logs):
            return racks
        between, inside = map(statistics.median, logs)
        return replace(racks, alone=math.exp(between - inside))


def _name(group: Group) -> str:
    return f"{'host' if len(group) == 1 else 'link'} {' - '.join(group)}"


def _quantities(times: Mapping[Group, Times]) -> list[str]:
    return list(dict.fromkeys(quantity for seconds in times.values() for quantity in seconds))


def _largest(excesses: Mapping[Candidate, float], most: int) -> list[Candidate]:
    """Return the candidates of the `most` groups with the largest excesses, the largest first."""
    ordered = sorted(excesses, key=lambda candidate: -excesses[candidate])
    groups = list(dict.fromkeys(group for group, _ in ordered))[:most]
    return [candidate for candidate in ordered if candidate[0] in groups]


def pairings(hosts: Sequence[str]) -> tuple[Round, ...]:
    """Return rounds in which every two hosts are measured together once.

    The circle method colors the edges of the complete graph: n hosts need n - 1 rounds, or n if n
    is odd, with one host without a partner in each round.
    """
    circle: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    half = len(circle) // 2
    rounds = []
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]))
        rounds.append(tuple(pair(a, b) for a, b in facing if a is not None and b is not None))
        circle[1:] = [circle[-1], *circle[1:-1]]
    return tuple(rounds)


def partitions(hosts: Sequence[str], chance: random.Random) -> tuple[Round, ...]:
    """Return rounds that divide all hosts at random into groups of up to 16 hosts, or one more."""
    groups = len(hosts) // min(_GROUP, len(hosts) // _LEAST_GROUPS)
    rounds = math.ceil(math.log2(len(hosts))) - 2
    orders = [chance.sample(hosts, len(hosts)) for _ in range(rounds)]
    return tuple(
        tuple(tuple(sorted(order[first::groups])) for first in range(groups)) for order in orders
    )
