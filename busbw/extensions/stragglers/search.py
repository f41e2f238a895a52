"""The search: everyone meets everyone, or groups stand for their hosts; then suspects are tried.

It knows no host by name and no clock. Who looks slow in the first rounds is suspected, and is
accused by later rounds alone, in which it meets others that look well beside pairs of such.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import fit
from .fit import Fit, Racks
from .roll import Measure, Roll, Times
from .rounds import Group, pair, pairings, partitions
from .sequential import SequentialTest, least_named

# A host or a link, and the quantity in which it is slow.
Suspect = tuple[Group, str]
Met = Mapping[Group, Times]

# Of a cluster in which nobody is slow, how often somebody is accused; and which shares of that
# hosts and links, single chips, and who comes last may have.
RISK = 0.01
_PAIRS_SHARE, CHIPS_SHARE, LATE_SHARE = 0.5, 0.25, 0.25
# Of fewer hosts a slow one cannot be told from a slow link.
LEAST_HOSTS = 4
# With more hosts not every two of them meet: groups of at most that size stand for their hosts.
MOST_IN_PAIRS, _GROUP, _LEAST_GROUPS = 32, 16, 8
# How far beyond the noise a suspect must be, in standard deviations, and how many links are tried.
_SUSPICION, _MOST_LINKS = 2.0, 8
# Rounds by which the noise is known where nobody is suspected, and after which one is undecided;
# and in how many rounds each has had one, at the most.
_LEAST_RETESTS, _MOST_RETESTS, _AT_A_TIME = 4, 40, 3
# After as many in which no suspect has found a partner none will.
_MOST_IDLE = 4
# How often two hosts that gave no time together, and answer others, are asked again.
_AGAIN = 2
# By how much racks must be told apart, and how often pairs are measured by themselves.
_APART, _ALONE = 0.2, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Accused:
    """One host, or the two of a link: its time over that of the others, and how sure that is.

    `alone`, of a link, is the ratio while nobody else is measured: nearly 1 where it is what the
    link shares with others that is slow.
    """

    who: Group
    quantity: str
    ratio: float
    p: float
    alone: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The answer: who is slow, who did not answer and why, and who could not be decided.

    A link is `cut` if its hosts answer others, and never each other.

    `least` is the loss (0.15 is 15 %) that would have been named, each round with a chance of
    LIKELY, by quantity. `fits` and `racks` are by quantity, too, `times_s` of the first rounds. The
    hosts of a slice meet in none.
    """

    accused: tuple[Accused, ...] = ()
    fits: Mapping[str, Fit] = field(default_factory=dict)
    racks: Mapping[str, Racks] = field(default_factory=dict)
    dead: Mapping[int, str] = field(default_factory=dict)
    cut: Mapping[Group, str] = field(default_factory=dict)
    undecided: tuple[Group, ...] = ()
    least: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 0
    times_s: Met = field(default_factory=dict)


@dataclass
class Search:
    """Among `hosts` hosts for one that takes more than `least` (0.05 is 5 %) longer.

    `in_pairs`: every two hosts meet, however many there are.
    """

    hosts: int
    measure: Measure
    least: float = 0.05
    in_pairs: bool = False
    seed: int = 0
    say: Callable[[str], None] = lambda words: None
    _chance: random.Random = field(init=False)
    _roll: Roll = field(init=False)
    _racks: dict[str, Racks] = field(default_factory=dict)
    _cut: list[Group] = field(default_factory=list)
    # How many hosts are slow with everybody.
    _odd: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._roll = Roll(self.hosts, self.measure, self._chance)
        self.in_pairs = self.in_pairs or self.hosts <= MOST_IN_PAIRS

    def run(self) -> Found:
        rounds = self._everyone()
        met = {group: times for one in rounds for group, times in one.items()}
        fits = {name: self._fitted(rounds, name) for name in _names(met)}
        tests, controls = self._tried(self._suspects(fits, len(rounds)))
        guilty = [
            Accused(who=who, quantity=name, ratio=one.ratio, p=one.p)
            for (who, name), one in tests.items()
            if one.is_guilty
        ]
        slow = {one.who[0] for one in guilty if len(one.who) == 1}
        accused = [self._with_alone(one, slow) for one in _worst(guilty)]
        racks = {name: self._apart_alone(name, one) for name, one in self._racks.items()}
        return Found(
            accused=tuple(accused),
            fits=fits,
            racks=racks,
            dead=dict(self._roll.dead),
            cut={one: self._roll.why[one] for one in self._cut if self._answers(one)},
            undecided=tuple(self._undecided(tests)),
            least={name: least_named(logs, self.least) for name, logs in controls.items()},
            rounds=self._roll.rounds,
            times_s=met,
        )

    def _everyone(self) -> list[Met]:
        hosts = list(range(self.hosts))
        self._chance.shuffle(hosts)
        size = min(_GROUP, self.hosts // _LEAST_GROUPS)
        count = math.ceil(math.log2(self.hosts)) - 2
        wanted = pairings(hosts) if self.in_pairs else partitions(hosts, size, count, self._chance)
        found: list[Met] = []
        for number, groups in enumerate(wanted, 1):
            self.say(f"round {number} of {len(wanted)}: {len(groups)} groups at once")
            found.append(self._roll.ask(groups))
        for _ in range(_AGAIN if self.in_pairs else 0):
            self._cut = []
            for at, groups in enumerate(wanted):
                missed = [one for one in groups if one not in found[at] and self._answers(one)]
                if missed:
                    self.say(f"{len(missed)} groups that gave no time, again")
                    found[at] = {**found[at], **self._roll.ask(missed)}
                    self._cut += [one for one in missed if one not in found[at]]
        return found

    def _answers(self, group: Group) -> bool:
        """Whether all of its hosts answer others."""
        return not self._roll.dead.keys() & {*group}

    def _fitted(self, rounds: Sequence[Met], name: str) -> Fit:
        """Where there are racks, of pairs within them."""
        times_s = [{group: times[name] for group, times in one.items()} for one in rounds]
        if not self.in_pairs:
            return fit.of_groups(times_s)
        pairs = {group: time_s for one in times_s for group, time_s in one.items()}
        racks = fit.racks(pairs, _APART)
        if racks is not None and len(racks.hosts[1]) == 1:
            self._odd = max(self._odd, len(racks.hosts) - 1)
            return fit.of_pairs(pairs, racks.hosts[0])
        if racks is not None:
            self._racks[name] = racks
            pairs = {one: time_s for one, time_s in pairs.items() if not racks.between(one)}
        return fit.of_pairs(pairs)

    def _suspects(self, fits: Mapping[str, Fit], rounds: int) -> list[Suspect]:
        """The furthest from the others first; what hosts leave over is of their links."""
        hosts: dict[Suspect, float] = {}
        links: dict[Suspect, float] = {}
        for name, fitted in fits.items():
            least = max(math.log1p(self.least), _SUSPICION * fitted.spread)
            # A host's is the middle of many times.
            of_host = max(math.log1p(self.least) / 2, least / math.sqrt(rounds))
            hosts |= {((one,), name): by for one, by in fitted.hosts.items() if by > of_host}
            links |= {(link, name): by for link, by in fitted.links.items() if by > least}
        # Hosts are known better, and explain their links.
        most = max(1, self._odd, (self.hosts - 2) // 2)
        return [*_furthest(hosts, most), *_furthest(links, _MOST_LINKS)]

    def _tried(
        self, suspects: Sequence[Suspect]
    ) -> tuple[dict[Suspect, SequentialTest], dict[str, list[list[float]]]]:
        """Each in rounds of its own; and the logarithms of the controls' times by round."""
        tests = {
            one: SequentialTest(least=self.least, risk=RISK * _PAIRS_SHARE / len(suspects))
            for one in suspects
        }
        logs: dict[str, list[list[float]]] = {}
        idle = 0
        for number in range(_AT_A_TIME * _MOST_RETESTS):
            had = {who: len(test.excesses) for (who, _), test in tests.items()}
            left = [who for who in self._undecided(tests) if had[who] < _MOST_RETESTS]
            if (not left and number >= _LEAST_RETESTS) or idle == _MOST_IDLE:
                break
            self.say(f"test {number + 1}: {len(left)} suspected")
            # There may be too few partners for all of them.
            asked, controls = self._pairs(sorted(left, key=lambda who: had[who]), tests)
            taken = self._roll.ask([*asked.values(), *controls])
            calm = [taken[one] for one in controls if one in taken]
            heard = calm and any(one in taken for one in asked.values())
            idle = 0 if heard else idle + bool(left)
            for name in _names(taken) if calm else ():
                logs.setdefault(name, []).append([math.log(one[name]) for one in calm])
            for (who, name), test in tests.items():
                if calm and asked.get(who) in taken:
                    log = math.log(taken[asked[who]][name])
                    test.add(log - statistics.median(logs[name][-1]))
        return tests, logs

    def _pairs(
        self, suspects: Sequence[Group], tests: Mapping[Suspect, SequentialTest]
    ) -> tuple[dict[Group, Group], list[Group]]:
        """The pair in which each suspect is measured, as far as there are partners; and controls.

        Hosts of different racks make no pair.
        """
        guilty = {who for (who, _), test in tests.items() if test.is_guilty}
        blamed = {who[0] for who in (*suspects, *guilty) if len(who) == 1}
        left = [host for host in self._roll.alive if host not in blamed]
        self._chance.shuffle(left)
        asked: dict[Group, Group] = {}
        for who in suspects:
            near = [host for host in left if not self._between(who[0], host)]
            if len(who) == 1 and len(left) > 2 and near:
                asked[who] = pair(who[0], near[-1])
            elif {*who} <= {*left} and len(left) > 3:
                asked[who] = who
            left = [host for host in left if host not in asked.get(who, ())]
        controls: list[Group] = []
        while left:
            one = left.pop()
            other = next((host for host in left if not self._between(one, host)), None)
            if other is not None:
                left.remove(other)
                controls.append(pair(one, other))
        return asked, [one for one in controls if one not in guilty and one not in self._cut]

    def _undecided(self, tests: Mapping[Suspect, SequentialTest]) -> list[Group]:
        """Of those that answer."""
        return [who for who in _open(tests) if self._answers(who)]

    def _between(self, one: int, other: int) -> bool:
        return any(racks.between((one, other)) for racks in self._racks.values())

    def _with_alone(self, one: Accused, slow: Collection[int]) -> Accused:
        """Of a link: measured while nobody else is, as is a link that looks well."""
        if len(one.who) == 1:
            return one
        others = [host for host in self._roll.alive if host not in {*one.who, *slow}]
        pairs = itertools.combinations(others, 2)
        well = [other for other in pairs if not self._between(*other)]
        return replace(one, alone=self._alone(one.quantity, [one.who], well))

    def _apart_alone(self, name: str, racks: Racks) -> Racks:
        pairs = list(itertools.combinations(self._roll.alive, 2))
        between = [one for one in pairs if racks.between(one)]
        within = [one for one in pairs if not racks.between(one)]
        return replace(racks, alone=self._alone(name, between, within))

    def _alone(self, name: str, slow: Sequence[Group], well: Sequence[Group]) -> float | None:
        """How much longer the slow ones take, each measured with nobody else, in turn."""
        logs: tuple[list[float], list[float]] = ([], [])
        for number in range(_ALONE if slow and well else 0):
            self.say(f"alone {number + 1} of {_ALONE}")
            for side, some in enumerate((slow, well)):
                taken = self._roll.ask([self._chance.choice(some)])
                logs[side].extend(math.log(times[name]) for times in taken.values())
        if not all(logs):
            return None
        return math.exp(statistics.median(logs[0]) - statistics.median(logs[1]))


def _names(met: Met) -> list[str]:
    return list(dict.fromkeys(name for times in met.values() for name in times))


def _furthest(far: Mapping[Suspect, float], most: int) -> list[Suspect]:
    """Of `most` different ones, the furthest first."""
    ordered = sorted(far, key=lambda one: -far[one])
    kept = list(dict.fromkeys(who for who, _ in ordered))[:most]
    return [one for one in ordered if one[0] in kept]


def _open(tests: Mapping[Suspect, SequentialTest]) -> list[Group]:
    """Those that are not decided: no link of a host that was not acquitted, which explains it."""
    hosts = [(who, one) for (who, _), one in tests.items() if len(who) == 1]
    suspected = {who[0] for who, one in hosts if one.is_guilty or one.is_open}
    guilty = {who[0] for who, one in hosts if one.is_guilty}
    found = dict.fromkeys(who for (who, _), one in tests.items() if one.is_open)
    return [who for who in found if (guilty if len(who) == 1 else suspected).isdisjoint(who)]


def _worst(accused: Iterable[Accused]) -> list[Accused]:
    """Each host and link in the quantity in which it is slowest, the slowest first."""
    found: dict[Group, Accused] = {}
    for one in sorted(accused, key=lambda one: -one.ratio):
        found.setdefault(one.who, one)
    return list(found.values())
